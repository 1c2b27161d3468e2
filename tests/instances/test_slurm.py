"""What Slurm says of switches, nodes and jobs, read as a placement; what it lacks is refused or noted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import apportion
from apportion.cli.main import main
from apportion.core.errors import InvalidInstance
from apportion.core.node_lists import compressed, expand
from apportion.instances.placement.rules import SpreadRule
from apportion.instances.placement.site import site_of
from apportion.instances.readers.slurm import read_slurm
from tests.cli.calling import Called, call

EXAMPLE = Path(__file__).parents[2] / "examples" / "slurm_site.txt"


def node(name: str, **more: str) -> str:
    """Return one line of ``scontrol --oneliner show node``."""
    fields = {
        "State": "IDLE",
        "Partitions": "p",
        "CfgTRES": "cpu=8,mem=1G,gres/gpu=4",
        "AllocTRES": "",
        **more,
    }
    return f"NodeName={name} " + " ".join(f"{key}={value}" for key, value in fields.items())


def job(name: int, **more: str) -> str:
    """Return one line of ``scontrol --oneliner show job``."""
    fields = {"JobState": "PENDING", "Reason": "Priority", "Priority": "5", "Partition": "p", **more}
    fields = {"NumNodes": "1", "ReqTRES": "cpu=2,node=1,gres/gpu=1", **fields}
    return f"JobId={name} " + " ".join(f"{key}={value}" for key, value in fields.items())


def read(*lines: str) -> Any:
    """Return what is read of some lines."""
    return read_slurm("\n".join(lines).encode())


def places(instance: Any) -> dict[str, tuple[str, ...]]:
    """Return the places of every node, from the top down."""
    site = site_of(instance)
    return {
        name: tuple(
            site.places[level][site.place[level][at]].rsplit("/", 1)[-1] for level in site.levels[:-1]
        )
        for at, name in enumerate(site.nodes)
    }


def test_the_example_is_read_and_its_jobs_start_where_they_can() -> None:
    dump = read_slurm(EXAMPLE.read_bytes())
    instance = dump.instance
    assert instance.levels == ("switch1", "switch", "node")
    assert {name: below[-1] for name, below in places(instance).items()} == {
        f"n00{k}": "leaf1" if k < 5 else "leaf2" for k in range(1, 9)
    }
    first, *_ = instance.nodes
    assert first.capacity == {"cpu": 64, "mem": 515_000, "gpu": 8}
    assert first.used == {"cpu": 16, "mem": 65_536, "gpu": 2}
    assert [group.names for group in instance.nodes if not group.ready] == ["n004"]
    assert dump.notes == (
        "a job that waits because of Dependency is left out (1: 104)",
        "a job that waits for one switch waits without an end (1: 101)",
    )
    solution = apportion.solve(instance)
    assert solution.termination == "optimal" and solution.objective == 2700.0
    # three whole nodes of one switch are left at the second alone; a whole node without GPUs is there once
    taken = {name: one["on"] for name, one in solution.plan["placement"].items()}
    assert taken["101"]["pods"] == {"n005": 1, "n006": 1, "n007": 1}
    assert taken["103"] == {"pods 1": {"n008": 1}}
    assert sorted(taken["102"]["pods"].values()) == [1, 1]


def test_the_command_writes_what_can_be_solved(tmp_path: Path) -> None:
    out = tmp_path / "site.json"
    found = call(main, "convert", "--from", "slurm", EXAMPLE, "-o", out)
    assert found.code == 0 and "Dependency" in found.err
    assert apportion.read(out) == read_slurm(EXAMPLE.read_bytes()).instance


def test_switches_of_a_configuration_are_levels_from_the_top_down() -> None:
    instance = read(
        "# switches",
        "SwitchName=s0 Nodes=n[0-1] # a rack",
        "SwitchName=s1 Nodes=n[2-3]",
        "SwitchName=s2 Nodes=n4",
        "SwitchName=m Switches=s[0-1] LinkSpeed=7",
        "SwitchName=top Switches=m,s2",
        *(node(f"n{k}") for k in range(5)),
    ).instance
    assert instance.levels == ("switch2", "switch1", "switch", "node")
    assert places(instance) == {
        "n0": ("top", "m", "s0"),
        "n1": ("top", "m", "s0"),
        "n2": ("top", "m", "s1"),
        "n3": ("top", "m", "s1"),
        "n4": ("top", "s2", "s2"),
    }


@pytest.mark.parametrize(
    "aggregated", ["BlockSizes=2,4,8", "AggregatedBlock=b[0-1] BlockIndex=3 Nodes=n[0-3]"]
)
def test_blocks_are_aggregated_in_their_order(aggregated: str) -> None:
    lines = [f"BlockName=b{k} Nodes=n[{2 * k}-{2 * k + 1}]" for k in range(3)]
    wait = job(1, NumNodes="4", ReqTRES="cpu=8,node=4", SegmentSize="2")
    instance = read(*lines, aggregated, *(node(f"n{k}") for k in range(6)), wait).instance
    levels = ("blocks4", "blocks2", "block") if "Sizes" in aggregated else ("blocks2", "block")
    assert instance.levels == (*levels, "node")
    found = places(instance)
    assert [found[name][-2:] for name in ("n0", "n3", "n4")] == [
        ("b0..b1", "b0"),
        ("b0..b1", "b1"),
        ("b2..b2", "b2"),
    ]
    assert instance.jobs[0].options[0].pods[0].slices == {"block": 2}


TWO_TOPOLOGIES = """\
---
- topology: plain
  flat: true
- topology: nvlink
  block:
    block_sizes: [2, 4]
    blocks:
      - {block: b0, nodes: "n[0-1]"}
      - {block: b1, nodes: "n[2-3]"}
- topology: fabric
  cluster_default: true
  tree:
    switches:
      - {switch: top, children: "s[0-1]"}
      - {switch: s0, nodes: "n[0,2,4]"}
      - {switch: s1, nodes: "n[1,3]"}  # a rack
"""


def convert(text: str, *lines: str) -> Called:
    """Call the command on a topology in YAML before the records of nodes and jobs."""
    return call(main, "convert", "--from", "slurm", "-", stdin="\n".join((text, *lines)).encode())


def converted(text: str, *lines: str) -> Any:
    """Return the instance that the command makes of it."""
    made = convert(text, *lines)
    assert made.code == 0, made.err
    return apportion.read(made.out.encode())


def test_topologies_of_one_yaml_file_are_trees_over_the_same_nodes() -> None:
    segments = job(1, NumNodes="4", ReqTRES="cpu=8,node=4", SegmentSize="2", Switches="1@0")
    instance = converted(TWO_TOPOLOGIES, *(node(f"n{k}") for k in range(5)), segments)
    assert instance.levels == ("switch1", "switch", "node") and instance.trees == (("blocks2", "block"),)
    site = site_of(instance)
    lies = {level: site.places[level] for level in ("switch", "block")}
    at = {level: [lies[level][k] for k in site.place[level]] for level in lies}
    assert dict(zip(site.nodes, at["switch"], strict=True)) == {
        **dict.fromkeys(("n0", "n2", "n4"), "top/s0"),
        **dict.fromkeys(("n1", "n3"), "top/s1"),
    }
    # a node that the blocks do not name is one of its own
    assert dict(zip(site.nodes, at["block"], strict=True)) == {
        **dict.fromkeys(("n0", "n1"), "b0..b1/b0"),
        **dict.fromkeys(("n2", "n3"), "b0..b1/b1"),
        "n4": "n4/n4",
    }
    pods = instance.jobs[0].options[0].pods[0]
    assert pods.slices == {"block": 2} and pods.required == "switch"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- topology: a\n  tree: 3\n", "tree: must be a mapping"),
        ("- topology: a\n  tree: {switches: {s: 1}}\n", "switches: must be a list"),
        ("- topology: a\n  block: {blocks: [1]}\n", "must be a mapping"),
        ("- topology: a\n  block: {blocks: [{block: b, nodes: [{}]}]}\n", "must be names such as"),
        ("- topology: a\n  tree: {switches: [{switch: s, nodes: 'n[x]'}]}\n", "no list of nodes"),
        ("- topology: a\n  tree: {switches: [\n", "is not YAML"),
        ("switches: {s: {switches: [t]}}\n", "no switch is above nodes alone"),
    ],
)
def test_a_topology_that_cannot_be_is_one_error(text: str, words: str) -> None:
    made = convert(text, node("n0"))
    assert made.code == 3 and words in made.err


def test_models_of_topograph_are_switches_and_accelerator_domains(data: Path) -> None:
    """Every node lies where the model says; sub-domains are a level where a model has them."""
    cases = json.loads((data / "topology" / "topograph_models.json").read_text(encoding="utf-8"))["cases"]
    for case in cases:
        shared = ("domain", "sub-domain")
        model = {
            "switches": {
                name: {"labels": one["labels"], "switches": one["children"]}
                for name, one in case["switches"].items()
            },
            "blocks": [
                {
                    "switch": block["switch"],
                    "nodes": block["nodes"],
                    "annotations": {
                        f"accelerator.topology.test/{level}": block[f"accelerator_{level.replace('-', '_')}"]
                        for level in shared
                        if block[f"accelerator_{level.replace('-', '_')}"] is not None
                    },
                }
                for block in case["blocks"]
            ],
        }
        nodes = [name for block in case["blocks"] for name in block["nodes"]]
        instance = converted(json.dumps(model, indent=1), *map(node, nodes))
        site = site_of(instance)
        assert len(site.nodes) == case["node_count"]
        for block in case["blocks"]:
            for name in block["nodes"]:
                at = site.number[name]
                ends = {
                    level: site.places[level][site.place[level][at]].rpartition("/")[2]
                    for level in site.levels
                }
                assert ends["switch"] == block["switch"] and ends["domain"] == block["accelerator_domain"]
                assert ends.get("sub-domain") == block["accelerator_sub_domain"]


def test_nodes_without_a_topology_have_no_level_above_them() -> None:
    instance = read(
        node("a"), node("b", State="MIXED+CLOUD"), node("c", State="IDLE*"), node("d", State="DOWN")
    ).instance
    assert instance.levels == ("node",)
    assert [(group.names, group.ready) for group in instance.nodes] == [("a,b", True), ("c,d", False)]


@pytest.mark.parametrize("state", ["IDLE~", "IDLE$", "MIXED@", "IDLE-", "IDLE+DRAIN", "MIXED+MAINT"])
def test_a_sign_behind_a_state_says_what_its_word_says(state: str) -> None:
    (group,) = read(node("a", State=state)).instance.nodes
    assert not group.ready


def test_gpus_that_accounting_does_not_count_are_read_from_gres() -> None:
    told = {"CfgTRES": "cpu=8,mem=2T", "Gres": "gpu:a100:6(S:0-1),gpu:h100:2"}
    with pytest.raises(InvalidInstance, match=r"GresUsed.*--details"):
        read(node("a", **told))
    (group,) = read(node("a", **told, GresUsed="gpu:a100:3(IDX:0-2),gpu:h100:0")).instance.nodes
    assert group.capacity == {"cpu": 8, "mem": 2 * 1024 * 1024, "gpu": 8} and group.used == {"gpu": 3}


@pytest.mark.parametrize(
    ("asked", "needs"),
    [
        ({"ReqTRES": "cpu=4,node=2,gres/gpu=4,gres/gpu:a100=4"}, {"gpu": 2, "gpu:a100": 2}),
        ({"TresPerNode": "gres/gpu:a100:2", "TresPerJob": "gres/gpu:4"}, {"gpu": 2, "gpu:a100": 2}),
        ({"TresPerNode": "gres:gpu"}, {"gpu": 1}),
        ({"TresPerJob": "gres/gpu:h100:3"}, {"gpu": 2, "gpu:h100": 2}),
        ({"NumTasks": "6", "TresPerTask": "cpu=1,gres/gpu=1,license/x=1"}, {"gpu": 3}),
    ],
)
def test_a_job_asks_for_gres_by_node_job_or_task_and_by_type(
    asked: dict[str, str], needs: dict[str, int]
) -> None:
    nodes = [
        node("ab"[k], CfgTRES="cpu=8", Gres=f"gpu:{kind}:4(S:0)", GresUsed=f"gpu:{kind}:1(IDX:0)")
        for k, kind in enumerate(["a100", "h100"])
    ]
    instance = read(*nodes, job(1, **{"NumNodes": "2", "ReqTRES": "cpu=4,node=2", **asked})).instance
    (pods,) = instance.jobs[0].options[0].pods
    assert pods.needs == {"cpu": 2, **needs}
    typed = {"gpu:a100", "gpu:h100"} & set(needs)  # of the types asked for, nodes say what they have
    assert [set(group.used) for group in instance.nodes] == (
        [{"gpu", *(typed & {f"gpu:{kind}"})} for kind in ("a100", "h100")] if typed else [{"gpu"}]
    )
    for group in instance.nodes:
        assert set(group.used.values()) == {1}
        assert group.capacity == {"cpu": 8, **dict.fromkeys(group.used, 4)}


def test_a_job_runs_on_gpus_of_the_type_that_it_asks_for() -> None:
    counted = {"CfgTRES": "cpu=8,gres/gpu=4", "AllocTRES": "cpu=1,gres/gpu=1"}
    nodes = [
        node("a", **{**counted, "AllocTRES": "", "Gres": "gpu:a100:4"}),
        node("b", **{**counted, "Gres": "gpu:h100:4"}),
        node("c", CfgTRES="cpu=8,gres/gpu=4", Gres="gpu:a100:2,gpu:h100:2,bandwidth:lustre:no_consume:4G"),
    ]
    typed = job(1, ReqTRES="cpu=1,node=1,gres/gpu=3", TresPerNode="gres/gpu:h100:3")
    plan = apportion.solve(read(*nodes, typed).instance).plan
    assert plan["placement"]["1"]["on"]["pods"] == {"b": 1}
    more = job(2, ReqTRES="cpu=1,node=1,gres/gpu=4,gres/gpu:h100=4")
    unknown = job(3, ReqTRES="cpu=1,node=1,gres/gpu=1", TresPerNode="gres/gpu:b200:1")
    plan = apportion.solve(read(*nodes, typed, more, unknown).instance).plan
    assert not {"2", "3"} & set(plan["placement"])
    with pytest.raises(InvalidInstance, match=r"GresUsed.*--details"):
        read(node("c", **counted, Gres="gpu:a100:2,gpu:h100:2"), typed)


def test_a_job_has_its_share_on_every_node_and_a_node_for_every_pod() -> None:
    nodes = [node(f"n{k}", ActiveFeatures="ib,fast" if k else "ib") for k in range(3)]
    instance = read(
        *nodes, job(7, NumNodes="2-3", ReqTRES="cpu=9,mem=1G,node=2", Features="ib&fast")
    ).instance
    (pods,) = instance.jobs[0].options[0].pods
    assert pods.needs == {"cpu": 5, "mem": 512} and pods.count == 2
    assert pods.selector == {"ib": "yes", "fast": "yes", "partition/p": "yes"}
    assert not instance.rules  # two do not fit on one node
    small = read(*nodes, job(7, NumNodes="2", ReqTRES="cpu=4,node=2")).instance
    (rule,) = small.rules
    assert isinstance(rule, SpreadRule) and (rule.level, rule.by, rule.max) == ("node", "job", 1)
    plan = apportion.solve(small).plan
    assert sorted(plan["placement"]["7"]["on"]["pods"].values()) == [1, 1]


@pytest.mark.parametrize(
    ("more", "note"),
    [
        (
            {"Reason": "QOSMaxJobsPerUserLimit"},
            "a job that waits because of QOSMaxJobsPerUserLimit is left out",
        ),
        ({"Priority": "0"}, "a job that waits because of Priority is left out"),
        ({"Features": "[a|b]"}, "a job with alternatives among its features is left out"),
        ({"OverSubscribe": "NO", "ReqTRES": "cpu=9,node=1"}, "a job that asks for more than any node has"),
    ],
)
def test_a_job_that_waits_for_something_else_is_left_out(more: dict[str, str], note: str) -> None:
    dump = read(node("a"), job(1, **more), job(2, JobState="RUNNING"))
    assert not dump.instance.jobs and dump.notes[0].startswith(note)


@pytest.mark.parametrize(
    ("tasks", "names"),
    [
        ("7", ["9"]),
        ("7%1", ["9"]),
        ("0-2", ["4_0", "4_1", "4_2"]),
        ("1,8-9", ["4_1", "4_8", "4_9"]),
        ("0-6:3,20", ["4_0", "4_3", "4_6", "4_20"]),
        ("0-29%4", ["4_0", "4_1"]),
        ("0-29%2", []),
        ("0-29%1", []),
    ],
)
def test_tasks_of_an_array_are_jobs_as_far_as_its_limit_allows(tasks: str, names: list[str]) -> None:
    others = [job(k, ArrayJobId="4", ArrayTaskId=str(k), JobState="RUNNING") for k in (40, 41)]
    others += [job(3, ArrayJobId="4", ArrayTaskId="3", JobState="COMPLETED"), job(8, JobState="RUNNING")]
    dump = read(node("a"), *others, job(9, ArrayJobId="4", ArrayTaskId=tasks))
    assert [one.id for one in dump.instance.jobs] == names and not dump.notes


def test_of_an_array_a_thousand_tasks_are_read_and_those_that_are_written_out() -> None:
    dump = read(node("a"), job(1, ArrayTaskId="0-999999999"), job(2, ArrayTaskId="0-1,..."))
    assert [one.id for one in dump.instance.jobs][999:] == ["1_999", "2_0", "2_1"]
    assert [note.partition(" (")[0] for note in dump.notes] == [
        "of an array the first 1000 tasks alone are read",
        "tasks of an array that Slurm does not write out are left out",
    ]
    assert not read(node("a"), job(1, ArrayTaskId="0-1000%1000")).notes


def test_a_job_is_on_the_nodes_that_it_names_and_on_none_that_it_excludes() -> None:
    nodes = [node(f"n{k}") for k in range(5)]
    jobs = [
        job(1, NumNodes="2", ReqTRES="cpu=16,node=2", ReqNodeList="n[3-4]", ExcNodeList="(null)"),
        job(2, ReqTRES="cpu=8,node=1", ExcNodeList="n[0,2]"),
        job(3, NumNodes="2", ReqTRES="cpu=16,node=2", ReqNodeList="(null)"),
    ]
    dump = read(*nodes, *jobs)
    placed = apportion.solve(dump.instance).plan["placement"]
    on = {name: set(*(nodes.keys() for nodes in one["on"].values())) for name, one in placed.items()}
    assert on == {"1": {"n3", "n4"}, "2": {"n1"}, "3": {"n0", "n2"}} and not dump.notes
    many = ",".join(f"host{k}" for k in range(3000))  # more than a label may say
    assert apportion.solve(read(*nodes, job(1, ExcNodeList=f"{many},n[0-3]")).instance).objective == 5.0
    with pytest.raises(InvalidInstance, match="no list of nodes"):
        read(*nodes, job(1, ExcNodeList="n[0-x]"))


@pytest.mark.parametrize(
    ("more", "note", "jobs"),
    [
        (
            {"ReqNodeList": "a", "NumNodes": "2"},
            "a job that names some of its nodes, not all, is left out",
            0,
        ),
        ({"Reservation": "maintenance"}, "a job in a reservation is left out", 0),
        ({"Licenses": "matlab:1"}, "licences are not counted", 1),
    ],
)
def test_what_a_job_asks_for_beside_nodes_is_noted(more: dict[str, str], note: str, jobs: int) -> None:
    dump = read(node("a"), job(1, **more))
    assert len(dump.instance.jobs) == jobs and dump.notes[0].startswith(note)


def test_a_count_of_switches_is_not_used() -> None:
    dump = read(node("a"), job(1, Switches="2@00:10:00"))
    assert len(dump.instance.jobs) == 1 and len(dump.notes) == 1


def test_numbers_that_are_none_count_nothing_and_odd_segments_are_noted() -> None:
    lines = ["BlockName=a Nodes=n[0-3]", "BlockName=b Nodes=", "BlockSizes=0,x,4"]
    nodes = [node(f"n{k}", CfgTRES="cpu=8,mem=inf,gres/gpu=nan") for k in range(4)]
    dump = read(*lines, *nodes, job(1, NumNodes="3", ReqTRES="cpu=3,node=3", SegmentSize="2"))
    assert dump.instance.levels == ("block", "node")
    assert dump.instance.nodes[0].capacity == {"cpu": 8, "mem": 0, "gpu": 0}
    assert dump.notes == ("a segment that does not divide a job's nodes is not used (1: 1)",)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("nothing of Slurm",), "names no node"),
        (("SwitchName=a Switches=b", node("n")), "b is no switch of the topology"),
        (
            ("SwitchName=a Switches=b Nodes=n", "SwitchName=b Switches=a Nodes=n", node("n")),
            "as the lowest are",
        ),
        (
            ("SwitchName=a Switches=b,c", "SwitchName=b Switches=a", "SwitchName=c Nodes=n", node("n")),
            "circle",
        ),
        (("SwitchName=a Nodes=n[1-99999999999999999999]",), "too many nodes"),
        (("NodeName", "SwitchName#", "BlockName"), "names no node"),
        (("NodeName=a State=IDLE",), "CfgTRES"),
        (("SwitchName=a Nodes=n[x]", node("n1")), "no list of nodes"),
    ],
)
def test_what_cannot_be_is_one_error(lines: tuple[str, ...], words: str) -> None:
    with pytest.raises(InvalidInstance, match=words.replace("[", r"\[")):
        read(*lines)


def test_lists_of_nodes_are_written_as_they_are_read() -> None:
    for names in (
        ["a"],
        ["n1", "n2", "n3"],
        ["n08", "n09", "n10", "x", "n12"],
        ["n9", "n10", "n011", "n1"],
        ["a", "b"],
    ):
        assert expand(compressed(names)) == names
    assert compressed(["n08", "n09", "n10"]) == "n[08-10]" and compressed(["n9", "n10"]) == "n[9-10]"

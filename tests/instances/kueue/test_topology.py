"""Kueue's objects with a topology: pods on nodes in, topology assignments out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import apportion
from apportion.cli.main import main
from apportion.explanation.kueue_decision import decisions
from apportion.instances.readers.kueue import read_dump
from apportion.instances.readers.kueue.dump import HOST
from tests.cli.calling import call
from tests.instances.kueue.objects import dump, workload

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "kueue" / "topology.json"
RACK = "rack"
GPU = "gpu"


def kueue(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def node(name: str, rack: str, gpus: int, *, taint: str = "", ready: str = "True", **labels: str) -> Any:
    spec = {"taints": [{"key": taint, "value": "yes", "effect": "NoSchedule"}]} if taint else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"type": "a", RACK: rack, HOST: name, **labels}},
        "spec": spec,
        "status": {
            "allocatable": {GPU: str(gpus), "pods": "10"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def site(*more: Any, quota: int = 16, levels: tuple[str, ...] = (RACK, HOST), plain: int = 0) -> list[Any]:
    """Return a queue on flavor ``a`` (and ``b`` without a topology), two racks of two nodes of four GPUs."""
    flavors = [{"name": "a", "resources": [{"name": GPU, "nominalQuota": str(quota)}]}]
    if plain:
        flavors.append({"name": "b", "resources": [{"name": GPU, "nominalQuota": str(plain)}]})
    return [
        kueue("Topology", "racks", levels=[{"nodeLabel": level} for level in levels]),
        kueue("ResourceFlavor", "a", nodeLabels={"type": "a"}, topologyName="racks"),
        kueue("ResourceFlavor", "b", nodeLabels={"type": "b"}),
        kueue(
            "ClusterQueue",
            "team",
            resourceGroups=[{"coveredResources": [GPU], "flavors": flavors}],
            preemption={"withinClusterQueue": "LowerPriority"},
        ),
        *(node(f"n{k}", f"r{k // 2}", 4) for k in range(4)),
        *more,
    ]


def asking(name: str, count: int, gpus: int, held: Any = None, **topology: Any) -> dict[str, Any]:
    """Return a workload, running where it is told."""
    made = workload(name, "team", (count, count), {GPU: gpus}, admitted=None if held is None else {GPU: "a"})
    if topology:
        made["spec"]["podSets"][0]["topologyRequest"] = topology
    if held is not None:
        made["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] = held
    return made


def decided(*objects: Any) -> tuple[Any, dict[str, Any]]:
    """Return the placement of a dump and the decisions by workload."""
    instance = read_dump(dump(*objects)).instance
    solution = apportion.solve(instance)
    assert solution.termination == "optimal"
    return instance, {one.workload: one for one in decisions(instance, solution.require())}


def places(decision: Any) -> dict[str, int]:
    """Return the pods by node of a decision on one pod set."""
    [pods] = decision.pod_sets
    return {one["values"][-1]: one["count"] for one in pods.topology_assignment["domains"]}


def test_the_example_makes_room_in_a_rack_and_says_where_pods_go(tmp_path: Path) -> None:
    out = tmp_path / "site.json"
    assert call(main, "convert", "--from", "kueue", EXAMPLE, "-o", out).code == 0
    said = call(main, "export", out, "--to", "kueue")
    found = {one["workload"]: one for one in json.loads(said.out)}
    assert {name: one["action"] for name, one in found.items()} == {
        "product/serving": "move",
        "product/detector": "move",
        "research/notebook": "move",
        "research/pretraining": "admit",
        "product/finetune": "wait",
    }
    [pods] = found["research/pretraining"]["podSets"]
    assert [one["values"] for one in pods["topologyAssignment"]["domains"]] == [
        ["n0"],
        ["n1"],
        ["n2"],
        ["n3"],
    ]
    assert "3 available to its queue" in found["product/finetune"]["why"]
    stored = tmp_path / "result.json"
    assert call(main, "solve", out, "-o", stored).code == 0
    again = call(main, "export", out, "--to", "kueue", "--solution", stored)
    assert json.loads(again.out) == json.loads(said.out)


def test_required_preferred_and_sliced_pods_lie_as_they_ask() -> None:
    _, found = decided(
        *site(),
        asking("big", 2, 4, required=RACK),
        asking("small", 4, 1, preferred=RACK),
        asking("none", 1, 4),
    )
    assert set(places(found["team/big"])) in ({"n0", "n1"}, {"n2", "n3"})
    racks = {"n0": 0, "n1": 0, "n2": 1, "n3": 1}
    assert len({racks[name] for name in places(found["team/small"])}) == 1
    sliced = asking("sliced", 4, 2, podSetSliceRequiredTopology=HOST, podSetSliceSize=2)
    _, found = decided(*site(), sliced)
    assert sorted(places(found["team/sliced"]).values()) == [2, 2]


@pytest.mark.parametrize(
    "held",
    [
        {
            "levels": [RACK, HOST],
            "domains": [{"values": ["r0", "n0"], "count": 1}, {"values": ["r0", "n1"], "count": 1}],
        },
        {
            "levels": [HOST],
            "slices": [
                {
                    "domainCount": 2,
                    "valuesPerLevel": [{"individual": {"prefix": "n", "roots": ["0", "1"]}}],
                    "podCounts": {"universal": 1},
                }
            ],
        },
        {
            "levels": [RACK, HOST],
            "slices": [
                {
                    "domainCount": 2,
                    "valuesPerLevel": [{"universal": "r0"}, {"individual": {"roots": ["n0", "n1"]}}],
                    "podCounts": {"individual": [1, 1]},
                }
            ],
        },
    ],
)
def test_running_pods_are_where_either_version_says(held: dict[str, Any]) -> None:
    instance, found = decided(*site(), asking("runs", 2, 1, held))
    [job] = instance.jobs
    assert job.current.on == {"main": {"n0": 1, "n1": 1}}
    assert found["team/runs"].action == "keep" and places(found["team/runs"]) == {"n0": 1, "n1": 1}


def test_who_must_make_room_moves_and_is_not_stopped() -> None:
    held = {"levels": [HOST], "domains": [{"values": ["n0"], "count": 1}]}
    other = {"levels": [HOST], "domains": [{"values": ["n2"], "count": 1}]}
    high = asking("high", 2, 4, required=RACK)
    high["spec"]["priority"] = 5
    _, found = decided(*site(), asking("one", 1, 2, held), asking("two", 1, 2, other), high)
    actions = sorted(one.action for one in found.values())
    assert actions == ["admit", "keep", "move"]


def test_nodes_count_as_they_are() -> None:
    tainted = node("n9", "r9", 4, taint="maintenance")
    away = node("n8", "r8", 4, ready="False")
    lacks = node("n7", "r7", 4)
    del lacks["metadata"]["labels"][RACK]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other", "namespace": "x"},
        "spec": {"nodeName": "n0", "containers": [{"resources": {"requests": {GPU: "3"}}}]},
        "status": {"phase": "Running"},
    }
    own = {**pod, "metadata": {"name": "own", "namespace": "x", "labels": {"kueue.x-k8s.io/tas": "true"}}}
    ended = {**pod, "status": {"phase": "Succeeded"}}
    read = read_dump(dump(*site(tainted, away, lacks, pod, own, ended), asking("w", 4, 4)))
    nodes = {one.names: one for one in read.instance.nodes}
    assert set(nodes) == {"n0", "n1", "n2", "n3", "n8", "n9"}
    assert nodes["n0"].used == {"a/gpu": 3, "pods": 1} and not nodes["n8"].ready
    assert any("n7" in line for line in read.notes)
    assert apportion.solve(read.instance).objective == 0.0  # three nodes are whole
    tolerant = asking("w", 4, 4)
    tolerant["spec"]["podSets"][0]["template"]["spec"]["tolerations"] = [
        {"key": "maintenance", "operator": "Exists"}
    ]
    _, found = decided(*site(tainted, pod, quota=20), tolerant)
    assert "n9" in places(found["team/w"])


def test_a_node_selector_chooses_nodes_and_a_wrong_amount_is_an_error() -> None:
    chosen = asking("w", 1, 1)
    chosen["spec"]["podSets"][0]["template"]["spec"]["nodeSelector"] = {"disk": "fast"}
    _, found = decided(*site(node("n4", "r2", 4, disk="fast"), quota=20), chosen)
    assert places(found["team/w"]) == {"n4": 1}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": {"nodeName": "n0", "containers": [{"resources": {"requests": {GPU: "many"}}}]},
    }
    with pytest.raises(apportion.InvalidInstance, match="no quantity"):
        read_dump(dump(*site(pod), asking("w", 1, 1)))


def test_a_flavor_without_a_topology_is_one_node_with_its_quota() -> None:
    instance, found = decided(*site(plain=8), asking("w", 2, 6))
    assert [one.names for one in instance.nodes][-1] == "flavor:b"
    assert found["team/w"].action == "wait"
    _, found = decided(*site(plain=12), asking("w", 2, 6))
    [pods] = found["team/w"].pod_sets
    assert pods.flavors == {GPU: "b"} and pods.topology_assignment is None


def test_quotas_beyond_the_nodes_are_less_and_said() -> None:
    read = read_dump(dump(*site(quota=100), asking("w", 1, 1)))
    assert any("quotas are more than the nodes have free" in line for line in read.notes)
    [tenant] = read.instance.tenants
    assert tenant.quotas["a/gpu"].guarantee == 16


def test_leader_and_workers_of_a_group_share_a_place() -> None:
    group = {"required": RACK, "podSetGroupName": "g"}
    made = asking("w", 3, 2, **group)
    leader = json.loads(json.dumps(made["spec"]["podSets"][0])) | {"name": "leader", "count": 1}
    made["spec"]["podSets"].append(leader)
    instance, found = decided(*site(), made)
    assert instance.jobs[0].options[0].required == RACK
    on = {d["values"][-1] for pods in found["team/w"].pod_sets for d in pods.topology_assignment["domains"]}
    assert on <= {"n0", "n1"} or on <= {"n2", "n3"}


def test_pods_say_their_nodes_where_the_topology_ends_above_them() -> None:
    held = {"levels": [RACK], "domains": [{"values": ["r1"], "count": 2}]}
    own = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "team",
            "annotations": {"kueue.x-k8s.io/workload": "w"},
            "labels": {"kueue.x-k8s.io/tas": "true", "kueue.x-k8s.io/podset": "main"},
        },
        "spec": {"nodeName": "n3", "containers": [{"resources": {"requests": {GPU: "1"}}}]},
        "status": {"phase": "Running"},
    }
    pods = [{**own, "metadata": {"name": f"w-{k}", **own["metadata"]}} for k in range(2)]
    read = read_dump(dump(*site(levels=(RACK,)), asking("w", 2, 1, held, required=RACK), *pods))
    assert read.instance.jobs[0].current.on == {"main": {"n3": 2}}
    assert not any("first free ones" in line for line in read.notes)


def test_what_stays_on_a_node_that_lost_a_gpu_stays_and_a_flavor_may_lose_all_nodes() -> None:
    held = {"levels": [HOST], "domains": [{"values": ["n0"], "count": 1}]}
    objects = [*site(), asking("runs", 1, 4, held)]
    queue = next(one for one in objects if one["kind"] == "ClusterQueue")
    queue["spec"]["preemption"] = {"withinClusterQueue": "Never"}
    next(one for one in objects if one["metadata"]["name"] == "n0")["status"]["allocatable"][GPU] = "3"
    assert any("nodes have less" in line for line in read_dump(dump(*objects)).notes)
    _, found = decided(*objects, asking("new", 1, 1, required=HOST))
    assert found["team/runs"].action == "keep" and "n0" not in places(found["team/new"])
    queue["spec"]["resourceGroups"][0]["flavors"].append(
        {"name": "c", "resources": [{"name": GPU, "nominalQuota": "8"}]}
    )
    objects.append(kueue("ResourceFlavor", "c", nodeLabels={"type": "c"}, topologyName="racks"))
    asks = asking("new", 2, 4, required=RACK)
    assert decided(*objects, asks)[1]["team/new"].action == "admit"
    waits = decided(*objects, asking("new", 3, 4, required=RACK))[1]["team/new"]
    assert waits.action == "wait" and "must lie in one rack" in waits.why


@pytest.mark.parametrize(
    ("count", "asked", "plain", "said"),
    [
        (1, {"required": "row"}, 0, "has no level row"),
        (1, {"podSetSliceRequiredTopology": HOST}, 0, "slices are of one pod at least"),
        (3, {"podSetSliceRequiredTopology": HOST, "podSetSliceSize": 2}, 0, "divide the count"),
        (1, {}, 8, "pods that ask for no topology have none"),
    ],
)
def test_choices_that_kueue_gives_to_nobody_leave_out_one_workload_alone(
    count: int, asked: dict[str, Any], plain: int, said: str
) -> None:
    """A workload that can never be admitted was an error about the dump: nobody got anything."""
    objects = [*site(plain=plain), asking("w", count, 6, **asked), asking("other", 1, 4, required=RACK)]
    read = read_dump(dump(*objects))
    assert any("no options" in line and said in line and "team/w" in line for line in read.notes)
    assert [one.id for one in read.instance.jobs[0].options] == (["main*1[gpu=b]"] if plain else [])
    _, found = decided(*objects)
    assert found["team/other"].action == "admit"
    if not plain:
        assert found["team/w"].action == "wait" and "no option" in found["team/w"].why


def test_pods_of_a_group_take_one_flavor_of_a_topology() -> None:
    second = kueue("ResourceFlavor", "c", nodeLabels={"type": "c"}, topologyName="racks")
    objects = site(second, *(node(f"c{k}", "r0", 4, type="c") for k in range(2)))
    queue = next(one for one in objects if one["kind"] == "ClusterQueue")
    flavors = queue["spec"]["resourceGroups"][0]["flavors"]
    flavors.append({"name": "c", "resources": [{"name": GPU, "nominalQuota": "8"}]})
    made = asking("w", 2, 2, required=RACK, podSetGroupName="g")
    made["spec"]["podSets"].append(made["spec"]["podSets"][0] | {"name": "leader", "count": 1})
    read = read_dump(dump(*objects, made))
    assert [one.id for one in read.instance.jobs[0].options] == [
        "main*2[gpu=a]+leader*1[gpu=a]",
        "main*2[gpu=c]+leader*1[gpu=c]",
    ]


def test_what_runs_on_cordoned_and_tainted_nodes_stays() -> None:
    """A cordon moved what runs there, and a taint made the round infeasible where it may not be stopped."""
    held = {"levels": [HOST], "domains": [{"values": ["n0"], "count": 1}]}
    objects = [*site(), asking("runs", 1, 2, held, required=RACK), asking("new", 1, 4, required=RACK)]
    at = next(one for one in objects if one["metadata"]["name"] == "n0")
    for spec in ({"unschedulable": True}, {"taints": [{"key": "full", "effect": "NoSchedule"}]}):
        at["spec"] = spec
        _, found = decided(*objects)
        assert found["team/runs"].action == "keep" and places(found["team/runs"]) == {"n0": 1}
        assert "n0" not in places(found["team/new"])
        node = next(one for one in read_dump(dump(*objects)).instance.nodes if one.names == "n0")
        assert {name: node.capacity[name] - much for name, much in node.used.items()}["a/gpu"] == 2
    at["spec"] = {"taints": [{"key": "broken", "effect": "NoExecute"}]}
    _, found = decided(*objects)
    assert found["team/runs"].action == "move" and "n0" not in places(found["team/runs"])
    rack = {"levels": [RACK], "domains": [{"values": ["r0"], "count": 2}]}
    above = [*site(levels=(RACK,)), asking("runs", 2, 4, rack, required=RACK)]
    next(one for one in above if one["metadata"]["name"] == "n0")["spec"] = {"unschedulable": True}
    assert decided(*above)[1]["team/runs"].action == "keep"


def test_a_node_is_called_as_its_label_says() -> None:
    objects = [*site(), asking("w", 1, 4, required=HOST)]
    for one in objects:
        if one["kind"] == "Node":
            one["metadata"]["name"] += ".example"
    _, found = decided(*objects)
    assert len(places(found["team/w"])) == 1 and not any(".example" in at for at in places(found["team/w"]))


def test_a_topology_that_ends_at_racks_and_unknown_places() -> None:
    held = {"levels": [RACK], "domains": [{"values": ["r1"], "count": 2}]}
    read = read_dump(dump(*site(levels=(RACK,)), asking("w", 2, 2, held, required=RACK)))
    assert read.instance.levels[0] == RACK and read.instance.levels[1] != HOST
    assert any("first free ones" in line for line in read.notes)
    assert read.instance.jobs[0].current.on == {"main": {"n2": 2}}
    _, found = decided(*site(levels=(RACK,)), asking("w", 2, 2, held, required=RACK))
    assert found["team/w"].action == "keep"
    assert found["team/w"].pod_sets[0].topology_assignment == held


def test_what_cannot_be_is_one_error_and_what_is_missing_a_line() -> None:
    wrong = {"levels": [HOST], "slices": [{"domainCount": 3, "valuesPerLevel": [], "podCounts": {}}]}
    kept = read_dump(dump(*site(), asking("w", 2, 1, wrong)))
    assert any("has not 3 domains" in line for line in kept.notes)
    assert kept.instance.jobs[0].current.on == {"main": {"n0": 2}}
    assert kept.instance.jobs[0].options[0].pods[0].needs == {"a/gpu": 1}
    without = [one for one in site() if one["kind"] != "Node"]
    read = read_dump(dump(*without, asking("w", 1, 1, required=RACK)))
    assert not hasattr(read.instance, "nodes")
    assert any("topologyRequest is not used without nodes" in line for line in read.notes)

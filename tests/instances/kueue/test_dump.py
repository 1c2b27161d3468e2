"""Kueue's objects in and decisions out: every field by hand, and round trips on generated dumps."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.cli.main import command, main
from apportion.cluster.policies.rounds.cycle_state import TreeUsage
from apportion.cluster.policies.rounds.quota_tree import Quota, QuotaTree, TreeNode
from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.explanation.kueue_decision import _quota_tree, decisions
from apportion.instances.readers.kueue import read_dump
from apportion.instances.readers.kueue.dump import amount
from apportion.instances.readers.kueue.workload_objects import Assigned, option_name, parsed_option
from tests.budgets import examples
from tests.cli.calling import call
from tests.instances.kueue.objects import dump, queue_or_cohort, tree_objects, workload
from tests.strategies import quota_trees

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "kueue" / "dump.json"
GPU = ("a100", "gpu")


def queue(name: str, gpus: int, **limits: int) -> TreeNode:
    return TreeNode(name, "all", True, 1.0, {GPU: Quota(gpus, **limits)})


@pytest.mark.parametrize(
    ("text", "resource", "number"),
    [
        ("500m", "cpu", 500),
        (2, "cpu", 2000),
        ("1.5", "cpu", 1500),
        ("1e3", "memory", 1000),
        ("256Gi", "memory", 256 * 2**30),
        ("2k", "gpu", 2000),
        ("100n", "cpu", 1),
        ("500m", None, Fraction(1, 2)),
    ],
)
def test_quantities_are_exact(text: object, resource: str | None, number: int) -> None:
    assert amount(text, resource) == number


@pytest.mark.parametrize("text", ["", "1.2.3", "4 Gi", "Gi", None, True, [], "1e9999"])
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        amount(text)


def test_the_example_becomes_menus_and_quotas() -> None:
    read = read_dump(EXAMPLE.read_bytes())
    jobs = {job.id: job for job in read.instance.jobs}
    # four to eight workers on either flavor; the old one is tolerated
    assert len(jobs["vision/resnet"].options) == 10
    vit = jobs["vision/vit"].options
    assert [option.id for option in vit] == ["launcher*1[cpu=a100]+workers*4[cpu=a100,nvidia.com/gpu=a100]"]
    # cpu in units of half a core: 500m + 4 x 2
    assert vit[0].uses == {"a100/cpu": 17, "a100/nvidia.com/gpu": 8}
    whisper = jobs["speech/whisper"]
    assert whisper.current == "workers*10[cpu=v100,nvidia.com/gpu=v100]"
    assert whisper.submitted_s == 1772352000.0
    assert (whisper.priority, whisper.preemptible) == (10, True)
    tenants = {tenant.id: tenant for tenant in read.instance.tenants}
    gpus = {name: tenant.quotas["v100/nvidia.com/gpu"] for name, tenant in tenants.items()}
    assert {name: quota.guarantee for name, quota in gpus.items()} == {
        "cohort:research": 12,
        "vision": 4,
        "speech": 8,
    }
    assert gpus["speech"].lending_limit == 6
    assert tenants["vision"].quotas["a100/nvidia.com/gpu"].borrowing_limit == 4
    assert tenants["vision"].weight == 2.0
    said = "\n".join(read.notes)
    for unused in (
        "namespaceSelector",
        "queueingStrategy",
        "topologyName",
        "Topology",
        "maximumExecutionTime",
    ):
        assert unused in said


def test_every_field_that_is_not_used_is_named() -> None:
    spec = {
        "admissionChecks": ["prov"],
        "admissionChecksStrategy": {"admissionChecks": [{"name": "prov"}]},
        "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
        "flavorFungibility": {"whenCanBorrow": "TryNextFlavor"},
        "stopPolicy": "HoldAndDrain",
        "preemption": {
            "reclaimWithinCohort": "LowerPriority",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 3},
        },
        "somethingNew": {"x": 1},
    }
    held = workload("held", "q", (1, 1), {"gpu": 1}, admitted={"gpu": "a100"})
    held["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] = {"levels": ["host"]}
    affinity = workload("picky", "free", (1, 1), {"gpu": 1}, preemptionGates=[{"name": "x"}])
    affinity["spec"]["podSets"][0]["topologyRequest"] = {"required": "rack"}
    affinity["spec"]["podSets"][0]["template"]["spec"]["affinity"] = {"nodeAffinity": {"x": 1}}
    done = workload("done", "q", (1, 1), {"gpu": 1}, admitted={"gpu": "a100"})
    done["status"]["conditions"] = [{"type": "Finished", "status": "True"}]
    waiting = workload("waiting", "q", (1, 1), {"gpu": 1})
    other = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "AdmissionCheck", "metadata": {"name": "prov"}}
    old = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
    objects = [
        queue_or_cohort(queue("q", 4), "v1beta1", **spec),
        queue_or_cohort(queue("free", 4), "v1beta2"),
    ]
    read = read_dump(dump(*objects, held, affinity, done, waiting, other, old))
    said = "\n".join(read.notes)
    named = (
        "admissionChecks is not",
        "admissionChecksStrategy",
        "admissionScope",
        "flavorFungibility",
        "HoldAndDrain",
        "reclaimWithinCohort LowerPriority",
        "borrowWithinCohort",
        "somethingNew",
        "topologyAssignment",
        "preemptionGates",
        "topologyRequest",
        "spec.affinity",
        "finished",
        "queue is held",
        "AdmissionCheck",
        "kind Job (batch/v1)",
    )
    assert [word for word in named if word not in said] == []
    assert [job.id for job in read.instance.jobs] == ["team/held", "team/picky"]


def test_node_selectors_taints_and_pods_as_a_resource() -> None:
    node = TreeNode("q", None, True, 1.0, {(flavor, "pods"): Quota(10) for flavor in ("old", "new")})
    flavors = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "ResourceFlavor",
            "metadata": {"name": name},
            "spec": {"nodeLabels": {"age": name}, **more},
        }
        for name, more in (
            ("old", {"nodeTaints": [{"key": "worn", "effect": "NoSchedule"}]}),
            ("new", {"nodeTaints": [{"key": "soft", "effect": "PreferNoSchedule"}]}),
        )
    ]
    anywhere, picky, elastic = (workload(name, "q", (3, 3), {}) for name in ("anywhere", "picky", "elastic"))
    pod = picky["spec"]["podSets"][0]["template"]["spec"]
    pod |= {"nodeSelector": {"age": "old", "zone": "b"}, "tolerations": [{"operator": "Exists"}]}
    elastic["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}  # a slice has no minCount
    read = read_dump(dump(queue_or_cohort(node, "v1beta2"), *flavors, anywhere, picky, elastic))
    menus = {job.id: {option.id: option.uses for option in job.options} for job in read.instance.jobs}
    assert menus == {
        "team/anywhere": {"main*3[pods=new]": {"new/pods": 3}},
        "team/picky": {"main*3[pods=old]": {"old/pods": 3}},
        "team/elastic": {"main*3[pods=new]": {"new/pods": 3}},
    }


def test_pods_count_as_their_scheduler_counts_them() -> None:
    one = workload("one", "q", (1, 1), {"gpu": 2})
    one["spec"]["podSets"][0]["template"]["spec"] |= {
        "initContainers": [
            {"resources": {"limits": {"gpu": 3}}},
            {"restartPolicy": "Always", "resources": {"requests": {"gpu": 1}}},
        ],
        "overhead": {"gpu": 4},
    }
    held = workload("held", "q", (4, 4), {"gpu": 1}, admitted={"gpu": "a100"})
    held["status"]["reclaimablePods"] = [{"name": "main", "count": 3}]
    read = read_dump(dump(queue_or_cohort(queue("q", 9), "v1beta1"), one, held))
    uses = [next(iter(job.options)).uses for job in read.instance.jobs]
    # max(3, 1 + 2) + 4 pieces; of four pods three are given back
    assert uses == [{"a100/gpu": 7}, {"a100/gpu": 1}]


def test_wrong_dumps_are_named() -> None:
    with pytest.raises(InvalidInstance, match="cannot be read as JSON"):
        read_dump(b"{")
    with pytest.raises(InvalidInstance, match="no ClusterQueue"):
        read_dump(dump())
    wrong = queue_or_cohort(queue("q", 4), "v1beta1")
    wrong["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "many"
    with pytest.raises(
        InvalidInstance, match=r"ClusterQueue q a100/gpu\.nominalQuota: 'many' is no quantity"
    ):
        read_dump(dump(wrong))
    circle = [queue_or_cohort(TreeNode(a, b, False), "v1beta2") for a, b in (("x", "y"), ("y", "x"))]
    with pytest.raises(InvalidInstance, match="circle"):
        read_dump(dump(queue_or_cohort(queue("q", 4), "v1beta1"), *circle))
    with pytest.raises(InvalidInstance, match="add localqueues"):
        read_dump(dump(queue_or_cohort(queue("q", 4), "v1beta1"), workload("w", "other", (1, 1), {"gpu": 1})))


@pytest.mark.parametrize("wrong", ["NaN", [1], {"a": 1}, 10**30, True, -(10**12)])
def test_a_count_that_is_no_number_leaves_out_its_workload_alone(wrong: object) -> None:
    """It refused the whole dump; what runs keeps what it holds."""
    one, fine = workload("w", "q", (1, 1), {"gpu": 1}), workload("fine", "q", (1, 1), {"gpu": 1})
    runs = workload("w", "q", (1, 1), {"gpu": 1}, admitted={"gpu": "a100"})
    for place in (one["spec"]["podSets"][0], one["spec"]):
        field = "count" if "count" in place else "priority"
        broken = json.loads(json.dumps(one))
        at = broken["spec"] if field == "priority" else broken["spec"]["podSets"][0]
        at[field] = wrong
        read = read_dump(dump(queue_or_cohort(queue("q", 4), "v1beta1"), broken, fine))
        assert [job.id for job in read.instance.jobs] == ["team/fine"]
        assert "pending workloads that cannot be read are left out: must be a whole number" in str(read.notes)
        broken = {**broken, "status": runs["status"]}
        read = read_dump(dump(queue_or_cohort(queue("q", 4), "v1beta1"), broken, fine))
        held = read.instance.jobs[0]
        assert (held.id, held.current, held.preemptible) == ("team/w", "main*1[gpu=a100]", False)
    heavy = queue_or_cohort(queue("q", 4), "v1beta1", fairSharing={"weight": wrong})
    with pytest.raises(InvalidInstance, match=r"spec\.fairSharing\.weight"):
        read_dump(dump(heavy))


def test_decisions_say_who_is_stopped_for_whom() -> None:
    objects = [
        queue_or_cohort(queue(name, 4), "v1beta2", preemption={"reclaimWithinCohort": "Any"}) for name in "ab"
    ]
    held = [workload(f"b{n}", "b", (4, 4), {"gpu": 1}, admitted={"gpu": "a100"}) for n in range(2)]
    instance = read_dump(dump(*objects, *held, workload("a0", "a", (4, 4), {"gpu": 1}))).instance
    solution = apportion.solve(instance)
    found = {one.workload: one for one in decisions(instance, solution.require())}
    assert found["team/a0"].action == "admit"
    assert found["team/a0"].why == "within its queue's own quota"
    assert sorted(found[f"team/b{n}"].action for n in range(2)) == ["keep", "preempt"]
    stopped = next(one for one in found.values() if one.action == "preempt")
    assert stopped.patches == [{"spec": {"active": False}}, {"spec": {"active": True}}]
    assert not any(one.patches for one in found.values() if one.action in ("keep", "admit", "wait"))
    assert stopped.reason == "InCohortReclamation"
    assert "team/a0" in stopped.why
    nobody = {one.workload: one for one in decisions(instance, {"choice": {"team/b0": "main*4[gpu=a100]"}})}
    assert nobody["team/a0"].why == "it would fit; the objective prefers to leave the quota free"


def test_decisions_of_waiting_workloads_name_the_quota() -> None:
    objects = [
        queue_or_cohort(queue("a", 4, borrowing_limit=1), "v1beta2"),
        queue_or_cohort(queue("b", 4), "v1beta2"),
    ]
    instance = read_dump(dump(*objects, workload("big", "a", (6, 6), {"gpu": 1}))).instance
    (decision,) = decisions(instance, apportion.solve(instance).require())
    assert decision.action == "wait"
    assert decision.why == "6 of a100/gpu asked for, 5 available to its queue"


def test_only_instances_from_kueue_and_their_plans_are_exported() -> None:
    other = apportion.read(EXAMPLE.parents[1] / "gap_filling_small.json")
    with pytest.raises(InvalidOption, match="convert --from kueue"):
        decisions(other, {})
    instance = read_dump(EXAMPLE.read_bytes()).instance
    both = {
        "vision/vit": instance.jobs[2].options[0].id,
        "vision/resnet": "workers*8[cpu=a100,nvidia.com/gpu=a100]",
    }
    with pytest.raises(InvalidInstance, match="plan"):
        decisions(instance, {"choice": both})


def test_from_the_shell(tmp_path: Path) -> None:
    runner, target = CliRunner(), tmp_path / "cluster.json"
    done = runner.invoke(command, ["convert", "--from", "kueue", str(EXAMPLE), "-o", str(target)])
    assert done.exit_code == 0, done.output
    assert "topologyName is not used without nodes" in done.stderr
    solved = runner.invoke(command, ["export", str(target), "--to", "kueue"])
    stored = tmp_path / "result.json"
    stored.write_bytes(json.dumps({"plan": apportion.solve(apportion.read(target)).require()}).encode())
    again = runner.invoke(command, ["export", str(target), "--to", "kueue", "--solution", str(stored)])
    assert json.loads(solved.stdout) == json.loads(again.stdout)
    assert {one["action"] for one in json.loads(solved.stdout)} <= {
        "admit",
        "keep",
        "resize",
        "preempt",
        "wait",
    }


def test_option_names_are_read_back() -> None:
    parts = (Assigned("a-b", 3, {"cpu": "x", "nvidia.com/gpu": "y"}), Assigned("c", 0, {}))
    assert parsed_option(option_name(parts)) == parts
    assert parsed_option("2gpu") is None


@settings(max_examples=examples(30))
@given(quota_trees(), st.sampled_from(["v1beta1", "v1beta2"]), st.data())
def test_generated_dumps_come_back(tree: QuotaTree, version: str, data: st.DataObject) -> None:
    objects = tree_objects(tree, version)
    usage, asked = TreeUsage(tree), {}
    for number in range(data.draw(st.integers(1, 5))):
        name, place = f"w{number}", data.draw(st.sampled_from(sorted(tree.queues)))
        pair = data.draw(st.sampled_from(sorted(tree.nodes[tree.queues[place]].quotas)))
        least = data.draw(st.integers(1, 4))
        counts = (least, least + data.draw(st.integers(0, 3)))
        admitted = None
        if usage.available(tree.queues[place], pair) >= counts[1] and data.draw(st.booleans()):
            usage.add(tree.queues[place], {pair: counts[1]})
            admitted = {pair[1]: pair[0]}
        asked[f"team/{name}"] = (place, counts, pair, admitted)
        objects.append(workload(name, place, counts, {pair[1]: 1}, version, admitted))
    instance = read_dump(dump(*objects)).instance
    back = _quota_tree(instance)
    for name, number in tree.queues.items():
        for (flavor, resource), quota in tree.nodes[number].quotas.items():
            unit = _unit(tree, instance.capacities, f"{flavor}/{resource}")
            assert back.nominal(back.queues[name], (flavor, resource)) * unit == quota.nominal * (unit > 0)
    for name, number in tree.cohorts.items():
        for (flavor, resource), local in tree.local[number].items():
            unit = _unit(tree, instance.capacities, f"{flavor}/{resource}")
            assert back.local[back.cohorts[f"cohort:{name}"]].get((flavor, resource), 0) * unit == local
    for one in decisions(instance, apportion.solve(instance).require()):
        place, counts, _, admitted = asked[one.workload]
        assert one.cluster_queue == place
        if one.action in ("admit", "keep"):
            assert counts[0] <= one.pod_sets[0].count <= counts[1]
            assert admitted in (None, one.pod_sets[0].flavors)
        else:
            assert one.pod_sets == []
            assert (one.action == "preempt") is (admitted is not None)


def _unit(tree: QuotaTree, capacities: dict[str, int], name: str) -> int:
    """Return the unit in which a capacity is counted, 0 where there is none of it."""
    flavor, _, resource = name.partition("/")
    total = sum(node.quotas.get((flavor, resource), Quota()).nominal for node in tree.nodes)
    return total // capacities[name] if capacities.get(name) else 0


def test_one_workload_of_high_priority_goes_before_many_of_low_priority() -> None:
    # the most pods decided between plans of the same shares: four of priority 0 ran, one of 1000 waited
    tree = QuotaTree.of([queue("q", 4), TreeNode("all", None, False)])
    many = [workload(f"low-{k}", "q", (1, 1), {"gpu": 1}, priority=0) for k in range(4)]
    one = workload("high", "q", (1, 1), {"gpu": 4}, priority=1000)
    read = read_dump(dump(*tree_objects(tree, "v1beta2"), *many, one))
    assert apportion.solve(read.instance).plan["choice"].keys() == {"team/high"}
    assert any("spec.priority decides" in note and "team/high" in note for note in read.notes)


def test_priorities_beyond_what_a_double_counts_are_merged_from_the_lowest() -> None:
    tree = QuotaTree.of([queue("q", 400), TreeNode("all", None, False)])
    jobs = [workload(f"w{k:02}", "q", (9, 9), {"gpu": 1}, priority=k) for k in range(40)]
    read = read_dump(dump(*tree_objects(tree, "v1beta2"), *jobs))
    worths = [job.options[0].value / 9 for job in read.instance.jobs]
    assert sum(worths) * 9 <= 2**50
    alike = sum(worth == worths[0] for worth in worths)
    assert 1 < alike < 40 and any("count alike" in note for note in read.notes)
    for k in range(alike, 40):
        assert worths[k] > 9 * sum(worths[:k])


def _slices(count: int) -> bytes:
    """Return a queue of 12: a slice of 5 runs, one of `count` is to replace it, a batch of 4 waits."""
    replaces = {"annotations": {"kueue.x-k8s.io/workload-slice-replacement-for": "team/old"}}
    return dump(
        queue_or_cohort(queue("q", 12), "v1beta2"),
        workload("old", "q", (5, 5), {"gpu": 1}, admitted={"gpu": "a100"}),
        workload("new", "q", (count, count), {"gpu": 1}, metadata=replaces),
        workload("batch", "q", (4, 4), {"gpu": 1}, priority=-1),
    )


def test_a_slice_takes_the_place_of_the_one_it_replaces_whole_or_not() -> None:
    """After kueue 11977: one job of 8 had 12 GPUs."""
    instance = read_dump(_slices(8)).instance
    found = {one.workload: one for one in decisions(instance, apportion.solve(instance).require())}
    assert [(one.action, one.reason) for one in (found["team/old"], found["team/new"])] == [
        ("preempt", "WorkloadSliceReplaced"),
        ("admit", None),
    ]
    assert [part.count for part in found["team/new"].pod_sets] == [8]
    assert found["team/batch"].action == "admit"


def test_a_slice_that_does_not_fit_leaves_the_one_that_runs() -> None:
    instance = read_dump(_slices(14)).instance
    found = {one.workload: one for one in decisions(instance, apportion.solve(instance).require())}
    assert {name: one.action for name, one in found.items()} == {
        "team/old": "keep",
        "team/new": "wait",
        "team/batch": "admit",
    }


@pytest.mark.parametrize(
    ("policy", "priority", "stopped"),
    [
        ("LowerPriority", 1, True),
        ("LowerPriority", 0, False),
        ("LowerPriority", -1, False),
        ("Never", 1, False),
        ("Any", 0, True),
    ],
)
def test_who_may_be_stopped_is_what_the_policy_says(policy: str, priority: int, stopped: bool) -> None:
    """After kueue 16049: a workload of the same priority was stopped under LowerPriority."""
    objects = [
        queue_or_cohort(queue("q", 4), "v1beta2", preemption={"withinClusterQueue": policy}),
        workload("runs", "q", (1, 1), {"gpu": 2}, admitted={"gpu": "a100"}, priority=0),
        workload("asks", "q", (4, 4), {"gpu": 1}, priority=priority),
    ]
    instance = read_dump(dump(*objects)).instance
    found = {one.workload: one.action for one in decisions(instance, apportion.solve(instance).require())}
    wanted = ("preempt", "admit") if stopped else ("keep", "wait")
    assert (found["team/runs"], found["team/asks"]) == wanted


def test_cores_are_counted_as_cores_and_quiet_is_quiet(tmp_path: Path) -> None:
    node = TreeNode("q", None, True, 1.0, {("default", "cpu"): Quota(8000)})
    instance = read_dump(
        dump(queue_or_cohort(node, "v1beta2"), workload("w", "q", (1, 1), {"cpu": 2000}))
    ).instance
    assert instance.capacities == {"default/cpu": 8}
    path = tmp_path / "dump.json"
    path.write_bytes(dump(queue_or_cohort(node, "v1beta2", cohortStrange=1)))
    assert call(main, "convert", "--from", "kueue", path).err
    assert call(main, "convert", "-q", "--from", "kueue", path).err == ""

"""Drawn clusters over days: what is decided is carried out, the site changes, it is decided again."""

from __future__ import annotations

from random import Random
from time import process_time
from typing import Any

import pytest

import apportion
from apportion.explanation.kueue_decision import KueueDecision, decisions
from apportion.instances.readers.kueue import read_dump
from apportion.instances.readers.kueue.dump import HOST
from apportion.io.stored import document, verify
from tests.budgets import examples
from tests.instances.kueue.objects import dump
from tests.instances.kueue.test_topology import kueue

RESOURCES = ("gpu", "cpu")
LEVELS = (("rack", HOST), ("block", "rack", HOST), (HOST,), ("rack",))
Objects = list[dict[str, Any]]


def cluster(rng: Random, levels: tuple[str, ...]) -> Objects:
    """Return up to three flavors, some of them on nodes, up to three queues, and up to six workloads."""
    flavors = ["a", "b", "c"][: rng.randint(1, 3)]
    on_nodes = [name for name in flavors if name == "a" or rng.random() < 0.5]
    made = [kueue("Topology", "places", levels=[{"nodeLabel": level} for level in levels])]
    for name in flavors:
        taints = [{"key": "t", "value": "y", "effect": "NoSchedule"}] if rng.random() < 0.15 else []
        where = {"topologyName": "places"} if name in on_nodes else {}
        made.append(kueue("ResourceFlavor", name, nodeLabels={"type": name}, nodeTaints=taints, **where))
    made += [node(rng, name, k) for name in on_nodes for k in range(rng.randint(1, 5))]
    queues = ["q", "p", "s"][: rng.randint(1, 3)]
    for name in queues:
        made.append(queue(rng, name, flavors))
        made.append(kueue("LocalQueue", f"of-{name}", clusterQueue=name))
        made[-1]["metadata"]["namespace"] = "team"
    made += [workload(rng, f"w{k}", rng.choice(queues), levels) for k in range(rng.randint(1, 6))]
    return made


def node(rng: Random, flavor: str, number: int) -> dict[str, Any]:
    name = f"{flavor}{number}"
    labels = {"type": flavor, "rack": f"r{number // 2}", "block": f"b{number // 3}", HOST: name}
    taints = [{"key": "m", "value": "y", "effect": "NoSchedule"}] if rng.random() < 0.1 else []
    has = {"gpu": rng.choice("248"), "cpu": rng.choice(("4", "8", "3500m")), "pods": rng.choice(("2", "10"))}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": has, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def queue(rng: Random, name: str, flavors: list[str]) -> dict[str, Any]:
    quotas = []
    for flavor in flavors:
        given = [{"name": one, "nominalQuota": rng.choice(("0", "4", "8", "20"))} for one in RESOURCES]
        for one in given:
            for limit in ("borrowingLimit", "lendingLimit"):
                if rng.random() < 0.2:
                    one[limit] = rng.choice("028")
        quotas.append({"name": flavor, "resources": given})
    preemption = {
        "withinClusterQueue": rng.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
        "reclaimWithinCohort": rng.choice(("Never", "Any", "LowerPriority")),
    }
    groups = [{"coveredResources": [*RESOURCES], "flavors": quotas}]
    return kueue("ClusterQueue", name, resourceGroups=groups, preemption=preemption, cohortName="all")


def workload(rng: Random, name: str, queue: str, levels: tuple[str, ...]) -> dict[str, Any]:
    sets = []
    for called in rng.choice((["main"], ["main"], ["leader", "workers"])):
        asks = {"gpu": rng.choice("1124")} | (
            {"cpu": rng.choice(("1", "500m"))} if rng.random() < 0.7 else {}
        )
        pod: dict[str, Any] = {"containers": [{"resources": {"requests": asks}}]}
        if rng.random() < 0.2:
            pod["tolerations"] = [{"key": rng.choice("mt"), "operator": "Exists"}]
        one = {"name": called, "count": rng.randint(1, 4), "template": {"spec": pod}}
        if rng.random() < 0.7:
            how = rng.choice(("required", "preferred", "unconstrained"))
            one["topologyRequest"] = {how: True if how == "unconstrained" else rng.choice(levels)}
        sets.append(one)
    made = kueue("Workload", name, queueName=f"of-{queue}", podSets=sets, priority=rng.choice((0, 0, 1, 5)))
    made["metadata"] |= {"namespace": "team", "creationTimestamp": f"2026-01-0{rng.randint(1, 9)}T00:00:00Z"}
    return made


def carry_out(objects: Objects, found: list[KueueDecision]) -> None:
    """Admit, move and stop as decided."""
    by_name = {one.workload: one for one in found}
    for entry in objects:
        decision = by_name.get(f"team/{entry['metadata']['name']}") if entry["kind"] == "Workload" else None
        if decision is None:
            continue
        parts = []
        for pods in decision.pod_sets:
            [own] = [one for one in entry["spec"]["podSets"] if one["name"] == pods.name]
            [asks] = [one["resources"]["requests"] for one in own["template"]["spec"]["containers"]]
            used = {
                key: f"{int(said[:-1]) * pods.count}m" if said.endswith("m") else str(int(said) * pods.count)
                for key, said in asks.items()
            }
            part = {
                "name": pods.name,
                "count": pods.count,
                "flavors": {**pods.flavors},
                "resourceUsage": used,
            }
            parts.append(part | {"topologyAssignment": pods.topology_assignment})
        admission = {"clusterQueue": decision.cluster_queue, "podSetAssignments": parts}
        entry["status"] = {"admission": admission} if parts else {}


def drift(rng: Random, objects: Objects) -> None:
    """Cordon, taint and lose nodes, take GPUs off them, halve quotas, and let pods of others come."""
    for entry in [*objects]:
        if entry["kind"] == "Node":
            happens = rng.random()
            if happens < 0.1:
                entry["spec"]["unschedulable"] = True
            elif happens < 0.2:
                taint = {"key": "z", "value": "", "effect": rng.choice(("NoSchedule", "NoExecute"))}
                entry["spec"]["taints"] = [taint]
            elif happens < 0.3:
                entry["status"]["allocatable"]["gpu"] = "1"
            elif happens < 0.35:
                entry["status"]["conditions"][0]["status"] = "False"
            elif happens < 0.4:
                objects.remove(entry)
            elif happens < 0.5:
                spec = {"containers": [{"resources": {"requests": {"gpu": "3"}}}]}
                at = spec | {"nodeName": entry["metadata"]["name"]}
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other", "namespace": "x"}}
                objects.append(pod | {"spec": at, "status": {"phase": "Running"}})
        elif entry["kind"] == "ClusterQueue" and rng.random() < 0.3:
            for flavor in entry["spec"]["resourceGroups"][0]["flavors"]:
                for one in flavor["resources"]:
                    one["nominalQuota"] = str(int(one["nominalQuota"]) // 2)


@pytest.mark.parametrize("levels", LEVELS, ids="-".join)
def test_what_runs_never_makes_a_round_infeasible_and_rounds_come_to_rest(
    levels: tuple[str, ...],
) -> None:
    """Of 200 such days 17 had no plan, where a node lost a GPU or a pod of others came; 8 were refused."""
    seen = set[str]()
    for number in range(examples(10)):
        rng = Random(f"days {levels} {number}")
        objects = cluster(rng, levels)
        for _ in range(3):
            actions = decided(objects)
            seen |= actions
            # what is stopped may be admitted with other flavors, and is then to be left alone
            rounds = 1
            while levels[-1] == HOST and not actions <= {"keep", "wait"}:
                actions, rounds = decided(objects), rounds + 1
                assert rounds < 5, number
            drift(rng, objects)
    assert seen >= {"admit", "keep", "wait", "preempt"}


def decided(objects: Objects) -> set[str]:
    """Decide and carry out, and return what is done."""
    instance = read_dump(dump(*objects)).instance
    found = decisions(instance, apportion.solve(instance, time_limit=20.0).require())
    carry_out(objects, found)
    return {one.action for one in found}


def test_many_workloads_on_many_nodes_are_decided_by_what_their_options_add_up_to() -> None:
    """Of 200 workloads on 200 nodes no level was decided, and the plan was 85 % from its bound after 19 s."""
    rng = Random(1)
    objects = [
        kueue("Topology", "places", levels=[{"nodeLabel": level} for level in LEVELS[0]]),
        kueue("ResourceFlavor", "a", nodeLabels={"type": "a"}, topologyName="places"),
    ]
    for number in range(100):
        made = node(rng, "a", number)
        made["metadata"]["labels"]["rack"] = f"r{number // 16}"
        made["status"]["allocatable"], made["spec"] = {"gpu": "8", "cpu": "64", "pods": "110"}, {}
        objects.append(made)
    for name in "pqst":
        objects += [queue(rng, name, ["a"]), kueue("LocalQueue", f"of-{name}", clusterQueue=name)]
        objects[-1]["metadata"]["namespace"] = "team"
        [flavor] = objects[-2]["spec"]["resourceGroups"][0]["flavors"]
        flavor["resources"] = [{"name": one, "nominalQuota": "300"} for one in RESOURCES]
    for number in range(120):
        made = workload(rng, f"w{number}", rng.choice("pqst"), LEVELS[0])
        for pods in made["spec"]["podSets"]:
            pods["count"] = rng.choice((1, 1, 2, 4, 8, 16))
            if pods.get("topologyRequest", {}).pop("preferred", None):
                pods["topologyRequest"]["unconstrained"] = True
        objects.append(made)
    instance = read_dump(dump(*objects)).instance
    began = process_time()
    solution = apportion.solve(instance, time_limit=300.0)
    assert solution.termination == "optimal" and all(goal.proven for goal in solution.goals)
    assert solution.levels and all(level.evidence is not None for level in solution.levels)
    assert process_time() - began < 60.0  # about 2
    assert verify(instance, document(solution)).ok
    decisive = {one.workload for one in decisions(instance, solution.require()) if one.action == "wait"}
    assert 0 < len(decisive) < 60

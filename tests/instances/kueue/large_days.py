"""Queues on many nodes over days: workloads come and end, nodes are cordoned; a line says how a round ended.

``python -m tests.instances.kueue.large_days --nodes 200 --workloads 200 --levels block,rack --limit 10``
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator
from random import Random
from time import perf_counter
from typing import NamedTuple

import apportion
from apportion.core.solution import Solution
from apportion.explanation.kueue_decision import decisions
from apportion.instances.readers.kueue import read_dump
from apportion.instances.readers.kueue.dump import HOST
from tests.instances.kueue.objects import dump
from tests.instances.kueue.test_days import Objects, carry_out, node, workload
from tests.instances.kueue.test_topology import kueue

__all__ = ["Day", "days"]

_QUEUES, _GPUS, _CPUS = 8, 8, 64


class Day(NamedTuple):
    """A round: its answer, the seconds of solving and deciding, and how many decisions of every kind."""

    solution: Solution
    seconds: float
    decided: Counter[str]


def _gang(rng: Random, name: str, levels: tuple[str, ...]) -> dict[str, object]:
    made = workload(rng, name, f"q{rng.randrange(_QUEUES)}", levels)
    for pods in made["spec"]["podSets"]:
        pods["count"] = rng.choice((1, 1, 2, 4, 8, 16))
    return made


def _site(rng: Random, nodes: int, workloads: int, levels: tuple[str, ...]) -> Objects:
    """Return nodes of 8 GPUs, 16 a rack, in one cohort of 8 queues, and workloads that wait."""
    made: Objects = [
        kueue("Topology", "places", levels=[{"nodeLabel": level} for level in levels]),
        kueue("ResourceFlavor", "a", nodeLabels={"type": "a"}, topologyName="places"),
    ]
    for number in range(nodes):
        made.append(node(rng, "a", number))
        made[-1]["metadata"]["labels"] |= {"rack": f"r{number // 16}", "block": f"b{number // 128}"}
        made[-1]["status"]["allocatable"] = {"gpu": str(_GPUS), "cpu": str(_CPUS), "pods": "110"}
        made[-1]["spec"] = {}
    each = {"gpu": _GPUS * nodes // _QUEUES, "cpu": _CPUS * nodes // _QUEUES}
    quotas = [{"name": one, "nominalQuota": str(much)} for one, much in each.items()]
    groups = [{"coveredResources": [*each], "flavors": [{"name": "a", "resources": quotas}]}]
    preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    for number in range(_QUEUES):
        queue = f"q{number}"
        made.append(
            kueue("ClusterQueue", queue, cohortName="all", resourceGroups=groups, preemption=preemption)
        )
        made.append(kueue("LocalQueue", f"of-{queue}", clusterQueue=queue))
        made[-1]["metadata"]["namespace"] = "team"
    return [*made, *(_gang(rng, f"w{number}", levels) for number in range(workloads))]


def days(
    nodes: int, workloads: int, levels: tuple[str, ...], number: int, limit: float, seed: int = 1
) -> Iterator[Day]:
    """Yield rounds: an eighth of the workloads ends a day and as many come, one node in 25 is cordoned."""
    rng = Random(seed)
    objects = _site(rng, nodes, workloads, levels)
    for day in range(number):
        instance = read_dump(dump(*objects)).instance
        began = perf_counter()
        solution = apportion.solve(instance, time_limit=limit)
        found = decisions(instance, solution.require())
        yield Day(solution, perf_counter() - began, Counter(one.action for one in found))
        carry_out(objects, found)
        site = [one for one in objects if one["kind"] == "Node"]
        cordoned = {one["metadata"]["name"] for one in rng.sample(site, len(site) // 25)}
        for one in site:
            one["spec"] = {"unschedulable": True} if one["metadata"]["name"] in cordoned else {}
        ended = rng.sample([one for one in objects if one["kind"] == "Workload"], workloads // 8)
        objects = [one for one in objects if not any(one is other for other in ended)]
        objects += [_gang(rng, f"n{day}-{each}", levels) for each in range(workloads // 8)]


def main() -> None:
    """Print a line for every day."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--levels", default="block,rack", help="above the nodes, from the top down")
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--limit", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    levels = (*filter(None, given.levels.split(",")), HOST)
    for one in days(given.nodes, given.workloads, levels, given.days, given.limit, given.seed):
        said = one.solution
        gap = math.nan if said.gap is None else said.gap
        open_ = sum(level.evidence is None for level in said.levels)
        ended = f"{one.seconds:5.1f} s  {said.termination:<12} gap {gap:8.2g}"
        print(f"{ended}  {open_} of {len(said.levels)} levels open  {dict(one.decided)}", flush=True)


if __name__ == "__main__":
    main()

"""``python -m benchmarks.kueue_round --data FOLDER``: one large round, all workloads pending at once.

Queues and classes of workloads are those of a configuration of Kueue's performance suite; how many cohorts,
queues and workloads there are is said here: 10 cohorts of 100 queues of 50 workloads by default.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apportion
from apportion.cli.running import in_one_line
from apportion.instances import KnapsackJob, KnapsackOption, MultipleChoiceKnapsackInstance
from apportion.instances.tenants import Fairness, Quota, Tenant
from benchmarks.kueue_perf import milli
from benchmarks.timing import provenance

__all__ = ["main", "pending"]


def pending(
    config: Mapping[str, Any], cohorts: int, queues: int, workloads: int
) -> MultipleChoiceKnapsackInstance:
    """Return the round in which every workload waits: max-min over the queues, then the most cores.

    Parameters
    ----------
    config
        Of the suite; its first set of queues, and its classes of workloads in their proportions.
    cohorts, queues, workloads
        How many cohorts, queues of each, and workloads of every queue.
    """
    queue_set = config["cohorts"][0]["queuesSets"][0]
    nominal, borrowing = milli(queue_set["nominalQuota"]), milli(queue_set["borrowingLimit"])
    sets = queue_set["workloadsSets"]
    whole = sum(one["count"] for one in sets)
    tenants, jobs = list[Tenant](), list[KnapsackJob]()
    for cohort in range(cohorts):
        tenants.append(Tenant(f"cohort-{cohort}", quotas={"cpu": Quota(nominal * queues, 0)}))
        for number in range(queues):
            queue = f"cq-{cohort}-{number}"
            tenants.append(Tenant(queue, f"cohort-{cohort}", quotas={"cpu": Quota(nominal, borrowing)}))
            for workload_set in sets:
                kind = workload_set["workloads"][0]
                cores = kind.get("podCount", 1) * milli(kind["request"])
                option = KnapsackOption("run", cores / 1000, {"cpu": cores})
                jobs += [
                    KnapsackJob(
                        f"{queue}-{kind['className']}-{place}",
                        (option,),
                        required=False,
                        tenant=queue,
                        priority=kind["priority"],
                        submitted_s=(place + 1) * workload_set["creationIntervalMs"] / 1000,
                    )
                    for place in range(workload_set["count"] * workloads // whole)
                ]
    return MultipleChoiceKnapsackInstance(
        "1",
        name=f"{len(jobs)} workloads in {cohorts * queues} queues",
        sense="maximize",
        capacities={"cpu": nominal * queues * cohorts},
        jobs=tuple(jobs),
        tenants=tuple(tenants),
        fairness=Fairness(),
    )


def main() -> None:
    """Print the round and half of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="the folder that holds kueue_perf")
    parser.add_argument("--case", default="baseline", help="the title of a configuration")
    parser.add_argument("--cohorts", type=int, default=10)
    parser.add_argument("--queues", type=int, default=100, help="queues of every cohort")
    parser.add_argument("--workloads", type=int, default=50, help="workloads of every queue")
    given = parser.parse_args()
    cases = json.loads((given.data / "kueue_perf" / "kueue_perf.json").read_text())["cases"]
    config = next(one for one in cases if one["title"] == given.case)["config"]
    print(provenance())
    apportion.solve(pending(config, 2, 2, given.workloads))  # imports
    for cohorts in (max(1, given.cohorts // 2), given.cohorts):
        instance = pending(config, cohorts, given.queues, given.workloads)
        began = time.process_time()
        solution = apportion.solve(instance, time_limit=300.0)
        spent = time.process_time() - began
        proved = sum(level.evidence is not None for level in solution.levels)
        print(
            f"{instance.name}: {spent:.2f} CPU s; {proved} of {len(solution.levels)} levels proved; "
            f"{solution.termination.value} {solution.evidence}, objective {solution.objective}, "
            f"gap {solution.gap}"
        )


if __name__ == "__main__":
    with in_one_line("python -m benchmarks.kueue_round"):
        main()

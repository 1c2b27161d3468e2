"""``python -m benchmarks.kueue_perf --data FOLDER``: Kueue's performance suite, the tournament and ours.

The workload is the suite's own generator. Cohorts do not lend to each other and are alike, so one of them is
simulated, without a control plane: what comes and what ends is seen at once, at the millisecond it does.
Pods of a topology are counted by their cpu alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from apportion.cli.running import in_one_line
from apportion.cluster.policies.rounds.cycle_state import CycleState
from apportion.cluster.policies.rounds.kueue_objects import PodSet, QueueRules, ResourceGroup, Workload
from apportion.cluster.policies.rounds.kueue_tournament import head_order, scheduling_cycle
from apportion.cluster.policies.rounds.quota_tree import Quota, QuotaTree, TreeNode

CPU = ("default", "cpu")
OFFERED = 8
"""Pending workloads of every queue that ours looks at in a round, the first by priority and creation."""


@dataclass(slots=True)
class Course:
    """One cohort's course.

    Attributes
    ----------
    waited_ms
        Creation to last admission, by class.
    used
        Core-ms in use, and GPU-less quota-ms there was, until the last workload ended.
    decisions, compared, cpu_s
        Rounds of decisions, shares compared, CPU seconds of deciding.
    stopped
        Workloads that were pre-empted.
    end_ms
        When the last workload ended.
    unfair
        The greatest less the least use among queues with pending workloads, in cores, times ms.
    """

    waited_ms: dict[str, dict[str, int]] = field(default_factory=dict)
    used: int = 0
    decisions: int = 0
    compared: int = 0
    cpu_s: float = 0.0
    stopped: int = 0
    end_ms: int = 0
    unfair: float = 0.0


@dataclass(frozen=True, slots=True)
class Cohort:
    """One cohort of the suite: queues, and workloads with class, creation and runtime in ms."""

    tree: QuotaTree
    rules: Mapping[str, QueueRules]
    workloads: Sequence[Workload]
    kind: Mapping[str, str]
    runtime_ms: Mapping[str, int]


def cohort(config: Mapping[str, Any], queues: int | None = None) -> Cohort:
    """Return one cohort as the generator makes it, with fewer queues if asked."""
    nodes, rules, workloads, kind, runtime = [], {}, [], {}, {}
    nodes.append(TreeNode("cohort", None, False))
    for queue_set in config["cohorts"][0]["queuesSets"]:
        for number in range(queue_set["count"] if queues is None else queues):
            queue = f"{queue_set['className']}-{number}"
            quota = Quota(milli(queue_set["nominalQuota"]), milli(queue_set["borrowingLimit"]))
            nodes.append(TreeNode(queue, "cohort", True, 1.0, {CPU: quota}))
            groups = (ResourceGroup(("default",), frozenset({"cpu"})),)
            rules[queue] = QueueRules(
                groups, queue_set["withinClusterQueue"], queue_set["reclaimWithinCohort"]
            )
            for workload_set in queue_set["workloadsSets"]:
                for place in range(workload_set["count"]):
                    for one in workload_set["workloads"]:
                        name = f"{queue}-{one['className']}-{place}"
                        kind[name], runtime[name] = one["className"], one["runtimeMs"]
                        pods = PodSet("main", one.get("podCount", 1), {"cpu": milli(one["request"])})
                        created = (place + 1) * workload_set["creationIntervalMs"]
                        workloads.append(Workload(name, queue, (pods,), one["priority"], float(created)))
    return Cohort(QuotaTree.of(nodes), rules, workloads, kind, runtime)


Decide = Callable[[Cohort, CycleState, dict[str, list[Workload]], int, Course], list[Workload]]
"""Admit pending workloads into the state at a time; returns those that were stopped."""


def tournament(
    suite: Cohort, state: CycleState, pending: dict[str, list[Workload]], now_ms: int, course: Course
) -> list[Workload]:
    """Cycles of heads until none is admitted and nobody is stopped."""
    stopped: list[Workload] = []
    waiting = {queue: list(reversed(own)) for queue, own in pending.items()}
    while heads := [own[-1] for own in waiting.values() if own]:
        cycle = scheduling_cycle(state, heads, now_s=float(now_ms))
        course.decisions += 1
        course.compared += cycle.compared
        for victim in cycle.preempted:
            state.release(victim.workload)
            stopped.append(victim.workload)
        kept = {name for name, why in cycle.waiting.items() if cycle.preempted and "its pre-emp" in why}
        for own in waiting.values():
            # BestEffortFIFO: a head that cannot run makes way for the next one that is not just like it
            if own and own[-1].name not in kept:
                head = own.pop()
                while head.name in cycle.waiting and own and _alike(own[-1], head):
                    own.pop()
    return stopped


def _alike(one: Workload, other: Workload) -> bool:
    return one.priority == other.priority and one.pod_sets == other.pod_sets


def ours(
    suite: Cohort,
    state: CycleState,
    pending: dict[str, list[Workload]],
    now_ms: int,
    course: Course,
    inside: Literal["sum", "first_come"] = "sum",
) -> list[Workload]:
    """One exact round: fair dominant shares of queues, then the most cores; nobody is stopped.

    Inside a queue cores decide (``sum``), or classes and then creation (``first_come``).
    """
    import apportion
    from apportion.instances import KnapsackJob, KnapsackOption, MultipleChoiceKnapsackInstance
    from apportion.instances.tenants import Fairness, Tenant
    from apportion.instances.tenants import Quota as TenantQuota

    tree, jobs, offered = state.tree, [], {}
    for queue, own in pending.items():
        for workload in own[:OFFERED]:
            offered[workload.name] = workload
            jobs.append(_job(KnapsackJob, KnapsackOption, workload, queue, None))
        for workload in state.holders[tree.queues[queue]].values():
            jobs.append(_job(KnapsackJob, KnapsackOption, workload, queue, "run"))
    tenants = [
        Tenant(
            id=queue, quotas={"cpu": TenantQuota(tree.nominal(node, CPU), tree.borrowing_limit(node, CPU))}
        )
        for queue, node in tree.queues.items()
    ]
    instance = MultipleChoiceKnapsackInstance(
        "1",
        name="cohort",
        sense="maximize",
        capacities={"cpu": tree.subtree[tree.cohorts["cohort"]][CPU]},
        jobs=tuple(jobs),
        tenants=tuple(tenants),
        fairness=Fairness(share="dominant_share", over="tenants", inside=inside),
    )
    course.decisions += 1
    choice = apportion.solve(instance, time_limit=10.0).require()["choice"]
    for name in choice:
        if name in offered:
            admitted = replace(
                offered[name], admission=({"cpu": "default"},), reserved_s=float(now_ms), _use={}
            )
            state.admit(admitted)
    return []


POLICIES: Mapping[str, Decide] = MappingProxyType(
    {"tournament": tournament, "ours": ours, "ours-in-turn": partial(ours, inside="first_come")}
)


def _job(job: Any, option: Any, workload: Workload, queue: str, current: str | None) -> Any:
    pods = workload.pod_sets[0]
    cores = pods.count * pods.requests["cpu"]
    return job(
        id=workload.name,
        options=(option(id="run", value=cores / 1000, uses={"cpu": cores}),),
        required=False,
        current=current,
        tenant=queue,
        priority=workload.priority,
        submitted_s=workload.created,
        **({"preemptible": False} if current else {}),
    )


def simulated(suite: Cohort, decide: Decide) -> Course:
    """Run a cohort to its end."""
    state, course = CycleState(suite.tree, suite.rules), Course()
    pending: dict[str, list[Workload]] = {queue: [] for queue in suite.tree.queues}
    coming = sorted(suite.workloads, key=lambda workload: workload.created, reverse=True)
    ends: dict[str, int] = {}
    now = 0
    while coming or ends:
        then = min((*ends.values(), *(int(one.created) for one in coming[-1:])))
        _count(state, pending, course, then - now)
        now = then
        for queue in state.holders.values():
            for workload in [one for one in queue.values() if ends[one.name] <= now]:
                state.release(workload)
                del ends[workload.name]
        while coming and coming[-1].created <= now:
            workload = coming.pop()
            pending[workload.queue].append(workload)
        for own in pending.values():
            own.sort(key=head_order)
        begun = time.process_time()
        stopped = decide(suite, state, pending, now, course)
        course.cpu_s += time.process_time() - begun
        _follow(suite, state, pending, stopped, ends, now, course)
        course.end_ms = now
    return course


def _follow(
    suite: Cohort,
    state: CycleState,
    pending: dict[str, list[Workload]],
    stopped: list[Workload],
    ends: dict[str, int],
    now: int,
    course: Course,
) -> None:
    """Note who runs now and until when; who was stopped waits again and has lost what it did."""
    for victim in stopped:
        ends.pop(victim.name, None)
        # one that came in and was stopped at the same time is still there
        if all(one.name != victim.name for one in pending[victim.queue]):
            pending[victim.queue].append(replace(victim, admission=None, reserved_s=None, _use={}))
        course.stopped += 1
    for holders in state.holders.values():
        for name, workload in holders.items():
            if name not in ends:
                ends[name] = now + suite.runtime_ms[name]
                course.waited_ms.setdefault(suite.kind[name], {})[name] = now - int(workload.created)
    for queue, own in pending.items():
        running = state.holders[state.tree.queues[queue]]
        pending[queue] = [workload for workload in own if workload.name not in running]


def _count(
    state: CycleState, pending: Mapping[str, Sequence[Workload]], course: Course, lasted_ms: int
) -> None:
    uses = {queue: state.usage.of(node, CPU) for queue, node in state.tree.queues.items()}
    course.used += sum(uses.values()) * lasted_ms // 1000
    asking = [uses[queue] for queue, own in pending.items() if own]
    if len(asking) > 1:
        course.unfair += (max(asking) - min(asking)) * lasted_ms / 1000


def milli(value: Any) -> int:
    text = str(value)
    return int(text[:-1]) if text.endswith("m") else int(Fraction(text) * 1000)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, type=Path, help="the folder that holds kueue_perf")
    parser.add_argument("--case", default="baseline", help="the title of a configuration")
    parser.add_argument("--policies", nargs="+", default=["tournament", "ours"], choices=list(POLICIES))
    parser.add_argument("--queues", type=int, help="queues of the cohort, all by default")
    given = parser.parse_args()
    cases = json.loads((given.data / "kueue_perf" / "kueue_perf.json").read_text())["cases"]
    case = next(one for one in cases if one["title"] == given.case)
    suite = cohort(case["config"], given.queues)
    quota = sum(suite.tree.nominal(node, CPU) for node in suite.tree.queues.values()) / 1000
    work = sum(
        suite.runtime_ms[one.name] * one.pod_sets[0].count * one.pod_sets[0].requests["cpu"] / 1000
        for one in suite.workloads
    )
    print(f"{case['title']}: {len(suite.workloads)} workloads, {len(suite.tree.queues)} queues; ", end="")
    last = max(one.created for one in suite.workloads) / 1000
    print(f"work bound {work / quota / 1000:.1f} s, last creation {last} s")
    for kind, stated in sorted(case["expected"]["mean_time_to_admission_ms"].items()):
        print(f"  published {kind}: {stated['mean'] / 1000:.2f} s")
    for name in given.policies:
        course = simulated(suite, POLICIES[name])
        print(f"{name}: ended {course.end_ms / 1000:.1f} s, usage {course.used / quota / course.end_ms:.1%}")
        for kind, waited in sorted(course.waited_ms.items()):
            print(f"  {kind}: mean time to admission {sum(waited.values()) / len(waited) / 1000:.2f} s")
        print(
            f"  stopped {course.stopped}, decisions {course.decisions}, shares compared {course.compared}, "
            f"{course.cpu_s:.1f} CPU s, {1000 * course.cpu_s / max(1, course.decisions):.2f} ms a decision; "
            f"greatest less least use of asking queues {course.unfair / course.end_ms:.2f} cores"
        )


if __name__ == "__main__":
    with in_one_line("python -m benchmarks.kueue_perf"):
        main()

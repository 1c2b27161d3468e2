"""A plan for an instance read from Kueue's objects, as decisions: admit where, pre-empt whom, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from apportion.cluster.policies.rounds.cycle_state import TreeUsage
from apportion.cluster.policies.rounds.quota_tree import Pair, Quota, QuotaTree, TreeNode
from apportion.core.errors import InvalidInstance, InvalidOption, Problem
from apportion.instances.multiple_choice_knapsack import (
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)
from apportion.instances.placement import PlacementInstance
from apportion.instances.placement.placed import Placed, remarks
from apportion.instances.readers.kueue.dump import COHORT, HOST
from apportion.instances.readers.kueue.topology import APART, SLASH
from apportion.instances.readers.kueue.workload_objects import SLICES, parsed_option
from apportion.instances.tenants import Tree, tree_of

__all__ = ["KueueDecision", "PodSetFlavors", "decisions"]


_BACK = (":", "/")
"""From a name of a placement to Kueue's."""
_STOPS = ("preempt", "move", "resize")
"""Actions that end the pods that run now."""


class PodSetFlavors(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One pod set of an admission, in Kueue's words.

    Attributes
    ----------
    name, count
        The pod set and how many of its pods.
    flavors
        Flavor by resource.
    topology_assignment
        Where its pods lie, as levels and domains; ``None`` without a topology.
    """

    name: str
    count: int
    flavors: Mapping[str, str]
    topology_assignment: dict[str, Any] | None = None


class KueueDecision(msgspec.Struct, frozen=True, rename="camel"):
    """What becomes of one workload.

    Attributes
    ----------
    workload
        Namespace and name.
    cluster_queue
        Its queue.
    action
        ``"admit"``, ``"keep"``, ``"move"`` (to other nodes), ``"resize"``, ``"preempt"`` or ``"wait"``.
    pod_sets
        Its flavors and counts from now on; empty where it is stopped or waits.
    reason
        For a pre-emption Kueue's reason: InClusterQueue, InCohortReclamation or InCohortFairSharing;
        WorkloadSliceReplaced for a slice whose place another one takes.
    why
        In words.
    patches
        Merge patches of the workload that stop it, in order: inactive, and Kueue ends its pods; active again,
        once those it makes room for are admitted, and it waits or is admitted anew. None where it goes on.
    """

    workload: str
    cluster_queue: str
    action: str
    pod_sets: list[PodSetFlavors]
    reason: str | None
    why: str
    patches: list[dict[str, Any]] = []


def decisions(instance: Any, plan: Mapping[str, Any]) -> list[KueueDecision]:
    """Return the decision on every workload, in the instance's order.

    Parameters
    ----------
    instance
        As ``apportion convert --from kueue`` makes it.
    plan
        A plan for it, as it stands in JSON.

    Raises
    ------
    InvalidOption
        If the instance was not read from Kueue's objects.
    InvalidInstance
        If the plan breaks a rule of the instance.
    """
    from apportion.solving.api import check

    menus = _menus_of(instance)
    _check_origin(menus)
    report = check(instance, plan)
    if not report.feasible:
        raise InvalidInstance(Problem("$.plan", "; ".join(map(str, report.violations))))
    places = _Domains(instance, plan) if isinstance(instance, PlacementInstance) else None
    return _Decider(menus, _choice_of(plan), places).all()


def _choice_of(plan: Mapping[str, Any]) -> Mapping[str, str]:
    """Return what every job gets by a plan of menus or of a placement."""
    choice: Mapping[str, str] | None = plan.get("choice")
    if choice is not None:
        return choice
    return {name.replace(*_BACK): one["option"] for name, one in plan["placement"].items()}


def _menus_of(instance: Any) -> Any:
    """Return an instance of `read_dump` without its nodes; any other as it is."""
    if not isinstance(instance, PlacementInstance):
        return instance
    jobs = []
    for job in instance.jobs:
        options = []
        for option in job.options:
            uses: dict[str, int] = {}
            for pods in option.pods:
                for resource, need in pods.needs.items():
                    uses[resource] = uses.get(resource, 0) + need * pods.count
            options.append(KnapsackOption(option.id, option.value, uses))
        jobs.append(
            KnapsackJob(
                id=job.id.replace(*_BACK),
                options=tuple(options),
                required=False,
                current=None if job.current is None else job.current.option,
                tenant=job.tenant,
            )
        )
    tenants = () if instance.tenants is UNSET else instance.tenants
    pairs = {resource: 0 for job in jobs for option in job.options for resource in option.uses}
    for tenant in tenants:
        for resource, quota in tenant.quotas.items():
            pairs[resource] = pairs.get(resource, 0) + quota.guarantee
    return MultipleChoiceKnapsackInstance(
        schema_version="1",
        sense="maximize",
        capacities=pairs,
        jobs=tuple(jobs),
        tenants=instance.tenants if tenants else UNSET,
    )


class _Domains:
    """The domains of a topology in which pods lie, before and after a plan.

    They are nodes where the topology ends there, of which Kueue says no level above; else its lowest places.
    """

    def __init__(self, instance: PlacementInstance, plan: Mapping[str, Any]) -> None:
        above = instance.levels[:-1]
        self._levels = (HOST,) if instance.levels[-1] == HOST else above
        self._at = {
            node.names: tuple(node.at[level] for level in above)
            for node in instance.nodes
            if self._levels == above
        }
        self._placed, self._jobs = Placed.of(instance, plan), {job.id: job for job in instance.jobs}
        self._before = {job.id: job.current.on for job in instance.jobs if job.current is not None}
        self._after = {name: one["on"] for name, one in plan["placement"].items()}

    def _counts(self, on: Mapping[str, Mapping[str, int]]) -> dict[str, Counter[tuple[str, ...]]]:
        found: dict[str, Counter[tuple[str, ...]]] = {}
        for name, nodes in on.items():
            counts = found.setdefault(name, Counter())
            for node, count in nodes.items():
                counts[self._at.get(node, (node,))] += count
        return found

    def moved(self, job: str) -> int:
        """Return how many pods of a running job, which keeps its option, are to be in other domains."""
        before, after = (self._counts(on.get(job.replace(*SLASH), {})) for on in (self._before, self._after))
        return sum((counts - after.get(name, Counter())).total() for name, counts in before.items())

    def fits(self, job: str, option: str) -> str:
        """Return in words how many pods of an option would fit on the nodes beside the plan."""
        return "; ".join(
            said.removeprefix(f"{option}: ")
            for said in remarks(self._placed, self._jobs[job.replace(*SLASH)])
            if said.startswith(f"{option}: ")
        )

    def assignments(self, job: str) -> dict[str, dict[str, Any]]:
        """Return where the pods of a job's pod sets lie, as Kueue's v1beta1 writes a topology assignment."""
        found = {}
        for name, counts in self._counts(self._after.get(job.replace(*SLASH), {})).items():
            if not any(values[-1].startswith(APART) for values in counts):
                domains = [{"values": [*one], "count": count} for one, count in sorted(counts.items())]
                found[name.partition("@")[0]] = {"levels": [*self._levels], "domains": domains}
        return found


class _Decider:
    """The quotas before and after a plan, and what follows for each workload."""

    def __init__(
        self,
        instance: MultipleChoiceKnapsackInstance,
        choice: Mapping[str, str],
        places: _Domains | None,
    ) -> None:
        self._instance, self._choice = instance, choice
        self._places = places
        self._tree = _quota_tree(instance)
        self._before, self._after = TreeUsage(self._tree), TreeUsage(self._tree)
        self._uses: dict[tuple[str, str], dict[Pair, int]] = {}
        for job in instance.jobs:
            for option in job.options:
                self._uses[job.id, option.id] = {_pair(name): use for name, use in option.uses.items()}
            for usage, chosen in ((self._before, job.current), (self._after, choice.get(job.id))):
                if chosen is not None and (job.id, chosen) in self._uses:
                    usage.add(self._queue(job), self._uses[job.id, chosen])

    def all(self) -> list[KueueDecision]:
        return [one for job in self._instance.jobs for one in self._in_slices(self._decided(job))]

    def _in_slices(self, made: KueueDecision) -> Iterator[KueueDecision]:
        """Yield the decision, or those on a workload slice that runs and on the one that is to replace it."""
        old, replaced, new = made.workload.partition(SLICES)
        if not replaced:
            yield made
        elif made.action == "resize":
            why = f"{new} takes its place"
            yield replace(
                made,
                workload=old,
                action="preempt",
                pod_sets=[],
                reason="WorkloadSliceReplaced",
                why=why,
                patches=[],  # Kueue ends a slice that is replaced by itself
            )
            yield replace(
                made, workload=new, action="admit", why=f"in place of {old}: {made.why}", patches=[]
            )
        else:
            yield replace(made, workload=old)
            waits = "there is no room for it; what it is to replace goes on"
            yield KueueDecision(new, made.cluster_queue, "wait", [], None, waits)

    def _decided(self, job: KnapsackJob) -> KueueDecision:
        chosen, reason = self._choice.get(job.id), None
        if chosen is None and job.current is None:
            action, why = "wait", self._why_it_waits(job)
        elif chosen is None:
            action = "preempt"
            reason, why = self._why_it_is_stopped(job)
        elif job.current is None:
            action, why = "admit", self._why_admitted(job, chosen)
        elif chosen == job.current and self._places and (pods_moved := self._places.moved(job.id)):
            action, why = "move", f"{pods_moved} of its pods make room on their nodes"
        elif chosen == job.current:
            action, why = "keep", "it runs and nobody else makes better use of what it holds"
        else:
            action, why = "resize", f"from {job.current}: {self._why_admitted(job, chosen)}"
        parts = () if chosen is None else parsed_option(chosen) or ()
        on = {} if self._places is None else self._places.assignments(job.id)
        pods = [PodSetFlavors(part.name, part.count, part.flavors, on.get(part.name)) for part in parts]
        stops = [{"spec": {"active": active}} for active in (False, True)] if action in _STOPS else []
        return KueueDecision(job.id, str(job.tenant), action, pods, reason, why, stops)

    def _why_admitted(self, job: KnapsackJob, chosen: str) -> str:
        queue = self._queue(job)
        borrowed = [
            f"{self._after.of(queue, pair) - self._tree.nominal(queue, pair)} of {_called(pair)}"
            for pair in self._uses[job.id, chosen]
            if self._after.exceeds_nominal(queue, pair)
        ]
        if not borrowed:
            return "within its queue's own quota"
        return f"its queue borrows {', '.join(borrowed)}"

    def _why_it_is_stopped(self, job: KnapsackJob) -> tuple[str, str]:
        """Return Kueue's reason and words: who is admitted on what it held."""
        held = {pair for pair, use in self._uses[job.id, str(job.current)].items() if use}
        gainers = [
            other
            for other in self._instance.jobs
            if other.current != self._choice.get(other.id)
            and other.id in self._choice
            and held & self._uses[other.id, self._choice[other.id]].keys()
        ]
        own = [other.id for other in gainers if other.tenant == job.tenant]
        if own:
            return "InClusterQueue", f"for {_some(own)} of its own queue"
        entitled = [other.id for other in gainers if self._within(other, held)]
        names = ", ".join(sorted(_called(pair) for pair in held))
        if entitled:
            return (
                "InCohortReclamation",
                f"{_some(entitled)} of other queues stay within their quota of {names}",
            )
        if gainers:
            return "InCohortFairSharing", f"for {_some([one.id for one in gainers])}, whose queues have less"
        return "InCohortFairSharing", f"what holds {names} now is more than the quotas allow"

    def _within(self, job: KnapsackJob, pairs: set[Pair]) -> bool:
        return not any(self._after.exceeds_nominal(self._queue(job), pair) for pair in pairs)

    def _why_it_waits(self, job: KnapsackJob) -> str:
        """Return which quota lacks for the option that lacks least, or that others are served before it."""
        if not job.options:
            return "it has no option: no flavor of its queue fits its pods and their topology request"
        queue = self._queue(job)
        lacking: list[list[str]] = []
        for option in job.options:
            lacking.append(
                [
                    f"{use} of {_called(pair)} asked for, {max(0, room)} available to its queue"
                    for pair, use in self._uses[job.id, option.id].items()
                    if use > (room := self._after.available(queue, pair))
                ]
            )
        at = min(range(len(lacking)), key=lambda place: len(lacking[place]))
        if lacking[at]:
            return "; ".join(lacking[at])
        if self._places is not None:
            return f"its queue has the quota; {self._places.fits(job.id, job.options[at].id)}"
        return "it would fit; the objective prefers to leave the quota free"

    def _queue(self, job: KnapsackJob) -> int:
        return self._tree.queues[str(job.tenant)]


def _check_origin(instance: Any) -> None:
    if not isinstance(instance, MultipleChoiceKnapsackInstance) or instance.tenants is msgspec.UNSET:
        raise InvalidOption("only an instance of apportion convert --from kueue can be exported to kueue")
    for job in instance.jobs:
        strange = next((option.id for option in job.options if parsed_option(option.id) is None), None)
        if strange is not None:
            raise InvalidOption(f"option {strange!r} of {job.id} names no flavors: it is not from kueue")


def _quota_tree(instance: MultipleChoiceKnapsackInstance) -> QuotaTree:
    """Return the quotas as Kueue has them: a cohort's own quota is what its tenants do not have."""
    tree: Tree = tree_of(instance.tenants)  # type: ignore[arg-type]
    guarantees = {name: tree.guarantees(name) for name in instance.capacities}
    nodes = []
    for name, node in tree.nodes.items():
        quotas = {}
        for capacity in instance.capacities:
            given = node.tenant.quotas.get(capacity)
            of = guarantees[capacity]
            if given is not None or of[name]:
                own = of[name] - sum(of[child] for child in node.children)
                limits = (None, None) if given is None else (given.borrowing_limit, given.lending_limit)
                quotas[_pair(capacity)] = Quota(own, *limits)
        is_queue = not name.startswith(COHORT)
        nodes.append(TreeNode(name, node.parent, is_queue, node.tenant.weight, quotas))
    return QuotaTree.of(nodes)


def _pair(capacity: str) -> Pair:
    flavor, _, resource = capacity.partition("/")
    return flavor, resource


def _called(pair: Pair) -> str:
    return f"{pair[0]}/{pair[1]}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

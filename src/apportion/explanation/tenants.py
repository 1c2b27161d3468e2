"""Explain an instance with tenants: who borrows from whom, which limit binds, why a job waits.

What subtrees of tenants claim of a capacity under a plan, and whether a change of it keeps the limits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from apportion.core.errors import ApportionError
from apportion.core.solution import Solution
from apportion.explanation.by_menus import explain_by_menus
from apportion.explanation.makespan import explain_makespan
from apportion.explanation.parts import TenantWorth, Waiting
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation
from apportion.explanation.subject import Subject
from apportion.instances.edits import change_tenant
from apportion.instances.options import Option
from apportion.instances.tenants.check import ledger_of, positions, shared_capacities
from apportion.instances.tenants.ledger import TenantLedger, under_floors
from apportion.instances.tenants.rows import limits_today
from apportion.instances.tenants.tree import Tree

__all__ = ["Claims", "explain_tenants"]


class Claims:
    """The claims on a capacity: of a subtree what its jobs use, or what it does not lend, whichever is more.

    Parameters
    ----------
    tree
        The tenants.
    capacity
        Its name.
    used
        What the jobs of every tenant without children use.
    room
        How much there is.
    kept
        What jobs that may not be stopped use, by tenant.
    """

    def __init__(
        self, tree: Tree, capacity: str, used: Mapping[str, int], room: int, kept: Mapping[str, int]
    ) -> None:
        self._tree, self._capacity = tree, capacity
        self._limits, alone = limits_today(tree, capacity, kept)
        self._room, self._left = max(room, alone), room - sum(used.values())
        self._unlent = tree.unlent(capacity)
        self._inside, self._claim = tree.claims(capacity, used)
        self._total = sum(self._claim[root] for root in tree.roots)

    def binding(self, name: str, more: int) -> list[str]:
        """Return the limits that leave a tenant not so much more, in words."""
        inside, total = self._after({name: more})
        found = [
            f"{self._capacity} of {one}: {self._inside[one]} of {self._limits[one]}"
            for one in self._tree.path(name)
            if one in self._limits and inside[one] > self._limits[one]
        ]
        if total > self._room or more > self._left:
            free = min(self._room - self._total, self._left)
            left = f"{free} of {self._room} are left, it needs {more}"
            found.append(
                f"{self._capacity}: {left if free > 0 else f'all {self._room} are used or withheld'}"
            )
        return found

    def keep(self, changes: Mapping[str, int]) -> bool:
        """Return whether every limit is kept where some tenants use so much more, or less."""
        inside, total = self._after(changes)
        return (
            total <= self._room
            and sum(changes.values()) <= self._left
            and all(amount <= self._limits[one] for one, amount in inside.items() if one in self._limits)
        )

    def _after(self, changes: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """Return what is inside of every subtree that a change reaches, and the sum of all claims."""
        nodes = self._tree.nodes
        paths = {one for name in changes for one in self._tree.path(name)}
        more, inside, total = dict(changes), dict[str, int](), self._total
        for one in sorted(paths, key=lambda name: -nodes[name].depth):
            inside[one] = self._inside[one] + more.get(one, 0)
            risen = max(inside[one], self._unlent[one]) - self._claim[one]
            above = nodes[one].parent
            if above is None:
                total += risen
            else:
                more[above] = more.get(above, 0) + risen
        return inside, total


_MOST = 40
"""Tenants and waiting jobs that are told apart."""
_RIVALS = 5
"""Jobs that are named of those that a waiting one would displace."""


class Beyond:
    """What tenants use of a capacity beyond their guarantees, and whose guarantee that is.

    What a tenant is guaranteed beyond the guarantees of its children is for all of them: their excess is its
    first, and only what exceeds that too is borrowed from others.

    Parameters
    ----------
    tree
        The tenants.
    guaranteed
        By tenant, those below it included.
    used
        What the jobs of every tenant without children use.
    """

    def __init__(self, tree: Tree, guaranteed: Mapping[str, int], used: Mapping[str, int]) -> None:
        self._tree = tree
        self._excess: dict[str, int] = {}
        self._idle: dict[str, int] = {}
        for name, node in reversed(list(tree.nodes.items())):
            own = guaranteed[name] - sum(guaranteed[child] for child in node.children)
            wanted = (
                sum(self._excess[child] for child in node.children) if node.children else used.get(name, 0)
            )
            self._excess[name], self._idle[name] = max(0, wanted - own), max(0, own - wanted)

    def of(self, leaf: str) -> tuple[int, dict[str, int]]:
        """Return how much a tenant borrows, and how much of its use the guarantees above it cover."""
        rest, covered = self._excess[leaf], dict[str, int]()
        for name in list(self._tree.path(leaf))[1:]:
            if self._excess[name] < rest:
                covered[name], rest = rest - self._excess[name], self._excess[name]
        return rest, covered

    def idle(self, leaf: str) -> dict[str, int]:
        """Return the guarantees that are not used, but for a tenant's own and those above it."""
        own = set(self._tree.path(leaf))
        return {name: amount for name, amount in self._idle.items() if amount and name not in own}


@dataclass(frozen=True, slots=True, eq=False)
class _Standing:
    """What a plan gives to every tenant, and what it leaves of limits that no tenant has a part of."""

    ledger: TenantLedger
    chosen: Mapping[str, Option]
    used: Mapping[str, Mapping[str, int]]
    capacities: Mapping[str, int]
    guaranteed: Mapping[str, Mapping[str, int]]
    claims: Mapping[str, Claims]
    beyond: Mapping[str, Beyond]
    left: Mapping[str, int]


def explain_tenants(
    instance: Any,
    solution: Solution | None,
    job: str | None,
    option: str | None,
    resolver: Resolver,
    exact_jobs: int,
) -> Explanation:
    """Return the explanation of an instance with tenants; see `apportion.explanation.explain`."""
    if solution is None:
        solution = resolver.first(instance)
    subject, began = Subject(instance, tenants=True, floors=solution.floors), time.perf_counter()
    _ = subject.menus  # formed now
    resolver.set_aside(time.perf_counter() - began)  # every variant is read before it is solved
    options = subject.kind.option_set
    if options is not None and (options.relaxes or options.sums(instance)):
        answer = explain_by_menus(subject, solution, job, option, resolver, exact_jobs)
    else:
        answer = explain_makespan(Subject(instance), solution, job, option, resolver, exact_jobs)
    if solution.plan is None or not answer.feasible:
        return answer
    standing = _standing(subject, solution.plan)
    notes = list(answer.notes)
    waiting = tuple(_waiting(standing, job))
    tenants = () if job is not None else tuple(_tenants(standing, subject, solution, resolver))
    if tenants and resolver.exhausted:
        said = sum(worth is not None for one in tenants for worth in one.one_more_guaranteed.values())
        notes.append(f"the limit came while more guarantees were solved: {said} of them are told")
    return replace(answer, tenants=tenants, waiting=waiting, notes=tuple(notes))


def _standing(subject: Subject, plan: Any) -> _Standing:
    ledger = ledger_of(subject.kind, under_floors(subject.instance, subject.floors))
    places = positions(subject.kind, subject.instance, plan, ledger)
    chosen = {job: ledger.options[job][place] for job, place in places.items() if place is not None}
    capacities = shared_capacities(subject.kind, subject.instance)
    used: dict[str, dict[str, int]] = {name: dict.fromkeys(ledger.tree.leaves, 0) for name in capacities}
    for job, option in chosen.items():
        leaf = ledger.jobs[job].tenant
        for name, use in option.uses.items():
            if isinstance(leaf, str) and name in used:
                used[name][leaf] += use
    guaranteed = {name: ledger.tree.guarantees(name) for name in capacities}
    claims = {
        name: Claims(ledger.tree, name, used[name], room, ledger.kept.get(name, {}))
        for name, room in capacities.items()
    }
    beyond = {name: Beyond(ledger.tree, guaranteed[name], used[name]) for name in capacities}
    left = {
        name: limit - sum(option.uses.get(name, 0) for option in chosen.values())
        for name, limit in ledger.unshared.items()
    }
    return _Standing(ledger, chosen, used, capacities, guaranteed, claims, beyond, left)


def _tenants(
    standing: _Standing, subject: Subject, solution: Solution, resolver: Resolver
) -> Iterator[TenantWorth]:
    ledger, tree = standing.ledger, standing.ledger.tree
    levels = {level.name: level for level in solution.levels}
    for name in tree.leaves[:_MOST]:
        uses, guaranteed, above, borrows, lenders, worth = {}, {}, {}, {}, {}, {}
        binding = list[str]()
        for capacity, used in standing.used.items():
            mine = standing.guaranteed[capacity]
            uses[capacity], guaranteed[capacity] = used[name], mine[name]
            rest, covered = standing.beyond[capacity].of(name)
            if covered:
                above[capacity] = covered
            if rest:
                borrows[capacity] = rest
                lenders[capacity] = standing.beyond[capacity].idle(name)
            binding += standing.claims[capacity].binding(name, 1)
            worth[capacity] = _one_more(subject, solution, resolver, name, capacity, mine[name])
        level = levels.get(name)
        yield TenantWorth(
            name=name,
            share=sum(
                ledger.shares[job][ledger.options[job].index(standing.chosen[job])]
                for job in ledger.members(name)
                if job in standing.chosen
            )
            / ledger.unit,
            due=None if level is None else level.share,
            uses=uses,
            guaranteed=guaranteed,
            above=above,
            borrows=borrows,
            lenders=lenders,
            binding=tuple(binding),
            one_more_guaranteed=worth,
        )


def _one_more(
    subject: Subject,
    solution: Solution,
    resolver: Resolver,
    name: str,
    capacity: str,
    guaranteed: int,
) -> float | None:
    """Return what one more unit of guarantee does to a tenant's share; ``None`` where none is left."""
    if resolver.exhausted:  # forming the variant alone reads a large instance once more
        return None
    try:
        changed = change_tenant(subject.instance, name, {f"{capacity}.guarantee": guaranteed + 1})
    except ApportionError:
        return None
    answer = resolver.solve(changed, solution, 0.05)
    if answer is None or answer.plan is None:
        return None
    before, after = (_share(subject, one, name) for one in (solution, answer))
    return after - before


def _share(subject: Subject, solution: Solution, name: str) -> float:
    ledger = ledger_of(subject.kind, subject.instance)
    places = positions(subject.kind, subject.instance, solution.plan, ledger)
    held = [(job, places.get(job)) for job in ledger.members(name)]
    return sum(ledger.shares[job][place] for job, place in held if place is not None) / ledger.unit


def _waiting(standing: _Standing, only: str | None) -> Iterator[Waiting]:
    """Yield why jobs wait: the limits of their cheapest option, and whom it would displace."""
    ledger = standing.ledger
    pending = [
        job
        for job, option in standing.chosen.items()
        if option.idle and any(not one.idle for one in ledger.options[job])
    ]
    running = sorted(job for job, option in standing.chosen.items() if not option.idle)
    for job in [one for one in pending if only in (None, one)][:_MOST]:
        tenant = ledger.jobs[job].tenant
        if not isinstance(tenant, str):
            continue
        shared = [
            (one, {name: use for name, use in one.uses.items() if use and name in standing.capacities})
            for one in ledger.options[job]
            if not one.idle
        ]
        least, needs = min(
            shared,
            key=lambda one: sum(use / max(1, standing.capacities[name]) for name, use in one[1].items()),
        )
        limits = [text for name, use in needs.items() for text in standing.claims[name].binding(tenant, use)]
        rivals = (other for other in running if limits and _makes_room(standing, job, least, needs, other))
        yield Waiting(job, tenant, str(least.name), tuple(limits), tuple(islice(rivals, _RIVALS)))


def _makes_room(standing: _Standing, job: str, least: Option, needs: Mapping[str, int], other: str) -> bool:
    """Return whether a job that may wait borrows, and leaves enough for an option of another if it waits.

    Parameters
    ----------
    standing
        What the plan gives.
    job, least, needs
        Who waits, its option, and what that uses of the capacities of tenants.
    other
        The job that may wait.
    """
    ledger, option = standing.ledger, standing.chosen[other]
    tenant, whose = str(ledger.jobs[job].tenant), str(ledger.jobs[other].tenant)
    if not any(option.uses.get(name) for name in needs) or not _borrows(standing, whose, needs):
        return False
    idle = next((one for one in ledger.options[other] if one.idle), None)
    if idle is None:
        return False
    taken, given = (least, idle), (standing.chosen[job], option)
    for name, left in standing.left.items():
        if sum(one.uses.get(name, 0) for one in taken) - sum(one.uses.get(name, 0) for one in given) > left:
            return False
    for name, use in needs.items():
        changes = {tenant: use}
        changes[whose] = changes.get(whose, 0) - option.uses.get(name, 0)
        if not standing.claims[name].keep(changes):
            return False
    return True


def _borrows(standing: _Standing, tenant: str, uses: Mapping[str, int]) -> bool:
    return any(standing.beyond[name].of(tenant)[0] > 0 for name in uses)

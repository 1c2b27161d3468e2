"""The shares that are due, derived from the tenants alone: guarantees and levels by every choice there is.

Nothing of a solver or of a formulation is used. A *state* is what a choice of some jobs leaves of every limit
and gives to every share holder; equal states are one, of the best value. More than `_MOST_STATES` of them end
the derivation: the shares of a larger instance are told to be underived, and are never taken over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from apportion.core.outcome import Termination, meets
from apportion.instances.kinds import ProblemType
from apportion.instances.options import OptionSet
from apportion.instances.tenants.check import ledger_of
from apportion.instances.tenants.ledger import TenantLedger, shares_are_due
from apportion.instances.tenants.rows import Row, named_apart
from apportion.proofs.claims import CLAIMS, Line, Shares, Verdict

__all__ = ["DueShares", "Holder", "due_shares", "holders_by_group", "levels_of", "shares_of"]


_MOST_STATES = 20_000
"""States after any job, up to which every choice is looked at."""
_MOST_CHILDREN = 600_000
"""States times options of one job, up to which the next states are made."""
_MOST_NUMBERS = 12_000_000
"""Numbers of those, one for every limit and share: 100 MB each time they are copied."""
_MOST_STEPS = 1_000_000
"""Steps of a level to one unit of share over the heaviest weight, as levels are told apart."""
_LARGEST = 1 << 50
"""Numbers of states are smaller."""

Integers = NDArray[np.int64]


class Holder(NamedTuple):
    """A tenant or a job that has a share; its name says which, as floors are named.

    Attributes
    ----------
    name
        The tenant's id, or the job's behind `TenantLedger.job_prefix`.
    jobs
        The ids of the jobs whose shares add up to it.
    weight
        Its weight, above 0.
    """

    name: str
    jobs: frozenset[str]
    weight: Fraction

    def level(self, share: int, steps: int) -> int:
        """Return the highest level at which a share is enough."""
        return steps * share * self.weight.denominator // self.weight.numerator


@dataclass(frozen=True, slots=True)
class DueShares:
    """What is due.

    Attributes
    ----------
    unit
        Units of a share of 1.
    guaranteed
        The share of everybody with a guarantee, alone on it; those that can be kept, where `kept` is true.
    kept
        Whether it is known which guarantees can be kept together; all of them can where a plan keeps all.
    levels
        The sorted levels of every group, first the one that is served first; ``None`` where there are too
        many states, or no choice at all.
    best, rounding
        A bound on the value of every choice with these levels, in the sense of the instance; ``None`` where
        the objective is no sum, or `levels` is ``None``. It is at most `rounding` beyond the best of them.
    """

    unit: int
    guaranteed: Mapping[str, int]
    kept: bool
    levels: tuple[tuple[int, ...], ...] | None
    best: Fraction | None
    rounding: Fraction = Fraction(0)


class _TooMany(Exception):
    """There are more states than are looked at."""


def due_shares(kind: ProblemType, instance: Any, kept: Mapping[str, int]) -> DueShares | None:
    """Return what is due in an instance with tenants; ``None`` where that cannot be told from its menus.

    Parameters
    ----------
    kind, instance
        The instance, without floors.
    kept
        Shares that some plan keeps together.
    """
    option_set = kind.option_set
    if option_set is None or not _menus_say_all(option_set, instance):
        return None
    ledger = ledger_of(kind, instance)
    try:
        alone = _alone(ledger)
    except _TooMany:
        return None
    groups = holders_by_group(ledger)
    together = all(kept.get(name, 0) >= share for name, share in alone.items())
    if together and not groups:
        return DueShares(ledger.unit, alone, kept=True, levels=(), best=None)
    named = {name: frozenset(ledger.members(name)) for name in alone}
    for holder in (one for group in groups for one in group):
        named[holder.name] = holder.jobs
    sign = 0 if not option_set.sums(instance) else 1 if kind.maximizes(instance) else -1
    try:
        states = _every_choice(ledger, named, sign)
    except _TooMany:
        return DueShares(ledger.unit, alone, kept=together, levels=None, best=None)
    column = {name: at for at, name in enumerate(named)}
    found = states.shares
    allowed = np.ones(len(found), dtype=np.bool_)

    def reached(name: str) -> NDArray[np.bool_]:
        return allowed & (found[:, column[name]] >= alone[name])

    if not len(found):
        return DueShares(ledger.unit, {}, kept=True, levels=None, best=None)
    # jobs that must run may hold more than their tenant's own: one after the other, as many as can be kept
    held: dict[str, int] = {}
    for name in alone:
        if reached(name).any():
            allowed, held[name] = reached(name), alone[name]
    alone = held
    levels = []
    for group in groups:
        rows = np.flatnonzero(allowed)
        vectors = [_levels(group, [int(found[row, column[one.name]]) for one in group]) for row in rows]
        best = max(vectors)
        levels.append(best)
        allowed[rows] = [vector == best for vector in vectors]
    due = DueShares(ledger.unit, alone, True, tuple(levels), None)
    if not sign:
        return due
    worth = Fraction(int(states.worths[allowed].max()), states.per_value)
    return replace(due, best=sign * worth, rounding=Fraction(len(ledger.jobs)) / states.per_value)


def levels_of(ledger: TenantLedger, shares: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    """Return the sorted levels of every group under some shares."""
    return tuple(
        _levels(group, [shares.get(one.name, 0) for one in group]) for group in holders_by_group(ledger)
    )


def _levels(group: Sequence[Holder], shares: Sequence[int]) -> tuple[int, ...]:
    heaviest = math.ceil(max(one.weight for one in group))
    steps = min(_MOST_STEPS * heaviest, math.lcm(*(one.weight.numerator for one in group)))
    return tuple(sorted(one.level(share, steps) for one, share in zip(group, shares, strict=True)))


def _menus_say_all(option_set: OptionSet, instance: Any) -> bool:
    """Return whether every choice within the limits is a plan: no job has to be placed beside others."""
    if option_set.relaxes or any(option_set.nodes(instance).values()):
        return False
    return all(pool.count == 1 for pool in option_set.pools(instance) if pool.capacity is not None)


def holders_by_group(ledger: TenantLedger) -> list[list[Holder]]:
    """Return who is made equal with whom, first the group that is served first; none without such a rule."""
    tree, jobs, rule = ledger.tree, ledger.jobs, ledger.fairness
    if not ledger.shares_out:
        return []

    def tenant(name: str) -> tuple[int, Holder]:
        weight = Fraction(tree.nodes[name].tenant.weight)
        return tree.nodes[name].priority, Holder(name, ledger.members(name), weight)

    def rank(name: str) -> int:
        own, mine = jobs[name].priority, jobs[name].tenant
        if own is not UNSET:
            return int(own)
        return tree.nodes[mine].priority if isinstance(mine, str) else 0

    def job(name: str, weight: Fraction) -> tuple[int, Holder]:
        return rank(name), Holder(ledger.job_prefix + name, frozenset([name]), weight)

    def of_its_tenant(name: str) -> Fraction:
        mine = jobs[name].tenant
        return Fraction(tree.nodes[mine].tenant.weight) if isinstance(mine, str) else alike

    alike = Fraction(1)
    if rule.over == "jobs":
        return _by_class(job(name, of_its_tenant(name)) for name in jobs)
    found: list[list[Holder]] = []
    if rule.over == "tenants":
        found += _by_class(map(tenant, tree.leaves))
    else:
        depths = sorted({node.depth for node in tree.nodes.values()})
        for depth in depths:
            found += _by_class(tenant(name) for name, node in tree.nodes.items() if node.depth == depth)
    if rule.inside == "fair":
        found += _by_class(job(name, alike) for name in jobs)
    elif rule.inside == "first_come":

        def turn(name: str) -> tuple[int, float, str]:
            came = jobs[name].submitted_s
            return -rank(name), 0.0 if came is UNSET else came, name

        found += [[job(name, alike)[1]] for name in sorted(jobs, key=turn)]
    return found


def _by_class(ranked: Iterable[tuple[int, Holder]]) -> list[list[Holder]]:
    classes: dict[int, list[Holder]] = {}
    for rank, holder in ranked:
        if holder.weight > 0 and holder.jobs:
            classes.setdefault(rank, []).append(holder)
    return [classes[rank] for rank in sorted(classes, reverse=True)]


def _alone(ledger: TenantLedger) -> dict[str, int]:
    """Return the share of every tenant with a guarantee if it were alone on it, children before parents.

    Its jobs that must run do so; where these alone are more than is its own, nothing is due to it.
    """
    tree, found = ledger.tree, dict[str, int]()
    capacities = ledger.capacities
    amounts = {name: tree.guarantees(name) for name in capacities}
    for name, node in reversed(list(tree.nodes.items())):
        own = {capacity: amounts[capacity][name] for capacity in capacities}
        theirs = {one: sum(amounts[one][child] for child in node.children) for one in capacities}
        jobs = ledger.members(name)
        if not jobs or not any(own.values()) or own == theirs:
            continue
        below = set(tree.below(name))
        inside = {one: share for one, share in found.items() if set(tree.below(one)) <= below}
        rows = ledger.rows_alone(name, capacities)
        share = _best_alone(ledger, jobs, rows, inside)
        if share is None:
            share = _best_alone(ledger, jobs, rows, {})
        if share:
            found[name] = share
    return found


def _best_alone(
    ledger: TenantLedger,
    jobs: frozenset[str],
    rows: Sequence[Row],
    inside: Mapping[str, int],
) -> int | None:
    """Return the largest share of some jobs on what is their tenant's own; ``None`` without any choice.

    What is due to tenants inside is kept.
    """
    limits = {name: limit for name, limit in ledger.limits.items() if name not in ledger.capacities}
    rows = named_apart(rows, set(ledger.limits))
    limits |= {row.name: row.limit for row in rows}
    named = {name: ledger.members(name) for name in inside}
    options = {
        job: [
            one._replace(uses={**one.uses, **_claimed(rows, ledger.jobs[job].tenant, one.uses)})
            for one in _options(ledger, job)
        ]
        for job in ledger.jobs
        if job in jobs
    }
    states = _reachable(options, limits, {"": jobs, **named}, 0, cap=inside)
    enough = np.ones(len(states.shares), dtype=np.bool_)
    for at, share in enumerate(inside.values(), 1):
        enough &= states.shares[:, at] >= share
    return int(states.shares[enough, 0].max()) if enough.any() else None


def _claimed(rows: Sequence[Row], tenant: Any, uses: Mapping[str, int]) -> dict[str, int]:
    """Return what an option of a tenant's job takes of some rows."""
    return {row.name: uses.get(row.capacity, 0) for row in rows if tenant in row.leaves}


class _Option(NamedTuple):
    uses: Mapping[str, int]
    share: int
    value: Fraction


def _options(ledger: TenantLedger, job: str) -> list[_Option]:
    return [
        _Option(ledger.uses(job, place), share, Fraction(option.value))
        for place, (option, share) in enumerate(zip(ledger.options[job], ledger.shares[job], strict=True))
    ]


@dataclass(frozen=True, slots=True)
class _States:
    """Every state that all jobs together lead to.

    Attributes
    ----------
    shares
        int64 [states, share holders].
    worths
        int64 [states]: of the best value, to be maximised, rounded up.
    per_value
        Units of worth to a value of 1.
    """

    shares: Integers
    worths: Integers
    per_value: Fraction


def _every_choice(ledger: TenantLedger, named: Mapping[str, frozenset[str]], sign: int) -> _States:
    options = {job: _options(ledger, job) for job in ledger.jobs}
    return _reachable(options, ledger.limits, named, sign, cap={})


def _reachable(
    options: Mapping[str, Sequence[_Option]],
    limits: Mapping[str, int],
    named: Mapping[str, frozenset[str]],
    sign: int,
    cap: Mapping[str, int],
) -> _States:
    """Return the states of every choice within limits; a share that is capped counts up to there."""
    columns = list(limits)
    zero = Fraction(0)
    largest = sum((max((abs(one.value) for one in menu), default=zero) for menu in options.values()), zero)
    per_value = _per_value(largest)
    takes: list[Integers] = []
    for job, menu in options.items():
        member = [job in jobs for jobs in named.values()]
        rows = [
            [
                *(one.uses.get(name, 0) for name in columns),
                *(one.share * mine for mine in member),
                math.ceil(sign * one.value * per_value),
            ]
            for one in menu
        ]
        if any(abs(number) >= _LARGEST for row in rows for number in row):
            raise _TooMany
        takes.append(np.array(rows, dtype=np.int64).reshape(len(menu), len(columns) + len(named) + 1))
    width = len(columns)
    if any(room >= _LARGEST for room in limits.values()):
        raise _TooMany
    reach = [np.zeros(width, dtype=np.int64)]
    for rows_ in reversed(takes):
        reach.append(reach[-1] + rows_[:, :width].max(axis=0, initial=0))
    most = np.array([cap.get(name, _LARGEST) for name in named], dtype=np.int64)
    states: Integers = np.array([[*limits.values(), *[0] * (len(named) + 1)]], dtype=np.int64)
    for rows_, after in zip(takes, reversed(reach[:-1]), strict=True):
        children_made = len(states) * len(rows_)
        if children_made > _MOST_CHILDREN or children_made * states.shape[1] > _MOST_NUMBERS:
            raise _TooMany
        children = np.repeat(states, len(rows_), axis=0)
        taken = np.tile(rows_, (len(states), 1))
        children[:, :width] -= taken[:, :width]
        children[:, width:] += taken[:, width:]
        children = children[(children[:, :width] >= 0).all(axis=1)]
        children[:, :width] = np.minimum(children[:, :width], after)
        children[:, width:-1] = np.minimum(children[:, width:-1], most)
        states = _best_of_equal(children)
        if len(states) > _MOST_STATES:
            raise _TooMany
    return _States(states[:, width:-1], states[:, -1], per_value)


def _best_of_equal(states: Integers) -> Integers:
    """Return one of the most worth of states that are equal otherwise."""
    order = np.lexsort(states[:, ::-1].T)
    ranked = states[order]
    last = np.ones(len(ranked), dtype=np.bool_)
    last[:-1] = (ranked[1:, :-1] != ranked[:-1, :-1]).any(axis=1)
    return ranked[last]


def _per_value(largest: Fraction) -> Fraction:
    """Return units to a value of 1, a power of two, so that sums up to a largest one stay within 2**50."""
    if not largest:
        return Fraction(1)
    over, under = largest.as_integer_ratio()
    return Fraction(2) ** (49 - (over.bit_length() - under.bit_length()))


_FIELDS = ("floors", "levels", "fair_bound")
_NEAR = Fraction(1, 10**9)


def shares_of(
    kind: ProblemType, instance: Any, record: Mapping[str, Any], bound: Fraction | None
) -> tuple[Shares, list[Line]]:
    """Return how the shares of a result stand beside those that are due, and a line for each of its fields.

    Parameters
    ----------
    kind, instance
        What was solved, without the floors of the result.
    record
        The result.
    bound
        The tightest bound on the plans that keep the stated floors, as far as one is derived.
    """
    stated = [name for name in _FIELDS if record.get(name) is not None]
    if not shares_are_due(instance):
        lines = [Line(name, Verdict.REFUSED, "the instance has no shares to be due") for name in stated]
        return (Shares.WRONG if lines else Shares.NOT_DUE), lines
    if record.get("floors") is None:
        wrong = record["termination"] in CLAIMS or bool(stated)
        reason = "shares are due, and the result does not say which its plan keeps"
        return (
            Shares.WRONG if wrong else Shares.NOT_DERIVED,
            [Line("floors", Verdict.REFUSED if wrong else Verdict.WORD, reason)],
        )
    ledger = ledger_of(kind, instance)
    if not record["floors"] and not record.get("levels") and record["plan"] is None:
        return _no_shares(record)
    due = due_shares(kind, instance, record["floors"] if record["plan"] is not None else {})
    floors = _kept_by_a_plan(record, _floors(ledger, record, due))
    floors = _none_worth_more(kind, instance, record, due, floors)
    lines = [floors, _levels_claim(ledger, record, due, floors.verdict)]
    if record.get("fair_bound") is not None:
        sure = due if floors.verdict is Verdict.DERIVED else None
        lines.append(_fair_bound(kind, instance, record, sure, bound))
    refused = any(line.verdict is Verdict.REFUSED for line in lines[:2])
    underived = any(line.verdict is Verdict.WORD for line in lines[:2])
    standing = Shares.WRONG if refused else Shares.NOT_DERIVED if underived else Shares.AS_DUE
    return standing, lines


def _no_shares(record: Mapping[str, Any]) -> tuple[Shares, list[Line]]:
    """Return how it stands where no plan was found before any share was looked at."""
    if record["termination"] == Termination.INFEASIBLE:
        return Shares.NOT_DUE, [Line("floors", Verdict.NOTHING, "without a plan nobody has a share")]
    return Shares.NOT_DERIVED, [Line("floors", Verdict.NOTHING, "no plan was found, and no share looked at")]


def _floors(ledger: TenantLedger, record: Mapping[str, Any], due: DueShares | None) -> Line:
    floors: Mapping[str, int] = record["floors"]
    groups = holders_by_group(ledger)
    known = {holder.name for group in groups for holder in group}
    if due is None:
        return Line("floors", Verdict.WORD, f"{len(floors)} shares are kept; what is due is not derived")
    strange = sorted(set(floors) - known - set(due.guaranteed))
    if strange:
        return Line("floors", Verdict.REFUSED, f"nothing is due to {', '.join(strange[:3])}")
    lost = [name for name, share in due.guaranteed.items() if floors.get(name, 0) < share]
    if lost:
        alone = due.guaranteed[lost[0]]
        reason = f"{lost[0]} has {alone} alone on its guarantee, {floors.get(lost[0], 0)} is kept"
        ended = record["termination"] not in CLAIMS  # a limit may come before what is due is known
        return Line("floors", Verdict.REFUSED if due.kept and not ended else Verdict.WORD, reason)
    more = [name for name in floors if name not in known and floors[name] > due.guaranteed[name]]
    if more:
        return Line("floors", Verdict.REFUSED, f"{more[0]} is due {due.guaranteed[more[0]]}, not more")
    if due.levels is None:
        return Line("floors", Verdict.WORD, f"{len(floors)} shares are kept; the levels are not derived")
    if ledger.fairness.keep != 1.0:
        return Line("floors", Verdict.WORD, f"{len(floors)} shares are kept, a part of every level")
    have = levels_of(ledger, floors)
    if have == due.levels:
        return Line("floors", Verdict.DERIVED, f"{len(floors)} shares are due, and kept by the plan")
    if any(level["evidence"] is None for level in record.get("levels", ())) and have < due.levels:
        return Line(
            "floors", Verdict.WORD, "shares are kept, and levels that a limit left open could be greater"
        )
    return Line("floors", Verdict.REFUSED, "the sorted shares are not the greatest that can be had")


def _kept_by_a_plan(record: Mapping[str, Any], line: Line) -> Line:
    """Return what becomes of floors without a plan: what is due can be kept, so that there is one."""
    if record["plan"] is not None or line.verdict is Verdict.REFUSED:
        return line
    if record["termination"] == Termination.INFEASIBLE and any(record["floors"].values()):
        return Line("floors", Verdict.REFUSED, "shares that are due can be kept, so that there is a plan")
    return Line("floors", Verdict.WORD, "no plan shows that these shares can be kept together")


def _none_worth_more(
    kind: ProblemType, instance: Any, record: Mapping[str, Any], due: DueShares | None, line: Line
) -> Line:
    """Return what becomes of floors of a plan that is called the best: equally fair ones count, too."""
    claimed, objective = record["termination"] in CLAIMS, record["objective"]
    if line.verdict is not Verdict.DERIVED or not claimed or due is None or not due.levels:
        return line
    if due.best is None or objective is None:
        return Line("floors", Verdict.WORD, f"{line.how}; the best plan as fair is not derived")
    sign = 1 if kind.maximizes(instance) else -1
    short = sign * (due.best - Fraction(objective)) - due.rounding
    gap = 0.0 if record["termination"] == Termination.OPTIMAL else record["gap"] or 0.0
    if short <= max(_NEAR, Fraction(gap)) * abs(Fraction(objective)):
        return line
    return Line("floors", Verdict.WORD, f"{line.how}; a plan as fair is worth more")


def _levels_claim(
    ledger: TenantLedger, record: Mapping[str, Any], due: DueShares | None, floors: Verdict
) -> Line:
    levels: Sequence[Mapping[str, Any]] = record.get("levels", ())
    holders = {holder.name: holder for group in holders_by_group(ledger) for holder in group}
    if sorted(level["name"] for level in levels) != sorted(holders):
        return Line("levels", Verdict.REFUSED, "are not those of everybody whose shares are made equal")
    if not levels:
        return Line("levels", Verdict.NOTHING, "there is no rule by which shares are made equal")
    for level in levels:
        name, share, bound = level["name"], level["share"], level["bound"]
        if level["weight"] != float(holders[name].weight):
            return Line("levels", Verdict.REFUSED, f"{name} has the weight {float(holders[name].weight)!r}")
        if bound < share or (level["evidence"] is not None and bound != share):
            return Line("levels", Verdict.REFUSED, f"the bound of {name} does not fit its share")
        if ledger.fairness.keep == 1.0 and share != record["floors"].get(name, 0) / ledger.unit:
            return Line("levels", Verdict.REFUSED, f"the level of {name} is not the share that is kept")
    as_due = due is not None and levels_of(ledger, record["floors"]) == due.levels
    if (
        as_due
        and record["plan"] is not None
        and ledger.fairness.keep == 1.0
        and floors is not Verdict.REFUSED
    ):
        return Line("levels", Verdict.DERIVED, "the sorted shares are the greatest of all choices")
    unproved = sum(level["evidence"] is None for level in levels)
    reason = f"{len(levels)} levels are our own search's word"
    return Line("levels", Verdict.WORD, f"{reason}, and {unproved} not proved" if unproved else reason)


def _fair_bound(
    kind: ProblemType, instance: Any, record: Mapping[str, Any], due: DueShares | None, bound: Fraction | None
) -> Line:
    """Hold the bound over equally fair plans against the objective, which it may not refute."""
    stated, objective = record["fair_bound"], record["objective"]
    sign = 1 if kind.maximizes(instance) else -1
    if objective is not None and sign * (objective - stated) > 0 and not meets(objective, stated):
        return Line("fair_bound", Verdict.REFUSED, "the plan, which is as fair, is beyond it")
    reason = f"no plan as fair is said to be beyond {stated:.12g}"
    shown = bound if due is not None and due.levels == () else None if due is None else due.best
    if shown is not None and sign * (Fraction(stated) - shown) >= -_NEAR * abs(shown):
        return Line("fair_bound", Verdict.DERIVED, f"no plan as fair is beyond {stated:.12g}")
    if shown is not None and due is not None and due.levels:
        short = sign * (shown - Fraction(stated)) - due.rounding
        if short <= _NEAR * abs(shown):
            return Line("fair_bound", Verdict.WORD, reason)
        return Line("fair_bound", Verdict.REFUSED, "a plan as fair is beyond it")
    return Line("fair_bound", Verdict.WORD, reason)

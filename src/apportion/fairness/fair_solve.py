"""Solve where shares are due: fair shares first, level by level, then the best plan that keeps them.

Fair shares are guarantees and levels, turned into floors that every plan keeps. Levels hold how many rise;
several sets of tenants may do, and all of them are equally fair. The objective decides among them, in one
question with every floor, every level requirement, and the values of the instance. What bounds its optimum
bounds the objective of every plan that is as fair, whoever rises in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.core.options import KnownBound, Point, SolveOptions
from apportion.core.outcome import Termination, meets, relative_gap
from apportion.core.solution import Level, Solution
from apportion.fairness.disjoint_groups import joined, parts_of
from apportion.fairness.feasibility_oracle import Ask, FeasibilityOracle, question
from apportion.fairness.guarantees import guaranteed
from apportion.fairness.level_model import LevelModel, Placing
from apportion.fairness.levels import LeximinSolver
from apportion.fairness.share_holders import groups_of
from apportion.formulations.tenants import TenantedMenus
from apportion.instances.tenants.ledger import under_floors
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving import registry
from apportion.solving.call import Call, Subject, entry_of, kind_of_any, levels_entry_of
from apportion.solving.compiled_model import CompiledModel
from apportion.solving.pipeline import Compiler, may_make, menus_of_tenants, solved, structure_of, structured

__all__ = ["Prefer", "Sharing", "Tie", "broken_by_objective", "fair_bound", "shared_out", "solved_fairly"]


_NEGLIGIBLE = 2e-6
"""Relative gap of which nothing is noted: general solvers say optimal at half of it."""
_QUESTION = 1 / 3
"""Share of the time left for levels that one question about them has."""
_RAISES, _RAISING, _ANY = 3, 0.2, 0.5
"""How often unproved levels rise part of the way to their bounds, with what share of the time left; any plan
is near enough then."""
_FAR = 1.25
"""Quotient of bound and level from which they rise: else the time is worth more for the objective."""
_ROUNDING = 1e-12
"""Relative difference that rounding leaves between equal numbers."""
_REFUTED = "the plan's objective refutes the bound over equally fair sets of"

Prefer = Callable[[MultipleChoiceKnapsack, NDArray[np.int64]], Solution]
"""Solves menus from a point that keeps their capacities, within the part of the call that is for ties."""


@dataclass(frozen=True, slots=True)
class Tie:
    """What is known of the best objective among plans that are equally fair.

    Attributes
    ----------
    bound
        A bound on it; ``None`` where none was found.
    prices
        What shows the bound, as far as multipliers do, by the names of a certificate.
    source
        Where the bound comes from, as certificates say it.
    """

    bound: float | None = None
    prices: Mapping[str, float] | None = None
    source: str | None = None

    @property
    def known(self) -> KnownBound | None:
        """What needs no search any more: a bound that holds of every set; prices are taken as they are."""
        if self.bound is None or self.source in (None, "multipliers"):
            return None
        return KnownBound(self.bound, str(self.source))


def broken_by_objective(answering: FeasibilityOracle, prefer: Prefer) -> Tie:
    """Choose who rises by the objective, among all that reach the same floors and level requirements."""
    model = answering.model
    while answering.choice is not None:
        asked = question(model, answering.floors, answering.requirements, valued=True)
        point = asked.point(model, answering.choice)
        solution = prefer(asked.menus, point)
        shown = solution.certificate.multipliers
        prices = None if shown is None else asked.prices(model, list(shown.values()))
        bound = _outward(solution.bound, model.placing.menus.value_error, asked.menus.sense)
        tie = Tie(bound, prices, solution.certificate.source)
        if not isinstance(solution.plan, np.ndarray):
            return tie
        choice = asked.choice(solution.plan.astype(np.int64))
        placed = model.placing.of(choice)
        sign = 1.0 if asked.menus.sense == "maximize" else -1.0
        more = sign * asked.menus.objective(solution.plan) >= sign * asked.menus.objective(point)
        if placed == "placed" and more:  # not where a backend knows no starts
            answering.choice = choice
        if placed != "cut" or model.placing.late():
            return tie
    return Tie()


def _outward(bound: float | None, error: float, sense: str) -> float | None:
    if bound is None:
        return None
    return bound + error if sense == "maximize" else bound - error


def fair_bound(tie: Tie | None, solution: Solution, *, maximizes: bool) -> tuple[float | None, str | None]:
    """Return a bound on the objective of all plans that are as fair as a solution, and what to note of it.

    Parameters
    ----------
    tie
        What is known of the best among several sets; ``None`` where only one set is as fair.
    solution
        The best plan that keeps the shares of the set that was chosen, all of them.
    maximizes
        The sense of the objective.
    """
    if tie is None:
        return solution.bound, None
    bound, objective = tie.bound, solution.objective
    if bound is None or objective is None:
        return None, "several sets are equally fair: which of them has the best objective is not decided"
    beyond = objective - bound if maximizes else bound - objective
    if beyond >= -_ROUNDING * abs(objective):
        return (objective, None) if meets(objective, bound) else (None, f"{_REFUTED} {bound:.12g}")
    gap = relative_gap(objective, bound)
    if gap <= _NEGLIGIBLE or meets(objective, bound):
        return bound, None
    return bound, f"among sets that are equally fair no objective is beyond {bound:.12g} (gap {gap:.1e})"


@dataclass(frozen=True, slots=True, eq=False)
class Sharing:
    """What is shared out fairly.

    Attributes
    ----------
    floors
        The shares that every plan must keep, in whole units, as `Fairness.floors` names them.
    menus
        The formulation, with what was shown on the way to lie on no nodes.
    plan
        A plan that keeps them; ``None`` where none was found.
    levels
        The levels, in the order in which they were found.
    notes
        What could not be kept or proved, in words.
    tie
        What is known of the best objective where several sets are equally fair; ``None`` where one is.
    ended
        What kept guarantees or levels from being decided, the first limit or failure; ``None`` where all of
        them are.
    """

    floors: dict[str, int]
    menus: TenantedMenus
    plan: Any
    levels: tuple[Level, ...]
    notes: tuple[str, ...]
    tie: Tie | None = None
    ended: Termination | None = None


@dataclass(slots=True, eq=False)
class _Watch:
    """Asks questions, and keeps the first ending that decided nothing."""

    ask: Ask
    ended: Termination | None = None

    def __call__(self, model: MultipleChoiceKnapsack) -> Solution:
        solution = self.ask(model)
        said, bound, objective = solution.termination, solution.bound, solution.objective
        if said is Termination.GAP_REACHED:  # a general solver's optimum: shares are whole numbers of units
            exact = bound is not None and objective is not None and math.floor(bound) <= objective
            said = Termination.OPTIMAL if exact else Termination.NUMERICAL_ERROR
        if said not in (Termination.OPTIMAL, Termination.INFEASIBLE) and self.ended is None:
            self.ended = said
        return solution


def shared_out(
    instance: Any,
    menus: TenantedMenus,
    ask: Ask,
    seconds: Callable[[], float | None],
    prefer: Prefer | None = None,
) -> Sharing:
    """Find the guarantees and levels of an instance.

    Parameters
    ----------
    instance
        The instance, for which `shares_are_due`.
    menus
        Its formulation.
    ask
        Solves menus within what is left of the call.
    seconds
        What is left of it for levels.
    prefer
        Solves menus for their best values; ``None`` where the objective is no sum of values.
    """
    ledger, notes, placing = menus.ledger, list[str](), Placing(menus, seconds)
    watch = _Watch(ask)
    solver = LeximinSolver.of(LevelModel(placing), watch, ledger.unit)
    answering = solver.answering

    def open_end() -> Termination:
        """Return what ended a search that decided nothing; without a limit a placement gave up."""
        return watch.ended or (Termination.TIME_LIMIT if placing.late() else Termination.NODE_LIMIT)

    stuck = not all(ledger.options.values())  # a job that must run has no option: nobody has a share
    planned = False if stuck else solver.hold({})
    if not planned:
        notes.append("no plan was found before any share was looked at")
    if planned is False:
        return Sharing({}, placing.menus, None, (), tuple(notes))
    alone, beside_each_other = guaranteed(answering.model, watch)
    # the largest share of somebody alone is known only where every question about it was decided
    decided = watch.ended is None and not placing.gave_up
    for choice in (beside_each_other, *_running(instance, menus)):
        answering.begin_with(choice, alone)
    if alone and not (together := solver.hold(alone)):
        kept = {one: solver.hold({one: share}) for one, share in alone.items()}
        decided = decided and together is not None and None not in kept.values()
        lost = sorted(one.name for one, held in kept.items() if not held)
        beside = "beside jobs that must run" if placing.menus is menus else "on the nodes"
        beside = " and ".join((beside, *(f"within {name}" for name in ledger.unshared)))
        said = f"cannot be kept together {beside}; not kept for"
        if not decided:
            said = "were not decided before a limit; not kept for"
        notes.append(f"guarantees {said} {', '.join(lost)}")
    guarantees = dict(answering.floors)
    if instance.fairness is not UNSET:
        for group in groups_of(ledger):
            solver.fill(group)
    tie = None if not answering.requirements else Tie()
    if tie is not None and prefer is not None:
        tie = broken_by_objective(answering, prefer)
    levels = solver.resolve_ties()
    kept_part = 1.0 if instance.fairness is UNSET else instance.fairness.keep
    floors = {
        one: max(guarantees.get(one, 0), floor if kept_part == 1.0 else int(kept_part * floor))
        for one, floor in answering.floors.items()
    }
    unproved = sum(level.evidence is None for level in levels)
    if unproved:
        notes.append(f"{unproved} of {len(levels)} levels were not proved before a limit")
    plan = None if answering.choice is None else placing.plan(answering.choice)
    named = {one.name: floor for one, floor in floors.items()}
    ended = None if decided and not unproved else open_end()
    return Sharing(named, placing.menus, cast(Any, plan), tuple(levels), tuple(notes), tie, ended)


def _running(instance: Any, menus: TenantedMenus) -> Iterator[NDArray[np.int64]]:
    """Yield the choice of what runs, if its kind says what that is and no limit has changed."""
    option_set = kind_of_any(instance).option_set
    plans = () if option_set is None or option_set.running is None else option_set.running(instance)
    for plan in plans[:1]:
        choice = menus.choice(plan)
        if choice is not None and menus.model.check(choice).feasible:
            yield choice


def solved_fairly(
    instance: Subject,
    compiler: Compiler,
    options: SolveOptions,
    backend: str | registry.Backend,
    warm_start: Any,
    formulation: str | None,
    *,
    proof: bool,
) -> Solution:
    """Find fair shares first, in two thirds of the time, then the best plan that keeps them.

    Choosing among equally fair sets of jobs may use half of the remaining time. Its bound is passed on to the
    last search: where the plan meets the bound, nothing is left to be searched.

    Parameters
    ----------
    instance
        An instance whose shares are due.
    compiler, options, backend, warm_start, formulation, proof
        See `apportion.solving.pipeline.solved`.

    Returns
    -------
    Solution
        With the levels, the floors that its plan keeps, and the bound on plans whose shares are as great.
    """
    call = Call(instance, kind_of_any(instance), options)
    plain = not proof and warm_start is None and options.on_incumbent is None and options.work_limit is None
    if plain and (parts := parts_of(instance)):
        answer = joined(call, list(_one_by_one(call, parts, compiler, backend, formulation)))
        if answer.termination is not Termination.NUMERICAL_ERROR:
            return answer
        # the parts' objectives cancel and their bounds do not: the whole is decided as one
    sharing = _shared(call, backend, formulation, proof=proof)
    under: Any = under_floors(instance, sharing.floors)
    known = warm_start
    if sharing.plan is not None:
        prices = None if sharing.tie is None else sharing.tie.prices
        known = {"plan": sharing.plan, "certificate": {"multipliers": prices}}

    def compiled_before(subject: Subject, entry: registry.FormulationEntry) -> CompiledModel:
        """Return the menus that are there already, with the floors; a proof's rows keep their order."""
        of_jobs = sharing.floors.keys() - sharing.menus.ledger.tree.nodes.keys()
        same = entry.produces == "knapsack" and entry == levels_entry_of(instance, formulation)
        if proof or of_jobs or not same:
            return compiler(subject, entry)
        return structure_of(sharing.menus.under(under), entry)

    # less than all of the levels may have more; and a proof is written from a search
    whole = sharing.tie is not None and under.fairness.keep == 1.0 and not proof
    bounded = sharing.tie.known if sharing.tie is not None and whole else None
    rest = call.remaining()
    solution = solved(under, compiled_before, rest, backend, known, formulation, bounded, proof=proof)
    return _concluded(call, under, sharing, solution)


@dataclass(frozen=True, slots=True, eq=False)
class _Questions:
    """What a call asks before its last search: each question within its part of the time that is left.

    Attributes
    ----------
    call, backend, formulation
        See `solved_fairly`.
    instance
        The call's, in the order of its jobs' names.
    """

    call: Call
    instance: Any
    backend: str | registry.Backend
    formulation: str | None

    def seconds(self) -> float | None:
        """Return what is left for levels: a third of the limit is for the objective."""
        left, limit = self.call.seconds_left, self.call.options.time_limit
        return None if left is None or limit is None else max(left - limit / 3, 1e-3)

    def about_shares(self, model: MultipleChoiceKnapsack) -> Solution:
        """Answer a question about shares; a lower level may be decided where this one is not."""
        left = self.seconds()
        return self._solved(model, None if left is None else _QUESTION * left, None, gap=0.0)

    def preferred(self, model: MultipleChoiceKnapsack, point: Point) -> Solution:
        """Choose among equally fair sets, from one of them."""
        left = self.call.seconds_left
        return self._solved(model, None if left is None else left / 2, point)

    def planned(self, floors: Mapping[str, int], plan: Any) -> Solution | None:
        """Plan under floors, from a plan that keeps less; ``None`` where no plan reaches them."""
        try:
            raised = under_floors(self.instance, floors)
            seconds = max(_RAISING * (self.call.seconds_left or 0.0), 1e-3)
            return self._solved(raised, seconds, plan, self.formulation, gap=_ANY)
        except InvalidInstance:  # more than its jobs reach
            return None

    def _solved(
        self, subject: Any, seconds: float | None, start: Any, formulation: str | None = None, **asked: Any
    ) -> Solution:
        limited = replace(self.call.options, time_limit=seconds, on_incumbent=None, **asked)
        return solved(subject, structured, limited, self.backend, start, formulation)


def _shared(call: Call, backend: str | registry.Backend, formulation: str | None, *, proof: bool) -> Sharing:
    """Share out what a call is about, and raise levels that a limit left far from their bounds."""
    instance = call.kind.in_id_order(call.instance)
    menus = menus_of_tenants(instance, formulation)
    if not isinstance(menus, TenantedMenus):
        raise InvalidOption(f"formulation {formulation!r} knows no tenants")
    questions = _Questions(call, instance, backend, formulation)
    sums = call.kind.option_set is not None and call.kind.option_set.sums(instance)
    prefer = questions.preferred if sums else None
    sharing = shared_out(instance, menus, questions.about_shares, questions.seconds, prefer)
    was_late = sharing.ended not in (None, Termination.INTERRUPTED) and call.seconds_left is not None
    entry = entry_of(instance, formulation)
    if was_late and entry.levels is not None and not proof and may_make(entry, call, _RAISING):
        return _raised(sharing, menus.ledger.unit, questions.planned)
    return sharing


def _concluded(call: Call, under: Any, sharing: Sharing, solution: Solution) -> Solution:
    """Return the answer to a call from its last search, under floors, with the word that is right of both."""
    started = call.log.elapsed - solution.times["total"] + solution.times.get("start", 0.0)
    bound, message = fair_bound(sharing.tie, solution, maximizes=call.maximizes)
    if under.fairness.keep < 1.0:
        bound, message = None, None  # what would be kept of other sets is not known
    # where nothing is kept and there is no plan all the same, nobody has a share
    nothing = solution.termination is Termination.INFEASIBLE and not any(sharing.floors.values())
    termination = solution.termination
    if sharing.ended is not None and termination in (Termination.OPTIMAL, Termination.GAP_REACHED):
        termination = sharing.ended  # the word would be about shares that are not shown to be those due
    return replace(
        solution,
        termination=termination,
        instance=call.instance,
        levels=() if nothing else sharing.levels,
        floors={} if nothing else sharing.floors,
        fair_bound=bound,
        notes=(*sharing.notes, *((message,) if message else ()), *solution.notes),
        times={**solution.times, "start": started, "total": call.log.elapsed},
    )


def _raised(
    sharing: Sharing, unit: int, planned: Callable[[Mapping[str, int], Any], Solution | None]
) -> Sharing:
    """Raise levels that were not proved towards their bounds, as far as plans are found that keep them.

    Levels are asked of choices, which nodes may not hold; here the kind places while it chooses.

    Parameters
    ----------
    sharing
        What was found.
    unit
        Units of a share of 1.
    planned
        ``planned(floors, plan)``: the answer under floors, from a plan that keeps less; ``None`` where no
        plan reaches them.
    """
    open_ = {one.name: int((one.bound - one.share) * unit) for one in sharing.levels if one.evidence is None}
    low, high, found = 0.0, 1.0, sharing
    if not any(one.bound >= _FAR * one.share for one in sharing.levels if one.name in open_):
        return sharing
    for _ in range(_RAISES):
        part = (low + high) / 2
        more = {name: int(part * room) for name, room in open_.items()}
        floors = {name: floor + more.get(name, 0) for name, floor in sharing.floors.items()}
        answer = None if floors == found.floors else planned(floors, found.plan)
        if answer is not None and answer.termination is Termination.INTERRUPTED:
            break
        if answer is None or answer.plan is None:
            high = part
            continue
        low = part
        levels = tuple(
            replace(level, share=floors[level.name] / unit) if level.name in open_ else level
            for level in sharing.levels
        )
        found = replace(sharing, floors=floors, plan=answer.plan, levels=levels, tie=None)
    return found


def _one_by_one(
    call: Call,
    parts: Sequence[Subject],
    compiler: Compiler,
    backend: str | registry.Backend,
    formulation: str | None,
) -> Iterator[Solution]:
    """Yield the answer to every part, in its part of the time that is left, up to an interruption."""
    for index, part in enumerate(parts):
        options = call.remaining()
        if options.time_limit is not None:
            options = replace(options, time_limit=options.time_limit / (len(parts) - index))
        solution = solved_fairly(part, compiler, options, backend, None, formulation, proof=False)
        yield solution
        if solution.termination is Termination.INTERRUPTED:
            return

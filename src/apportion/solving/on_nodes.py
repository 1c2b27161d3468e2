"""Plans on nodes: place what was chosen, and where that fails tighten the model and choose again.

The model of a `PlacedFormulation` says what is chosen, not where it lies, and so is a
relaxation. Its choice goes to the packing engine; one that cannot be placed comes back as a capacity that it
exceeds and no plan that can be placed does. Every model on the way is a relaxation, so the last bound is the
instance's; every capacity excludes at least the choice it came from, of which there are finitely many. This
lives with the solve call because only here formulation and solvers meet, and so it serves every backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import NDArray

from apportion.core.interruption import released
from apportion.core.options import Choice, Multipliers, Point, SolveOptions, Start
from apportion.core.outcome import Outcome, Termination
from apportion.formulations.protocol import (
    KnapsackFormulation,
    NearPlacingFormulation,
    Packing,
    PlacedFormulation,
)
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.models.packing import FormulatedPacking, MachinePacking
from apportion.models.pods import PodPacking
from apportion.solving.call import Call
from apportion.solving.compiled_model import (
    BareMenus,
    CompiledKnapsack,
    CompiledModel,
    PlanOrPoint,
    better,
    repaired,
    rows_of,
)
from apportion.solving.judge import DECIDED, Attempt

if TYPE_CHECKING:
    from apportion.solvers.packing.few_moves import Placement

__all__ = ["PlacedStructure", "chosen_on_nodes", "lies"]


_MOST_ROUNDS = 500
_MOST_REPAIRS = 100
_PATTERNS, _ROUNDED = 0.4, 0.8
"""Shares of the time left for patterns and for rounding them."""
_PACKED = 0.6
"""Share of the time left for packing what was chosen; a choice near it takes time as well."""
_JOB_BY_JOB = 0.3
"""Share of that for making way for jobs that found no room."""
_AGAIN, _FREED, _MOST_FAILED = 0.3, 32, 40
"""Share of the time left for choices without what finds no room; so many jobs are chosen for anew, and how
often in vain."""
_BRIEFLY, _BRIEF_S = 0.1, 2.0
"""Share of the time left, or seconds without a limit, for a search from a plan that was not made better."""


@dataclass(frozen=True, slots=True)
class PlacedStructure(CompiledKnapsack):
    """Menus whose choices must also lie on nodes."""

    formulation: PlacedFormulation

    @property
    def places_near(self) -> bool:
        """Whether the formulation itself finds choices close by that lie on the nodes."""
        return hasattr(self.formulation, "placed_near")

    def plan(self, point: Point, seconds: float | None) -> PlanOrPoint | None:
        """Return the plan of a choice, its nodes included; ``None`` if it was not placed."""
        found = self.packed(rows_of(point), seconds)
        return self.on(point, found) if lies(found) else None

    def on(self, point: Point, found: dict[str, Placement]) -> PlanOrPoint:
        """Return the plan of a choice that was packed."""
        nodes = {gpu_type: placed.nodes for gpu_type, placed in found.items() if placed.nodes is not None}
        return self.formulation.plan_on(rows_of(point), nodes)

    def packed(self, choice: Choice, seconds: float | None) -> dict[str, Placement]:
        """Return where a choice lies on the nodes of every GPU type, or why it cannot."""
        packings = self.formulation.packings(choice)
        found = {name: _packed(packing, seconds) for name, packing in packings.items()}
        nodes = {name: one.nodes for name, one in found.items() if one.nodes is not None}
        if not self.places_near:
            return found
        near = cast(NearPlacingFormulation, self.formulation)
        if len(nodes) == len(found) and not near.moves_few(choice, nodes):
            return {name: replace(one, nodes=None, proven=False) for name, one in found.items()}
        return {name: replace(one, proven=one.proven and not near.narrows) for name, one in found.items()}

    def without(self, choice: Choice, found: dict[str, Placement], *, proven: bool) -> PlacedStructure | None:
        """Return the same without a choice that could not be placed, ``None`` if that is not shown.

        Without `proven` what was not found counts as what is not there: for repair, never for a bound.
        """
        failed = {gpu_type: placed for gpu_type, placed in found.items() if placed.nodes is None}
        tighter = self.formulation
        for gpu_type, placed in failed.items():
            if placed.weights is not None:
                tighter = tighter.bounded(gpu_type, placed.weights)
        if tighter is self.formulation:
            shown = [gpu_type for gpu_type, placed in failed.items() if placed.proven or not proven]
            if not shown:
                return None
            for gpu_type in shown:
                core = failed[gpu_type].core
                kept = choice if core is None else np.where(np.isin(np.arange(choice.size), core), choice, -1)
                tighter = tighter.excluding(gpu_type, kept)
        return PlacedStructure(tighter)

    def sharing(self) -> list[list[int]]:
        """Return all jobs, and by capacity those that may use it."""
        option, capacity = self.model.matrix.nonzero()
        pairs = np.unique(np.column_stack((capacity, self.model.job_of_option()[option])), axis=0)
        ends = np.flatnonzero(np.diff(pairs[:, 0])) + 1
        each = [jobs.tolist() for jobs in np.split(pairs[:, 1], ends) if jobs.size]
        return [[*range(self.model.num_jobs)], *each]

    def chosen_for(self, jobs: NDArray[np.int64], choice: Choice) -> MultipleChoiceKnapsack:
        """Return the menus of some jobs under what all others of a choice leave, without later goals."""
        model, others = self.model, choice.copy()
        others[jobs] = -1
        begins, ends = model.offsets[jobs], model.offsets[jobs + 1]
        rows = np.concatenate([np.arange(*pair) for pair in zip(begins, ends, strict=True)])
        return MultipleChoiceKnapsack.from_arrays(
            model.values[rows],
            model.uses_of(rows),
            np.concatenate(([0], np.cumsum(ends - begins))),
            model.capacities - model.used(others),
            model.required[jobs],
            model.sense,
        )

    def placeable(self, point: Point | None, call: Call) -> Point | None:
        """Repair a choice until it can be placed on nodes; ``None`` where no repair achieves that."""
        if self.places_near and point is not None:
            kept = repaired(self.formulation.provable().model, rows_of(point))
            formulation = cast(NearPlacingFormulation, self.formulation)
            return None if kept is None else formulation.placed_near(kept, call.is_late)
        structure, near = self, None if point is None else repaired(self.model, rows_of(point))
        for _ in range(_MOST_REPAIRS):
            if near is None:
                return None
            found = structure.packed(near, call.seconds_left)
            if lies(found):
                return near
            tighter = structure.without(near, found, proven=False)
            if tighter is None or call.is_late():
                return None
            structure, near = tighter, repaired(tighter.model, near)
        return None

    def by_patterns(
        self, call: Call, known: Start
    ) -> tuple[PlacedStructure, Start, Callable[[], Point | None] | None]:
        """Return the same under weights of pods, what is known there, and what finds choices.

        Each can be placed, and the second one takes its time to be better; ``None`` where there are none.
        """
        near = cast(NearPlacingFormulation, self.formulation)
        menus = near.pod_menus() if self.places_near else None
        if menus is None:
            return self, known, None
        from apportion.solvers.packing.patterns import relaxed, rounded

        def begin() -> Mapping[int, tuple[int, ...]]:
            before = self.placeable(known.point, call)
            return {} if before is None else near.lying(rows_of(before))

        left = call.seconds_left
        try:
            with released():
                found = relaxed(menus, None if left is None else _PATTERNS * left)
        except KeyboardInterrupt:  # remembered by whoever deferred it
            return self, known, None
        if found is None or not found.within:
            return self, known, None
        seconds = None if left is None else _ROUNDED * left
        plans = rounded(menus, found, seconds, near.keeps, begin, gap=call.options.gap)
        other, multipliers = near.weighted(found.weights, found.prices)

        def next_one() -> Point | None:
            try:
                with released():
                    return other.placed_on(*next(plans))
            except KeyboardInterrupt:
                return None

        return PlacedStructure(other), Start(known.point, hint=multipliers), next_one


def lies(found: Mapping[str, Placement]) -> bool:
    """Return whether everything that was packed lies on nodes."""
    return all(placed.nodes is not None for placed in found.values())


def chosen_on_nodes(
    call: Call,
    structure: PlacedStructure,
    known: Start,
    ask: Callable[[CompiledModel, Start, float | None], Attempt],
) -> Attempt:
    """Return the backend's answer, asked again with tighter models until its choice can be placed.

    Most models that are decided at all are from any plan, in a part of the time that a better one takes to
    find: it is looked for where a brief search from a first plan leaves the model open.

    Parameters
    ----------
    call
        The call; it takes a note where the best choice found could not be placed.
    structure
        The menus; those of the answer have the capacities only that a certificate can name.
    known
        What is known before; its point need not lie on the nodes.
    ask
        Asks the backend about a structured model, for so many seconds at most.
    """
    structure, known, next_plan = structure.by_patterns(call, known)
    search = _PlacedSearch(call, ask, structure, structure.placeable(known.point, call), known.hint)
    if next_plan is not None:
        search.offer(next_plan())
    if next_plan is not None and not call.options.deterministic:
        left = call.seconds_left
        if (found := search.run(_BRIEF_S if left is None else _BRIEFLY * left)) is not None:
            return found
        if not search.is_interrupted:
            search.offer(next_plan())
    if (found := None if search.is_interrupted else search.run()) is not None:
        return found
    if not search.is_interrupted:
        search.improve()
    return search.open_answer()


class _PlacedSearch:
    """Models that become tighter until a choice of theirs can be placed, and the best that was placed."""

    def __init__(
        self,
        call: Call,
        ask: Callable[[CompiledModel, Start, float | None], Attempt],
        structure: PlacedStructure,
        best: Point | None,
        prices: Multipliers | None,
    ) -> None:
        self._call, self._ask, self._structure = call, ask, structure
        self._best, self._prices = best, prices
        self._outcome: Outcome | None = None
        self._is_unplaced = self._is_late = False

    @property
    def is_interrupted(self) -> bool:
        """Whether the last search was interrupted."""
        return self._outcome is not None and self._outcome.termination is Termination.INTERRUPTED

    def offer(self, point: Point | None) -> None:
        """Keep a choice that lies on nodes if it is the best one."""
        self._best = better(self._structure, self._call.maximizes, self._best, point)

    def run(self, seconds: float | None = None) -> Attempt | None:
        """Return the answer, ``None`` where it stays open in the time."""
        call = self._call if seconds is None else self._call.within(seconds)
        self._is_unplaced = False
        for round_ in range(_MOST_ROUNDS + 1):
            structure = self._structure
            left = None if seconds is None else call.seconds_left
            asked = self._ask(structure, Start(self._best, hint=self._prices), left)
            self._prices = asked.known.hint
            if asked.known.point is not self._best:  # a greedy one, before a general solver
                self.offer(structure.placeable(asked.known.point, call))
            self._outcome = outcome = _sharper(call, self._outcome, asked.outcome)
            if asked.point is None and outcome.termination is not Termination.INFEASIBLE:
                return None
            if asked.point is None or not structure.check(asked.point).feasible:
                return self._certifiable(outcome, asked.point)
            choice = rows_of(asked.point)
            if structure.places_near and outcome.termination not in DECIDED:
                # a tighter model would be left as open: the time goes into a choice near this one
                self.offer(structure.placeable(choice, call))
                return None
            left = call.seconds_left
            found = structure.packed(choice, None if left is None else _PACKED * left)
            self._is_late = left is not None and (call.seconds_left or 0.0) <= (1.0 - _PACKED) * left
            if lies(found):
                placed = self._certifiable(outcome, choice, structure.on(choice, found))
                return replace(placed, goals=asked.goals)
            tighter = structure.without(choice, found, proven=True)
            near = (structure if tighter is None else tighter).placeable(choice, call)
            if near is None and tighter is None:
                left = call.seconds_left
                part = call if left is None or self._best is None else call.within(_AGAIN * left)
                near = self._chosen_again(structure, choice, found, part)
            self.offer(near)
            if tighter is None or round_ == _MOST_ROUNDS or self.is_interrupted or call.is_late():
                self._is_unplaced = True
                return None
            self._prices, self._structure = _carried(self._prices, structure, tighter), tighter
        return None

    def _chosen_again(
        self, structure: PlacedStructure, choice: Choice, found: dict[str, Placement], call: Call
    ) -> Point | None:
        """Return the best choice without what found no room, as often as that is placed nowhere either.

        Nothing shows that it has none: what is found so is a plan, and says nothing of a bound.
        """
        for _ in range(_MOST_REPAIRS):
            narrower = structure.without(choice, found, proven=False)
            if narrower is None or call.is_late():
                return None
            asked = self._ask(narrower, Start(None), call.seconds_left)
            if asked.point is None or asked.outcome.termination is Termination.INTERRUPTED:
                return None
            structure, choice, left = narrower, rows_of(asked.point), call.seconds_left
            found = structure.packed(choice, None if left is None else _AGAIN * left)
            if lies(found):
                return choice
        return None

    def improve(self) -> None:
        """Choose anew for some jobs at a time, all others as they are, while the time and the gains last."""
        call, structure, rng, failed = self._call, self._structure, Random(0), 0
        if self._best is None or call.is_late() or call.options.work_limit is not None:
            return
        sharing = structure.sharing()
        while self._best is not None and failed < _MOST_FAILED and not call.is_late():
            best, left = rows_of(self._best), call.seconds_left
            among = rng.choice(sharing)
            jobs = np.array(sorted(rng.sample(among, min(len(among), _FREED))), np.int64)
            seconds = _BRIEF_S if left is None else _BRIEFLY * left
            part = structure.chosen_for(jobs, best)
            asked = self._ask(CompiledKnapsack(BareMenus(part)), Start(None), seconds)
            failed += 1
            if asked.outcome.termination is Termination.INTERRUPTED:
                return
            if asked.point is None:
                continue
            chosen, choice = rows_of(asked.point), best.copy()
            choice[jobs] = np.where(
                chosen >= 0, chosen + (structure.model.offsets[jobs] - part.offsets[:-1]), -1
            )
            if better(structure, call.maximizes, best, choice) is best:
                continue
            found = structure.packed(choice, None if left is None else _AGAIN * left)
            if lies(found):
                self._best, failed = choice, 0

    def open_answer(self) -> Attempt:
        """Return what is known where no choice is both the best one and placed."""
        call, outcome = self._call, self._outcome
        assert outcome is not None
        if self._is_unplaced:
            call.log.note("the best choice found cannot be placed on the nodes: one near it was placed")
        ended = outcome.termination
        if ended in (Termination.OPTIMAL, Termination.GAP_REACHED):
            late = self._is_late or call.is_late()
            ended = Termination.TIME_LIMIT if late else Termination.NODE_LIMIT
        source = None if outcome.bound is None else "solver"
        return self._certifiable(replace(outcome, termination=ended, point=None, bound_source=source), None)

    def _certifiable(self, outcome: Outcome, point: Point | None, plan: PlanOrPoint | None = None) -> Attempt:
        """Drop the capacities that no certificate can name from the structure and the multipliers."""
        provable = PlacedStructure(self._structure.formulation.provable())
        kept = provable.model.num_capacities
        known = Start(self._best, hint=None if self._prices is None else self._prices[:kept])
        if outcome.multipliers is not None:
            named = np.asarray(outcome.multipliers)[:kept] if kept else None
            outcome = replace(outcome, multipliers=named)
        return Attempt(outcome, provable, known, point, plan)


def _sharper(call: Call, before: Outcome | None, now: Outcome) -> Outcome:
    """Return an answer with the bound of an earlier one where that is better, which had more time."""
    if before is None or before.bound is None or now.termination is Termination.INFEASIBLE:
        return now
    worse = now.bound is None or (now.bound > before.bound if call.maximizes else now.bound < before.bound)
    if not worse:
        return now
    return replace(now, bound=before.bound, bound_source=before.bound_source, multipliers=before.multipliers)


def _packed(packing: Packing, seconds: float | None) -> Placement:
    if isinstance(packing, MachinePacking):
        from apportion.solvers.packing.machines import pack_machines

        return pack_machines(packing)
    if isinstance(packing, PodPacking):
        from apportion.solvers.packing.pods import pack_pods

        return pack_pods(packing, seconds)
    if isinstance(packing, FormulatedPacking):
        return _packed_as_formulated(packing, seconds)
    from apportion.solvers.packing.few_moves import pack

    return pack(packing, seconds)


def _packed_as_formulated(packing: FormulatedPacking, seconds: float | None) -> Placement:
    """Return the nodes of jobs in a plan; where there is none, jobs that have none together."""
    from apportion.solvers.packing.few_moves import Placement

    began = perf_counter()
    until, soon = (math.inf if seconds is None else began + part * seconds for part in (1.0, _JOB_BY_JOB))
    plan, missing = packing.job_by_job(lambda: perf_counter() > soon)
    if plan is None:
        formulation = packing.formulation(packing.jobs)
        if formulation is None:
            return Placement(None, proven=False, core=missing or None)
        plan = _placed_plan(formulation, until)
    if plan is not None and plan is not False:
        return Placement([*map(tuple, packing.nodes(plan))], proven=False)
    core = list(packing.jobs) if plan is False else list(missing or packing.jobs)
    for job in packing.jobs if plan is False and packing.parts else ():
        fewer = [one for one in core if one != job]
        if perf_counter() < until and _placed_plan(packing.formulation(fewer), until) is False:
            core = fewer
    return Placement(None, plan is False, core=tuple(core) if packing.parts else None)


def _placed_plan(formulation: KnapsackFormulation, until: float) -> PlanOrPoint | Literal[False] | None:
    """Return any plan of a formulation; false where there is none, ``None`` where that is not known."""
    from apportion.solvers.exact import solve

    placed = hasattr(formulation, "packings")
    for _ in range(_MOST_REPAIRS):
        left = None if until == math.inf else until - perf_counter()
        if left is not None and left <= 0:
            return None
        found = solve(formulation.model, SolveOptions(time_limit=left), Start())
        if found.point is None:
            return False if found.termination is Termination.INFEASIBLE else None
        if not placed:
            return formulation.plan(rows_of(found.point))
        structure = PlacedStructure(cast(PlacedFormulation, formulation))
        there = structure.packed(rows_of(found.point), left)
        if lies(there):
            return structure.on(found.point, there)
        tighter = structure.without(rows_of(found.point), there, proven=True)
        if tighter is None:
            return None
        formulation = tighter.formulation
    return None


def _carried(
    prices: Multipliers | None, structure: PlacedStructure, tighter: PlacedStructure
) -> Multipliers | None:
    """Return the multipliers for a tighter model: those of the same capacities, 0 for a new one."""
    if prices is None:
        return None
    named = dict(zip(structure.capacity_names, prices.tolist(), strict=True))
    return np.array([named.get(name, 0.0) for name in tighter.capacity_names])

"""Plans on nodes: place what was chosen, and where that fails tighten the model and choose again.

The model of a `PlacedFormulation` says what is chosen, not where it lies, and so is a
relaxation. Its choice goes to the packing engine; one that cannot be placed comes back as a capacity that it
exceeds and no plan that can be placed does. Every model on the way is a relaxation, so the last bound is the
instance's; every capacity excludes at least the choice it came from, of which there are finitely many. This
lives with the solve call because only here formulation and solvers meet, and so it serves every backend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.formulations.protocol import Packing, PlacedFormulation
from apportion.models.machine_packing import MachinePacking
from apportion.options import Choice, Multipliers, Point, Start
from apportion.outcome import Outcome, Termination
from apportion.solving.asking import Asked
from apportion.solving.call import Call
from apportion.solving.choice_repair import repaired
from apportion.solving.knapsack import KnapsackStructure, rows_of
from apportion.solving.structure import PlanOrPoint, Structure, better

if TYPE_CHECKING:
    from apportion.solvers.packing.few_moves import Placement

__all__ = ["PlacedStructure", "chosen_on_nodes"]

_MOST_ROUNDS = 500
_MOST_REPAIRS = 100


@dataclass(frozen=True, slots=True)
class PlacedStructure(KnapsackStructure):
    """Menus whose choices must also lie on nodes."""

    formulation: PlacedFormulation

    def plan(self, point: Point, seconds: float | None) -> PlanOrPoint | None:
        """Return the plan of a choice, its nodes included; ``None`` if it was not placed."""
        found = self.packed(rows_of(point), seconds)
        return None if any(placed.nodes is None for placed in found.values()) else self.on(point, found)

    def on(self, point: Point, found: dict[str, Placement]) -> PlanOrPoint:
        """Return the plan of a choice that was packed."""
        nodes = {gpu_type: placed.nodes for gpu_type, placed in found.items() if placed.nodes is not None}
        return self.formulation.plan_on(rows_of(point), nodes)

    def packed(self, choice: Choice, seconds: float | None) -> dict[str, Placement]:
        """Return where a choice lies on the nodes of every GPU type, or why it cannot."""
        packings = self.formulation.packings(choice)
        return {name: _packed(packing, seconds) for name, packing in packings.items()}

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
            core = failed[shown[0]].core
            kept = choice if core is None else np.where(np.isin(np.arange(choice.size), core), choice, -1)
            tighter = tighter.excluding(shown[0], kept)
        return PlacedStructure(tighter)

    def placeable(self, point: Point | None, call: Call) -> Point | None:
        """Repair a choice until it can be placed on nodes; ``None`` where no repair achieves that."""
        structure, near = self, None if point is None else repaired(self.model, rows_of(point))
        for _ in range(_MOST_REPAIRS):
            if near is None:
                return None
            found = structure.packed(near, call.seconds_left)
            if all(placed.nodes is not None for placed in found.values()):
                return near
            tighter = structure.without(near, found, proven=False)
            if tighter is None:
                return None
            structure, near = tighter, repaired(tighter.model, near)
        return None


def chosen_on_nodes(
    call: Call, structure: PlacedStructure, known: Start, ask: Callable[[Structure, Start], Asked]
) -> Asked:
    """Return the backend's answer, asked again with tighter models until its choice can be placed.

    Parameters
    ----------
    call
        The call; it takes a note where the best choice found could not be placed.
    structure
        The menus; those of the answer have the capacities only that a certificate can name.
    known
        What is known before; its point need not lie on the nodes.
    ask
        Asks the backend about a structured model.
    """
    best, prices, bound = structure.placeable(known.point, call), known.hint, None
    for round_ in range(_MOST_ROUNDS + 1):
        asked = ask(structure, Start(best, hint=prices))
        prices = asked.known.hint
        if asked.known.point is not best:  # a greedy one, before a general solver
            near = structure.placeable(asked.known.point, call)
            best = better(structure, call.maximizes, best, near)
        outcome = asked.outcome
        bound = bound if outcome.bound is None else outcome.bound
        if asked.point is None and outcome.termination is not Termination.INFEASIBLE:
            break
        if asked.point is None or not structure.check(asked.point).feasible:
            return _certifiable(structure, outcome, asked.point, Start(best, hint=prices))
        choice = rows_of(asked.point)
        found = structure.packed(choice, call.seconds_left)
        if all(placed.nodes is not None for placed in found.values()):
            plan = structure.on(choice, found)
            return _certifiable(structure, outcome, choice, Start(best, hint=prices), plan)
        tighter = structure.without(choice, found, proven=True)
        near = (structure if tighter is None else tighter).placeable(choice, call)
        best = better(structure, call.maximizes, best, near)
        stopped = outcome.termination is Termination.INTERRUPTED
        if tighter is None or round_ == _MOST_ROUNDS or stopped or call.is_late():
            call.log.note("the best choice found cannot be placed on the nodes: one near it was placed")
            break
        prices, structure = _carried(prices, structure, tighter), tighter
    ended = outcome.termination
    if ended in (Termination.OPTIMAL, Termination.GAP_REACHED):
        ended = Termination.TIME_LIMIT if call.is_late() else Termination.NODE_LIMIT
    source = None if bound is None else "solver"
    outcome = replace(outcome, termination=ended, point=None, bound=bound, bound_source=source)
    return _certifiable(structure, outcome, None, Start(best, hint=prices))


def _packed(packing: Packing, seconds: float | None) -> Placement:
    if isinstance(packing, MachinePacking):
        from apportion.solvers.packing.machines import pack_machines

        return pack_machines(packing)
    from apportion.solvers.packing.few_moves import pack

    return pack(packing, seconds)


def _carried(
    prices: Multipliers | None, structure: PlacedStructure, tighter: PlacedStructure
) -> Multipliers | None:
    """Return the multipliers for a tighter model: those of the same capacities, 0 for a new one."""
    if prices is None:
        return None
    named = dict(zip(structure.capacity_names, prices.tolist(), strict=True))
    return np.array([named.get(name, 0.0) for name in tighter.capacity_names])


def _certifiable(
    structure: PlacedStructure,
    outcome: Outcome,
    point: Point | None,
    known: Start,
    plan: PlanOrPoint | None = None,
) -> Asked:
    """Drop the capacities that no certificate can name from the structure and the multipliers."""
    provable = PlacedStructure(structure.formulation.provable())
    kept = provable.model.num_capacities
    if known.hint is not None:
        known = replace(known, hint=known.hint[:kept])
    if outcome.multipliers is not None:
        outcome = replace(outcome, multipliers=np.asarray(outcome.multipliers)[:kept])
    return Asked(outcome, point, provable, known, plan)

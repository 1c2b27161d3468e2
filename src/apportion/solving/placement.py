"""Plans on nodes: place what was chosen, and where that fails tighten the model and choose again.

The model of a `PlacedFormulation` says what is chosen, not where it lies, and so is a
relaxation. Its choice goes to the packing engine; one that cannot be placed comes back as a capacity that it
exceeds and no plan that can be placed does. Every model on the way is a relaxation, so the last bound is the
instance's; every capacity excludes at least the choice it came from, of which there are finitely many. This
lives with the solve call because only here formulation and solvers meet, and so it serves every backend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.outcome import Outcome, Termination
from apportion.solving.run import Run
from apportion.solving.structure import repaired

__all__ = ["chosen_on_nodes", "plan_of"]

_MOST_ROUNDS = 500
_MOST_REPAIRS = 100

Choice = NDArray[np.int64]


def chosen_on_nodes(
    run: Run, answer: Callable[[], tuple[Outcome, Choice | None]]
) -> tuple[Outcome, Choice | None]:
    """Return the backend's answer, asked again with tighter models until its choice can be placed.

    Parameters
    ----------
    run
        Its structure and incumbent change on the way; its capacities end as certificates can name them.
    answer
        Asks the backend about ``run.model``.
    """
    if not hasattr(run.structure, "packings"):
        return answer()
    known = None if run.incumbent is None else _placeable(run, run.structure, run.incumbent)
    bound = None
    for round_ in range(_MOST_ROUNDS + 1):
        run.incumbent = known
        outcome, choice = answer()
        if run.incumbent is not None and run.incumbent is not known:  # a greedy one, before a general solver
            known = _better(run, known, _placeable(run, run.structure, run.incumbent))
        run.incumbent = known
        bound = bound if outcome.bound is None else outcome.bound
        if choice is None or not run.model.check(choice).feasible:
            if choice is not None or outcome.termination is Termination.INFEASIBLE:
                return _certifiable(run, outcome), choice
            break
        choice = np.asarray(choice, dtype=np.int64)
        tighter = _tighter(run, run.structure, choice, proven=True)
        if tighter is run.structure:
            return _certifiable(run, outcome), choice
        near = _placeable(run, run.structure if tighter is None else tighter, choice)
        known = _better(run, known, near)
        if tighter is None or round_ == _MOST_ROUNDS or _is_late(run):
            run.notes.append("the best choice found cannot be placed on the nodes: one near it was placed")
            break
        _tighten(run, tighter)
    run.incumbent = known
    ended = outcome.termination
    if ended in (Termination.OPTIMAL, Termination.GAP_REACHED):
        ended = Termination.TIME_LIMIT if _is_late(run) else Termination.NODE_LIMIT
    source = None if bound is None else "solver"
    outcome = replace(outcome, termination=ended, point=None, bound=bound, bound_source=source)
    return _certifiable(run, outcome), None


def plan_of(run: Run, choice: Choice) -> Any:
    """Return the plan of a choice, its nodes included; ``None`` if it was not placed."""
    if not hasattr(run.structure, "packings"):
        return run.structure.plan(choice)
    if run.placed is None or run.placed[0] is not choice:
        run.placed = None
        _tighter(run, run.structure, choice, proven=True)
    return None if run.placed is None else run.placed[1]


def _tighten(run: Run, tighter: Any) -> None:
    """Go on with a tighter structure; multipliers keep their capacities."""
    if run.multipliers is not None:
        prices = dict(zip(run.model.capacity_names, run.multipliers.tolist(), strict=True))
        names = tighter.model.capacity_names
        run.multipliers = np.array([prices.get(name, 0.0) for name in names])
    run.structure = tighter


def _tighter(run: Run, structure: Any, choice: Choice, proven: bool) -> Any:
    """Return the structure itself if the choice can be placed, a tighter one if not, ``None`` if unknown.

    Without `proven` what was not found counts as what is not there: for repair, never for a bound.
    """
    pack = _pack()
    placed, failed = {}, []
    for gpu_type, packing in structure.packings(choice).items():
        found = pack(packing, run.remaining().time_limit)
        if found.nodes is not None:
            placed[gpu_type] = found.nodes
        else:
            failed.append((gpu_type, found))
    if not failed:
        run.placed = (choice, structure.plan_on(choice, placed))
        return structure
    weighed = [(gpu_type, found.weights) for gpu_type, found in failed if found.weights is not None]
    tighter = structure
    for gpu_type, weights in weighed:
        tighter = tighter.bounded(gpu_type, weights)
    if tighter is not structure:
        return tighter
    shown = [gpu_type for gpu_type, found in failed if found.proven or not proven]
    return structure.excluding(shown[0], choice) if shown else None


def _pack() -> Callable[..., Any]:
    from apportion.solvers.packing.engine import pack

    return pack


def _placeable(run: Run, structure: Any, choice: Choice) -> Choice | None:
    """Repair a choice until it can be placed; ``None`` if that ends before."""
    near = repaired(structure.model, choice)
    for _ in range(_MOST_REPAIRS):
        if near is None:
            return None
        tighter = _tighter(run, structure, near, proven=False)
        if tighter is structure:
            return near
        structure, near = tighter, repaired(tighter.model, near)
    return None


def _better(run: Run, known: Choice | None, near: Choice | None) -> Choice | None:
    if known is None or near is None:
        return near if known is None else known
    sign = 1.0 if run.kind.maximizes(run.instance) else -1.0
    gains = sign * run.model.objective(near) > sign * run.model.objective(known)
    return near if gains else known


def _is_late(run: Run) -> bool:
    left = run.remaining().time_limit
    return left is not None and left <= 2e-3


def _certifiable(run: Run, outcome: Outcome) -> Outcome:
    """Drop the capacities that no certificate can name from the structure and the multipliers."""
    structure: Any = run.structure
    run.structure = structure.provable()
    kept = run.model.num_capacities
    if run.multipliers is not None:
        run.multipliers = run.multipliers[:kept]
    prices = outcome.multipliers
    return outcome if prices is None else replace(outcome, multipliers=np.asarray(prices)[:kept])

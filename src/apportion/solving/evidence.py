"""Give a solution its proof: write one for its claim, and keep it only if the checker accepts it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance
from apportion.core.outcome import SearchTree, Termination
from apportion.core.solution import Solution
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.proofs import Verdict
from apportion.proofs.bare_models import columns, relaxes
from apportion.proofs.certificate import MalformedProof, Proof
from apportion.proofs.verifying import LARGEST_LOSSES, accepted
from apportion.proofs.walking import Limits
from apportion.solving.call import Subject, kind_of_any
from apportion.solving.judge import usable
from apportion.solving.proving import draft_of

__all__ = ["walked_briefly", "with_proof"]


_LEAST_SECONDS = 0.2
_QUICK_STATES = 50_000
"""States of a walk that is tried before more prices are looked for."""
_BRIEF_OPTIONS, _BRIEF_STATES, _BRIEF_CELLS = 20_000, 20_000, 500_000
"""Options, states of a walk, and under a limit cells of uses, up to which it is tried without being asked."""


def with_proof(solution: Solution, seconds: float | None) -> Solution:
    """Return a solution with a proof that the checker has accepted, or with a note why there is none.

    Parameters
    ----------
    solution
        Its termination is what is proved: ``optimal``, ``gap_reached`` (its bound) or ``infeasible``.
    seconds
        Wall-clock seconds that are left; ``None`` for no clock, then the states of the walk are limited
        alone.
    """
    began = time.perf_counter()
    if solution.evidence is None:
        return _noted(solution, f"no proof was written: {solution.termination.value} claims nothing to prove")
    limits = Limits() if seconds is None else Limits(seconds=max(seconds, _LEAST_SECONDS))
    try:
        found, verified = _first_accepted(solution, limits)
    except MemoryError:  # the plan is found and checked, and is not to go with it
        found, verified = "memory ran out", 0.0
    spent = time.perf_counter() - began
    times = {**solution.times, "proof": spent - verified, "verify": verified}
    times["total"] = times.get("total", 0.0) + spent
    if isinstance(found, Proof):
        return replace(solution, times=times, proof=found)
    return _noted(replace(solution, times=times), f"no proof was found: {found}")


def walked_briefly(solution: Solution, model: MultipleChoiceKnapsack, seconds: float | None) -> bool:
    """Return whether a short walk at prices of the relaxation shows what a general solver's word says."""
    if model.num_options > _BRIEF_OPTIONS or relaxes(solution.instance):  # placed shapes are too many to list
        return False
    cells = model.num_options * model.num_capacities
    if seconds is not None and cells > _BRIEF_CELLS:  # half a second to read
        return False
    limits = Limits(states=_BRIEF_STATES, seconds=seconds)
    try:
        given = columns(solution.instance)
        maximizes = kind_of_any(solution.instance).maximizes(solution.instance)
        draft = draft_of(
            given,
            _target(solution),
            maximizes=maximizes,
            multipliers=_multipliers(solution),
            exactly=False,
            seconds=seconds,
        )
        return accepted(solution.instance, draft, limits, given)[1].proved
    except (InvalidInstance, MalformedProof, MemoryError):
        return False


def _target(solution: Solution) -> Fraction | None:
    """Return the objective that nothing may beat, ``None`` where there is no plan at all."""
    if solution.termination is Termination.INFEASIBLE:
        return None
    if solution.termination is Termination.GAP_REACHED and solution.bound is not None:
        return Fraction(solution.bound)
    plan = cast("Mapping[str, object]", solution.plan)  # of bare menus the rows, which their kind takes
    return kind_of_any(solution.instance).exact_objective(solution.instance, plan)


def _first_accepted(solution: Solution, limits: Limits) -> tuple[Proof | str, float]:
    """Return the first proof that is accepted, or why there is none, and the seconds of checking.

    Tries, in this order: stored multipliers, a short tree walk, a full one, one that proves the bound within
    the tolerance. Where the search has handed over its tree, its multipliers come first and the short walk is
    left out.
    """
    instance: Subject = solution.instance
    begun = time.perf_counter()
    verdict: Verdict | None = None
    tree = None if solution.outcome is None else solution.outcome.tree
    quick = limits if tree is not None else Limits(_QUICK_STATES, limits.kept, limits.seconds)
    checking = 0.0

    def left() -> float | None:
        return None if limits.seconds is None else max(0.0, limits.seconds - (time.perf_counter() - begun))

    try:
        given = columns(instance, largest=LARGEST_LOSSES)
    except InvalidInstance as error:  # sparse uses of which there are too many for a check
        return str(error), checking
    target = _target(solution)
    quickest: tuple[bool, bool, SearchTree | None] = (True, tree is not None, tree)
    for exactly, thorough, searched in (quickest, (True, True, None), (False, True, None)):
        if verdict is not None and left() == 0.0:
            break
        try:
            proof = draft_of(
                given,
                target,
                maximizes=kind_of_any(instance).maximizes(instance),
                multipliers=_multipliers(solution),
                exactly=exactly,
                thorough=thorough,
                tree=searched,
                row_multipliers=None if solution.outcome is None else solution.outcome.row_multipliers,
                seconds=left(),
            )
        except MalformedProof as error:
            return str(error), checking
        began = time.perf_counter()
        walk = replace(limits if thorough else quick, seconds=left())
        proof, verdict = accepted(instance, proof, walk, given)
        checking += time.perf_counter() - began
        if verdict.proved:
            return proof, checking
        if thorough and searched is None and (verdict.status == "incomplete" or target is None):
            break
    assert verdict is not None
    return f"{verdict.status}, {verdict.why}", checking


def _multipliers(solution: Solution) -> Mapping[str, float] | NDArray[np.float64] | None:
    """Return those of the certificate, or the solver's where capacities have no names to give them by."""
    named, model, outcome = solution.certificate.multipliers, solution.instance, solution.outcome
    if named is not None or not isinstance(model, MultipleChoiceKnapsack) or outcome is None:
        return named
    return outcome.multipliers if usable(outcome.multipliers, model.num_capacities) else None


def _noted(solution: Solution, note: str) -> Solution:
    return replace(solution, notes=(*solution.notes, note))

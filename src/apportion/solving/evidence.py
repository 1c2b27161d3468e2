"""Give a solution its proof: write one for its claim, and keep it only if the checker accepts it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import cast

from apportion.models.assignment import Assignment
from apportion.outcome import Termination
from apportion.proofs import Proof, Verdict, verify
from apportion.proofs.certificate import MalformedProof
from apportion.proofs.walking import Limits
from apportion.solution import Solution
from apportion.solving.proving import proof_of
from apportion.solving.subject import Subject, kind_of_any

__all__ = ["with_proof"]

_LEAST_SECONDS = 0.2
_QUICK_STATES = 50_000
"""States of a walk that is tried before more prices are looked for."""


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
    if isinstance(solution.instance, Assignment):
        return _noted(solution, "there are no proofs about bare assignments")
    began = time.perf_counter()
    if solution.evidence is None:
        return _noted(solution, f"no proof was written: {solution.termination.value} claims nothing to prove")
    limits = Limits() if seconds is None else Limits(seconds=max(seconds, _LEAST_SECONDS))
    found = _shown(solution, _target(solution), limits)
    times = {**solution.times, "proof": time.perf_counter() - began}
    times["total"] = times.get("total", 0.0) + times["proof"]
    solution = replace(solution, times=times)
    if isinstance(found, Proof):
        return replace(solution, proof=found)
    return _noted(solution, f"no proof was found: {found}")


def _target(solution: Solution) -> Fraction | None:
    """Return the objective that nothing may beat, ``None`` where there is no plan at all."""
    if solution.termination is Termination.INFEASIBLE:
        return None
    if solution.termination is Termination.GAP_REACHED and solution.bound is not None:
        return Fraction(solution.bound)
    plan = cast("Mapping[str, object]", solution.plan)  # of bare menus the rows, which their kind takes
    return kind_of_any(solution.instance).exact_objective(solution.instance, plan)


def _shown(solution: Solution, target: Fraction | None, limits: Limits) -> Proof | str:
    """Return the first proof that is accepted: a short walk, a thorough one, one within the tolerance."""
    instance: Subject = solution.instance
    verdict: Verdict | None = None
    quick = replace(limits, states=min(limits.states, _QUICK_STATES))
    for exactly, thorough in ((True, False), (True, True), (False, True)):
        try:
            proof = proof_of(
                instance,
                target,
                maximizes=kind_of_any(instance).maximizes(instance),
                multipliers=solution.certificate.multipliers,
                exactly=exactly,
                thorough=thorough,
                tree=None if solution.outcome is None else solution.outcome.tree,
            )
        except MalformedProof as error:
            return str(error)
        verdict = verify(instance, proof, limits if thorough else quick)
        if verdict.proved:
            return proof
        if (verdict.status == "incomplete" and thorough) or (verdict.status == "refused" and target is None):
            break
    assert verdict is not None
    return f"{verdict.status}, {verdict.why}"


def _noted(solution: Solution, note: str) -> Solution:
    return replace(solution, notes=(*solution.notes, note))

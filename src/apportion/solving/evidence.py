"""Give a solution its proof: write one for its claim, and keep it only if the checker accepts it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.outcome import SearchTree, Termination
from apportion.proofs import Proof, Verdict
from apportion.proofs.certificate import MalformedProof
from apportion.proofs.verifying import accepted
from apportion.proofs.walking import Limits
from apportion.solution import Solution
from apportion.solving.certify import usable
from apportion.solving.makespan_in_brief import makespan_in_brief
from apportion.solving.proof_in_brief import proof_in_brief
from apportion.solving.proving import draft_of
from apportion.solving.subject import Subject, kind_of_any

__all__ = ["with_proof"]

_LEAST_SECONDS = 0.2
_QUICK_STATES = 50_000
"""States of a walk that is tried before more prices are looked for."""


def with_proof(solution: Solution, seconds: float | None, model: object = None) -> Solution:
    """Return a solution with a proof that the checker has accepted, or with a note why there is none.

    Parameters
    ----------
    solution
        Its termination is what is proved: ``optimal``, ``gap_reached`` (its bound) or ``infeasible``.
    seconds
        Wall-clock seconds that are left; ``None`` for no clock, then the states of the walk are limited
        alone.
    model
        What has been searched, job for job, if it is at hand: where it is menus, a first proof needs no more.
    """
    began = time.perf_counter()
    if solution.evidence is None:
        return _noted(solution, f"no proof was written: {solution.termination.value} claims nothing to prove")
    limits = Limits() if seconds is None else Limits(seconds=max(seconds, _LEAST_SECONDS))
    found, verified = _shown(solution, limits, model)
    spent = time.perf_counter() - began
    times = {**solution.times, "proof": spent - verified, "verify": verified}
    times["total"] = times.get("total", 0.0) + spent
    if isinstance(found, Proof):
        return replace(solution, times=times, proof=found)
    return _noted(replace(solution, times=times), f"no proof was found: {found}")


def _target(solution: Solution) -> Fraction | None:
    """Return the objective that nothing may beat, ``None`` where there is no plan at all."""
    if solution.termination is Termination.INFEASIBLE:
        return None
    if solution.termination is Termination.GAP_REACHED and solution.bound is not None:
        return Fraction(solution.bound)
    plan = cast("Mapping[str, object]", solution.plan)  # of bare menus the rows, which their kind takes
    return kind_of_any(solution.instance).exact_objective(solution.instance, plan)


def _shown(solution: Solution, limits: Limits, model: object) -> tuple[Proof | str, float]:
    """Return the first proof that is accepted, or why there is none, and the seconds of checking.

    Tried are one of what is at hand, or a short walk, a thorough one, one within the tolerance; where the
    search has told its tree, its own prices are the thorough ones and at hand, so the short walk is left out.
    """
    instance: Subject = solution.instance
    verdict: Verdict | None = None
    tree = None if solution.outcome is None else solution.outcome.tree
    quick = limits if tree is not None else Limits(_QUICK_STATES, limits.kept, limits.seconds)
    checking = 0.0
    near = solution.bound if solution.termination is Termination.GAP_REACHED else solution.objective
    brief: Proof | None = None
    if near is not None and isinstance(model, MultipleChoiceKnapsack | Assignment):
        brief = _in_brief(solution, model, near, tree)
        if brief is not None:
            began = time.perf_counter()
            brief, verdict = accepted(instance, brief, quick)
            checking += time.perf_counter() - began
            if verdict.proved:
                return brief, checking
    target = _target(solution)
    for exactly, thorough in ((True, False), (True, True), (False, True))[
        tree is not None or brief is not None :
    ]:
        try:
            proof = draft_of(
                instance,
                target,
                maximizes=kind_of_any(instance).maximizes(instance),
                multipliers=_multipliers(solution),
                exactly=exactly,
                thorough=thorough,
                tree=tree,
                row_multipliers=None if solution.outcome is None else solution.outcome.row_multipliers,
            )
        except MalformedProof as error:
            return str(error), checking
        began = time.perf_counter()
        proof, verdict = accepted(instance, proof, limits if thorough else quick)
        checking += time.perf_counter() - began
        if verdict.proved:
            return proof, checking
        if thorough and (verdict.status == "incomplete" or target is None):
            break
    assert verdict is not None
    return f"{verdict.status}, {verdict.why}", checking


def _in_brief(
    solution: Solution,
    model: MultipleChoiceKnapsack | Assignment,
    near: float,
    tree: SearchTree | None,
) -> Proof | None:
    """Return a proof of what is at hand, if that is enough for one."""
    multipliers = _multipliers(solution)
    if isinstance(model, Assignment) and model.goal == "makespan":
        named = multipliers if isinstance(multipliers, Mapping) else {}
        return makespan_in_brief(solution.instance, model, near, named)
    return proof_in_brief(solution.instance, model, near, multipliers, tree)


def _multipliers(solution: Solution) -> Mapping[str, float] | NDArray[np.float64] | None:
    """Return those of the certificate, or the solver's where capacities have no names to give them by."""
    named, model, outcome = solution.certificate.multipliers, solution.instance, solution.outcome
    if named is not None or not isinstance(model, MultipleChoiceKnapsack) or outcome is None:
        return named
    return outcome.multipliers if usable(outcome.multipliers, model.num_capacities) else None


def _noted(solution: Solution, note: str) -> Solution:
    return replace(solution, notes=(*solution.notes, note))

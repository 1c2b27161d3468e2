"""Test a general solver's claim: our own search is run behind it for a share of the time that is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from apportion.gap import meets
from apportion.outcome import Termination
from apportion.solution import Certificate, Solution

__all__ = ["SHARE", "second_opinion"]

SHARE = 0.25
"""Of the time that is left; never more than the solver itself took, or a twentieth of a second."""
_LEAST_SECONDS = 0.05
_TOLERANCE = 1e-6
"""Of the objective: what the general solvers' own tolerances may cost them."""
_CLAIMS = (Termination.OPTIMAL, Termination.INFEASIBLE)


def second_opinion(
    solution: Solution, seconds_left: float, ask: Callable[[float], Solution], *, maximizes: bool
) -> Solution:
    """Return a solution whose claim our own search has confirmed, contradicted or left as it was.

    Agreement raises the evidence to ``by_search``. Where theirs is worse than ours, which is proved best, by
    no more than their own tolerances, ours is returned, with a note. Any other contradiction ends in the
    termination ``error``, names both sides and keeps the better plan; no claimed bound survives it, only the
    verified one.

    Parameters
    ----------
    solution
        What a general solver claims optimal or infeasible.
    seconds_left
        Of the whole call; infinite where nothing limits it.
    ask
        Solves the instance by our own search within so many seconds, beginning with the solver's plan.
    maximizes
        Sense of the instance.
    """
    if solution.termination not in _CLAIMS or solution.evidence != "by_solver":
        return solution
    began = time.perf_counter()
    spent = max(solution.times.get("solve", 0.0), _LEAST_SECONDS)
    other = ask(min(SHARE * seconds_left, spent))
    if other.termination is Termination.INTERRUPTED:
        return replace(solution, termination=Termination.INTERRUPTED)
    judged = _judged(solution, other, maximizes)
    took = time.perf_counter() - began
    total = judged.times.get("total", 0.0) + took
    return replace(judged, times={**judged.times, "second_opinion": took, "total": total})


def _judged(solution: Solution, other: Solution, maximizes: bool) -> Solution:
    first, second = solution.objective, other.objective
    sign = 1.0 if maximizes else -1.0
    ends = other.termination in _CLAIMS
    ours = other.evidence != "by_solver"  # another general solver's word confirms nothing
    if first is None or second is None:
        agree = first is second and ends
        differ = (first is None and second is not None) or (
            second is None and other.termination is Termination.INFEASIBLE and first is not None
        )
    else:
        near = meets(first, second)
        agree, differ = near and ends, not near and (ends or sign * (second - first) > 0)
    if differ and first is not None and second is not None and other.termination is Termination.OPTIMAL:
        worse = sign * (second - first)
        if 0 < worse <= _TOLERANCE * abs(second) and solution.termination is Termination.OPTIMAL:
            return _sharpened(solution, other, worse / abs(second))
    if differ:
        return _contradicted(solution, other, sign)
    if not agree or not ours:
        return solution
    return replace(solution, confirmed=True, certificate=_tighter(solution, other, sign))


def _sharpened(solution: Solution, other: Solution, worse: float) -> Solution:
    note = f"{solution.backend}'s plan was worse by {worse:.2g} of the objective, within its tolerances"
    return replace(
        solution,
        plan=other.plan,
        report=other.report,
        certificate=other.certificate,
        confirmed=True,
        notes=(*solution.notes, f"{note}: {other.backend}'s is returned, which it has proved best"),
    )


def _contradicted(solution: Solution, other: Solution, sign: float) -> Solution:
    sides = [
        f"{one.backend} says {one.termination.value}"
        + ("" if one.objective is None else f" with a plan of {one.objective:.12g}")
        for one in (solution, other)
    ]
    second_is_better = solution.objective is None or (
        other.objective is not None and sign * (other.objective - solution.objective) > 0
    )
    better = other if second_is_better else solution
    certificate = _tighter(solution, other, sign)
    verified = certificate.verified_bound
    return replace(
        solution,
        termination=Termination.ERROR,
        plan=better.plan,
        report=better.report,
        certificate=replace(
            certificate,
            objective=better.objective,
            bound=verified,
            source=None if verified is None else "multipliers",
        ),
        notes=(*solution.notes, f"{'; '.join(sides)}: one of the two is wrong, the better plan is kept"),
    )


def _tighter(solution: Solution, other: Solution, sign: float) -> Certificate:
    """Return the solution's certificate with the tighter of the two verified bounds, and no bound worse."""
    own, given = solution.certificate, other.certificate
    if given.verified_bound is None:
        return own
    if own.verified_bound is not None and sign * (given.verified_bound - own.verified_bound) >= 0:
        return own
    own = replace(own, verified_bound=given.verified_bound, multipliers=given.multipliers)
    if own.bound is None or sign * (given.verified_bound - own.bound) < 0:
        own = replace(own, bound=given.verified_bound, source="multipliers")
    return own

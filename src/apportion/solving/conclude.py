"""Keep the better of the backend's plan and the incumbent, then weigh every claim."""

from __future__ import annotations

from collections.abc import Set

from apportion.options import Multipliers
from apportion.outcome import Termination
from apportion.registry import Backend
from apportion.solution import Certificate, Solution
from apportion.solving.attempt import Attempt, Checked
from apportion.solving.call import Call
from apportion.solving.certify import certified_bound, usable
from apportion.solving.judge import judge

__all__ = ["conclude"]


def conclude(call: Call, backend: Backend, reason: str, tried: Attempt, engines: Set[str]) -> Solution:
    """Keep the better of the backend's plan and the incumbent, then weigh every claim."""
    checked = _better_checked(call, tried)
    multipliers, verified = _verified(call, tried, backend.own_prices)
    named = f"backend {backend.name}"
    if tried.outcome.termination is Termination.ERROR and not any(named in note for note in call.log.notes):
        call.log.note(f"{named}: {tried.outcome.raw_status}")
    termination, claimed = tried.outcome.termination, tried.outcome.bound
    if tried.restricted:
        claimed = None
        if termination in (Termination.OPTIMAL, Termination.GAP_REACHED, Termination.INFEASIBLE):
            termination = Termination.SOLUTION_LIMIT
            call.log.note("the formulation restricts the instance: its bound proves nothing here")
    if claimed is not None and not tried.exact:  # it is of the model, whose values are rounded
        error = tried.structure.value_error
        claimed += error if call.maximizes else -error
    objective = None if checked is None else checked.objective
    verdict = judge(
        maximizes=call.maximizes,
        objective=objective,
        claimed=termination,
        claimed_bound=claimed,
        claimed_source=tried.outcome.bound_source,
        verified_bound=verified,
        asked_gap=call.options.gap,
    )
    call.log.lap("check")
    priced = (
        None
        if multipliers is None
        else dict(zip(tried.structure.capacity_names, multipliers.tolist(), strict=True))
    )
    return Solution(
        instance=call.instance,
        backend=backend.name,
        reason=reason,
        termination=verdict.termination,
        plan=None if checked is None else checked.plan,
        report=None if checked is None else checked.report,
        certificate=Certificate(objective, verdict.bound, verdict.source, verified, priced),
        outcome=tried.outcome,
        times={**call.log.times, "total": call.log.elapsed},
        seed=call.options.seed,
        packages=(*backend.packages, *sorted(engines)),
        notes=(*call.log.notes, *verdict.notes),
    )


def _better_checked(call: Call, tried: Attempt) -> Checked | None:
    """Return the backend's plan, or the incumbent's if that is better and passes the check."""
    checked, own = tried.checked, tried.known.point
    found = None if checked is None else checked.objective
    if own is None or (tried.restricted and found is not None):
        return checked  # who asks for a restricted formulation wants its answer
    objective = tried.structure.objective(own)
    if found is not None and (objective <= found if call.maximizes else objective >= found):
        return checked
    plan = tried.structure.plan(own, call.seconds_left)
    report = None if plan is None else call.kind.check(call.instance, plan)
    return Checked(report, plan, own) if report is not None and report.feasible else checked


def _verified(call: Call, tried: Attempt, own_prices: bool) -> tuple[Multipliers | None, float | None]:
    """Return the multipliers with the tightest verified bound, the solver's or our own."""
    best: tuple[Multipliers | None, float | None] = (None, None)
    count = len(tried.structure.capacity_names)
    given, known = tried.outcome.multipliers, tried.known.hint
    optimised = own_prices and usable(given, count) and tried.outcome.bound is not None
    for candidate in (given,) if optimised else (given, known):
        if not usable(candidate, count):
            continue
        bound = certified_bound(call.kind, call.instance, tried.structure, candidate)
        if bound is not None and (
            best[1] is None or (bound < best[1] if call.maximizes else bound > best[1])
        ):
            best = (candidate, bound)
    return best

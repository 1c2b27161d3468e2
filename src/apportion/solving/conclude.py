"""Keep the better of the backend's plan and the incumbent, then weigh every claim."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from apportion import registry
from apportion.outcome import Outcome, Termination
from apportion.solution import Certificate, Solution
from apportion.solving.certify import certified_bound, usable
from apportion.solving.judge import judge
from apportion.solving.placement import plan_of
from apportion.solving.run import Run
from apportion.solving.structure import magnitude

__all__ = ["conclude"]


def conclude(run: Run, chosen: registry.Backend, reason: str, outcome: Outcome) -> Solution:
    """Keep the better of the backend's plan and the incumbent, then weigh every claim."""
    maximizes = run.kind.maximizes(run.instance)
    _prefer_incumbent(run, maximizes)
    multipliers, verified = _verified(run, outcome, maximizes, chosen.name == "exact")
    termination, claimed = outcome.termination, outcome.bound
    if run.restricted:
        claimed = None
        if termination in (Termination.OPTIMAL, Termination.GAP_REACHED, Termination.INFEASIBLE):
            termination = Termination.SOLUTION_LIMIT
            run.notes.append("the formulation restricts the instance: its bound proves nothing here")
    objective = run.report.objective if run.plan is not None and run.report is not None else None
    verdict = judge(
        maximizes=maximizes,
        objective=objective,
        magnitude=_magnitude(run, objective),
        claimed=termination,
        claimed_bound=claimed,
        claimed_source=outcome.bound_source,
        verified_bound=verified,
        asked_gap=run.options.gap,
    )
    run.lap("check")
    run.times["total"] = time.perf_counter() - run.began
    names = run.model.capacity_names
    priced = (
        None
        if verified is None or multipliers is None
        else dict(zip(names, multipliers.tolist(), strict=True))
    )
    return Solution(
        instance=run.instance,
        backend=chosen.name,
        reason=reason,
        termination=verdict.termination,
        plan=run.plan,
        report=run.report,
        certificate=Certificate(objective, verdict.bound, verdict.source, verified, priced),
        outcome=outcome,
        times=run.times,
        seed=run.options.seed,
        packages=chosen.packages,
        notes=(*run.notes, *verdict.notes),
    )


def _prefer_incumbent(run: Run, maximizes: bool) -> None:
    found = run.report.objective if run.plan is not None and run.report is not None else None
    if run.incumbent is None or (run.restricted and found is not None):
        return  # who asks for a restricted formulation wants its answer
    own = run.model.objective(run.incumbent)
    if found is not None and (own <= found if maximizes else own >= found):
        return
    plan = plan_of(run, run.incumbent)
    report = None if plan is None else run.kind.check(run.instance, plan)
    if report is not None and report.feasible:
        run.plan, run.report = plan, report


def _verified(
    run: Run, outcome: Outcome, maximizes: bool, ours: bool
) -> tuple[NDArray[np.float64] | None, float | None]:
    """Return the multipliers with the tightest verified bound, the solver's or our own."""
    best: tuple[NDArray[np.float64] | None, float | None] = (None, None)
    fresh = usable(outcome.multipliers, run.model.num_capacities) and outcome.bound is not None
    # an engine of ours that reports a bound has optimised its multipliers; an earlier round's add nothing
    for candidate in (outcome.multipliers,) if fresh and ours else (outcome.multipliers, run.multipliers):
        if not usable(candidate, run.model.num_capacities):
            continue
        bound = certified_bound(run.kind, run.instance, run.structure, candidate)
        if bound is not None and (best[1] is None or (bound < best[1] if maximizes else bound > best[1])):
            best = (candidate, bound)
    return best


def _magnitude(run: Run, objective: float | None) -> float:
    if objective is None:
        return 0.0
    known = run.placed is not None and run.placed[1] is run.plan
    point = run.placed[0] if known and run.placed is not None else run.structure.choice(run.plan)
    return magnitude(run.model, point, objective)

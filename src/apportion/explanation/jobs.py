"""Why a job got what it got: its options at the prices, the runner-up, and what it would take to win."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apportion.explanation.parts import JobWorth, OptionWorth, Rival
from apportion.explanation.plan_view import PlanView, difference, settled
from apportion.explanation.resolver import Resolver
from apportion.outcome import Termination

__all__ = ["job_worth", "rival"]


def job_worth(
    view: PlanView,
    job: int,
    name: str,
    asked: int | None,
    resolver: Resolver | None,
    share: float = 1.0,
) -> JobWorth:
    """Return what one job got and why.

    Parameters
    ----------
    view
        The plan.
    job, name
        The job's index and name.
    asked
        A row that was asked about (-1: leaving the job out), or ``None``.
    resolver
        Finds the exact figures; ``None`` to leave them out.
    share
        Part of the resolver's remaining seconds for this job.
    """
    chosen = int(view.rows[job])
    rivals = [row for row in view.choices(job) if row != chosen]
    runner_up = None if not rivals else max(rivals, key=lambda row: _standing(view, row))
    larger, smaller = _steps(view, chosen, rivals)
    idle = chosen < 0 or not view.model.uses[chosen].any()
    fraction, price = _entry(view, chosen, rivals) if idle else (None, None)
    return JobWorth(
        job=name,
        chosen=view.worth(chosen),
        runner_up=None if runner_up is None else rival(view, job, runner_up, resolver, share),
        asked=None if asked is None else rival(view, job, asked, resolver, share),
        step_up=larger,
        step_down=smaller,
        enters_at=fraction,
        enters_at_price=price,
        idle=idle,
    )


def _value(view: PlanView, row: int) -> float:
    return 0.0 if row < 0 else view.sign * float(view.model.values[row])


def _standing(view: PlanView, row: int) -> tuple[float, float, int]:
    """Order options by net worth, of equals the one that uses less, then the first."""
    if row < 0:
        return 0.0, 0.0, 0
    uses = view.model.uses[row]
    pays = 0.0 if view.prices is None else float(uses @ view.prices)
    return _value(view, row) - pays, -float(uses.sum()), -row


def rival(view: PlanView, job: int, row: int, resolver: Resolver | None, share: float) -> Rival:
    """Return a row that a job did not get, and what it would take to get it; see `job_worth`."""
    chosen = int(view.rows[job])
    worth, own = view.worth(row), view.worth(chosen)
    estimate = None
    if worth.net is not None and own.net is not None:
        estimate = settled(own.net - worth.net, max(abs(own.value), abs(worth.value)))
    if resolver is None:
        return Rival(worth, estimate)
    if row == chosen:
        return Rival(worth, estimate, difference(view.solution, view.solution, view.sign), True)
    answer = resolver.solve(view.subject.held(view.structure, job, row), share=share)
    if answer is None:
        return Rival(worth, estimate)
    if answer.plan is None:
        possible = False if answer.termination is Termination.INFEASIBLE else None
        return Rival(worth, estimate, None, possible, view.subject.keeps)
    needed = difference(view.solution, answer, view.sign)
    return Rival(worth, estimate, needed, True, view.subject.keeps)


def _steps(
    view: PlanView, chosen: int, rivals: Sequence[int]
) -> tuple[OptionWorth | None, OptionWorth | None]:
    """Return the options with the next larger and next smaller use of the one capacity."""
    if view.model.num_capacities != 1:
        return None, None
    own = _use(view, chosen)
    larger = [row for row in rivals if _use(view, row) > own]
    smaller = [row for row in rivals if _use(view, row) < own]
    up = min(larger, key=lambda row: (_use(view, row), -_value(view, row)), default=None)
    down = max(smaller, key=lambda row: (_use(view, row), _value(view, row)), default=None)
    return None if up is None else view.worth(up), None if down is None else view.worth(down)


def _use(view: PlanView, row: int) -> int:
    return 0 if row < 0 else int(view.model.uses[row, 0])


def _entry(view: PlanView, chosen: int, rivals: Sequence[int]) -> tuple[float | None, float | None]:
    """Return where the prices would have to fall to before some option beats using nothing.

    At ``theta lambda`` option i pays off once ``v_i - v_0 >= theta lambda . u_i``.
    """
    menu: NDArray[np.int64] = np.array([row for row in rivals if row >= 0], dtype=np.int64)
    gain = view.sign * view.model.values[menu] - _value(view, chosen)
    uses = view.model.uses[menu]
    fraction = None
    if view.prices is not None and menu.size:
        pays = uses @ view.prices
        paying = (pays > 0) & (gain > 0)
        fraction = float((gain[paying] / pays[paying]).max()) if paying.any() else None
    price = None
    if view.model.num_capacities == 1 and menu.size:
        using = (uses[:, 0] > 0) & (gain > 0)
        price = float((gain[using] / uses[using, 0]).max()) if using.any() else None
    return fraction, price

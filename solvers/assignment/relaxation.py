"""The linear relaxation of an assignment by HiGHS, of many entries over those near good prices.

Prices of the machines come first, from one price of all capacities and steps of a gradient. At such prices
few entries of a job are near its cheapest, and an optimum has no others: columns are generated, but for one
round or two (Gilmore and Gomory, *Operations Research* 9, 1961).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import BackendUnavailable
from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment
from apportion.models.linear import LinearModel
from apportion.models.lowering import lower_assignment
from apportion.solvers.clock import Clock
from apportion.solvers.general.highs_call import LONG, call

__all__ = ["Loads", "Relaxation", "Relaxed", "Unsolved", "good_prices", "relax", "relaxed"]


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """An optimal basic solution of a linear relaxation.

    Attributes
    ----------
    point
        float64 [columns].
    duals
        float64 [rows]: what the objective gains per unit of each row's bound.
    objective
        Its objective.
    """

    point: NDArray[np.float64]
    duals: NDArray[np.float64]
    objective: float

    def of(self, model: LinearModel, name: str) -> NDArray[np.float64]:
        """Return the duals of one family of rows, empty if there is none of that name."""
        for block in model.rows:
            if block.name == name:
                return self.duals[block.start : block.stop]
        return np.zeros(0)


@dataclass(frozen=True, slots=True)
class Unsolved:
    """Why there is no relaxation. It proves nothing: ``infeasible`` is HiGHS's word within its tolerances.

    Attributes
    ----------
    termination
        What HiGHS's status means.
    raw
        Its own words.
    """

    termination: Termination
    raw: str

    @property
    def said_infeasible(self) -> bool:
        """Whether HiGHS says that there is no solution, which a proof of ours may confirm."""
        return self.termination in (Termination.INFEASIBLE, Termination.INFEASIBLE_OR_UNBOUNDED)


def relax(
    model: LinearModel, seconds: float | None = None, forbidden: NDArray[np.bool_] | None = None
) -> Relaxation | Unsolved:
    """Solve the model without its integrality.

    Parameters
    ----------
    model
        The model.
    seconds
        Time limit.
    forbidden
        bool [columns]: columns held at zero.
    """
    upper = model.upper if forbidden is None else np.where(forbidden, 0.0, model.upper)
    loose = replace(model, upper=upper, integer=np.zeros(model.num_columns, dtype=np.bool_))
    settings: dict[str, object] = {"threads": 1}
    if seconds is not None:
        settings["time_limit"] = max(seconds, 1e-3)
    try:
        said = call(loose, settings, interruptible=seconds is None or seconds > LONG)
    except BackendUnavailable as error:
        return Unsolved(Termination.ERROR, str(error))
    if said.termination is Termination.INTERRUPTED:
        raise KeyboardInterrupt
    if said.termination is not Termination.OPTIMAL or said.point is None or said.duals is None:
        termination = Termination.ERROR if said.termination is Termination.OPTIMAL else said.termination
        return Unsolved(termination, said.raw)
    return Relaxation(said.point, said.duals, loose.objective(said.point))


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """What the relaxation of an assignment says.

    Attributes
    ----------
    prices
        float64 [machines] >= 0: of capacities, or what the machines' time weighs, of sum 1. They are good
        ones, also without a point.
    point
        float64 [entries], an optimum; ``None`` without one.
    objective
        What it is worth: a bound only where the point is an optimum of all entries.
    failed
        Why there is no point.
    """

    prices: NDArray[np.float64]
    point: NDArray[np.float64] | None = None
    objective: float = math.nan
    failed: Unsolved | None = None

    @property
    def said_infeasible(self) -> bool:
        """Whether HiGHS says that all entries have no point, which a proof of ours may confirm."""
        return self.failed is not None and self.failed.said_infeasible


_HALVED = 20
"""How often the interval of one price of all capacities is halved."""
_MANY, _NEAR, _MORE = 20_000, 8, 4
"""Entries above which the relaxation has so many of a job at first, and so many more in a round."""
_RELAXED, _PRICED = 0.6, 0.1
"""Shares of the time left that a relaxation has, as a plan must still be found, and the search for prices."""
_ROUNDS, _WIDER, _CLOSE = 6, 4, 1e-7
"""Rounds at most; how many times as many entries a job has where the first fit nowhere; and how close to the
optimum over these entries a bound ends them."""


def relaxed(model: Assignment, clock: Clock | None = None) -> Relaxed:
    """Solve the linear relaxation of an assignment in which every job has an entry.

    Parameters
    ----------
    model
        The assignment; without shares.
    clock
        Of the call, of which a share is taken; all that is left where decisions do not go by the clock.
        ``None`` for no limit.
    """
    clock = Clock(SolveOptions()) if clock is None else clock
    until = None if clock.uncounted is None else clock.seconds + _RELAXED * clock.uncounted

    def left() -> float | None:
        return clock.seconds_left if until is None else until - clock.seconds

    some = model.num_options > _MANY and bool(np.diff(model.offsets).all())
    if some and not (model.goal == "makespan" and model.limited.any()):
        loads = Loads(model)
        found = _generated(model, loads, good_prices(loads, clock.late_in(_PRICED)), left)
        return _over(model, None, found.prices, left()) if found.said_infeasible else found
    found = _over(model, None, _even(model), left())
    if found.failed is None or model.goal == "makespan":
        return found
    return replace(found, prices=_one_price(model, np.ones(model.num_machines)))


def _even(model: Assignment) -> NDArray[np.float64]:
    return np.full(model.num_machines, 1.0 / model.num_machines)


def _over(
    model: Assignment, kept: NDArray[np.bool_] | None, prices: NDArray[np.float64], seconds: float | None
) -> Relaxed:
    """Solve the relaxation over some entries, or all; without an optimum's prices it has those given."""
    lowered = lower_assignment(model if kept is None else model.of_options(np.flatnonzero(kept)))
    found = relax(lowered.model, seconds)
    if isinstance(found, Unsolved):
        return Relaxed(prices, failed=found)
    point = np.zeros(model.num_options)
    point[... if kept is None else kept] = found.point[: lowered.assignment.num_options]
    duals = np.zeros(model.num_machines)
    if model.goal == "makespan":
        duals = np.maximum(-found.of(lowered.model, "load"), 0.0) * model.counts
        if not duals.sum() > 0:
            duals = model.counts.astype(np.float64) if kept is None else prices
        duals = duals / duals.sum()
    else:
        own = found.of(lowered.model, "capacity")
        duals[model.limited] = np.maximum(own if model.goal == "value" else -own, 0.0)
    return Relaxed(duals, point, found.objective)


class Loads:
    """What prices of machines make of an assignment: what entries cost, who is where, and what is proven.

    Costs are what is minimised, beside a makespan none; uses are of a capacity, or of a machine's time.
    """

    def __init__(self, model: Assignment) -> None:
        self.model, self._machine, self._first = model, model.machine, model.offsets[:-1]
        self.owner = model.job_of_option()
        self._required, self.is_time = model.required, model.goal == "makespan"
        if self.is_time:
            time = model.values * model.gpus / model.counts[model.machine]
            self.unit = float(time.max()) or 1.0
            self.use, self.cost = time / self.unit, np.zeros(model.num_options)
            self.room, self.binds = np.zeros(model.num_machines), np.ones(model.num_machines, dtype=np.bool_)
        else:
            self.unit = 1.0
            self.cost = (-1.0 if model.goal == "value" else 1.0) * model.values
            most = np.bincount(model.machine, weights=model.uses, minlength=model.num_machines)
            self.binds = model.limited & (most > model.capacities)  # what holds all jobs has no price
            self.use = np.where(self.binds[model.machine], model.uses, 0).astype(np.float64)
            self.room = np.where(self.binds, model.capacities, 0).astype(np.float64)

    def reduced(self, prices: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [entries]: what they cost with what they use."""
        return np.asarray(self.cost + prices[self._machine] * self.use)

    def at(self, prices: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the bound and float64 [machines], what jobs use where each costs least; of ties a part."""
        reduced = self.reduced(prices)
        least = np.minimum.reduceat(reduced, self._first)
        served = self._required | (least < 0.0)
        chosen = np.flatnonzero((reduced == least[self.owner]) & served[self.owner])
        part = self.use[chosen] / np.bincount(self.owner[chosen])[self.owner[chosen]]
        load = np.bincount(self._machine[chosen], weights=part, minlength=prices.size).astype(np.float64)
        return float(least[served].sum() - prices @ self.room), load

    def cheapest(
        self, prices: NDArray[np.float64], most: int, kept: NDArray[np.bool_] | None = None
    ) -> NDArray[np.bool_]:
        """Return bool [entries]: some of each job that cost least, or less than all that are kept."""
        reduced, among = self.reduced(prices), np.arange(self.owner.size)
        if kept is not None:
            least = np.minimum.reduceat(np.where(kept, reduced, np.inf), self._first)
            least = np.where(self._required, least, np.minimum(least, 0.0))
            among = np.flatnonzero(~kept & (reduced < (least - 1e-9 * np.abs(least))[self.owner]))
        order = among[np.lexsort((reduced[among], self.owner[among]))]
        first = np.searchsorted(self.owner[order], self.owner[order])
        found = np.zeros(reduced.size, dtype=np.bool_)
        found[order[np.arange(order.size) - first < most]] = True
        return found


_STEPS, _STALLED, _AHEAD, _GAINED = 200, 8, 0.1, 1e-4
"""Steps towards good prices; how many in a row may gain less than the last part of the bound before they go
on from the best prices, half as long; and how much better a bound the first are directed at."""


def good_prices(loads: Loads, over: Callable[[], bool] = lambda: False) -> NDArray[np.float64]:
    """Return prices of the machines whose bound is near the best: of a makespan weights of sum 1.

    Each job is where it costs least with what it pays, and what too much is used of becomes dearer:
    exponentiated gradient (Kivinen and Warmuth, *Information and Computation* 132, 1997) with steps of
    Polyak's length towards a bound that is a little better than the best so far.
    """
    model, size, prices = loads.model, np.maximum(loads.room, 1.0), _even(loads.model)
    if not loads.is_time:
        known = _one_price(model, np.ones(size.size)), _one_price(model, 1.0 / size)
        lowest = 1e-3 * float(np.ptp(loads.cost)) / size
        prices = np.maximum(max(known, key=lambda one: loads.at(one)[0]), lowest) * loads.binds
    (least, load), best, ahead, stalled = loads.at(prices), prices, _AHEAD, 0
    bound = least
    for _ in range(_STEPS):
        uneven = load - bound if loads.is_time else load / size - 1.0
        variance = float((prices * size) @ uneven**2)
        if variance <= 0.0 or over():
            break
        step = (least + ahead * abs(least) - bound) / variance
        prices = prices * np.exp(np.clip(step * uneven, -1.0, 1.0))
        if loads.is_time:
            prices = prices / prices.sum()
        bound, load = loads.at(prices)
        stalled = 0 if bound - least > _GAINED * abs(least) else stalled + 1
        if bound > least:
            best, least = prices, bound
        if stalled == _STALLED:
            prices, ahead, stalled = best, 0.5 * ahead, 0
            bound, load = loads.at(prices)
    return best


def _one_price(model: Assignment, unit: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return prices, so many units of each capacity, at which jobs use what there is in all."""
    cost = (-1.0 if model.goal == "value" else 1.0) * model.values
    uses = np.where(model.limited[model.machine], model.uses, 0) * unit[model.machine]
    sizes = np.diff(model.offsets)
    filled = np.flatnonzero(sizes)
    segment, room = model.offsets[:-1][filled], float((model.capacities * unit)[model.limited].sum())

    def used(price: float) -> float:
        reduced = cost + price * uses
        least = np.minimum.reduceat(reduced, segment)
        own = np.minimum.reduceat(np.where(reduced <= np.repeat(least, sizes[filled]), uses, np.inf), segment)
        return float(own[model.required[filled] | (least < 0)].sum())

    low, high = 0.0, (float(np.ptp(cost)) + 1.0) / max(float(uses[uses > 0].min(initial=np.inf)), 1e-300)
    for _ in range(_HALVED if used(0.0) > room else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if used(middle) > room else (low, middle)
    return np.where(model.limited, (high if low > 0 else 0.0) * unit, 0.0)


def _generated(
    model: Assignment, loads: Loads, prices: NDArray[np.float64], left: Callable[[], float | None]
) -> Relaxed:
    """Return the relaxation over entries that come in as prices ask for them, and the best prices met."""
    (bound, _), best = loads.at(prices), prices
    kept = loads.cheapest(prices, _NEAR)
    found = _over(model, kept, best, left())
    if found.said_infeasible:
        kept = loads.cheapest(prices, _WIDER * _NEAR)
        found = _over(model, kept, best, left())
    for _ in range(_ROUNDS):
        if found.point is None:
            return found
        asked = found.prices, 0.5 * (best + found.prices)
        for one in asked:
            if (least := loads.at(one)[0]) > bound:
                best, bound = one, least
        objective = (-1.0 if model.goal == "value" else 1.0) * found.objective / loads.unit
        seconds = left()
        if objective - bound <= _CLOSE * abs(bound) or (seconds is not None and seconds <= 0.0):
            break
        fresh = loads.cheapest(asked[0], _MORE, kept) | loads.cheapest(asked[1], _MORE, kept)
        if not fresh.any():
            break
        kept |= fresh
        more = _over(model, kept, best, seconds)
        if more.point is None:
            break
        found = more
    return replace(found, prices=best)

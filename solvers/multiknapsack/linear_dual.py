"""Multipliers of many capacities that few jobs touch: the linear relaxation, written sparsely, on HiGHS.

Cutting planes price all capacities in one dense master and need some evaluations per capacity; a simplex on
what is as sparse as the menus takes about the time of some. Around a choice that fits its columns come in
portions (`sifted`). Of many jobs a sample is priced first: at its prices few jobs are undecided, and only
these are left to the simplex (`narrowed`). Of limits of sets of tenants, of which a job touches many, few
bind: those that the relaxation under the others exceeds join it (`_by_joining`).

Only the prices are taken. What they prove is computed from them as from any other multipliers.

Sifting is after Bixby, Gregory, Lustig, Marsten and Shanno, *Very large-scale linear programming*, Operations
Research 40(5), 1992. The options of least loss at rough prices come first, then those that are worth more
than their job's best one at the prices of these, until there are none. An iteration of the simplex costs what
the columns are, and a job needs few of them; with each portion it goes on from the optimum over those before.

The relaxation gives half of two options to some jobs, at most as many as there are limits that bind. Where
such a limit must be met to the unit, a whole choice needs other jobs under it that take a little more or
less, whatever that loses (`beside_divided`): cores of many options without them have no choice, and with them
few are enough. Where most jobs are alike a class of them is one job (`AlikeJobs.together`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import BackendUnavailable
from apportion.core.outcome import Termination
from apportion.models.multiple_choice import Ragged
from apportion.solvers.general.highs import GrowingProgramme
from apportion.solvers.general.highs_call import call
from apportion.solvers.multiknapsack.alike_jobs import alike_jobs, written
from apportion.solvers.multiknapsack.option_table import OptionTable, among_least, bound_at
from apportion.solvers.multiknapsack.repair import cheapest

__all__ = [
    "ResidualCore",
    "beside_divided",
    "columns_of",
    "is_sifted",
    "narrowed",
    "programme_of",
    "relaxed",
    "residual_core",
    "sifted",
    "worst_exceeded",
]


_TIED = 1e-9
"""Part of the largest value up to which a loss counts as none."""
_EACH, _AROUND = 3, 64
"""Options of least loss for every amount that is taken of a limit, of so many per job in all."""


def beside_divided(menus: OptionTable, loss: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return bool [options]: of all limits that divided jobs touch, for every amount, those of least loss.

    A job can be divided where several of its options have no loss at optimal prices.
    """
    none = loss <= _TIED * float(np.abs(menus.values).max(initial=0.0))
    tied = none & (np.bincount(menus.job[none], minlength=menus.num_jobs) > 1)[menus.job]
    capacity, option, use = menus.entries()
    limits = np.zeros(menus.num_capacities, dtype=np.bool_)
    limits[capacity[tied[option]]] = True
    little = among_least(loss, _AROUND * menus.num_jobs)
    at = np.flatnonzero(limits[capacity] & little[option])
    capacity, option, use = capacity[at], option[at], use[at]
    order = np.lexsort((loss[option], use, capacity))
    capacity, option, use = capacity[order], option[order], use[order]
    begins = np.flatnonzero((np.diff(capacity, prepend=-1) != 0) | (np.diff(use, prepend=-1.0) != 0.0))
    rank = np.arange(option.size) - np.repeat(begins, np.diff(np.append(begins, option.size)))
    found = np.zeros(menus.num_options, dtype=np.bool_)
    found[option[rank < _EACH]] = True
    return found


Relaxed = tuple[NDArray[np.float64], NDArray[np.float64] | None]
"""Prices, and the shares of options: ``None`` where HiGHS says that no point keeps the capacities."""

_STEPS = 15
"""Steps towards rough prices,"""
_SHORTER = 0.8
"""by how much they get shorter with each that finds no lower bound,"""
_FIRST, _MOST = 4, 5
"""options per job of the first portion at these, and of every later one at most."""
_PORTIONS = 100
"""Portions after which all options are handed over at once."""
_CLOSE = 1e-9
"""Relative difference of what the prices of some columns show over all of them that counts as none."""
_MOMENT = 0.02
"""Seconds in which nothing more is to be had of HiGHS."""
_EXACT = 2.0**40
"""Uses up to which one unit too much is far beyond HiGHS's tolerances, without rows being scaled."""


def sifted(
    menus: OptionTable,
    left: Callable[[], float | None],
    anchor: NDArray[np.int64],
    agree: Callable[[float, float], bool],
    near: NDArray[np.float64] | None = None,
    is_close: bool = False,
    enough: float = -np.inf,
) -> Relaxed | None:
    """Solve portions that grow by what their prices leave out.

    Parameters
    ----------
    menus
        At least one job and one capacity.
    left
        The seconds that are left; ``None`` for no limit.
    anchor
        int64 [jobs]: the options of a choice that keeps every capacity.
    agree
        Whether what prices show and the optimum that they come from are the same number.
    near
        float64 [capacities]: prices that may be near.
    is_close
        Whether they are so close that the first portion is taken at these.
    enough
        Prices that show less are good enough.

    Returns
    -------
    tuple or None
        Prices and the shares of options, the best so far where the time is over; ``None`` if the last portion
        still leaves some, or HiGHS fails.
    """
    if menus.greatest_use > _EXACT:
        return None
    best = near if is_close and near is not None else _rough(menus, left, anchor, near)
    loss, least = menus.loss(best), bound_at(menus, best)
    kept = among_least(loss, _FIRST * menus.num_jobs + 1)
    kept[anchor] = True
    programme = programme_of(menus)
    fresh, order = kept.copy(), list[NDArray[np.int64]]()
    for _ in range(_PORTIONS):
        programme.add(*columns_of(menus, fresh))
        order.append(np.flatnonzero(fresh))
        found = None if _is_over(left()) else programme.solved(left())
        if found is None:
            break
        prices = np.maximum(found.duals[menus.num_jobs :], 0.0)
        shown, lost, excess = _left_out(menus, kept, prices)
        if not agree(shown, found.objective):
            return None
        if shown + lost < least:
            least, best = shown + lost, prices
        if least < enough:
            return best, _at_best(menus, best)
        if lost <= _CLOSE * abs(shown):
            part = np.zeros(menus.num_options)
            part[np.concatenate(order)] = found.point
            return prices, part
        middle = 0.5 * (best + prices)
        shown, lost, between = _left_out(menus, kept, middle)
        if shown + lost < least:
            least, best = shown + lost, middle
        fresh = _greatest(between, _MOST * menus.num_jobs) | _greatest(excess, menus.num_jobs)
        kept |= fresh
    return (best, _at_best(menus, best)) if _is_over(left()) else None


def _at_best(menus: OptionTable, prices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64 [options]: 1 for every job's best option at some prices, 0 for others."""
    shares = np.zeros(menus.num_options)
    shares[menus.best_choice(menus.scores(prices))] = 1.0
    return shares


def _greatest(excess: NDArray[np.float64], most: int) -> NDArray[np.bool_]:
    """Return bool [excess]: the greatest above 0, at most so many; of equal ones some at random."""
    above = np.flatnonzero(excess > 0.0)
    if above.size > most:
        blurred = excess[above] * (1.0 + 1e-3 * np.random.default_rng(0).random(above.size))
        above = above[np.argpartition(-blurred, most)[:most]]
    found = np.zeros(excess.size, dtype=np.bool_)
    found[above] = True
    return found


def _left_out(
    menus: OptionTable, kept: NDArray[np.bool_], prices: NDArray[np.float64]
) -> tuple[float, float, NDArray[np.float64]]:
    """Return what prices show of the options kept, what more of all, and by how much each exceeds those."""
    scores = menus.scores(prices)
    top = menus.largest(np.where(kept, scores, -np.inf))
    shown = float(prices @ menus.capacities + top.sum())
    lost = float((menus.largest(scores) - top).sum())
    return shown, lost, np.where(kept, 0.0, scores - menus.per_option(top))


def _is_over(seconds: float | None) -> bool:
    return seconds is not None and seconds <= _MOMENT


def programme_of(menus: OptionTable) -> GrowingProgramme:
    """Return the relaxation of menus without a column: a row per job, then a row per capacity."""
    one, none = np.ones(menus.num_jobs), np.full(menus.num_capacities, -np.inf)
    rows = np.concatenate((one, none)), np.concatenate((one, menus.capacities))
    return GrowingProgramme(*rows, menus.values)


def columns_of(
    menus: OptionTable, chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return some options as columns: what they are worth, and their entries, the row of the job first."""
    options = np.flatnonzero(chosen)
    capacity, place, use = menus.entries_by_option(options)
    whose = np.concatenate((np.arange(options.size), place))
    order = np.argsort(whose, kind="stable")
    rows = np.concatenate((menus.job[options], menus.num_jobs + capacity))[order]
    data = np.concatenate((np.ones(options.size), use))[order]
    return menus.values[options], np.concatenate(([0], np.cumsum(np.bincount(whose)))), rows, data


def _rough(
    menus: OptionTable,
    left: Callable[[], float | None],
    anchor: NDArray[np.int64],
    near: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return the best of a few prices: steps of Polyak's length towards what a feasible choice is worth.

    They begin at the better of none and those that are known. A capacity is measured in its own amount, so
    that none of them rules a step.
    """
    scale = np.maximum(menus.capacities, 1.0)
    floor, prices = float(menus.values[anchor].sum()), np.zeros(scale.size)
    if near is not None and bound_at(menus, near) < bound_at(menus, prices):
        prices = near
    best, least = prices, np.inf
    length = 1.0
    for _ in range(_STEPS):
        scores = menus.scores(prices)
        choice = menus.best_choice(scores)
        bound = float(prices @ menus.capacities + scores[choice].sum())
        if bound < least:
            least, best = bound, prices
        else:
            length *= _SHORTER
        over = (menus.used(choice) - menus.capacities) / scale
        over[(prices <= 0.0) & (over < 0.0)] = 0.0
        norm = float(over @ over)
        if norm <= 0.0 or bound <= floor or _is_over(left()):
            break
        prices = np.maximum(0.0, prices + length * (bound - floor) / norm * over / scale)
    return best


Priced = tuple[NDArray[np.float64], NDArray[np.int64] | None]

_AGREES, _EXCEEDED, _JOINING = 1e-5, 1e-7, 16
"""Parts by which HiGHS's optimum and its prices may differ, a capacity is exceeded; how many join at once."""
_WORTH = 4
"""Options per job above which columns come in portions."""


def is_sifted(menus: Ragged) -> bool:
    """Return whether `relaxed` first takes columns in portions, for which near prices are worth a look."""
    return _WORTH * menus.num_jobs < menus.num_options and menus.num_jobs < _MANY_JOBS


def relaxed(
    menus: OptionTable,
    seconds: float | None,
    anchor: NDArray[np.int64] | None = None,
    near: NDArray[np.float64] | None = None,
    is_close: bool = False,
    enough: float = -np.inf,
) -> Priced | None:
    """Return the relaxation's prices, float64 [capacities] >= 0, and every job's largest option in it.

    Parameters
    ----------
    menus
        At least one job and one capacity.
    seconds
        A limit; ``None`` for none.
    anchor
        int64 [jobs]: the options of a choice that keeps every capacity; ``None`` for that of least uses.
    near
        float64 [capacities]: prices that may be near, if any are known.
    is_close
        Whether these are those of nearly the same menus.
    enough
        Prices that show less than that are good enough.

    Returns
    -------
    tuple or None
        Without options where HiGHS says that no point keeps the capacities: at these prices their least uses
        should cost more. ``None`` where HiGHS does not solve it: nothing is concluded from that.
    """
    began = time.monotonic()

    def left() -> float | None:
        return None if seconds is None else seconds - (time.monotonic() - began)

    try:
        alike = alike_jobs(menus)
        if alike.are_most and alike.counts.size <= _MANY_JOBS:
            some = _relaxed(alike.together(), left, None, near, is_close, enough)
            return some and (some[0], None if some[1] is None else alike.divided(some[1]))
        if menus.num_jobs >= _MANY_JOBS and not menus.few_bind:
            found = narrowed(menus, left, near)
            if found is not None:
                return found
        every = _relaxed(menus, left, anchor, near, is_close, enough)
        return every and (every[0], None if every[1] is None else menus.best_choice(every[1]))
    except BackendUnavailable:
        return None


def _relaxed(
    menus: OptionTable,
    left: Callable[[], float | None],
    anchor: NDArray[np.int64] | None,
    near: NDArray[np.float64] | None,
    is_close: bool,
    enough: float,
) -> Relaxed | None:
    """Solve the relaxation by joining capacities, in portions, or whole."""
    if menus.few_bind:
        return _by_joining(menus, left)
    if menus.num_options > _WORTH * menus.num_jobs:
        anchor = cheapest(menus) if anchor is None else anchor
        if (menus.used(anchor) <= menus.capacities).all():
            found = sifted(menus, left, anchor, _agree, near, is_close, enough)
            if found is not None:
                return found
    return _solved(menus, left())


@dataclass(frozen=True, slots=True, eq=False)
class ResidualCore:
    """A core without the jobs that are settled.

    Attributes
    ----------
    menus
        The jobs with several options, under what the others leave; `rows` are places in the core.
    value
        What the options of the settled jobs are worth.
    """

    menus: OptionTable
    value: float
    _jobs: NDArray[np.int64]
    _begins: NDArray[np.int64]

    def inward(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a choice of the core, int64 [jobs], without its settled jobs."""
        return self.menus.locate(choice[self._jobs])

    def outward(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the choice of the core that a choice of the menus stands for."""
        whole = self._begins.copy()
        whole[self._jobs] = self.menus.rows[choice]
        return whole


def residual_core(core: OptionTable) -> ResidualCore:
    """Return the part of a core that is open; no menu is empty."""
    sizes, begins = np.diff(core.offsets), core.offsets[:-1]
    alone = begins[sizes == 1]
    jobs = np.flatnonzero(sizes > 1)
    menus = core.part(jobs, core.capacities - core.used(alone))
    return ResidualCore(menus, float(core.values[alone].sum()), jobs, begins)


_MANY_JOBS, _SAMPLED, _STRIDE = 15_000, 5_000, 8
"""Jobs from which on a sample is priced first: so many of them, or one in so many."""
_LARGE = 200_000
"""Options that a sample has at most: a larger one is priced from a sample of its own."""
_UNDECIDED = 16
"""One in so many options counts as one of little loss at the prices of a sample."""
_TURNS = 30
"""Portions of options after which all are handed over."""


def narrowed(
    menus: OptionTable, left: Callable[[], float | None], near: NDArray[np.float64] | None = None
) -> Priced | None:
    """Solve the relaxation of the jobs that prices nearby leave undecided; the others have their best option.

    A job is undecided where it has another option of little loss, and further ones are where the others would
    use more than there is. At the prices of those, options that are worth more than what their job has come
    into it, and their jobs, until there are none: then by weak duality the prices are those of all.

    Parameters
    ----------
    menus, near
        As `relaxed` takes them.
    left
        The seconds that are left; ``None`` for no limit.

    Returns
    -------
    tuple or None
        Prices and every job's largest option, the best so far where the time is over; ``None`` where HiGHS
        fails, or options are still left.
    """
    count = 1 + menus.num_options // (4 * _UNDECIDED)
    further = count
    if near is None:
        stride = max(1, min(_STRIDE, menus.num_jobs // _SAMPLED))
        wide = menus.num_options > stride * _LARGE
        further = count if wide else 4 * count
        sample = menus.every(_STRIDE if wide else stride)
        again = sample.num_options > _LARGE and sample.num_jobs < menus.num_jobs
        found = narrowed(sample, left) if again else _solved(sample, left())
        if found is None or found[1] is None:
            return None
        near = found[0]
    best, lowest = near, bound_at(menus, near)
    loss = menus.loss(near)
    choice = menus.best_choice(-loss)
    least = menus.best_choice(-menus.paid(1.0 / np.maximum(menus.capacities, 1.0)))
    kept = among_least(loss, menus.num_jobs + further)
    kept[choice] = True
    kept |= _overdrawing(menus, loss, choice, ~_are_undecided(menus, kept))[menus.job]
    for _ in range(_TURNS):
        kept[least[_are_undecided(menus, kept)]] = True
        part = residual_core(menus.keep(kept))
        found = _solved(part.menus, left()) if part.menus.num_jobs and not _is_over(left()) else None
        if found is None or found[1] is None:
            break
        prices = found[0]
        shown, lost, excess = _left_out(menus, kept, prices)
        if shown + lost < lowest:
            best, lowest = prices, shown + lost
        if lost <= _CLOSE * abs(shown):
            return prices, np.flatnonzero(kept)[part.outward(part.menus.best_choice(found[1]))]
        kept |= (excess > 0.0) & among_least(-excess, count)
    return (best, menus.best_choice(menus.scores(best))) if _is_over(left()) else None


def _are_undecided(menus: OptionTable, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return bool [jobs]: which jobs have several of the options that are kept."""
    found: NDArray[np.bool_] = np.bincount(menus.job[kept], minlength=menus.num_jobs) > 1
    return found


def _overdrawing(
    menus: OptionTable, loss: NDArray[np.float64], choice: NDArray[np.int64], settled: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return bool [jobs]: of those decided the ones of least loss that use twice what they overdraw."""
    others = loss.copy()
    others[choice] = np.inf
    decided = np.flatnonzero(settled)
    capacity, place, use = menus.entries_by_option(choice[decided])
    used = np.bincount(capacity, weights=use, minlength=menus.num_capacities)
    job = decided[place]
    order = np.lexsort((menus.smallest(others)[job], capacity))
    capacity, job, use = capacity[order], job[order], use[order]
    before = np.concatenate(([0.0], np.cumsum(use)))
    before = before[:-1] - before[np.searchsorted(capacity, np.arange(menus.num_capacities))][capacity]
    found = np.zeros(menus.num_jobs, dtype=np.bool_)
    found[job[before < 2.0 * (used - menus.capacities)[capacity]]] = True
    return found


def worst_exceeded(
    menus: OptionTable, used: NDArray[np.float64], tolerance: float = 0.0
) -> NDArray[np.int64]:
    """Return the few capacities exceeded most, by more than a tolerance in parts of what there is."""
    beyond = (used - menus.capacities) / np.maximum(menus.capacities, 1.0)
    return np.argsort(-beyond, kind="stable")[: min(_JOINING, np.count_nonzero(beyond > tolerance))]


def _by_joining(menus: OptionTable, left: Callable[[], float | None]) -> Relaxed | None:
    """Price what binds: capacities that the relaxation under some exceeds join these."""
    free = menus.under(np.zeros(menus.num_capacities, dtype=np.bool_))
    programme, prices = programme_of(free), np.zeros(menus.num_capacities)
    programme.add(*columns_of(free, np.ones(menus.num_options, dtype=np.bool_)))
    joined = np.zeros(0, dtype=np.int64)
    while (found := programme.solved(left())) is not None:
        used = np.asarray(menus.matrix @ found.point)
        worst = np.setdiff1d(worst_exceeded(menus, used, _EXCEEDED), joined)
        if not worst.size:
            prices[joined] = np.maximum(found.duals[menus.num_jobs :], 0.0)
            return _priced(menus, prices, found.point, found.objective)
        row, column, use = menus.under(np.isin(np.arange(menus.num_capacities), worst)).entries()
        begins = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=worst.size))))
        programme.add_rows(menus.capacities[worst], begins, column, use)
        joined = np.concatenate((joined, worst))
    if (ray := programme.ray()) is None:
        return None
    prices[joined] = np.abs(ray[menus.num_jobs :])
    return prices, None


def _agree(shown: float, objective: float) -> bool:
    """Return whether values and prices are of sizes that HiGHS's tolerances see."""
    return abs(shown - objective) <= _AGREES * max(abs(shown), abs(objective))


def _solved(menus: OptionTable, seconds: float | None) -> Relaxed | None:
    """Solve the relaxation of menus whole; presolve would find nothing, for a third of the time."""
    model = replace(written(menus), integer=np.zeros(menus.num_options, dtype=np.bool_))
    settings: dict[str, object] = {"threads": 1, "presolve": "off"}
    if seconds is not None:
        settings["time_limit"] = max(0.0, seconds)
    said = call(model, settings)
    if said.ray is not None:
        return np.abs(said.ray[menus.num_jobs :]), None
    if said.termination is not Termination.OPTIMAL or said.duals is None or said.point is None:
        return None
    prices = np.maximum(said.duals[menus.num_jobs :], 0.0)
    return None if said.bound is None else _priced(menus, prices, said.point, said.bound)


def _priced(
    menus: OptionTable, prices: NDArray[np.float64], point: NDArray[np.float64], objective: float
) -> Relaxed | None:
    """Return prices and a point; ``None`` where these do not show HiGHS's optimum.

    Where all values are 0 no prices are nearer to one than others.
    """
    if menus.values.any() and not _agree(bound_at(menus, prices), objective):
        return None
    return prices, point

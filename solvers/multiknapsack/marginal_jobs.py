"""Many jobs, few of them in doubt: prices, a bound and a choice from the jobs at the margin alone.

At prices that are nearly right most jobs have one option that beats their others by more than any price will
move. They are settled. The rest, those with a second option of little loss, are the *core* (Pisinger, *A
minimal algorithm for the multiple-choice knapsack problem*, EJOR 83, 1995): its dual under what the settled
jobs leave of the capacities corrects the prices, and what its choices are repaired to, beside the settled
options, is a choice of all. The bound is L at the corrected prices over *all* options, so nothing rests on
the settled ones being right; where they are not, bound and choice stay apart and a larger core is taken.

First prices are those of an earlier round, or those of every eighth job under an eighth of the capacities,
found in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack.anytime import StopReason
from apportion.solvers.multiknapsack.dual import Dual, model_bound, precision, sampled, scored, solve_large
from apportion.solvers.multiknapsack.linear_dual import is_sifted
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable, build, in_columns
from apportion.solvers.multiknapsack.proven_bound import ProvenBound
from apportion.solvers.multiknapsack.repair import filled, repaired

__all__ = ["Core", "core_of", "near_optimum"]


_MANY_JOBS, _MANY_OPTIONS = 300, 30_000
"""Jobs and options from which on the core is looked at first."""
_SIZES = (4_096, 32_768)
"""Options of a core beside the best of each job: of the first, and of one more where that was too small."""
_STRIDE, _FEW_JOBS = 8, 2_000
"""One in so many jobs is priced first, unless there are so few."""
_ROUGH = 1e-5
"""Relative gap to which jobs of a sample are priced."""
_CELLS = 2_000_000
"""Uses that a core has at most, those of no amount as well where they are kept."""
_OF_SPARSE = 0.4
"""Share of the time left in which uses that are sparse are looked at so: other searches follow."""
_REPAIRS = 3
"""Choices of a core that are repaired, the newest first."""


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    """The jobs at the margin, and what all others have.

    Attributes
    ----------
    menus
        Their options of little loss, under what the others leave of the capacities.
    jobs
        int64 [jobs of the core]: which they are, rising.
    settled
        int64 [jobs]: the chosen row of every other job, -1 for none and for jobs of the core.
    bound
        What the prices that the core was found at show of the whole model, maximising.
    """

    menus: OptionTable
    jobs: NDArray[np.int64]
    settled: NDArray[np.int64]
    bound: float

    def completed(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the choice of all jobs, rows of the model, that a choice of the core's options is."""
        found = self.settled.copy()
        found[self.jobs] = self.menus.rows[choice]
        return found


class _Limits(NamedTuple):
    """Whether it is late, and how many seconds are left, ``None`` without a limit."""

    late: Callable[[], bool]
    left: Callable[[], float | None]


def core_of(model: MultipleChoiceKnapsack, prices: NDArray[np.float64], size: int) -> Core | None:
    """Return the core at some prices; ``None`` where it has no jobs, or the others use too much.

    Parameters
    ----------
    model
        No required job's menu is empty.
    prices
        float64 [capacities] >= 0.
    size
        About how many options come in beside the best of each job.
    """
    scores, best = scored(model, prices)
    loss = np.repeat(best, np.diff(model.offsets))
    loss -= scores
    little = _least(loss, size)
    rows = np.flatnonzero(loss <= little)
    job = np.searchsorted(model.offsets, rows, side="right") - 1
    none = ~model.required & (best <= little)  # whose being left out loses little
    counts = np.bincount(job, minlength=model.num_jobs) + none
    open_ = counts > 1
    jobs = np.flatnonzero(open_)
    if not jobs.size:
        return None
    settled = np.full(model.num_jobs, -1, dtype=np.int64)
    top = np.flatnonzero((loss[rows] <= 0.0) & ~open_[job])
    settled[job[top]] = rows[top]
    left = model.capacities - model.used(settled)
    if (left < 0).any():
        return None
    inside = open_[job]
    absent = np.flatnonzero(none & open_)
    rows = np.concatenate((np.full(absent.size, -1, dtype=np.int64), rows[inside]))
    owner = np.concatenate((absent, job[inside]))
    order = np.argsort(owner, kind="stable")
    rows, owner = rows[order], np.searchsorted(jobs, owner[order])
    menus = _table(model, rows, owner, left.astype(np.float64), jobs.size)
    return Core(menus, jobs, settled, float(prices @ model.capacities + best.sum()))


def _least(loss: NDArray[np.float64], size: int) -> float:
    """Return about which loss so many options exceed 0 by at most."""
    some = sampled(loss)
    worse = some[some > 0.0]
    if not worse.size:
        return 0.0
    return float(np.quantile(worse, min(1.0, size * some.size / (loss.size * worse.size))))


def _table(
    model: MultipleChoiceKnapsack,
    rows: NDArray[np.int64],
    owner: NDArray[np.int64],
    capacities: NDArray[np.float64],
    num_jobs: int,
) -> OptionTable:
    """Return rows of a model, -1 for none, in search form, menu by menu."""
    real, sign = rows >= 0, 1.0 if model.sense == "maximize" else -1.0
    values = np.zeros(rows.size)
    values[real] = sign * model.values[rows[real]]
    uses = in_columns(model.matrix[rows[real]], real)
    offsets = np.searchsorted(owner, np.arange(num_jobs + 1)).astype(np.int64)
    every = np.arange(capacities.size, dtype=np.int64)
    return OptionTable(values, uses, offsets, owner, rows, capacities, every)


def _largest(model: MultipleChoiceKnapsack) -> int:
    """Return how many options a core has at most: where sparse uses stay so, as many as a first one has."""
    most = _CELLS // max(1, model.num_capacities)
    return most if isinstance(model.matrix, np.ndarray) else max(most, _SIZES[0])


def near_optimum(
    model: MultipleChoiceKnapsack,
    best: ChoiceIncumbent,
    shown: ProvenBound,
    options: SolveOptions,
    clock: Clock,
    hint: NDArray[np.float64] | None,
) -> tuple[StopReason | None, NDArray[np.float64] | None]:
    """Offer what cores lead to; return how that ended, if it is near enough, and the last prices.

    Where jobs are few, or have many options of few uses, nothing is looked at, and there are no prices. Of
    few capacities nothing else has a choice sooner: until there is one the clock is not looked at.

    Parameters
    ----------
    model
        A model whose uses float64 counts.
    best, shown
        The incumbent and its bound.
    options
        For the gap, which a core is priced to a hundredth of.
    clock
        The limits.
    hint
        Prices to begin at, float64 [capacities] >= 0.
    """
    few = model.num_jobs < _MANY_JOBS or model.num_options < _MANY_OPTIONS or not model.num_capacities
    soon = isinstance(model.matrix, np.ndarray)
    if few or _SIZES[0] > _largest(model) or (not soon and is_sifted(model)):
        return None, None
    if (model.required & (np.diff(model.offsets) == 0)).any():
        return None, None
    prices = hint
    offered = best.point is not None and bool((best.point >= 0).any())

    until = np.inf if soon else clock.elapsed + clock.seconds_of(_OF_SPARSE)

    def left() -> float | None:
        now = clock.remaining
        if now is None or options.deterministic:
            return None
        return min(now, max(0.0, until - clock.elapsed))

    def late() -> bool:
        return (offered or not soon) and (clock.late() or clock.elapsed >= until)

    limits = _Limits(late, left)
    for start in (None,) if hint is None else (np.maximum(hint, 0.0), None):
        first = _sampled(model, limits) if start is None else start
        prices = first if prices is None else prices
        gap, apart = precision(options.gap), max(options.gap, _ROUGH)
        for core, dual, bound in _closed(model, first, gap, apart, limits):
            prices = dual.multipliers
            shown.by_prices(prices, bound)
            for choice in dual.choices[: -_REPAIRS - 1 : -1]:
                fitting = repaired(core.menus, prices, choice, late)
                if fitting is not None:
                    best.take(core.completed(filled(core.menus, prices, fitting, late)))
                    offered = True
                if offered and (best.proven or best.close or late()):
                    return shown.ended(clock), prices
                if late():
                    break
        if late():
            break
    return None, prices


def _closed(
    model: MultipleChoiceKnapsack,
    prices: NDArray[np.float64] | None,
    gap: float,
    apart: float,
    limits: _Limits,
) -> Iterator[tuple[Core, Dual, float]]:
    """Yield cores whose own bound is so near, relatively, to the model's at their prices, and that one."""
    sign = 1.0 if model.sense == "maximize" else -1.0
    for size in _SIZES:
        if prices is None or limits.late():
            return
        core = core_of(model, prices, min(size, _largest(model)))
        if core is None:
            continue
        dual, top = solve_large(core.menus, gap=gap, start=prices, late=limits.late, seconds=limits.left())
        bound = model_bound(model, dual.multipliers)
        if dual.infeasible or bound is None:
            continue
        own = dual.bound + sign * model.objective(core.settled)
        if sign * bound - own <= apart * abs(bound):
            yield replace(core, menus=top), dual, bound
        if sign * bound < core.bound:  # else a greater core at the prices before
            prices = dual.multipliers


def _sampled(model: MultipleChoiceKnapsack, limits: _Limits) -> NDArray[np.float64] | None:
    """Return prices of about an eighth of the jobs under an eighth of the capacities; once late, of fewer."""
    jobs = np.arange(0, model.num_jobs, _STRIDE)
    sizes = np.diff(model.offsets)[jobs]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    rows = np.repeat(model.offsets[jobs] - offsets[:-1], sizes) + np.arange(offsets[-1])
    sample = replace(
        model,
        values=model.values[rows],
        matrix=model.matrix[rows],
        offsets=offsets,
        capacities=model.capacities // _STRIDE,
        required=model.required[jobs],
        goals=(),
    )
    if jobs.size > _FEW_JOBS:
        rough = _sampled(sample, limits)
        found = next(_closed(sample, rough, _ROUGH, _ROUGH, limits), None)
        return rough if found is None else found[1].multipliers
    menus = build(sample)
    if menus is None or not menus.num_capacities:
        return None
    dual, _ = solve_large(menus, gap=_ROUGH, late=limits.late, seconds=limits.left())
    return menus.expand(dual.multipliers, model.num_capacities)

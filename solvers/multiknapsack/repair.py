"""Feasible choices: by density, near a start, near what multipliers choose; repaired, then filled up.

A choice that overdraws is repaired by the swaps that lose least per relieved use, then takes whatever still
fits, after Kellerer, Pferschy and Pisinger, *Knapsack Problems* (2004), section 9.5, with Lagrangian losses
as pseudo-utilities. Many swaps are made per sweep where many are due, so the number of sweeps stays small at
any number of jobs. By density options come in the order of value per use, every use as its share of the
capacity (Dobson, Mathematics of Operations Research 7, 1982).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable, among_least, build

__all__ = [
    "by_density",
    "cheapest",
    "choice",
    "drawn_near",
    "filled",
    "near_choices",
    "near_start",
    "repaired",
    "thinned",
]


_FIRST, _LARGEST = 256, 8_192
"""Options looked at together, at first and at most: doubled as long as few of them are taken."""
_SEVERAL = 1_000
"""Sparse capacities from which on options are taken one by one: a table of all of them is nearly empty."""
_FEW = 32
"""Options per job that are sorted first."""

_NO_USE = 1e-9
"""Share that an option counts with that uses nothing."""


def by_density(
    menus: OptionTable,
    fallback: NDArray[np.int64],
    per_job: float = 0.0,
    scores: NDArray[np.float64] | None = None,
) -> NDArray[np.int64] | None:
    """Return a choice that keeps every capacity, or ``None`` where the order leads to none.

    What an option gains over its job's fallback is divided by what it uses beyond it, in shares of the
    capacities. Every option is looked at once.

    Parameters
    ----------
    menus
        At least one job.
    fallback
        int64 [jobs]: the option of a job that gets no other; the smallest uses are a good one.
    per_job
        Added to the divisor, in shares: the greater it is, the more a large gain counts beside small uses.
    scores
        float64 [options]: what gains are of, instead of the values.
    """
    chosen = fallback.copy()
    left = menus.capacities - menus.used(chosen)
    if (left < 0).any():
        return None
    share = menus.paid(1.0 / np.maximum(menus.capacities, 1.0))
    worth = menus.values if scores is None else scores
    gain = worth - worth[fallback][menus.job]
    more = np.maximum(share - share[fallback][menus.job], 0.0) + max(per_job, _NO_USE)
    some = np.flatnonzero(gain > 0.0)
    density = gain[some] / more[some]
    done = np.zeros(menus.num_jobs, dtype=np.bool_)
    first = among_least(-density, _FEW * menus.num_jobs)
    given_back = np.zeros(menus.num_capacities)  # the most that any job does
    if menus.is_sparse:
        capacity, _, use = menus.entries_by_option(fallback)
        np.maximum.at(given_back, capacity, use)
    for part in (first, ~first):  # most jobs are done by the first, and the others are not even sorted
        mine = part & ~done[menus.job[some]]
        if part is not first and menus.is_sparse:
            mine &= menus.within(left + given_back)[some]
        order = some[mine][np.argsort(-density[mine], kind="stable")]
        left = _take_in_order(menus, order, fallback, chosen, done, left, given_back)
    return chosen


def _take_one_by_one(
    menus: OptionTable,
    order: NDArray[np.int64],
    fallback: NDArray[np.int64],
    chosen: NDArray[np.int64],
    done: NDArray[np.bool_],
    left: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Do what `_take_in_order` does with some options, by the entries of every one alone."""

    def uses_of(options: NDArray[np.int64]) -> list[dict[int, float]]:
        """Return by option what it uses of every capacity."""
        found: list[dict[int, float]] = [{} for _ in range(options.size)]
        for capacity, place, use in zip(
            *map(np.ndarray.tolist, menus.entries_by_option(options)), strict=True
        ):
            found[place][capacity] = use
        return found

    room, jobs = left.tolist(), menus.job[order]
    given_back = uses_of(fallback[jobs])
    for option, job, uses, back in zip(
        order.tolist(), jobs.tolist(), uses_of(order), given_back, strict=True
    ):
        if done[job] or any(use - back.get(of, 0.0) > room[of] for of, use in uses.items()):
            continue
        for of, use in uses.items():
            room[of] -= use
        for of, use in back.items():
            room[of] += use
        chosen[job], done[job] = option, True
    return np.array(room, dtype=np.float64)


def _take_in_order(
    menus: OptionTable,
    order: NDArray[np.int64],
    fallback: NDArray[np.int64],
    chosen: NDArray[np.int64],
    done: NDArray[np.bool_],
    left: NDArray[np.float64],
    given_back: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Take every option that fits in the place of its job's fallback, in order; return what is left."""
    alone = menus.is_sparse and menus.num_capacities >= _SEVERAL
    first, size = 0, _LARGEST if alone else _FIRST
    while first < order.size and not done.all():
        look = order[first : first + size]
        first += size
        look = look[~done[menus.job[look]]]
        if menus.is_sparse:  # what cannot fit whatever its job gives back is not written out
            look = look[menus.within(left + given_back, look)]
        if not look.size:
            size = min(2 * size, _LARGEST)
            continue
        if alone:
            left = _take_one_by_one(menus, look, fallback, chosen, done, left)
            continue
        change = menus.uses_of(look) - menus.uses_of(fallback[menus.job[look]])
        open_ = np.flatnonzero((change <= left[:, None]).all(axis=0))
        # each job's first option that fits, as long as they fit together; then one by one
        _, once = np.unique(menus.job[look[open_]], return_index=True)
        ahead = open_[np.sort(once)]
        total = np.cumsum(change[:, ahead], axis=1)
        taken = int(np.argmin(np.append((total <= left[:, None]).all(axis=0), False)))
        if taken:
            chosen[menus.job[look[ahead[:taken]]]] = look[ahead[:taken]]
            done[menus.job[look[ahead[:taken]]]] = True
            left = left - total[:, taken - 1]
        rest = open_[~done[menus.job[look[open_]]]]
        for at in rest[(change[:, rest] <= left[:, None]).all(axis=0)].tolist():
            option, added = int(look[at]), change[:, at]
            job = int(menus.job[option])
            if not done[job] and bool((added <= left).all()):
                chosen[job] = option
                done[job] = True
                left = left - added
                taken += 1
        if 8 * taken < look.size:
            size = min(2 * size, _LARGEST)
    return left


def thinned(
    menus: OptionTable,
    some: NDArray[np.int64],
    fallback: NDArray[np.int64],
    per_job: float = 0.0,
    scores: NDArray[np.float64] | None = None,
) -> NDArray[np.int64] | None:
    """Return a choice by density of some options and those of the fallback; it keeps every capacity.

    It looks at a few options per job, so it takes a moment where a repair would take sweeps over all of them.
    ``None`` where the fallback itself does not fit.
    """
    either = np.zeros(menus.num_options, dtype=np.bool_)
    either[some] = either[fallback] = True
    place = np.cumsum(either) - 1
    own = None if scores is None else scores[either]
    found = by_density(menus.keep(either), place[fallback], per_job, own)
    return None if found is None else np.flatnonzero(either)[found]


_NEAR, _DRAWN = 200, 20
"""Options per job of least loss, and how many of them are drawn."""


def drawn_near(menus: OptionTable, scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return every job's option of greatest score, and others of little loss at random.

    Alike places have nearly the same score: the best options of all jobs are on one of them.
    """
    best = menus.best_choice(scores)
    near = among_least(scores[best][menus.job] - scores, _NEAR * menus.num_jobs)
    near &= np.random.default_rng(0).random(near.size) < _DRAWN * menus.num_jobs / np.count_nonzero(near)
    return np.union1d(best, np.flatnonzero(near))


_SWEEPS, _LOOKED_AT, _ANYWAY = 400, 3_000_000, 1_000
"""Sweeps of a repair at most, and options looked at once no swap relieves; a sweep counts as so many more."""
_FEW_USES = 4
"""Uses of an option, in the mean, up to which they are: a search decides what is more entangled."""


def choice(
    model: MultipleChoiceKnapsack,
    multipliers: NDArray[np.float64],
    start: NDArray[np.int64] | None = None,
    late: Callable[[], bool] = lambda: False,
) -> NDArray[np.int64] | None:
    """Return a feasible choice of the model near the one that the multipliers prefer, or ``None``.

    Parameters
    ----------
    model
        The menus.
    multipliers
        float64 [capacities] >= 0.
    start
        int64 [jobs], chosen rows (-1: none), possibly infeasible: repaired instead of the multipliers'
        choice. A job whose entry is not in its menu begins at what the multipliers prefer.
    late
        Whether the time is over: then a choice by density stands in.
    """
    menus = build(model)
    if menus is None:
        return None
    if menus.num_jobs == 0:
        return np.zeros(0, np.int64)
    weights = menus.restrict(np.asarray(multipliers, dtype=np.float64))
    options = menus.best_choice(menus.scores(weights))
    if start is not None:
        place = menus.locate(start)
        options = np.where(place >= 0, place, options)
    top = menus
    if menus.is_sparse:
        top, (options,) = _near_top(menus, weights, (options,))
    found = [(top, repaired(top, weights, options, late))]
    if menus.has_sparse_rows:  # few options share a capacity: all of them are soon looked at
        least = cheapest(menus)
        found += [(menus, by_density(menus, least, per_job)) for per_job in (1.0, 0.0)]
    if all(fitting is None for _, fitting in found):
        least = cheapest(menus)
        few = late() and top is menus
        fitting = thinned(menus, options, least) if few else repaired(menus, weights, least, late)
        found = [(menus, fitting)]
    known = [
        (float(own.values[fitting].sum()), own, fitting) for own, fitting in found if fitting is not None
    ]
    if not known:
        return None
    _, own, fitting = max(known, key=lambda one: one[0])
    return own.rows[filled(own, weights, fitting, late)]


def cheapest(menus: OptionTable) -> NDArray[np.int64]:
    """Return the choice of least use, each capacity counted in shares of what is available."""
    share = menus.paid(1.0 / np.maximum(menus.capacities, 1.0))
    return menus.first_at(share == menus.smallest(share)[menus.job])


class _Swaps:
    """What every option would change beside its job's present one.

    Attributes
    ----------
    share
        float64 [capacities]: what one unit of overuse weighs; changed in place.
    """

    def __init__(self, menus: OptionTable) -> None:
        self._menus, self.share = menus, 1.0 / np.maximum(menus.capacities, 1.0)

    def relief(self, chosen: NDArray[np.int64], used: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [options]: by how much a swap lessens overuse, weighed."""
        menus, capacities = self._menus, self._menus.capacities
        over = np.maximum(used - capacities, 0.0)
        found = np.zeros(menus.num_options)
        for k, use in enumerate(menus.uses):
            change = use - use[chosen][menus.job]
            found += self.share[k] * (over[k] - np.maximum(used[k] + change - capacities[k], 0.0))
        return found

    def fit(self, chosen: NDArray[np.int64], used: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return bool [options]: whether a swap keeps every capacity, where the choice keeps them."""
        menus, room = self._menus, self._menus.capacities - used + 1e-9
        found = np.ones(menus.num_options, dtype=np.bool_)
        for k, use in enumerate(menus.uses):
            found &= use - use[chosen][menus.job] <= room[k]
        return found


class _SparseSwaps(_Swaps):
    """The same by the entries, of which a job's present option has few."""

    def __init__(self, menus: OptionTable) -> None:
        super().__init__(menus)
        self._capacity, self._option, self._use = menus.entries_by_option()
        self._key = menus.job[self._option] * menus.num_capacities + self._capacity

    def relief(self, chosen: NDArray[np.int64], used: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what a job's leaving relieves, less what the option then puts on."""
        menus, excess = self._menus, used - self._menus.capacities
        left, whose, now = self._present(chosen)
        relieved = self.share[left] * (np.maximum(excess[left], 0.0) - np.maximum(excess[left] - now, 0.0))
        found = np.bincount(whose, weights=relieved, minlength=menus.num_jobs)[menus.job]
        without = excess[self._capacity] - self._beside(left, whose, now)
        added = np.maximum(without + self._use, 0.0) - np.maximum(without, 0.0)
        added *= self.share[self._capacity]
        lost = np.bincount(self._option, weights=added, minlength=menus.num_options)
        return np.asarray(found - lost, dtype=np.float64)

    def fit(self, chosen: NDArray[np.int64], used: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return where no entry exceeds what is free."""
        room = (self._menus.capacities - used + 1e-9)[self._capacity]
        found = np.ones(self._menus.num_options, dtype=np.bool_)
        found[self._option[self._use - self._beside(*self._present(chosen)) > room]] = False
        return found

    def _present(
        self, chosen: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return capacity, job and use of everything that a choice uses."""
        return self._menus.entries_by_option(chosen)

    def _beside(
        self, capacity: NDArray[np.int64], job: NDArray[np.int64], now: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return what the present option of its job uses of every entry's capacity."""
        keys = job * self._menus.num_capacities + capacity
        at = np.searchsorted(keys, self._key)
        at[at == keys.size] = 0
        if not keys.size:
            return np.zeros(self._key.size)
        return np.where(keys[at] == self._key, now[at], 0.0)


def _swaps(menus: OptionTable) -> _Swaps:
    return _SparseSwaps(menus) if menus.is_sparse else _Swaps(menus)


def repaired(
    menus: OptionTable,
    weights: NDArray[np.float64],
    start: NDArray[np.int64],
    late: Callable[[], bool] = lambda: False,
) -> NDArray[np.int64] | None:
    """Swap options until every capacity holds; ``None`` where too many sweeps were in vain, or it is late.

    Each sweep takes every job's best swap (least loss per relieved use, overuse in shares of the
    capacities), sorts them and makes about half of those that would be needed, one at least. Where no swap
    relieves, what is overdrawn weighs more from then on: the breakout method (Morris, AAAI 1993).
    """
    chosen = start.copy()
    capacities = menus.capacities
    used, swaps_of = menus.used(chosen), _swaps(menus)
    share, once = swaps_of.share, swaps_of.share.copy()
    scores = menus.scores(weights)
    tiny = 1e-9 * max(1.0, float(np.abs(scores).max(initial=0.0)))
    left, weighed = _SWEEPS, False
    while left > 0:
        left -= 1
        over = np.maximum(used - capacities, 0.0)
        if not over.any():
            return chosen
        if late():
            return None
        relief = swaps_of.relief(chosen, used)
        lost = scores[chosen][menus.job] - scores
        ratio = np.full(menus.num_options, np.inf)
        helps = relief > 1e-12
        ratio[helps] = np.maximum(lost[helps], tiny) / relief[helps]
        best = menus.smallest(ratio)
        jobs = np.flatnonzero(best < np.inf)
        if jobs.size == 0:
            if not weighed:
                if not menus.has_sparse_rows or menus.num_entries > _FEW_USES * menus.num_options:
                    return None
                weighed, left = True, _LOOKED_AT // (_ANYWAY + menus.num_options)
            share += np.where(over > 0.0, once, 0.0)
            continue
        swaps = menus.first_at(ratio == best[menus.job])[jobs]
        order = np.argsort(best[jobs], kind="stable")
        enough = int(np.searchsorted(np.cumsum(relief[swaps[order]]), float(share @ over)))
        swaps = swaps[order[: 1 if weighed else max(1, enough // 2)]]
        before = used
        moved = menus.job[swaps]
        used = used + menus.used(swaps) - menus.used(chosen[moved])
        if swaps.size > 1 and share @ np.maximum(used - capacities, 0.0) >= share @ over:
            # Together they overshoot elsewhere: make the best one alone.
            swaps, moved = swaps[:1], moved[:1]
            used = before + menus.used(swaps) - menus.used(chosen[moved])
        chosen[moved] = swaps
    return None


def filled(
    menus: OptionTable,
    weights: NDArray[np.float64],
    start: NDArray[np.int64],
    late: Callable[[], bool] = lambda: False,
) -> NDArray[np.int64]:
    """Make every single swap that gains and fits: first those the multipliers favour, then any."""
    chosen = start.copy()
    scores = menus.scores(weights)
    used, swaps_of = menus.used(chosen), _swaps(menus)
    tiny = 1e-12 * max(1.0, float(np.abs(menus.values).max(initial=0.0)))
    for key in (scores, menus.values):
        for _ in range(_SWEEPS):
            if late():
                return chosen
            gain = key - key[chosen][menus.job]
            good = gain > tiny
            good &= menus.values > menus.values[chosen][menus.job] + tiny
            good &= swaps_of.fit(chosen, used)
            candidates = np.flatnonzero(good)
            if candidates.size == 0:
                break
            # The best swap per job, best first, as long as they fit together.
            ranked = candidates[np.argsort(-gain[candidates], kind="stable")]
            _, first = np.unique(menus.job[ranked], return_index=True)
            swaps = ranked[np.sort(first)]
            moved = menus.job[swaps]
            change = np.cumsum(menus.uses_of(swaps) - menus.uses_of(chosen[moved]), axis=1)
            fits = (used[:, None] + change <= menus.capacities[:, None] + 1e-9).all(axis=0)
            count = int(np.argmin(fits)) if not fits.all() else fits.size
            chosen[moved[:count]] = swaps[:count]
            used = menus.used(chosen)
    return chosen


def near_start(
    menus: OptionTable,
    weights: NDArray[np.float64],
    start: NDArray[np.int64],
    best: ChoiceIncumbent,
    late: Callable[[], bool],
) -> None:
    """Offer a choice near a start, int64 [jobs] of rows; what the weights prefer stands in for others."""
    place = menus.locate(start)
    place = np.where(place >= 0, place, menus.best_choice(menus.scores(weights)))
    fitting = repaired(menus, weights, place, late)
    if fitting is not None:
        best.take(menus.rows[filled(menus, weights, fitting, late)])


_NEAR = 64
"""Options per job of least loss that a repair of sparse menus looks at."""


def _near_top(
    menus: OptionTable, weights: NDArray[np.float64], choices: tuple[NDArray[np.int64], ...]
) -> tuple[OptionTable, tuple[NDArray[np.int64], ...]]:
    """Return the menus with options of little loss and those of choices and least use, and the choices."""
    loss = menus.loss(weights)
    kept = among_least(loss, _NEAR * menus.num_jobs)
    for choice in (*choices, cheapest(menus)):
        kept[choice] = True
    place = np.cumsum(kept) - 1
    return menus.keep(kept), tuple(place[choice] for choice in choices)


def near_choices(
    menus: OptionTable,
    top: OptionTable,
    weights: NDArray[np.float64],
    choices: tuple[NDArray[np.int64], ...],
    best: ChoiceIncumbent,
    late: Callable[[], bool],
) -> None:
    """Offer what choices among the menus `top` are repaired to, the last one first; else any that is found.

    Parameters
    ----------
    menus
        All options.
    top
        Those that the choices are from.
    weights
        float64 [capacities]: near-optimal multipliers.
    choices
        int64 [jobs] each.
    best
        The incumbent.
    late
        Whether the time is over.
    """
    if menus.is_sparse and choices:
        top, choices = _near_top(menus, weights, choices)
    for choice in reversed(choices):
        if best.close or best.proven or (late() and best.point is not None):
            break
        fitting = repaired(top, weights, choice, late)
        if fitting is not None:
            best.take(top.rows[filled(top, weights, fitting, late)])
    if best.point is None:
        # Nothing near the top could be repaired: begin at the smallest uses.
        least = cheapest(menus)
        if (menus.used(least) > menus.capacities).any():
            repair = repaired(menus, weights, least, late)
            least = least if repair is None else repair
        best.take(menus.rows[filled(menus, weights, least, late)])

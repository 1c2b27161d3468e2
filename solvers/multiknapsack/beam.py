"""Beam search over jobs, one layer per job, guided by the smoothed dual; without a cut it is an exact proof.

A state is a partial choice: what is left of each capacity and the loss so far (how far below the Lagrangian
bound the choice already is). Two states of equal loss differ in how well the rest can be steered to use up
what is left: with mean m and covariance S of the undecided jobs' use (and of the slack) at temperature T,
ending at residual r costs about ``T/2 (r - m)' S^-1 (r - m)`` more. The states of least estimated loss
survive.

States go for good only for three reasons: no completion fits (smallest uses), none can beat the incumbent
(the loss is a valid bound), or another state has used exactly as much at a smaller loss. If the beam was
never full, the answer is proven: the best choice better than the incumbent, or that there is none.

`BeamTurns` makes ever wider passes while nothing improves: over all jobs and, in turn, over a random part of
them, the rest staying as in the incumbent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.exact_sums import over_columns, product
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack.entropic_dual import EntropicDual, entropic_dual, freezing_temperature
from apportion.solvers.multiknapsack.nested_tables import list_tails, match
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable, noise

__all__ = ["Ahead", "BeamTurns", "Pass", "lookahead", "search"]


@dataclass(frozen=True, slots=True, eq=False)
class Ahead:
    """What is to come, before each layer.

    Attributes
    ----------
    steer
        float64 [layers + 1, capacities, capacities]: a root of T/2 S^-1.
    centre, least
        float64 [layers + 1, capacities]: the mean and the smallest use to come.
    spread
        float64 [layers + 1, capacities, capacities]: S, the covariance of the use to come.
    """

    steer: NDArray[np.float64]
    centre: NDArray[np.float64]
    least: NDArray[np.float64]
    spread: NDArray[np.float64]


def lookahead(
    menus: OptionTable, smoothed: EntropicDual, live: NDArray[np.bool_], order: NDArray[np.int64]
) -> Ahead:
    """Return what the jobs of `order` will use, from each of them on; `live` is bool [options]."""
    num_caps, layers = menus.capacities.size, order.size
    covariance = np.zeros((layers + 1, num_caps, num_caps))
    centre = np.zeros((layers + 1, num_caps))
    least = np.zeros((layers + 1, num_caps))
    covariance[layers] = np.diag(np.maximum(smoothed.slack, 1e-6) ** 2)
    centre[layers] = smoothed.slack
    weighted = menus.uses * smoothed.probability
    uses = menus.uses if live.all() else np.where(live, menus.uses, np.inf)
    for layer, job in enumerate(order):
        part = slice(menus.offsets[job], menus.offsets[job + 1])
        covariance[layer] = weighted[:, part] @ menus.uses[:, part].T
    mean = smoothed.mean[:, order].T
    covariance[:layers] -= mean[:, :, None] * mean[:, None, :]
    centre[:layers] = mean
    if layers:
        least[:layers] = np.minimum.reduceat(uses, menus.offsets[:-1], axis=1)[:, order].T
    covariance = np.cumsum(covariance[::-1], axis=0)[::-1]
    covariance += np.eye(num_caps) * (1e-12 * max(1.0, float(covariance[0].max())))
    steer = _steering(covariance, smoothed.temperature)
    to_come = np.cumsum(centre[::-1], axis=0)[::-1]
    return Ahead(steer, to_come, np.cumsum(least[::-1], axis=0)[::-1], covariance)


def _steering(covariance: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return R with ``R R' = temperature / 2 x covariance^-1``: distances become plain sums of squares.

    Where rounding leaves a matrix without a Cholesky factor (uses of very unlike sizes), capacities count
    apart.
    """
    inverse = np.linalg.inv(covariance) * (temperature / 2)
    try:
        return np.linalg.cholesky((inverse + inverse.transpose(0, 2, 1)) / 2).astype(np.float64)
    except np.linalg.LinAlgError:
        spread = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 1e-300)
        apart = np.sqrt(temperature / 2 / spread)
        return np.asarray(apart[:, :, None] * np.eye(covariance.shape[1]), dtype=np.float64)


_Pairs = tuple[NDArray[np.intp], ...]
"""int64 [kept] each: the state, and the position of the option among the job's live ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """What one pass found.

    Attributes
    ----------
    choice
        int64 [jobs]: options of the best choice better than the floor, or ``None``.
    complete
        Whether no state was cut for want of room or time: then no other choice is better.
    expanded
        How many states were made.
    """

    choice: NDArray[np.int64] | None
    complete: bool
    expanded: int


def search(
    menus: OptionTable,
    smoothed: EntropicDual,
    order: NDArray[np.int64],
    width: int,
    floor: float | None,
    late: Callable[[], bool],
) -> Pass:
    """Search layer by layer.

    Parameters
    ----------
    menus
        At least one job and one capacity.
    smoothed
        The distribution of the menus' options.
    order
        int64 [jobs]: the order in which jobs are decided.
    width
        States kept per layer.
    floor
        Only choices worth at least this much are wanted; ``None`` for any.
    late
        Asked once per layer; true ends the pass with nothing.
    """
    slack = 1e-9 * abs(smoothed.bound) + noise(menus, smoothed.weights)
    allowed = np.inf if floor is None else smoothed.bound - floor + slack
    live = smoothed.loss <= allowed
    counts = np.add.reduceat(live, menus.offsets[:-1], dtype=np.int64)
    if (counts == 0).any():
        return Pass(None, True, 0)
    choice = menus.first_at(live)
    order = order[counts[order] > 1]
    decided = choice[counts == 1]
    left = menus.capacities - menus.uses[:, decided].sum(axis=1)
    loss = float(smoothed.loss[decided].sum())
    ahead = lookahead(menus, smoothed, live, order)
    if loss > allowed or (left < ahead.least[0] - 1e-9).any():
        return Pass(None, True, 0)
    beam = _Beam(menus, smoothed, live, order, ahead, width, allowed, left, loss)
    head = order.size - _tail_length(menus, smoothed, live, order, width)
    for layer in range(head):
        if late():
            return Pass(None, False, beam.expanded)
        beam.decide(layer)
        if beam.loss.size == 0:
            return Pass(None, beam.complete, beam.expanded)
    best = beam.least_loss() if head == order.size else beam.completed(head, choice, late)
    if best is None:
        return Pass(None, beam.complete and not late(), beam.expanded)
    beam.trace(best, choice)
    value = float(menus.values[choice].sum())
    if floor is not None and value < floor - slack:
        return Pass(None, beam.complete, beam.expanded)
    return Pass(choice, beam.complete, beam.expanded)


_STRICT_LAYERS = 6
"""In this many last layers states that cannot be completed go before the beam is cut, not after."""


class _Beam:
    """The states of one layer, and how they came about.

    Parameters
    ----------
    menus, tilt, width
        As of `search`.
    live
        bool [options]: those that a choice better than the floor can hold.
    order
        int64 [layers]: the jobs that are decided layer by layer.
    ahead
        What is to come from each layer on.
    allowed
        The greatest loss of a choice that is wanted.
    left, loss
        What the jobs decided beforehand leave of each capacity, and their loss.

    Attributes
    ----------
    residual
        float64 [states, capacities]: what is left.
    loss
        float64 [states].
    complete, expanded
        As of `Pass`, so far.
    """

    def __init__(
        self,
        menus: OptionTable,
        smoothed: EntropicDual,
        live: NDArray[np.bool_],
        order: NDArray[np.int64],
        ahead: Ahead,
        width: int,
        allowed: float,
        left: NDArray[np.float64],
        loss: float,
    ) -> None:
        self.menus, self.smoothed, self.live, self.order, self.ahead = menus, smoothed, live, order, ahead
        self.width, self.allowed = width, allowed
        self.residual = left[None, :]
        self.loss = np.array([loss])
        self.complete, self.expanded = True, 0
        self._history: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        self._mixer = np.sqrt(np.arange(2.0, left.size + 2.0))

    def decide(self, layer: int) -> None:
        """Replace every state by those that one more job makes of it, and keep the best of them."""
        job, last = self.order[layer], layer == self.order.size - 1
        start, stop = self.menus.offsets[job], self.menus.offsets[job + 1]
        options = np.flatnonzero(self.live[start:stop]) + start
        uses = self.menus.uses[:, options].T
        after = self.loss[:, None] + self.smoothed.loss[options][None, :]
        self.expanded += after.size
        if last:
            parent, pick = self._fitting(after, uses)
        elif after.size <= self.width:
            parent, pick = np.nonzero(after <= self.allowed)
        else:
            parent, pick = self._cut(after, uses, layer + 1)
        residual, loss = self.residual[parent] - uses[pick], after[parent, pick]
        if not last:
            keep = np.flatnonzero((residual >= self.ahead.least[layer + 1] - 1e-9).all(axis=1))
            if keep.size > 1:
                keep = keep[_first_of_equals(residual[keep], loss[keep], self._mixer)]
            parent, pick, residual, loss = parent[keep], pick[keep], residual[keep], loss[keep]
        self.residual, self.loss = residual, loss
        self._history.append((parent.astype(np.int32), options[pick].astype(np.int32)))

    def _fitting(self, after: NDArray[np.float64], uses: NDArray[np.float64]) -> _Pairs:
        """Return the states and options of the last job that keep every capacity."""
        good = after <= self.allowed
        for k in range(uses.shape[1]):
            good &= uses[:, k][None, :] <= self.residual[:, k][:, None] + 1e-9
        return np.nonzero(good)

    def _cut(self, after: NDArray[np.float64], uses: NDArray[np.float64], layer: int) -> _Pairs:
        """Return the states and options of least estimated loss, as many as the beam is wide."""
        ahead = self.ahead
        here = product(self.residual - ahead.centre[layer], ahead.steer[layer])
        there = product(uses, ahead.steer[layer])
        score = (
            (here**2).sum(axis=1)[:, None] + (there**2).sum(axis=1)[None, :] - 2.0 * product(here, there.T)
        )
        score += after
        score[after > self.allowed] = np.inf
        if self.order.size - layer < _STRICT_LAYERS:
            for k in range(uses.shape[1]):
                over = uses[:, k][None, :] + ahead.least[layer, k] > self.residual[:, k][:, None] + 1e-9
                score[over] = np.inf
        flat = score.ravel()
        kept = np.argpartition(flat, self.width)[: self.width]
        kept = kept[flat[kept] < np.inf]
        if kept.size == self.width:
            self.complete = False
        return np.divmod(kept, uses.shape[0])

    def least_loss(self) -> int:
        """Return the best state once every job is decided."""
        return int(np.argmin(self.loss + over_columns(self.residual, self.smoothed.weights)))

    def completed(self, head: int, choice: NDArray[np.int64], late: Callable[[], bool]) -> int | None:
        """Match the states with combinations of the last jobs, and return the best state.

        What it takes of the last jobs is written into `choice`. ``None`` where none fits, or time ran out.
        """
        rest, most = self.order[head:], _most_tails(self.width)
        spread = self.ahead.spread[head]
        tails = list_tails(self.menus, self.smoothed, self.live, rest, spread, most, self.allowed, late)
        if tails is None:
            self.complete = False
            return None
        self.complete &= tails.complete
        pair = match(self.residual, self.loss, tails, self.smoothed.weights, self.allowed, late)
        if pair is None:
            return None
        choice[rest] = tails.options[pair[1]]
        return pair[0]

    def trace(self, state: int, choice: NDArray[np.int64]) -> None:
        """Write what the layers decided on the way to a state into `choice`."""
        for layer in range(len(self._history) - 1, -1, -1):
            parents, picked = self._history[layer]
            choice[self.order[layer]] = picked[state]
            state = int(parents[state])


_TAILS = 30_000
"""Combinations of the last jobs matched with the states at most."""
_PAIRS = 150_000_000
"""Pairs of a state and a tail looked at in a pass at most."""
_SHORTEST = 12
"""Passes of fewer layers go to the end layer by layer."""


def _most_tails(width: int) -> int:
    """How many combinations of the last jobs are matched with the states: ten per state, within reason."""
    return min(_TAILS, 10 * width, max(200, _PAIRS // width))


def _tail_length(
    menus: OptionTable, smoothed: EntropicDual, live: NDArray[np.bool_], order: NDArray[np.int64], width: int
) -> int:
    """How many last jobs have about as many combinations worth listing as will be matched."""
    if order.size < _SHORTEST:
        return 0
    variety = np.cumsum(smoothed.entropy(menus)[order][::-1] + 0.1)
    most = np.log(_most_tails(width))
    return min(int(np.searchsorted(variety, most)), int(order.size) // 2)


def _first_of_equals(
    residual: NDArray[np.float64], loss: NDArray[np.float64], mixer: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the states to keep: of those with exactly the same residual, one of least loss."""
    key = over_columns(residual, mixer)
    order = np.lexsort((loss, key))
    ranked = key[order]
    close = np.flatnonzero(ranked[1:] == ranked[:-1])
    if close.size == 0:
        return order
    same = (residual[order[close + 1]] == residual[order[close]]).all(axis=1)
    keep = np.ones(order.size, dtype=np.bool_)
    keep[close[same] + 1] = False
    return order[keep]


_FIRST_WIDTH, _WIDEST = 64, 20_000
_MEMORY = 12_000_000
"""States kept over all layers of a pass at most."""
_LARGEST_LAYER = 4_000_000
"""States made in one layer at most."""
_PART = 120
"""Jobs of a neighbourhood to begin with."""
_SECONDS_PER_STATE, _SECONDS_PER_LAYER = 2.5e-7, 1.5e-4
"""What deterministic mode charges for the states and layers of a beam."""


class BeamTurns:
    """The beam passes of one search.

    Parameters
    ----------
    weights
        float64 [capacities]: near-optimal multipliers.
    best
        The incumbent, which a better choice replaces.
    seed
        Random seed.
    clock
        Charged for every state.
    counters
        Updated in place: ``passes``, ``states``.

    Attributes
    ----------
    rounding
        What the losses of the pass that showed it may be off by, at prices of its own.
    """

    def __init__(
        self,
        weights: NDArray[np.float64],
        best: ChoiceIncumbent,
        seed: int,
        clock: Clock,
        counters: dict[str, float],
    ) -> None:
        self._weights, self._best, self._clock, self._counters = weights, best, clock, counters
        self._random = np.random.default_rng(seed)
        self._tilt: tuple[OptionTable, EntropicDual] | None = None
        self._widths = {False: float(_FIRST_WIDTH), True: float(_FIRST_WIDTH)}
        self._part = float(_PART)
        self._rate, self.rounding = 3e-7, 0.0

    def run(self, live: OptionTable) -> bool:
        """Make one pass; return whether it showed that nothing in the menus is better than the incumbent."""
        best, clock = self._best, self._clock
        if self._tilt is None or self._tilt[0] is not live:
            self._tilt = live, freezing_temperature(live, self._weights, clock.late)
        first = self._tilt[1]
        open_jobs = np.flatnonzero(np.diff(live.offsets) > 1)
        anchor, floor = best.among(live), best.floor
        menus, jobs = live, np.arange(live.num_jobs)
        many = anchor is not None and open_jobs.size > self._part
        partial = many and bool(self._random.random() < _share(open_jobs.size))
        if partial and anchor is not None and floor is not None:
            size = min(open_jobs.size - 1, int(self._part * self._random.uniform(0.7, 1.5)))
            jobs = np.sort(self._random.choice(open_jobs, size, replace=False))
            rest = np.ones(live.num_jobs, dtype=np.bool_)
            rest[jobs] = False
            menus = live.part(jobs, live.capacities - live.used(anchor[rest]))
            floor -= float(live.values[anchor[rest]].sum())
        heat = float(np.exp(self._random.uniform(-0.6, 0.5)))
        smoothed = entropic_dual(menus, first.weights, first.temperature * heat, clock.late)
        if clock.late():
            return False
        order = self._order(smoothed.entropy(menus))
        began = clock.seconds
        found = search(menus, smoothed, order, self._width(partial, menus), floor, clock.late)
        self._charge(menus, found.expanded, clock.seconds - began)
        improved = False
        if found.choice is not None:
            choice = found.choice if anchor is None or not partial else anchor.copy()
            if partial:
                choice[jobs] = menus.rows[found.choice]
            improved = best.take(live.rows[choice])
        if not improved:
            self._widths[partial] = min(_WIDEST, self._widths[partial] * 1.1 + 1)
        if not found.complete or clock.late():
            return False
        if partial:
            self._part *= 1.1  # the neighbourhood is exhausted: a larger one is affordable
            return False
        self.rounding = noise(menus, smoothed.weights)
        return True

    def _order(self, entropy: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return an order of the jobs: by chance, or those first that are nearly decided."""
        if self._random.random() < 0.5:
            return np.argsort(entropy * self._random.random(entropy.size), kind="stable")
        return self._random.permutation(entropy.size)

    def _charge(self, menus: OptionTable, states: int, took: float) -> None:
        if not self._clock.counted and states > 50_000:
            self._rate = 0.7 * self._rate + 0.3 * took / states
        seconds = states * _SECONDS_PER_STATE + menus.num_jobs * _SECONDS_PER_LAYER
        self._clock.charge(max(1, states), seconds)
        self._counters["passes"] += 1
        self._counters["states"] += states

    def _width(self, partial: bool, menus: OptionTable) -> int:
        """States per layer, such that a pass fits the memory and a third of the time left."""
        layers = max(1, menus.num_jobs)
        widest = int(np.diff(menus.offsets).max(initial=1))
        width = min(self._widths[partial], _MEMORY / layers, _LARGEST_LAYER / widest)
        left = self._clock.remaining
        if left is not None:
            per_state = self._rate * menus.num_options
            width = min(width, max(16.0, 0.33 * left / max(per_state, 1e-12)))
        return max(16, int(width))


def _share(open_jobs: int) -> float:
    """Return the share of the passes that look at a part of the jobs only."""
    return 0.15 if open_jobs < 1000 else 0.9

"""Beam passes over menus from turn to turn, ever wider while nothing improves.

Passes over all jobs alternate with passes over a random part of them, the rest staying as in the incumbent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.clock import Clock

from .beam import search
from .incumbent import BestChoice
from .option_table import OptionTable
from .tilt import Tilt, freezing, tilted

__all__ = ["BeamTurns"]

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
    """

    def __init__(
        self,
        weights: NDArray[np.float64],
        best: BestChoice,
        seed: int,
        clock: Clock,
        counters: dict[str, float],
    ) -> None:
        self._weights, self._best, self._clock, self._counters = weights, best, clock, counters
        self._random = np.random.default_rng(seed)
        self._tilt: tuple[OptionTable, Tilt] | None = None
        self._widths = {False: float(_FIRST_WIDTH), True: float(_FIRST_WIDTH)}
        self._part = float(_PART)
        self._rate = 3e-7

    def run(self, live: OptionTable) -> bool:
        """Make one pass; return whether it showed that nothing in the menus is better than the incumbent."""
        best, clock = self._best, self._clock
        if self._tilt is None or self._tilt[0] is not live:
            self._tilt = live, freezing(live, self._weights, clock.late)
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
        tilt = tilted(menus, first.weights, first.temperature * heat, clock.late)
        if clock.late():
            return False
        order = self._order(tilt.entropy(menus))
        began = clock.seconds
        found = search(menus, tilt, order, self._width(partial, menus), floor, clock.late)
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
        return not partial

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

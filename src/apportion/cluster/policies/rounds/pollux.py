"""Pollux (Qiao et al., OSDI 2021): the power mean of speed-ups over a fair share, maximised exactly.

    fitness = ((1/J) sum_j (SPEEDUP_j + 1e-3)^p)^(1/p),   p = -1,
    SPEEDUP_j = goodput_j / goodput_j(fair share) x max(age - restarts S, 0) / (age + S) where it changes

The published search is genetic, over job x node matrices. For p < 0 the fitness rises as its sum falls, and
the sum is separable: over counts it is a multiple-choice knapsack.

A genetic search of our own for the mean that Pollux maximises, over matrices of jobs x nodes.

It is not the published search (NSGA-II with single-point crossover, resets, zeroing and growth into free
GPUs), and weaker: on the published workload 6 that one reached 2,446 s, this one 3,076 s. It stands here
because, unlike the exact search over counts, it may split a job over nodes as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView
from apportion.cluster.policies.rounds.configurations import (
    believed_rates,
    choose,
    count_menu,
    current_configuration,
)
from apportion.cluster.policies.rounds.placing import filled, place_rest, place_whole
from apportion.cluster.policies.rounds.sia import restart_factor

__all__ = ["GeneticSearch", "Pollux", "fair_rates"]


_FLOOR = 1e-3


@dataclass(frozen=True, slots=True)
class Pollux:
    """Pollux' policy with an exact search.

    Attributes
    ----------
    power
        The fairness knob p, negative.
    """

    power: float = -1.0

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        menu = count_menu(view.nodes)
        speedup = believed_rates(view, menu, range(view.num_jobs)) / fair_rates(view)[:, None]
        current = current_configuration(view, menu)
        changed = np.arange(menu.gpus.size) != current[:, None]
        speedup *= np.where(changed, restart_factor(view)[:, None], 1.0)
        # less than the same sum with everybody waiting
        values = _FLOOR**self.power - (speedup + _FLOOR) ** self.power
        chosen = choose(view.nodes, menu, values, preferred=current)
        gpus = np.where(chosen >= 0, menu.gpus[chosen], 0)
        whole = place_whole(view, menu.gpu_type[chosen], gpus)
        return ClusterPlan(place_rest(view, whole, gpus.tolist()))


def fair_rates(view: ClusterView) -> NDArray[np.float64]:
    """Return float64 [jobs]: goodput on an equal share of the GPUs, at least one.

    Of a share on which a job was not measured, or cannot run, it is that on the most GPUs below it.
    """
    share = max(1, view.nodes.total_gpus // view.num_jobs)
    per_node = int(view.nodes.gpus.max())
    return np.array(
        [
            next(
                (
                    rate
                    for count in range(min(share, belief.max_gpus), 0, -1)
                    if (rate := belief.rate(filled(count, per_node), view.nodes.types[0])) > 0
                ),
                np.nan,
            )
            for belief in view.beliefs
        ]
    )


_FITNESS_FLOOR = 1e-3


class GeneticSearch:
    """Pollux' objective by a genetic search of our own; at most one distributed job a node.

    Parameters
    ----------
    seed
        Random seed of the search.
    population, generations
        Matrices kept, and how often they are bred, every round.
    """

    def __init__(self, seed: int = 0, population: int = 100, generations: int = 100) -> None:
        self._rng = np.random.default_rng(seed)
        self._size, self._generations = population, generations
        self._jobs: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._kept: NDArray[np.int64] = np.empty((population, 0, 0), dtype=np.int64)

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Breed from last round's population and answer with the fittest."""
        count = view.nodes.gpus.size
        now = np.stack([np.bincount(np.asarray(held, dtype=np.int64), minlength=count) for held in view.held])
        speedups = _SpeedUps(view, now)
        crowd = self._repaired(view, self._inherited(view, now))
        fitness = speedups.fitness(crowd)
        for _ in range(self._generations):
            children = self._repaired(view, self._mutated(view, self._crossed(crowd)))
            crowd = np.concatenate((crowd, children))
            fitness = np.concatenate((fitness, speedups.fitness(children)))
            best = np.argsort(-fitness, kind="stable")[: self._size]
            crowd, fitness = crowd[best], fitness[best]
        self._jobs, self._kept = view.jobs, crowd
        winner = crowd[0]
        nodes = [
            held if np.array_equal(row, before) else tuple(np.repeat(np.arange(row.size), row).tolist())
            for row, before, held in zip(winner, now, view.held, strict=True)
        ]
        return ClusterPlan(nodes)

    def _inherited(self, view: ClusterView, now: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the last population for the jobs that are still there; newcomers wait in it."""
        crowd = np.broadcast_to(now, (self._size, *now.shape)).copy()
        _, here, there = np.intersect1d(view.jobs, self._jobs, return_indices=True)
        if here.size:
            crowd[1:, here] = self._kept[1:, there]
        return crowd

    def _crossed(self, crowd: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return children that take every job's row from one of two parents."""
        mothers = crowd[self._rng.integers(0, len(crowd), self._size)]
        fathers = crowd[self._rng.integers(0, len(crowd), self._size)]
        of_mother = self._rng.random((self._size, crowd.shape[1], 1)) < 0.5
        return np.where(of_mother, mothers, fathers)

    def _mutated(self, view: ClusterView, crowd: NDArray[np.int64]) -> NDArray[np.int64]:
        """Set about one entry of every job to a random count."""
        drawn = self._rng.integers(0, view.nodes.gpus + 1, crowd.shape)
        return np.where(self._rng.random(crowd.shape) < 1.0 / crowd.shape[2], drawn, crowd)

    def _repaired(self, view: ClusterView, crowd: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cut every job to its maximum, then jobs in random order to what their nodes still have."""
        jobs = crowd.shape[1]
        most = np.array([belief.max_gpus for belief in view.beliefs], dtype=np.int64)
        before = np.cumsum(crowd, axis=2) - crowd
        crowd = np.clip(most[None, :, None] - before, 0, crowd)
        left = np.broadcast_to(view.nodes.gpus, (len(crowd), view.nodes.gpus.size)).copy()
        spread_taken = np.zeros(left.shape, dtype=np.bool_)
        repaired = np.zeros_like(crowd)
        rows = np.arange(len(crowd))
        order = self._rng.permuted(np.tile(np.arange(jobs), (len(crowd), 1)), axis=1)
        for turn in range(jobs):
            job = order[:, turn]
            given = np.minimum(crowd[rows, job], left)
            spread = (given > 0).sum(axis=1, keepdims=True) > 1
            # interference avoidance: a second distributed job finds the node closed
            given = np.where(spread & spread_taken, 0, given)
            spread_taken |= ((given > 0).sum(axis=1, keepdims=True) > 1) & (given > 0)
            left -= given
            repaired[rows, job] = given
        return repaired


class _SpeedUps:
    """SPEEDUP of every job by nodes and GPUs, computed where it is first asked for."""

    def __init__(self, view: ClusterView, now: NDArray[np.int64]) -> None:
        self._view, self._now = view, now
        self._per_node = int(view.nodes.gpus.max())
        self._factor = restart_factor(view)
        self._known = np.full((view.num_jobs, view.nodes.gpus.size + 1, view.nodes.total_gpus + 1), np.nan)
        self._known[:, 0, 0] = 0.0
        self._fair = fair_rates(view)

    def fitness(self, crowd: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64 [individuals]: the power mean with p = -1."""
        gpus, nodes = crowd.sum(axis=2), (crowd > 0).sum(axis=2)
        job = np.broadcast_to(np.arange(crowd.shape[1]), gpus.shape)
        speedup = self._known[job, nodes, gpus]
        unknown = np.isnan(speedup)
        if unknown.any():
            for cell in np.unique(np.stack((job[unknown], nodes[unknown], gpus[unknown])), axis=1).T.tolist():
                self._known[tuple(cell)] = self._computed(*cell)
            speedup = self._known[job, nodes, gpus]
        changed = (crowd != self._now).any(axis=2)
        speedup = speedup * np.where(changed, self._factor, 1.0)
        return np.asarray(crowd.shape[1] / (1.0 / (speedup + _FITNESS_FLOOR)).sum(axis=1))

    def _computed(self, job: int, nodes: int, gpus: int) -> float:
        low, more = divmod(gpus, nodes)
        placement = (low,) * (nodes - more) + (low + 1,) * more
        rate = self._view.beliefs[job].rate(placement, self._view.nodes.types[0])
        return rate / self._fair[job] if rate > 0 else 0.0

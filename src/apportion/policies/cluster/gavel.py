"""Gavel (Narayanan et al., OSDI 2020): time fractions by linear programs, realised in rounds.

What the fractions optimise is an objective of `gavel_objectives`. Of the fractions that reach its optimum
those with the greatest sum of relative speeds are taken, so that what the worst-off cannot use is not lost.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from apportion.choices import one_of
from apportion.policies.cluster.believed_speeds import gpus_by_type
from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterView
from apportion.policies.cluster.gavel_objectives import OBJECTIVES, FractionsOf
from apportion.policies.cluster.placing import free_gpus, place_on_freest

__all__ = ["Gavel"]

_SLACK = 1e-6


class Gavel:
    """Gavel's policy: fractions anew whenever the set of jobs changes, priorities every round.

    Parameters
    ----------
    objective
        A name of `gavel_objectives.OBJECTIVES`.
    reset_s
        Least seconds between two resets of what the jobs have received; 1,920 in the published simulator.
    """

    def __init__(self, objective: str = "max_min", reset_s: float = 1920.0) -> None:
        one_of("objective", objective, OBJECTIVES)
        self._fractions_of: FractionsOf = OBJECTIVES[objective]()
        self._reset_s, self._last_reset_s = reset_s, -math.inf
        self._jobs: tuple[int, ...] = ()
        self._fractions: dict[int, NDArray[np.float64]] = {}
        self._received: dict[int, NDArray[np.float64]] = {}

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Run the jobs that lag most behind their fractions."""
        types = len(view.nodes.types)
        jobs = tuple(view.jobs.tolist())
        if jobs != self._jobs:
            fractions = self._fractions_of(view)
            self._jobs = jobs
            self._fractions = dict(zip(jobs, fractions, strict=True))
            if view.time_s - self._last_reset_s >= self._reset_s:
                self._last_reset_s, self._received = view.time_s, {}
            self._received = {job: self._received.get(job, np.zeros(types)) for job in jobs}
        for job, held in zip(jobs, view.held, strict=True):
            if held:
                self._received[job][view.nodes.kind[held[0]]] += 1.0
        return ClusterPlan(self._placed(view, self._priorities(view)))

    def _priorities(self, view: ClusterView) -> list[tuple[int, int]]:
        """Return (job, type) by falling priority: fraction over the rounds received."""
        fraction = np.stack([self._fractions[int(job)] for job in view.jobs])
        received = np.stack([self._received[int(job)] for job in view.jobs])
        entitled = fraction > _SLACK
        lag = np.where(entitled, np.inf, 0.0)
        np.divide(fraction, received, out=lag, where=entitled & (received > 0))
        # of those that never ran, who is entitled to most
        order = np.lexsort((-fraction.ravel(), -lag.ravel()))
        wanted = [divmod(int(cell), lag.shape[1]) for cell in order]
        return [(job, kind) for job, kind in wanted if fraction[job, kind] > _SLACK]

    def _placed(self, view: ClusterView, wanted: list[tuple[int, int]]) -> list[tuple[int, ...]]:
        nodes: list[tuple[int, ...]] = [()] * view.num_jobs
        kinds = view.nodes.kind
        left = gpus_by_type(view)
        chosen: dict[int, int] = {}
        for job, kind in wanted:
            gpus = int(view.requested_gpus[job])
            if job not in chosen and gpus <= left[kind]:
                left[kind] -= gpus
                chosen[job] = kind
        for job, kind in chosen.items():
            held = view.held[job]
            if held and kinds[held[0]] == kind:
                nodes[job] = held
        free = free_gpus(view.nodes.gpus, nodes)
        for job, kind in chosen.items():
            if not nodes[job]:
                own = np.where(kinds == kind, free, 0)
                nodes[job] = place_on_freest(own, int(view.requested_gpus[job]))
                for node in nodes[job]:
                    free[node] -= 1
        return nodes

"""Gavel (Narayanan et al., OSDI 2020): time fractions by a linear program, realised in rounds.

    max u   s.t.  sum_m thr_jm X_jm >= u norm_j,   sum_m X_jm <= 1,   sum_j scale_j X_jm <= GPUs_m,   X >= 0

With norm_j the throughput on an equal share over scale_j this is max-min fairness; with norm_j the remaining
progress, u is one over the makespan. Of the optimal fractions those with the greatest sum of thr / norm are
taken, so that what the worst-off cannot use is not lost.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.choices import one_of
from apportion.errors import ApportionError
from apportion.interruption import uninterrupted
from apportion.models.builder import LinearModelBuilder
from apportion.options import SolveOptions
from apportion.policies.cluster.placing import filled, free_gpus, place_on_freest
from apportion.policies.cluster.view import ClusterPlan, ClusterView

__all__ = ["Gavel"]

_OPTIONS = SolveOptions(time_limit=None)
_SLACK = 1e-6


class Gavel:
    """Gavel's policy: fractions anew whenever the set of jobs changes, priorities every round.

    Parameters
    ----------
    objective
        ``"max_min"`` or ``"makespan"``.
    """

    def __init__(self, objective: Literal["max_min", "makespan"] = "max_min") -> None:
        one_of("objective", objective, ("max_min", "makespan"))
        self._objective = objective
        self._jobs: tuple[int, ...] = ()
        self._fractions: dict[int, NDArray[np.float64]] = {}
        self._received: dict[int, NDArray[np.float64]] = {}

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Run the jobs that lag most behind their fractions."""
        types = len(view.nodes.types)
        jobs = tuple(view.jobs.tolist())
        if jobs != self._jobs:
            fractions = self._solved(view)
            self._jobs = jobs
            self._fractions = dict(zip(jobs, fractions, strict=True))
            self._received = {job: np.zeros(types) for job in jobs}
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
        left = np.bincount(kinds, weights=view.nodes.gpus, minlength=len(view.nodes.types)).astype(np.int64)
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

    def _solved(self, view: ClusterView) -> NDArray[np.float64]:
        """Return float64 [jobs, types]: the fractions."""
        speeds = _speeds(view)
        scale = view.requested_gpus.astype(np.float64)
        counted = np.bincount(view.nodes.kind, weights=view.nodes.gpus, minlength=len(view.nodes.types))
        gpus = counted.astype(np.float64)
        if self._objective == "makespan":
            norm = np.array([belief.remaining_progress for belief in view.beliefs])
        else:
            equal = np.minimum(gpus / view.num_jobs, 1.0)
            norm = speeds @ (equal / max(1.0, float(equal.sum()))) / scale
        least = _program(speeds, norm, scale, gpus, None)[1]
        return _program(speeds, norm, scale, gpus, least * (1 - _SLACK))[0]


def _speeds(view: ClusterView) -> NDArray[np.float64]:
    """Return float64 [jobs, types]: progress per second on the requested GPUs, 0 where it cannot run."""
    speeds = np.zeros((view.num_jobs, len(view.nodes.types)))
    for kind, name in enumerate(view.nodes.types):
        own = view.nodes.gpus[view.nodes.of_type(kind)]
        for job, belief in enumerate(view.beliefs):
            gpus = int(view.requested_gpus[job])
            if gpus <= int(own.sum()):
                rate = belief.rate(filled(gpus, int(own.max())), name)
                speeds[job, kind] = rate if rate > 0 else 0.0
    return speeds


def _program(
    speeds: NDArray[np.float64],
    norm: NDArray[np.float64],
    scale: NDArray[np.float64],
    gpus: NDArray[np.float64],
    at_least: float | None,
) -> tuple[NDArray[np.float64], float]:
    """Return fractions and the least normalised speed; `at_least` given, the greatest sum of them."""
    from apportion.solvers.general import highs

    program = LinearModelBuilder("maximize")
    x = program.continuous("X", speeds.shape, 0.0, 1.0)
    relative = (x * (speeds / norm[:, None])).sum(axis=1)
    if at_least is None:
        least = program.continuous("u", (1,))
        program.at_least("speed", relative, least)
        program.objective(least)
    else:
        program.at_least("speed", relative, at_least)
        program.objective(relative.sum())
    program.at_most("time", x.sum(axis=1), 1.0)
    program.at_most("gpus", (x * scale[:, None]).sum(axis=0), gpus)
    outcome = uninterrupted(highs.solve(program.build(), _OPTIONS))
    if outcome.point is None:
        raise ApportionError(f"Gavel's program has no solution: {outcome.termination}")
    fractions = np.asarray(outcome.point, dtype=np.float64)[: speeds.size].reshape(speeds.shape)
    return fractions, float((fractions * speeds / norm[:, None]).sum(axis=1).min())

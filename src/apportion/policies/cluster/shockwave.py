"""Shockwave's idea (Zheng et al., NSDI 2023): plan a window of rounds for social welfare over time.

    max  sum_j rho_j^k log(done_j + progress of n_j rounds) - lambda H,    sum of GPU rounds within the window

n_j is the number of rounds of the window that job j runs on one GPU type, H how long the last job would still
need after the window. Every H that can come out fixes a least n_j; for each of them the rest is a knapsack
over (type, rounds), solved by our own engine. The paper's forecast of batch sizes is left to the beliefs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.policies.cluster.believed_speeds import gpus_by_type
from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterView
from apportion.policies.cluster.finish_times import FinishTimesNow, FinishTimesTracker
from apportion.policies.cluster.place_by_type import place_by_type
from apportion.policies.cluster.solved_round import solved

__all__ = ["Shockwave"]

_FLOOR = 1e-3
"""Part of its work that counts as done from the start, so that a first round is worth finitely much."""


class Shockwave:
    """Shockwave's window.

    Parameters
    ----------
    rounds
        Rounds of a window.
    power
        k: how much more the welfare of jobs with a bad finish-time ratio counts; 5 in the artifact.
    makespan
        lambda: how much a second less of the last job's remainder counts, per window and job.
    gap
        Relative optimality gap of a plan.
    """

    def __init__(
        self, rounds: int = 10, power: float = 5.0, makespan: float = 0.1, gap: float = 1e-2
    ) -> None:
        self._rounds, self._power, self._makespan, self._gap = rounds, power, makespan, gap
        self._tracker = FinishTimesTracker()
        self._whole: dict[int, float] = {}
        self._planned: dict[int, tuple[int, int]] = {}
        self._jobs: frozenset[int] = frozenset()
        self._left = 0

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Plan a window where jobs came or went or the last one is over, and run one round of it."""
        now = self._tracker.now(view)
        jobs = view.jobs.tolist()
        for job, remaining in zip(jobs, now.remaining.tolist(), strict=True):
            self._whole.setdefault(job, remaining)
        if self._left == 0 or frozenset(jobs) != self._jobs:
            chosen = self._plan(view, now)
            self._planned = {job: one for job, one in zip(jobs, chosen, strict=True) if one[1]}
            self._jobs, self._left = frozenset(jobs), self._rounds
        self._left -= 1
        return ClusterPlan(place_by_type(view, self._round(view, now)))

    def _round(self, view: ClusterView, now: FinishTimesNow) -> NDArray[np.int64]:
        """Return the type of every job for one round: most planned rounds first, then who is worst off."""
        left = gpus_by_type(view)
        chosen = np.full(view.num_jobs, -1, dtype=np.int64)
        jobs = view.jobs.tolist()
        worst = now.after(view.round_s, np.zeros(view.num_jobs))
        order = sorted(
            range(len(jobs)), key=lambda at: (-self._planned.get(jobs[at], (0, 0))[1], -worst[at], at)
        )
        for at in order:
            gpus, (kind, rounds) = int(view.requested_gpus[at]), self._planned.get(jobs[at], (0, 0))
            wanted = [kind] if rounds else np.argsort(-now.speeds[at], kind="stable").tolist()
            for one in wanted:
                if now.speeds[at, one] > 0 and gpus <= left[one]:
                    chosen[at] = one
                    left[one] -= gpus
                    if rounds:
                        self._planned[jobs[at]] = (kind, rounds - 1)
                    break
        return chosen

    def _plan(self, view: ClusterView, now: FinishTimesNow) -> list[tuple[int, int]]:
        """Return (type, rounds) of every job for the best of all plans by least rounds of the longest."""
        welfare = self._welfare(view, now)
        best: tuple[float, list[tuple[int, int]]] | None = None
        with np.errstate(divide="ignore"):
            seconds = np.where(now.speeds > 0, now.remaining[:, None] / now.speeds, np.inf).min(axis=1)
        window = self._rounds * view.round_s
        for needed in range(self._rounds + 1):
            horizon = float(seconds.max()) - needed * view.round_s
            if horizon <= 0 and needed:
                break
            least = np.clip(np.ceil((seconds - horizon) / view.round_s - 1e-9), 0, self._rounds)
            found = self._packed(view, welfare, least.astype(np.int64), now.speeds > 0)
            if found is None:
                break
            worth, chosen = found
            worth -= self._makespan * view.num_jobs * horizon / window
            if best is None or worth > best[0]:
                best = worth, chosen
        return best[1] if best else [(0, 0)] * view.num_jobs

    def _welfare(self, view: ClusterView, now: FinishTimesNow) -> NDArray[np.float64]:
        """Return float64 [jobs, types, rounds]: the gain in welfare of 1 to all rounds of the window."""
        whole = np.array([self._whole[job] for job in view.jobs.tolist()])
        done = np.clip(1 - now.remaining / whole, 0.0, 1.0) + _FLOOR
        rounds = np.arange(1, self._rounds + 1) * view.round_s
        made = now.speeds[:, :, None] * rounds / whole[:, None, None]
        after = np.minimum(done[:, None, None] + made, 1 + _FLOOR)
        rho = now.after(self._rounds * view.round_s, np.zeros(view.num_jobs))
        return np.asarray((rho**self._power)[:, None, None] * np.log(after / done[:, None, None]))

    def _packed(
        self,
        view: ClusterView,
        welfare: NDArray[np.float64],
        least: NDArray[np.int64],
        runs: NDArray[np.bool_],
    ) -> tuple[float, list[tuple[int, int]]] | None:
        """Return the greatest welfare in which every job gets its least rounds; ``None`` if there is none."""
        counted = np.arange(1, self._rounds + 1)
        allowed = runs[:, :, None] & (counted[None, None, :] >= np.maximum(1, least)[:, None, None])
        job, kind, place = np.nonzero(allowed)
        uses = np.zeros((job.size, len(view.nodes.types)), dtype=np.int64)
        uses[np.arange(job.size), kind] = view.requested_gpus[job] * counted[place]
        offsets = np.zeros(view.num_jobs + 1, dtype=np.int64)
        np.cumsum(np.bincount(job, minlength=view.num_jobs), out=offsets[1:])
        model = MultipleChoiceKnapsack.from_arrays(
            welfare[job, kind, place],
            uses,
            offsets,
            gpus_by_type(view) * self._rounds,
            required=least > 0,
            capacity_names=view.nodes.types,
        )
        solution = solved(model, self._gap)
        if solution.plan is None:
            return None
        rows = np.asarray(solution.plan)
        chosen = [(int(kind[row]), int(counted[place[row]])) if row >= 0 else (0, 0) for row in rows.tolist()]
        return float(solution.objective or 0.0), chosen

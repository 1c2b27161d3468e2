"""Themis and Shockwave: policies by finish-time ratio, a job's shared finish over its finish in isolation.

Themis (Mahajan et al., NSDI 2020) gives GPUs on lease. Every round those whose lease has ended are offered to
the jobs with the worst ratios rho; what they bid is how much better their rho would become, and the offer is
shared so that the product of their 1 / rho is greatest: proportional fairness, here by an exact knapsack over
logarithms. What they leave goes to the others. The paper's hidden payments, which keep bidders honest, are
left out: beliefs do not lie here.

Shockwave (Zheng et al., NSDI 2023) plans a window of rounds for social welfare over time:

    max  sum_j rho_j^k log(done_j + progress of n_j rounds) - lambda H,    sum of GPU rounds within the window

n_j is the number of rounds of the window that job j runs on one GPU type, H how long the last job would still
need after the window. Every H that can come out fixes a least n_j; for each of them the rest is a knapsack
over (type, rounds), solved by our own engine. The paper's forecast of batch sizes is left to the beliefs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView, Nodes
from apportion.cluster.policies.rounds.configurations import solved
from apportion.cluster.policies.rounds.matching import best_types
from apportion.cluster.policies.rounds.placing import free_gpus, place_by_type, shares_problem
from apportion.cluster.policies.rounds.shares_problem import IsolatedTime
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["FinishTimesNow", "FinishTimesTracker", "Shockwave", "Themis"]


@dataclass(frozen=True, slots=True, eq=False)
class FinishTimesNow:
    """What is believed now of the finish times of a view's jobs, shared and in isolation.

    Attributes
    ----------
    speeds
        float64 [jobs, types]: progress per second on the GPUs asked for.
    isolated
        float64 [jobs]: progress per second with one part in all jobs of the cluster.
    remaining
        float64 [jobs]: progress still to make.
    since_s
        float64 [jobs]: seconds since submission.
    alone_s
        float64 [jobs]: seconds from submission to the end in isolation.
    """

    speeds: NDArray[np.float64]
    isolated: NDArray[np.float64]
    remaining: NDArray[np.float64]
    since_s: NDArray[np.float64]
    alone_s: NDArray[np.float64]

    def after(self, seconds: float, progress: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the finish-time ratios of jobs that make some progress now and then go on as in isolation.

        Parameters
        ----------
        seconds
            How long.
        progress
            float64 [jobs, ...]: what they make meanwhile; who would be done ends within those seconds.
        """
        shape = (-1,) + (1,) * (progress.ndim - 1)
        remaining, isolated = self.remaining.reshape(shape), self.isolated.reshape(shape)
        left = np.maximum(0.0, remaining - progress)
        with np.errstate(divide="ignore", invalid="ignore"):
            used = np.where(progress > remaining, seconds * remaining / progress, seconds)
        finish = self.since_s.reshape(shape) + used + left / isolated
        return np.asarray(finish / self.alone_s.reshape(shape))


class FinishTimesTracker:
    """Adds up the isolated time of every job from round to round."""

    def __init__(self) -> None:
        self._isolated = IsolatedTime()

    def now(self, view: ClusterView) -> FinishTimesNow:
        """Return the finish times of a view's jobs; to be asked every round."""
        problem = shares_problem(view)
        isolated = np.maximum(problem.isolated, 1e-12)
        remaining = np.array([max(belief.remaining_progress, 1e-9) for belief in view.beliefs])
        used = self._isolated.upto(view.jobs.tolist(), remaining, isolated)
        since = view.time_s - view.submitted_s
        return FinishTimesNow(problem.throughput, isolated, remaining, since, used + remaining / isolated)


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
        left = view.nodes.gpus_by_type
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
            view.nodes.gpus_by_type * self._rounds,
            required=least > 0,
            capacity_names=view.nodes.types,
        )
        solution = solved(model, self._gap)
        if solution.plan is None:
            return None
        rows = np.asarray(solution.plan)
        chosen = [(int(kind[row]), int(counted[place[row]])) if row >= 0 else (0, 0) for row in rows.tolist()]
        return float(solution.objective or 0.0), chosen


class Themis:
    """Themis' auction.

    Parameters
    ----------
    fairness
        f: the worst 1 - f of the jobs without a lease are offered GPUs first; 0.8 in the paper.
    lease_s
        How long an allocation is kept; 1200 s in the paper.
    gap
        Relative optimality gap of the auction.
    """

    def __init__(self, fairness: float = 0.8, lease_s: float = 1200.0, gap: float = 1e-3) -> None:
        self._fairness, self._lease_s, self._gap = fairness, lease_s, gap
        self._until: dict[int, float] = {}
        self._tracker = FinishTimesTracker()

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        now = self._tracker.now(view)
        jobs = view.jobs.tolist()
        leased = np.array(
            [
                bool(held) and self._until.get(job, 0.0) > view.time_s
                for job, held in zip(jobs, view.held, strict=True)
            ],
            dtype=np.bool_,
        )
        chosen = np.array(
            [view.nodes.kind[held[0]] if kept else -1 for held, kept in zip(view.held, leased, strict=True)]
        )
        waits = now.after(self._lease_s, np.zeros(view.num_jobs))
        runs = now.after(self._lease_s, now.speeds * self._lease_s)
        bids = np.where(now.speeds > 0, np.log(waits[:, None] / runs), 0.0)
        bidders = np.flatnonzero(~leased)
        bidders = bidders[np.argsort(-waits[bidders], kind="stable")]
        first = max(1, int(np.ceil((1 - self._fairness) * bidders.size)))
        for offered in (bidders[:first], bidders[first:]):
            if offered.size:
                left = _left(view, chosen)
                chosen[offered] = best_types(left, view.requested_gpus[offered], bids[offered], self._gap)
        started = {
            job for job, kind, kept in zip(jobs, chosen, leased, strict=True) if kind >= 0 and not kept
        }
        self._until = {
            job: view.time_s + self._lease_s if job in started else self._until[job]
            for job, kind in zip(jobs, chosen, strict=True)
            if kind >= 0
        }
        return ClusterPlan(place_by_type(view, chosen))


def _left(view: ClusterView, chosen: NDArray[np.int64]) -> Nodes:
    """Return the machines without the GPUs of the jobs that are chosen already."""
    placed = place_by_type(view, chosen)
    return Nodes(free_gpus(view.nodes.gpus, placed), view.nodes.kind, view.nodes.types)

"""The adaptive policy: FreeTrain's decision that knows how long nodes stay and when jobs complete.

- *Equal worth of work.* A job's throughput is weighed by the node-seconds its samples cost at best, so that
  the sum to be maximised is parallel efficiency, not images per second: slow networks no longer starve and
  are no longer left for the end.
- *Departures.* The expected cost of a departure, (hits per second at n nodes, estimated online) x down_s x
  (the rate at n nodes), is taken off the gain of running on n nodes; nodes are handed out by groups that
  leave together (`apportion.policies.grouping`), by a hazard of age estimated online.
- *Horizon.* A gain is counted for as long as it is expected to last: until the next departure that hits the
  job, at most `longest_s`.
- *Completions.* The policy asks to be woken when the next job will be done, so that its nodes do not idle
  and a waiting job is admitted at once.

Everything else is FreeTrain's (arXiv:2106.12091), solved to proven optimality.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.estimation.departures import HitRates, IdleHazard
from apportion.policies.completion import next_completion
from apportion.policies.count_menus import count_menus
from apportion.policies.freetrain import best_counts
from apportion.policies.gap_filling_view import GapFillingView, Plan
from apportion.policies.grouping import complete_by_groups

__all__ = ["Adaptive"]


class Adaptive:
    """Lifetimes, an adaptive horizon and completions inside FreeTrain's decision.

    Parameters
    ----------
    longest_s
        Longest time a gain is counted for, seconds.
    wakes
        Whether to ask to be woken when a job will be done.
    weighs
        Whether to weigh throughput by what a sample costs at best.
    departures
        Whether to count the expected cost of departures, and hand out nodes by groups.
    """

    def __init__(
        self, longest_s: float = 90.0, wakes: bool = True, weighs: bool = True, departures: bool = True
    ) -> None:
        self.longest_s, self.wakes, self.weighs, self.departures = longest_s, wakes, weighs, departures
        self._hazard, self._hits = IdleHazard(), HitRates()
        self._before: tuple[float, NDArray[np.int64], NDArray[np.int64]] | None = None

    def __call__(self, view: GapFillingView) -> Plan:
        """Return the plan for this instant."""
        held = view.held()
        self._learn(view, held)
        if not view.num_jobs or not view.nodes.size:
            return Plan(view.holder)
        counts = best_counts(count_menus(view, self._values(view, held)), None)
        if counts is None:
            return Plan(view.holder)
        hazard = self._hazard.rate(view.time_s - view.idle_since_s)
        plan = complete_by_groups(view, counts, held, hazard)
        self._before = (view.time_s, view.jobs, counts)
        return Plan(plan.holder, next_completion(view, held, counts) if self.wakes else None)

    def _values(self, view: GapFillingView, held: NDArray[np.int64]) -> NDArray[np.float64]:
        running = view.running_rate(held)
        counts = np.arange(view.rates.shape[1])
        worth = np.ones(view.num_jobs)
        if self.weighs:
            per_node = view.rates[:, 1:] / counts[1:]
            allowed = (counts[1:] >= view.min_nodes[:, None]) & (counts[1:] <= view.max_nodes[:, None])
            worth = 1.0 / np.maximum(np.where(allowed, per_node, 0.0).max(axis=1), 1e-12)
        lasting = np.full(counts.size, self.longest_s)
        lost = np.zeros((view.num_jobs, counts.size))
        if self.departures:
            hits = self._hits.rate(counts)
            lasting = 1.0 / (hits + 1.0 / self.longest_s)
            lost = np.minimum(view.down_s[:, None] * hits, 1.0)
        stall = (running * view.up_s)[:, None] * (counts > held[:, None])
        stall += (running * view.down_s)[:, None] * (counts < held[:, None])
        return worth[:, None] * (lasting * view.rates * (1.0 - lost) - stall)

    def _learn(self, view: GapFillingView, held: NDArray[np.int64]) -> None:
        """Book what happened since the last decision."""
        self._hazard.depart(view.departed_after_s)
        if self._before is None:
            return
        then_s, jobs, counts = self._before
        self._before = None
        seconds = view.time_s - then_s
        groups = np.unique(view.idle_since_s)
        self._hazard.expose(then_s - groups[groups <= then_s], seconds)
        place = np.searchsorted(view.jobs, jobs)  # numbers of jobs rise in order of admission
        known = place < view.num_jobs
        known[known] = view.jobs[place[known]] == jobs[known]
        self._hits.observe(counts[known], held[place[known]] < counts[known], seconds)

    def state(self) -> dict[str, Any]:
        """Return what has been learnt, for a checkpoint."""
        before = None
        if self._before is not None:
            before = [self._before[0], self._before[1].tolist(), self._before[2].tolist()]
        return {"hazard": self._hazard.state(), "hits": self._hits.state(), "before": before}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with what had been learnt."""
        self._hazard.restore(state["hazard"])
        self._hits.restore(state["hits"])
        before = state["before"]
        self._before = None
        if before is not None:
            self._before = (before[0], np.array(before[1], np.int64), np.array(before[2], np.int64))

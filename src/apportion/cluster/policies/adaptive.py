"""The adaptive policy: FreeTrain's decision that knows how long nodes stay and when jobs complete.

- *Equal worth of work.* A job's throughput is weighed by the node-seconds its samples cost at best, so that
  the sum to be maximised is parallel efficiency, not images per second: slow networks no longer starve and
  are no longer left for the end.
- *Departures.* The expected cost of a departure, (hits per second at n nodes, estimated online) x down_s x
  (the rate at n nodes), is taken off the gain of running on n nodes.
- *Horizon.* A gain is counted for as long as it is expected to last: until the next departure that hits the
  job, at most `longest_s`.
- *Completions.* The policy asks to be woken when the next job will be done, so that its nodes do not idle
  and a waiting job is admitted at once.

Everything else is FreeTrain's (arXiv:2106.12091), solved to proven optimality.

Idle nodes of a supercomputer leave in groups (a large job starts). So a growing job is given whole groups
(first of those it already has a part of), the most demanding job first; a shrinking one gives up its smallest
groups, so that what is left of them does not tie it to one more departure. Among groups alike the more
hazardous go first to the job that asks first, which gathers them in as few jobs as possible.

The longer a node has been idle the longer it tends to stay: a decreasing hazard. `IdleHazard` and `HitRates`
count occurrences and exposure in bins, the maximum-likelihood estimate of a piecewise constant hazard
(occurrence-exposure rate), with a Gamma prior of one occurrence so that an unseen bin has a finite rate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.completion import count_menus, next_completion
from apportion.cluster.policies.freetrain import best_counts
from apportion.cluster.policies.gap_filling_view import FREE, GapFillingView, Plan
from apportion.solvers.knapsack.costates import costates

__all__ = ["Adaptive", "HitRates", "IdleHazard", "Priced", "complete_by_groups"]


_AGE_EDGES_S = (120.0, 300.0, 600.0, 1200.0, 2400.0, 4800.0, 9600.0)
_PRIOR_HAZARD = 1.0 / 1200.0
_PRIOR_HITS = 7.0 / 3600.0


class IdleHazard:
    """The hazard of a node to leave, by how long it has been idle.

    Groups count once: nodes that joined at one instant are one exposure, and one occurrence when any of
    them leaves.
    """

    __slots__ = ("_exposed_s", "_left")

    def __init__(self) -> None:
        bins = len(_AGE_EDGES_S) + 1
        self._left = np.ones(bins)
        self._exposed_s = np.full(bins, 1.0 / _PRIOR_HAZARD)

    def expose(self, ages_s: NDArray[np.float64], seconds: float) -> None:
        """Book that groups of these ages were there for some seconds."""
        self._exposed_s += np.bincount(self._bin(ages_s), minlength=self._left.size) * seconds

    def depart(self, ages_s: NDArray[np.float64]) -> None:
        """Book that groups left at these ages."""
        if ages_s.size:
            self._left += np.bincount(self._bin(np.unique(ages_s)), minlength=self._left.size)

    def rate(self, ages_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return departures per second at these ages."""
        rates: NDArray[np.float64] = (self._left / self._exposed_s)[self._bin(ages_s)]
        return rates

    def state(self) -> dict[str, Any]:
        """Return the state as JSON-ready numbers, which `restore` takes back."""
        return {"left": self._left.tolist(), "exposed_s": self._exposed_s.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from an earlier state."""
        self._left, self._exposed_s = np.array(state["left"]), np.array(state["exposed_s"])

    @staticmethod
    def _bin(ages_s: NDArray[np.float64]) -> NDArray[np.intp]:
        return np.searchsorted(_AGE_EDGES_S, ages_s, side="right")


class HitRates:
    """How often a job loses nodes, by how many it holds: occurrences per second in bins of powers of two."""

    __slots__ = ("_exposed_s", "_hits")

    def __init__(self, bins: int = 16) -> None:
        self._hits = np.ones(bins)
        self._exposed_s = np.full(bins, 1.0 / _PRIOR_HITS)

    def observe(self, held: NDArray[np.int64], hit: NDArray[np.bool_], seconds: float) -> None:
        """Book that jobs with `held` nodes went through some seconds, and which of them lost nodes."""
        some = held > 0
        place = np.minimum(np.log2(np.maximum(held[some], 1)).astype(np.intp), self._hits.size - 1)
        self._exposed_s += np.bincount(place, minlength=self._hits.size) * seconds
        self._hits += np.bincount(place, weights=hit[some], minlength=self._hits.size)

    def rate(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return hits per second at these node counts; never falling, 0 at 0 nodes."""
        rates = np.maximum.accumulate(self._hits / self._exposed_s)
        at = np.interp(np.log2(np.maximum(counts, 1)), np.arange(self._hits.size), rates)
        return np.where(counts > 0, at, 0.0)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON-ready numbers, which `restore` takes back."""
        return {"hits": self._hits.tolist(), "exposed_s": self._exposed_s.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from an earlier state."""
        self._hits, self._exposed_s = np.array(state["hits"]), np.array(state["exposed_s"])


def complete_by_groups(
    view: GapFillingView,
    counts: NDArray[np.int64],
    held: NDArray[np.int64],
    hazard: NDArray[np.float64],
) -> Plan:
    """Return the plan with these node counts.

    Parameters
    ----------
    view
        The instant; nodes of one `idle_since_s` are a group.
    counts, held
        int64 [jobs]: nodes every job gets and holds.
    hazard
        float64 [nodes]: departures per second expected of each node.
    """
    change = counts - held
    shrinking, growing = np.flatnonzero(change < 0), np.flatnonzero(change > 0)
    if not shrinking.size and not growing.size:
        return Plan(view.holder)
    holder = view.holder.copy()
    _, group = np.unique(view.idle_since_s, return_inverse=True)
    num_groups = int(group.max(initial=-1)) + 1
    for job in shrinking.tolist():
        own = np.flatnonzero(holder == job)
        size = np.bincount(group[own], minlength=num_groups)[group[own]]
        order = np.lexsort((-hazard[own], size))
        holder[own[order[: int(held[job] - counts[job])]]] = FREE
    for job in growing[np.argsort(-change[growing], kind="stable")].tolist():
        free = np.flatnonzero(holder == FREE)
        need = int(change[job])
        size = np.bincount(group[free], minlength=num_groups)[group[free]]
        foreign = np.bincount(group[holder == job], minlength=num_groups)[group[free]] == 0
        fit = np.where(
            size >= need, size, view.nodes.size + need - size
        )  # the least that is enough, else the largest
        order = np.lexsort((group[free], -hazard[free], fit, foreign))
        holder[free[order[:need]]] = job
    return Plan(holder)


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
        worth = self._worth(np.where(view.allowed(counts.size), view.rates, 0.0)[:, 1:], view)
        lasting = np.full(counts.size, self.longest_s)
        lost = np.zeros((view.num_jobs, counts.size))
        if self.departures:
            hits = self._hits.rate(counts)
            lasting = 1.0 / (hits + 1.0 / self.longest_s)
            lost = np.minimum(view.down_s[:, None] * hits, 1.0)
        stall = (running * view.up_s)[:, None] * (counts > held[:, None])
        stall += (running * view.down_s)[:, None] * (counts < held[:, None])
        return worth[:, None] * (lasting * view.rates * (1.0 - lost) - stall)

    def _worth(self, rates: NDArray[np.float64], view: GapFillingView) -> NDArray[np.float64]:
        """Return float64 [jobs]: what a sample counts, given the rates on 1, 2, ... nodes."""
        if not self.weighs:
            return np.ones(view.num_jobs)
        best: NDArray[np.float64] = (rates / np.arange(1, rates.shape[1] + 1)).max(axis=1)
        return 1.0 / np.maximum(best, 1e-12)

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


class Priced(Adaptive):
    """Prices of work in the gaps: `Adaptive`, with samples weighed for the least mean completion time.

    Parameters
    ----------
    makespan
        What a second of the last completion counts beside those of all jobs, in their number.
    """

    def __init__(self, makespan: float = 0.0) -> None:
        super().__init__()
        self.makespan = makespan

    def _worth(self, rates: NDArray[np.float64], view: GapFillingView) -> NDArray[np.float64]:
        """Return float64 [jobs]: the `costates` on the nodes that are idle now."""
        idle = view.nodes.size
        nodes = np.arange(1, min(rates.shape[1], idle) + 1)
        remaining = np.maximum(view.remaining, 1e-9)[:, None]
        last = self.makespan * view.num_jobs
        pool, size = np.zeros_like(nodes), np.array([idle])
        return costates(rates[:, : nodes.size], remaining, nodes, pool, size, last=last)[:, 0]

"""AFS-L (Hwang et al., NSDI 2021): GPUs go one by one to the winner of a tournament between jobs."""

from __future__ import annotations

from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterView
from apportion.policies.cluster.place_counts import place_counts
from apportion.policies.cluster.placing import filled

__all__ = ["afs"]


def afs(view: ClusterView) -> ClusterPlan:
    """Give every GPU to the job that gains more from it than a shorter one would lose without it."""
    speeds = _Speeds(view)
    counts = [0] * view.num_jobs
    for _ in range(view.nodes.total_gpus):
        candidates = [job for job in range(view.num_jobs) if speeds.gains(job, counts[job])]
        if not candidates:
            break
        winner = candidates[0]
        for rival in candidates[1:]:
            winner = _winner(speeds, counts, winner, rival)
        counts[winner] += 1
    return ClusterPlan(place_counts(view, counts))


class _Speeds:
    """Believed progress per second by GPU count, on nodes filled one after another; computed once."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._per_node = int(view.nodes.gpus.max())
        self._known: dict[tuple[int, int], float] = {}

    def at(self, job: int, gpus: int) -> float:
        if gpus == 0:
            return 0.0
        if (job, gpus) not in self._known:
            belief = self._view.beliefs[job]
            rate = belief.rate(filled(gpus, self._per_node), self._view.nodes.types[0])
            self._known[job, gpus] = rate if gpus <= belief.max_gpus and rate > 0 else 0.0
        return self._known[job, gpus]

    def gains(self, job: int, gpus: int) -> bool:
        return self.at(job, gpus + 1) > self.at(job, gpus)

    def remaining_s(self, job: int, gpus: int) -> float:
        return self._view.beliefs[job].remaining_progress / self.at(job, max(gpus, 1))


def _winner(speeds: _Speeds, counts: list[int], one: int, other: int) -> int:
    short, long = sorted((one, other), key=lambda job: speeds.remaining_s(job, counts[job]))
    if counts[short] == 0:
        return short
    held, next_ = speeds.at(long, counts[long]), speeds.at(long, counts[long] + 1)
    base, more = speeds.at(short, counts[short]), speeds.at(short, counts[short] + 1)
    return long if (next_ - held) / next_ > (more - base) / base else short

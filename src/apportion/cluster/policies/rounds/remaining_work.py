"""What a scheduler knows of the work that jobs still have to do: all of it, or what completed jobs teach.

Work is counted in seconds on one GPU. Without an oracle the remaining work of a job is a random variable: its
total, given that the job has attained what it has. It is told as a few draws, equally likely and stratified,
the same quantiles for a job at all times so that they move little from round to round.

``attained``: totals of all completed jobs, those still running censored (Kaplan and Meier, *Nonparametric
estimation from incomplete observations*, JASA 53, 1958), with a Lomax law of tail exponent 1 worth a few jobs
as prior. ``by-application``: log-normal about the completed jobs of the same application, their variance
pooled over applications; before the first one completes, as ``attained``. ``asked``: the share of what their
users asked for that jobs take, estimated from all jobs in the same way; prior: any share alike, or all of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.names import REMAINING
from apportion.cluster.policies.rounds.belief import Belief, JobBelief, profiled, with_work
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.core.errors import one_of

__all__ = ["Attained", "EstimatedWork", "knowing"]

_EDGES = 15.0 * 2.0 ** (np.arange(0, 73) / 3.0)
"""Three bins an octave, from 15 s on one GPU to 2.5e8."""
_SCALE_S, _PRIOR_JOBS = 3600.0, 3.0
"""Of the Lomax prior: survival (1 + x / scale)^-1, worth so many jobs."""
_BY_ATTAINED = -0.2
"""Power of attained work in a price that rests on it alone: who has run long will run longer."""
_SPREAD = 0.1
"""Standard deviation of log totals within an application, as known from one more job."""
_LEAST = 1e-3
"""Share of the typical total, or of what was asked for, that is still ahead at least."""
_SHARES = np.linspace(0.0, 1.0, 41)
_PRIOR_HAZARD = 0.02
"""Of the shares of what was asked for: bins, and the prior's chance to end in each."""


def knowing(remaining: str, policy: ClusterPolicy) -> ClusterPolicy:
    """Return a policy that is told no more of remaining work than a name of `REMAINING` allows.

    Raises
    ------
    InvalidOption
        If there is none of that name.
    """
    one_of("remaining", remaining, REMAINING)
    return policy if remaining == "true" else EstimatedWork(policy, remaining)


def unit_rate(belief: Belief, gpu_type: str, per_node: int) -> float:
    """Return progress per second and GPU on the fewest GPUs that a job runs on; 1 where it runs on none."""
    for gpus in (1, 2, 4, 8, 16):
        nodes = -(-gpus // per_node)
        rate = belief.rate((gpus // nodes,) * nodes, gpu_type)
        if rate > 0:
            return float(rate) / gpus
    return 1.0


@dataclass(frozen=True, slots=True)
class Attained:
    """What a round shows of its jobs.

    Attributes
    ----------
    unit
        float64 [jobs]: progress per second on one GPU.
    work
        float64 [jobs]: progress so far, in seconds on one GPU.
    """

    unit: NDArray[np.float64]
    work: NDArray[np.float64]

    @classmethod
    def of(cls, view: ClusterView) -> Attained:
        """Look at a round; jobs without a profile have attained what they were given time for."""
        name, size = view.nodes.types[0], int(view.nodes.gpus.max())
        unit = np.array([unit_rate(belief, name, size) for belief in view.beliefs])
        own = [belief.progress if isinstance(belief, JobBelief) else np.nan for belief in view.beliefs]
        progress = np.array(own, dtype=np.float64)
        return cls(unit, np.where(np.isnan(progress), view.attained_gpu_s, progress / unit))


@dataclass(slots=True)
class EstimatedWork:
    """Any policy, told draws of what its jobs have still to do instead of the truth.

    Attributes
    ----------
    policy
        Who decides.
    remaining
        What it is told, of `REMAINING`.
    draws
        How many draws a job has.
    """

    policy: ClusterPolicy
    remaining: str = "attained"
    draws: int = 8
    _totals: list[float] = field(default_factory=list)
    _shares: list[float] = field(default_factory=list)
    _of_application: dict[str, list[float]] = field(default_factory=dict)
    _seen: dict[int, tuple[str, float, float]] = field(default_factory=dict)
    _quantiles: dict[int | str, NDArray[np.float64]] = field(default_factory=dict)

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        attained = Attained.of(view)
        names = [_application(belief) for belief in view.beliefs]
        self._learn(view, names, attained)
        quantiles = np.stack([self._quantile(job) for job in view.jobs.tolist()])
        if self.remaining == "by-application":
            draws = self._by_application(view, names, attained)
        elif self.remaining == "asked":
            draws = self._of_what_was_asked(view, attained, quantiles)
        else:
            draws = self._totals_beyond(attained.work, attained.work, quantiles) - attained.work[:, None]
        work = draws * attained.unit[:, None]
        known: list[float | None] = [None] * view.num_jobs
        if self.remaining == "attained":
            known = ((attained.work + _SCALE_S) ** _BY_ATTAINED / attained.unit).tolist()
        beliefs = [with_work(*one) for one in zip(view.beliefs, work, known, strict=True)]
        return self.policy(replace(view, beliefs=beliefs))

    def _learn(self, view: ClusterView, names: Sequence[str], attained: Attained) -> None:
        """Take in who has completed: a total is looked at once its job has gone."""
        here = set(view.jobs.tolist())
        for job in [job for job in self._seen if job not in here]:
            name, total, share = self._seen.pop(job)
            self._totals.append(total)
            self._shares.append(share)
            self._of_application.setdefault(name, []).append(total)
        for at, job in enumerate(view.jobs.tolist()):
            belief, total, share = view.beliefs[at], float(attained.work[at]), 1.0
            if isinstance(belief, JobBelief):
                progress = float(belief.application.progress[-1])
                total, share = progress / float(attained.unit[at]), progress / _asked(belief)
            self._seen[job] = names[at], total, share

    def _quantile(self, key: int | str) -> NDArray[np.float64]:
        """Return float64 [draws]: one quantile in each stratum, in an order of the key's own."""
        if key not in self._quantiles:
            rng = np.random.default_rng(zlib.crc32(repr(key).encode()))
            self._quantiles[key] = (rng.permutation(self.draws) + rng.random()) / self.draws
        return self._quantiles[key]

    def _hazard(self, running: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the cumulative hazard of totals at the edges; jobs that run are censored."""
        ended = np.asarray(self._totals, dtype=np.float64)
        prior = np.diff(np.log(_EDGES + _SCALE_S))
        return _cumulative_hazard(ended, np.concatenate((ended, running)), _EDGES, prior)

    def _totals_beyond(
        self, running: NDArray[np.float64], work: NDArray[np.float64], quantiles: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return float64 [jobs, draws]: totals given that they exceed the work, at quantiles beyond it."""
        hazard = self._hazard(running)
        so_far = np.interp(np.log(np.maximum(work, _EDGES[0])), np.log(_EDGES), hazard)
        rising = hazard + 1e-12 * np.arange(hazard.size)
        totals = np.exp(np.interp(so_far[:, None] - np.log1p(-quantiles), rising, np.log(_EDGES)))
        least = np.maximum(work, 1.0)[:, None] * (1.0 + 1e-6)
        return np.asarray(np.maximum(totals, least), dtype=np.float64)

    def _by_application(
        self, view: ClusterView, names: Sequence[str], attained: Attained
    ) -> NDArray[np.float64]:
        """Return float64 [jobs, draws]: remaining work of jobs whose applications differ."""
        from scipy.special import ndtr, ndtri

        logs = {name: np.log(totals) for name, totals in self._of_application.items()}
        squares = sum(float(((found - found.mean()) ** 2).sum()) for found in logs.values())
        degrees = sum(found.size - 1 for found in logs.values())
        variance = (squares + _SPREAD**2) / (degrees + 1.0)
        found, own = np.empty((view.num_jobs, self.draws)), np.array(names)
        for name in dict.fromkeys(names):
            at = np.flatnonzero(own == name)
            work = attained.work[at]
            if name not in logs:  # nobody like it has ended: the longest running bounds its total from below
                longest = np.array([work.max()])
                total = self._totals_beyond(attained.work, longest, self._quantile(name)[None])
                found[at] = np.maximum(total - work[:, None], _LEAST)
                continue
            typical, spread = logs[name].mean(), np.sqrt(variance * (1.0 + 1.0 / logs[name].size))
            beyond = (np.log(np.maximum(work, 1e-9)) - typical) / spread
            quantiles = np.stack([self._quantile(job) for job in view.jobs[at].tolist()])
            survival = ndtr(-beyond)[:, None] * (1.0 - quantiles)
            far = beyond[:, None] - np.log1p(-quantiles) / np.maximum(beyond[:, None], 1.0)
            score = np.where(survival > 1e-14, -ndtri(np.maximum(survival, 1e-300)), far)
            totals = np.exp(typical + spread * score)
            found[at] = np.maximum(totals - work[:, None], _LEAST * np.exp(typical))
        return found

    def _of_what_was_asked(
        self, view: ClusterView, attained: Attained, quantiles: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return float64 [jobs, draws]: remaining work where jobs take a share of what was asked for."""
        asked = np.array([_asked(profiled(belief)) for belief in view.beliefs]) / attained.unit
        share = attained.work / asked
        ended = np.array(self._shares)
        # who takes all of it has not ended before
        before = ended[ended < _SHARES[-2]]
        hazard = _cumulative_hazard(before, np.concatenate((ended, share)), _SHARES, _PRIOR_HAZARD)
        beyond = np.interp(share, _SHARES, hazard)[:, None] - np.log1p(-quantiles)
        taken = np.where(beyond >= hazard[-1], 1.0, np.interp(beyond, hazard, _SHARES))
        return np.maximum(taken - share[:, None], _LEAST) * asked[:, None]


def _cumulative_hazard(
    ended: NDArray[np.float64],
    seen: NDArray[np.float64],
    edges: NDArray[np.float64],
    prior: NDArray[np.float64] | float,
) -> NDArray[np.float64]:
    """Return float64 [edges]: the cumulative hazard by bins, with a prior hazard worth a few jobs.

    Parameters
    ----------
    ended
        Where jobs have ended.
    seen
        Up to where jobs were seen, those that ended among them.
    edges
        Of the bins.
    prior
        The prior's hazard in each of them.
    """
    events = np.histogram(ended, edges)[0]
    at_risk = seen.size - np.searchsorted(np.sort(seen), edges[:-1])
    rate = (events + _PRIOR_JOBS * prior) / (np.maximum(at_risk - 0.5 * events, 0.0) + _PRIOR_JOBS)
    return np.concatenate(([0.0], np.cumsum(rate)))


def _asked(belief: JobBelief) -> float:
    return float(belief.application.progress[-1]) if belief.asked is None else belief.asked


def _application(belief: Belief) -> str:
    return belief.application.name if isinstance(belief, JobBelief) else ""

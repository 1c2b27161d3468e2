"""IceFrog's idea in rounds: GPUs and frozen depth chosen together for effective progress.

Gao et al., TPDS 36(6), 2025; the exact published policy is not public. Here, with EP(g, k) = throughput x
efficiency x (1 - frozen penalty) on configuration g with k layers frozen, Sia's program has one more index:

    maximise  sum_jgk A_jgk (lambda - (r_jgk EP_j(g, k) / EP_j,ref)^p)      (p > 0: plus instead of minus)

with r the restart factor where the configuration changes, 1 - rebuild / round where only the depth does.
Nothing but GPUs couples the jobs, so of every configuration the best depth is found first and Sia's program
is left: that is exact. A cap on the cluster's frozen penalty enters by one multiplier, found by bisection.

How deep a job may be frozen is bounded by warm-up, by the depths measured, and by its accuracy budget on A_j
= sum_r f_jr dt_r / T_j, the frozen share of the layers averaged over the seconds a job held GPUs. It is kept
at every moment, so also at the end whenever that comes: nobody has to know T_j. What warm-up saves is spent
as soon as it pays; spreading it over the believed rest of the run was no better.

`LearningIceFrog` corrects what it believes of the frozen penalty by the progress its jobs really make.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.training.freezing_profile import LEVELS
from apportion.cluster.estimation.training.step_times import ThetaEstimate
from apportion.cluster.policies.rounds.belief import BelievedFreezing, JobBelief, profiled
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.cluster.policies.rounds.configurations import (
    Configurations,
    believed_rates,
    choose,
    configurations,
    current_configuration,
)
from apportion.cluster.policies.rounds.placing import place_whole, run_lengths
from apportion.cluster.policies.rounds.sia import moving_factor, reachable

__all__ = [
    "DepthGates",
    "IceFrog",
    "LearningIceFrog",
    "depth_gains",
    "frozen_penalties",
    "weigh_rebuilds",
]

_OVERDRAW_S = 0.5
"""Epochs end at whole seconds, so a round may count half a second more than it has."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class DepthGates:
    """The rules that say how deep each job may be frozen now.

    Attributes
    ----------
    warm_up
        Share of the training before which nothing is frozen.
    deepest
        Greatest share of the layers that may be frozen; a job's own profile may end before it.
    budget
        Greatest A_j; ``None``: no such limit.
    """

    warm_up: float = 0.1
    deepest: float = 0.9
    budget: float | None = None

    def limits(self, view: ClusterView) -> NDArray[np.int64]:
        """Return int64 [jobs]: the deepest depth each may have now, 0 for a job that is not to be frozen."""
        limit = np.full(view.num_jobs, min(int(self.deepest * LEVELS + _ROUNDING), LEVELS - 1))
        for position, believed in enumerate(view.beliefs):
            belief = profiled(believed)
            if belief.freezing is None or belief.phase < self.warm_up:
                limit[position] = 0
            else:
                limit[position] = min(limit[position], belief.freezing.profile.deepest)
        if self.budget is None:
            return limit
        ahead = view.round_s + _OVERDRAW_S
        share = (self.budget * (view.attained_s + ahead) - view.frozen_s) / ahead
        return np.clip(np.floor(share * LEVELS + _ROUNDING).astype(np.int64), 0, limit)


def frozen_penalties(view: ClusterView, limit: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return float64 [jobs, depths]: believed frozen penalty 1 - psi now; NaN beyond `limit`."""
    penalty = np.full((view.num_jobs, LEVELS), np.nan)
    penalty[:, 0] = 0.0
    for position in np.flatnonzero(limit > 0).tolist():
        depths = slice(int(limit[position]) + 1)
        penalty[position, depths] = 1.0 - profiled(view.beliefs[position]).retained_by_depth()[depths]
    return penalty


def depth_gains(
    view: ClusterView, menu: Configurations, rates: NDArray[np.float64], penalty: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return float64 [jobs, configurations, depths]: effective progress over that with nothing frozen.

    EP(k) / EP(0) = (T(0) / T(k)) x (1 - penalty(k)).

    Parameters
    ----------
    view, menu
        The round and its configurations.
    rates
        float64 [jobs, configurations]: NaN where a job cannot run; its gains are not used.
    penalty
        float64 [jobs, depths]: from `frozen_penalties`; where it is NaN the gain is -inf.
    """
    gains = np.full((*rates.shape, LEVELS), -np.inf)
    gains[:, :, 0] = 1.0
    names = [view.nodes.types[index] for index in menu.gpu_type.tolist()]
    kept = 1.0 - penalty
    for position in np.flatnonzero(np.isfinite(penalty[:, 1:]).any(axis=1)).tolist():
        belief = profiled(view.beliefs[position])
        allowed = np.isfinite(kept[position])
        for column in np.flatnonzero(np.isfinite(rates[position])).tolist():
            faster = belief.speed_by_depth(menu.placements[column], names[column])
            gains[position, column, allowed] = (faster * kept[position])[allowed]
    return gains


def weigh_rebuilds(
    view: ClusterView, current: NDArray[np.int64], gains: NDArray[np.float64], rebuild_s: float
) -> None:
    """Take a rebuild's cost off every depth but the present one, on the configuration a job has now.

    Parameters
    ----------
    view
        The round.
    current
        int64 [jobs]: the present configurations, -1 for none.
    gains
        float64 [jobs, configurations, depths]: from `depth_gains`; written to.
    rebuild_s
        Standstill after a change of depth alone, weighed over the round.
    """
    stays = np.flatnonzero(current >= 0)
    factor = np.full((stays.size, gains.shape[2]), max(1e-9, 1.0 - rebuild_s / view.round_s))
    factor[np.arange(stays.size), view.depth[stays]] = 1.0
    # what a gate forbids is -inf and stays so
    gains[stays, current[stays]] *= factor


_BISECTIONS = 20


@dataclass(frozen=True, slots=True)
class IceFrog:
    """IceFrog's policy: GPU count and frozen depth of every job by one program.

    Attributes
    ----------
    power, queue_penalty, gap
        The parameters of the same names of `Sia`.
    warm_up, deepest, budget
        The parameters of the same names of `DepthGates`.
    rebuild_s
        Believed standstill after a change of depth alone.
    weigh_restarts
        Count what a change of configuration or depth costs; without it only what it brings.
    penalty_cap
        Most frozen penalty of all running jobs together, in jobs; ``None``: no cap.
    """

    power: float = -0.5
    queue_penalty: float = 1.1
    gap: float = 1e-4
    warm_up: float = 0.1
    deepest: float = 0.9
    budget: float | None = None
    rebuild_s: float = 5.0
    weigh_restarts: bool = True
    penalty_cap: float | None = None

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        menu = configurations(view.nodes)
        current = current_configuration(view, menu)
        values, penalty = self._values(view, menu, current)
        chosen, depth = self._chosen(view, menu, current, values, penalty)
        runs = chosen >= 0
        gpus = np.where(runs, menu.gpus[chosen], 0)
        nodes = place_whole(view, menu.gpu_type[chosen], gpus)
        return ClusterPlan(nodes, np.where(runs, depth, 0))

    def _values(
        self, view: ClusterView, menu: Configurations, current: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return worth over waiting [jobs, configurations, depths], NaN where forbidden, and penalties."""
        rates = believed_rates(view, menu, range(view.num_jobs))
        rates[~reachable(view, menu)] = np.nan
        least = np.nanmin(np.where(np.isnan(rates), np.inf, rates), axis=1, keepdims=True)
        limit = DepthGates(self.warm_up, self.deepest, self.budget).limits(view)
        penalty = frozen_penalties(view, limit)
        progress = (rates / least)[:, :, None] * depth_gains(view, menu, rates, penalty)
        if self.weigh_restarts:
            factor = moving_factor(view, menu, current)
            np.multiply(progress, factor[:, :, None], out=progress, where=progress > 0)
            self._weigh_rebuilds(view, current, progress)
        progress[~(progress >= 0)] = np.nan
        with np.errstate(divide="ignore"):
            worth = progress**self.power
        worth[~np.isfinite(worth)] = np.nan
        return self.queue_penalty + (worth if self.power > 0 else -worth), penalty

    def _weigh_rebuilds(
        self, view: ClusterView, current: NDArray[np.int64], progress: NDArray[np.float64]
    ) -> None:
        """Take a rebuild's cost off every depth but the present one, on the configuration a job has now.

        Where a gate forbids the present depth a rebuild is unavoidable: weighed, it would let the job wait.
        """
        stays = np.flatnonzero(current >= 0)
        factor = np.full((stays.size, progress.shape[2]), max(0.0, 1.0 - self.rebuild_s / view.round_s))
        here = progress[stays, current[stays]]
        present = np.arange(stays.size), view.depth[stays]
        factor[present] = 1.0
        factor[~(here[present] > 0)] = 1.0
        # what a gate forbids stays -inf, also where the factor is 0
        np.multiply(here, factor, out=here, where=here > 0)
        progress[stays, current[stays]] = here

    def _chosen(
        self,
        view: ClusterView,
        menu: Configurations,
        current: NDArray[np.int64],
        values: NDArray[np.float64],
        penalty: NDArray[np.float64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return configuration (-1: waits) and depth of every job, int64 [jobs] each."""

        def at(price: float) -> tuple[NDArray[np.int64], NDArray[np.int64], float, float]:
            priced = values if price == 0.0 else values - price * penalty[:, None, :]
            best, depth = _best_depths(priced, current, view.depth)
            chosen = choose(view.nodes, menu, best, self.gap, current)
            jobs = np.flatnonzero(chosen >= 0)
            deep = np.zeros(view.num_jobs, dtype=np.int64)
            deep[jobs] = depth[jobs, chosen[jobs]]
            worth = float(values[jobs, chosen[jobs], deep[jobs]].sum())
            return chosen, deep, worth, float(penalty[jobs, deep[jobs]].sum())

        chosen, depth, worth, lost = at(0.0)
        if self.penalty_cap is None or lost <= self.penalty_cap:
            return chosen, depth
        # whatever the price, depth 0 is free: some price is high enough
        low, high = 0.0, 1.0
        while (found := at(high))[3] > self.penalty_cap:
            low, high = high, 4.0 * high
        chosen, depth, worth, _ = found
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            found = at(middle)
            if found[3] > self.penalty_cap:
                low = middle
                continue
            high = middle
            if found[2] > worth:
                chosen, depth, worth, _ = found
        return chosen, depth


def _best_depths(
    values: NDArray[np.float64], current: NDArray[np.int64], depth: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return best values and depths, [jobs, configurations]; of equals the present, then the shallowest."""
    known = np.where(np.isnan(values), -np.inf, values)
    best = np.argmax(known, axis=2)
    stays = np.flatnonzero(current >= 0)
    here = known[stays, current[stays]]
    as_good = here[np.arange(stays.size), depth[stays]] == here.max(axis=1)
    best[stays[as_good], current[stays[as_good]]] = depth[stays[as_good]]
    most = np.take_along_axis(known, best[:, :, None], axis=2)[:, :, 0]
    return np.where(np.isfinite(most), most, np.nan), best


@dataclass(frozen=True, slots=True)
class _Seen:
    """How a job stood when the last round began."""

    held: tuple[int, ...]
    depth: int
    progress: float
    rate: float
    faster: float
    penalty: float
    settled_s: float


@dataclass(slots=True)
class _Ratio:
    """Mean ratio of the rates seen to those believed, with nothing frozen."""

    total: float = 0.0
    count: int = 0

    def add(self, ratio: float) -> None:
        self.total, self.count = self.total + ratio, self.count + 1

    def mean(self) -> float:
        return self.total / self.count


@dataclass(slots=True)
class LearningIceFrog:
    """A policy over views whose penalties it replaces by its own estimate, one theta an application.

    A round in which a job stood still for a restart or a rebuild teaches nothing. What a job makes with
    nothing frozen, as it must during warm-up, corrects what is believed of its throughput first: otherwise
    that error would be taken for a penalty.

    Attributes
    ----------
    policy
        The policy that decides from the corrected beliefs.
    optimism
        Standard deviations by which the penalty is believed smaller than estimated, so that freezing is tried
        where little is known.
    rebuild_s
        Standstill after a change of depth alone.
    thetas
        The estimates so far, by application.
    """

    policy: ClusterPolicy = field(default_factory=IceFrog)
    optimism: float = 0.5
    rebuild_s: float = 5.0
    thetas: dict[str, ThetaEstimate] = field(default_factory=dict)
    _seen: dict[int, _Seen] = field(default_factory=dict)
    _throughput: dict[int, dict[tuple[str, int], _Ratio]] = field(default_factory=dict)

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Learn from the round that ended, and decide the next."""
        for position, job in enumerate(view.jobs.tolist()):
            if job in self._seen:
                self._learn(view, position, self._seen[job])
        beliefs = [self._corrected(profiled(belief)) for belief in view.beliefs]
        plan = self.policy(replace(view, beliefs=beliefs))
        depth = np.zeros(view.num_jobs, dtype=np.int64) if plan.depth is None else plan.depth
        self._seen = {
            job: self._remembered(view, position, plan.nodes[position], int(depth[position]))
            for position, job in enumerate(view.jobs.tolist())
            if plan.nodes[position]
        }
        present = set(view.jobs.tolist())
        for job in [job for job in self._throughput if job not in present]:
            del self._throughput[job]
        return plan

    def _corrected(self, belief: JobBelief) -> JobBelief:
        if belief.freezing is None:
            return belief
        known = self.thetas.setdefault(belief.application.name, ThetaEstimate(belief.freezing.theta))
        theta = max(0.0, known.mean - self.optimism * known.sd)
        return replace(belief, freezing=BelievedFreezing(belief.freezing.profile, theta))

    def _remembered(self, view: ClusterView, position: int, held: tuple[int, ...], depth: int) -> _Seen:
        """Return what is expected of a job in the round that begins."""
        belief, job = profiled(view.beliefs[position]), int(view.jobs[position])
        placement, gpu_type = run_lengths(held), view.nodes.type_of(held)
        faster, penalty = 1.0, 0.0
        if belief.freezing is not None and depth:
            faster = float(belief.speed_by_depth(placement, gpu_type)[depth])
            penalty = 1.0 - float(belief.freezing.profile.retained_at(belief.phase)[depth])
        before = self._seen.get(job)
        if before is None or held != view.held[position]:
            settled_s = -float(view.restart_s[position])
        elif depth != before.depth:
            settled_s = min(before.settled_s + view.round_s, -self.rebuild_s)
        else:
            settled_s = before.settled_s + view.round_s
        return _Seen(
            held, depth, belief.progress, belief.rate(placement, gpu_type), faster, penalty, settled_s
        )

    def _learn(self, view: ClusterView, position: int, seen: _Seen) -> None:
        """Compare the progress of the last round with what was expected of it."""
        belief = profiled(view.beliefs[position])
        if belief.freezing is None or seen.settled_s < 0 or view.held[position] != seen.held:
            return
        placement, gpu_type = run_lengths(seen.held), view.nodes.type_of(seen.held)
        expected = (seen.rate + belief.rate(placement, gpu_type)) / 2
        if not expected > 0:
            return
        ratio = (belief.progress - seen.progress) / view.round_s / expected
        ratios = self._throughput.setdefault(int(view.jobs[position]), {})
        place = (gpu_type, len(seen.held))
        if seen.depth == 0:
            ratios.setdefault(place, _Ratio()).add(ratio)
            return
        usual = ratios[place].mean() if place in ratios else _mean(ratios.values())
        self.thetas[belief.application.name].observe(1.0 - ratio / (usual * seen.faster), seen.penalty)


def _mean(ratios: Collection[_Ratio]) -> float:
    """Return the mean over configurations, 1 if nothing was seen."""
    return sum(ratio.mean() for ratio in ratios) / len(ratios) if ratios else 1.0

"""Prices of work: least mean completion time by costates and one exact knapsack a round.

A unit of job j's work has a price p_j, constant until the job ends: the costate of the fluid optimum of the
sum of completion times without arrivals and restarts (`apportion.solvers.knapsack.costates`), of what
remains x_j, the rates r_j(k) on k GPUs and all GPUs of every type.

A round then maximises sum v_j(k_j) within the GPUs of every type: v_j(k) = p_j r_j(k), of which a running
job that changes loses S / min(H, x_j / r_j(k)) to its restart of S seconds, and a running job's claim to
stay is half of p_j r_j(now) S / H. Where fairness is asked for the weights of jobs grow with how late a job
is believed to end beside an equal part of the cluster (`finish_time_fairness`), and who is about to end
later than a given multiple of it comes first. Where remaining work is not known but drawn
(`remaining_work`), prices are averaged over the draws: prices of the average flap. Where nothing but
attained work is known the geometric mean of that and of a price by attained work alone counts: few
completed jobs teach little of the next one's total.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.belief import price_by_attained, remaining_draws
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView, claims_of
from apportion.cluster.policies.rounds.configurations import (
    Configurations,
    believed_rates,
    choose,
    choose_within_fair_levels,
    configurations,
    current_configuration,
)
from apportion.cluster.policies.rounds.finish_time_fairness import FinishTimesNow, FinishTimesTracker
from apportion.cluster.policies.rounds.icefrog import (
    DepthGates,
    depth_gains,
    frozen_penalties,
    weigh_rebuilds,
)
from apportion.cluster.policies.rounds.placing import place_whole
from apportion.solvers.knapsack.costates import costates

__all__ = ["Costate", "Reasons", "Weighed", "why"]

_LEAST_WORTH = 0.01
"""Share of its worth that a configuration keeps however soon the job would have to start again."""
_SCALE = 100.0
"""The greatest worth that the knapsack is handed, whose values have nine decimals."""
_LATEST = 10.0
"""How many times the limit a job may be late and still be served before those who are less late."""


def _mixed_with_attained(
    price: NDArray[np.float64], view: ClusterView, weights: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Return the geometric mean of prices and those by attained work, up to a factor that all have."""
    by_attained = [price_by_attained(belief) for belief in view.beliefs]
    known = np.array([np.nan if one is None else one for one in by_attained])
    if np.isnan(known).any():
        return price
    if weights is not None:
        known *= weights
    return np.asarray(np.sqrt(price * known * (price.sum() / known.sum())))


def _too_late_first(
    view: ClusterView,
    finish: FinishTimesNow,
    limit: float,
    rates: NDArray[np.float64],
    values: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return float64 [jobs, configurations]: what makes jobs that wait for too long come before all others.

    Who would exceed the limit by one more round's wait and a restart is worth more than all others together,
    and the more the later it is, on as many GPUs as make it no slower than an equal part of the cluster.
    """
    ratio = finish.after(0.0, np.zeros(view.num_jobs)) + (view.round_s + view.restart_s) / finish.alone_s
    late = (ratio > limit)[:, None] & (rates >= finish.isolated[:, None])
    others = 2.0 * np.nanmax(values, axis=1, initial=0.0).sum()
    return np.asarray(np.where(late, others * np.minimum(ratio / limit, _LATEST)[:, None], 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """What a decision by prices of work rests on.

    Attributes
    ----------
    view
        The round, remaining work as it is believed.
    menu
        The configurations.
    price
        float64 [jobs]: seconds of all jobs' completion per unit of progress.
    rates
        float64 [jobs, configurations]: progress per second.
    values
        float64 [jobs, configurations]: what the knapsack maximised: seconds of all jobs' completion that a
        second on a configuration saves; NaN forbids.
    chosen
        int64 [jobs]: a configuration, -1 for waiting.
    """

    view: ClusterView
    menu: Configurations
    price: NDArray[np.float64]
    rates: NDArray[np.float64]
    values: NDArray[np.float64]
    chosen: NDArray[np.int64]

    @property
    def delay_s(self) -> NDArray[np.float64]:
        """float64 [jobs]: by how much an hour of its work on one GPU delays all jobs together."""
        each = np.where(self.rates > 0.0, self.rates / self.menu.gpus, np.nan)
        fewest = np.nanargmin(np.where(self.rates > 0.0, self.menu.gpus, np.inf), axis=1)
        return np.asarray(3600.0 * self.price * np.nan_to_num(each[np.arange(fewest.size), fewest]))

    def gained(self, position: int, at: int) -> NDArray[np.float64]:
        """Return float64 [configurations]: what each saves more than one has, a GPU; NaN for no more GPUs."""
        saved, gpus = np.append(self.values[position], 0.0), np.append(self.menu.gpus, 0)
        alike = (self.menu.gpu_type == self.menu.gpu_type[at]) if at >= 0 else np.True_
        more = np.where(alike & (self.menu.gpus > gpus[at]), self.menu.gpus - gpus[at], np.nan)
        return np.asarray((self.values[position] - saved[at]) / more)


def why(weighed: Weighed, position: int) -> str:
    """Return in words why a job of a round has what it has.

    Parameters
    ----------
    weighed
        What the decision rests on.
    position
        The job's, in the round's view.
    """
    menu, chosen, delay_s = weighed.menu, weighed.chosen.tolist(), weighed.delay_s
    at, names = chosen[position], weighed.view.nodes.types
    has = f"{menu.gpus[at]} of type {names[menu.gpu_type[at]]}" if at >= 0 else "none"
    below = int((delay_s < delay_s[position]).sum())
    words = [
        f"{weighed.view.time_s / 3600.0:.2f} h, GPUs: {has}",
        f"an hour of its work on one GPU delays all jobs together by {delay_s[position]:.0f} s, "
        f"more than of {below} of {len(chosen) - 1} others",
    ]
    gains = weighed.gained(position, at)
    if np.isfinite(gains).any():
        best = int(np.nanargmax(gains))
        kind = int(menu.gpu_type[best])
        least = min(
            (
                (weighed.values[job, own] - fewer) / (menu.gpus[own] - gpus)
                for job, own in enumerate(chosen)
                if job != position and own >= 0 and menu.gpu_type[own] == kind
                for gpus, fewer in _fewer(weighed, job, own)
            ),
            default=None,
        )
        others = "nobody else has any" if least is None else f"others would lose {least:.3g} with each"
        more = (
            f"with {menu.gpus[best]} of type {names[kind]} every further one would save {gains[best]:.3g} s"
        )
        words.append(f"{more} a second, {others}")
    return "; ".join(words) + "."


@dataclass(slots=True)
class Reasons:
    """Notes why one job gets the GPUs that it gets, whenever they change.

    Attributes
    ----------
    job
        Its number in the workload.
    lines
        As `why` says them.
    """

    job: int
    lines: list[str] = field(default_factory=list)
    _had: int = -1

    def __call__(self, weighed: Weighed) -> None:
        """Note a decision; see `Costate.note`."""
        for position in np.flatnonzero(weighed.view.jobs == self.job).tolist():
            has = int(weighed.chosen[position])
            if has != self._had or not self.lines:
                self.lines.append(why(weighed, position))
            self._had = has


def _fewer(weighed: Weighed, job: int, at: int) -> list[tuple[int, float]]:
    """Return the numbers of GPUs of its type below those that a job has, from 0, and what each saves."""
    menu, values = weighed.menu, weighed.values[job]
    less = (menu.gpu_type == menu.gpu_type[at]) & (menu.gpus < menu.gpus[at]) & np.isfinite(values)
    return [(0, 0.0), *zip(menu.gpus[less].tolist(), values[less].tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class Costate:
    """The policy of prices of work; where there are tenants, among the plans that share out GPUs most evenly.

    Attributes
    ----------
    horizon_s
        Over how many seconds a restart pays off, H.
    stay
        Share of what a restart costs that counts for a running job's staying.
    gap
        Relative optimality gap of a round with several GPU types.
    fairness
        Power of a job's finish-time ratio (its completion time over that with an equal part of the cluster,
        as believed) by which its completion counts more.
    ratio_limit
        What no job's finish-time ratio is to exceed, as believed: who would by waiting for another round
        comes before all others, with an equal part of the cluster at the least; ``None``: nobody does.
    makespan
        What a second of the last completion counts beside those of all jobs, in their number.
    freezes
        Whether layers are frozen: depths are options of the menu.
    gates
        How deep they may be.
    rebuild_s
        Believed standstill after a change of depth alone.
    note
        Called with what every decision rests on; `why` says it of one job.
    """

    horizon_s: float = 600.0
    stay: float = 0.5
    gap: float = 1e-4
    fairness: float = 0.0
    ratio_limit: float | None = None
    makespan: float = 0.0
    freezes: bool = False
    gates: DepthGates = field(default_factory=DepthGates)
    rebuild_s: float = 5.0
    note: Callable[[Weighed], None] | None = None
    _finish: FinishTimesTracker = field(default_factory=FinishTimesTracker)

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        menu = configurations(view.nodes)
        rates = np.nan_to_num(believed_rates(view, menu, range(view.num_jobs)))
        if not (rates > 0.0).any():  # no machine is there, or none of a type that anybody runs on
            return ClusterPlan([()] * view.num_jobs)
        draws = np.maximum(np.stack([remaining_draws(belief) for belief in view.beliefs]), 1e-9)
        types, current = view.nodes.gpus_by_type, current_configuration(view, menu)
        rates, depth, rebuilt = self._frozen(view, menu, rates, current)
        finish = self._finish.now(view) if self.fairness or self.ratio_limit is not None else None
        weights, last = self._weights(view, finish), self.makespan * view.num_jobs
        price = costates(rates, draws, menu.gpus, menu.gpu_type, types, weights, last).mean(axis=1)
        price = _mixed_with_attained(price, view, weights)
        worth = price[:, None] * rates * rebuilt
        values = self._values(view, rates, worth, draws.mean(axis=1), current)
        values[~(rates > 0.0)] = np.nan
        ranked, claims = values, claims_of(view)
        if finish is not None and self.ratio_limit is not None:
            ranked = values + _too_late_first(view, finish, self.ratio_limit, rates, values)
        scaled = ranked * (_SCALE / np.nanmax(ranked))
        if len(claims.tenants) > 1:
            chosen = choose_within_fair_levels(view.nodes, menu, scaled, claims, self.gap)
        else:
            chosen = choose(view.nodes, menu, scaled, self.gap, current)
        gpus = np.where(chosen >= 0, menu.gpus[chosen], 0)
        if self.note is not None:
            self.note(Weighed(view, menu, price, rates, values, chosen))
        nodes = place_whole(view, menu.gpu_type[chosen], gpus)
        if depth is None:
            return ClusterPlan(nodes)
        return ClusterPlan(nodes, np.where(gpus > 0, depth[np.arange(gpus.size), chosen], 0))

    def _frozen(
        self,
        view: ClusterView,
        menu: Configurations,
        rates: NDArray[np.float64],
        current: NDArray[np.int64],
    ) -> tuple[NDArray[np.float64], NDArray[np.int64] | None, NDArray[np.float64] | float]:
        """Return rates and depths of most progress, and what rebuilds leave: [jobs, configurations] each."""
        if not self.freezes:
            return rates, None, 1.0
        able = np.where(rates > 0.0, rates, np.nan)
        gains = depth_gains(view, menu, able, frozen_penalties(view, self.gates.limits(view)))
        most = gains.max(axis=2)
        weigh_rebuilds(view, current, gains, self.rebuild_s)
        return rates * most, gains.argmax(axis=2), gains.max(axis=2) / most

    def _weights(self, view: ClusterView, finish: FinishTimesNow | None) -> NDArray[np.float64] | None:
        """Return float64 [jobs]: how much a second of each job's completion counts; ``None``: all alike."""
        weights = claims_of(view).weight
        if self.fairness and finish is not None:
            ratio = finish.after(0.0, np.zeros(view.num_jobs))
            weights = weights * np.maximum(ratio, 1e-3) ** self.fairness
        return None if (weights == 1.0).all() else np.maximum(weights, 1e-9)

    def _values(
        self,
        view: ClusterView,
        rates: NDArray[np.float64],
        worth: NDArray[np.float64],
        remaining: NDArray[np.float64],
        current: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return float64 [jobs, configurations]: worth less what restarts lose, and the claim to stay."""
        runs, restart_s = np.array([bool(held) for held in view.held]), view.restart_s[:, None]
        with np.errstate(divide="ignore"):
            until_end = np.where(rates > 0.0, remaining[:, None] / rates, np.inf)
        kept = np.maximum(1.0 - restart_s / np.minimum(self.horizon_s, until_end), _LEAST_WORTH)
        moves = (np.arange(rates.shape[1]) != current[:, None]) & runs[:, None]
        now = np.where(current >= 0, worth[np.arange(runs.size), np.maximum(current, 0)], 0.0)
        claim = self.stay * now[:, None] * restart_s / self.horizon_s
        return np.asarray(np.where(moves, worth * kept, worth) + claim)

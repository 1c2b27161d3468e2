"""Prices of work with other settings: fairness, makespan, constants, wrong remaining work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from apportion.cluster.policies.names import CLUSTER_POLICIES
from apportion.cluster.policies.rounds.belief import with_work
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.cluster.policies.rounds.costate import Costate
from apportion.cluster.policies.rounds.remaining_work import knowing
from apportion.cluster.simulation.rounds.accounts import FairnessAccount, summarise_fairness
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.simulator import run_cluster
from paper_repro.costate.bounds import Bounds, above, way_gone
from paper_repro.icefrog.cases import WORKLOADS, Case, prepared
from paper_repro.intervals import Mean
from paper_repro.progress import Progress

__all__ = ["VARIANTS", "variant_rows"]


Made = tuple[str, Callable[[], ClusterPolicy]]
"""Whose rounds and batches, and the policy."""


@dataclass(frozen=True, slots=True)
class Misjudged:
    """A policy that is told remaining work times a log-normal factor, of every job its own.

    Attributes
    ----------
    policy
        Who decides.
    spread
        Standard deviation of the factor's logarithm.
    """

    policy: ClusterPolicy
    spread: float

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        factors = [np.random.default_rng(int(job)).normal(0.0, self.spread) for job in view.jobs]
        told = [
            with_work(belief, np.array([belief.remaining_progress * np.exp(factor)]))
            for belief, factor in zip(view.beliefs, factors, strict=True)
        ]
        return self.policy(replace(view, beliefs=told))


def _made(base: str, make: Callable[[], ClusterPolicy], remaining: str = "true", spread: float = 0.0) -> Made:
    return base, lambda: Misjudged(make(), spread) if spread else knowing(remaining, make())


def _named(name: str, spread: float = 0.0) -> Made:
    return _made(name, partial(CLUSTER_POLICIES[name].make, 0), spread=spread)


def _costate(remaining: str = "true", spread: float = 0.0, **options: Any) -> Made:
    return _made("costate", partial(Costate, **options), remaining, spread)


VARIANTS: Mapping[str, Mapping[str, Made]] = MappingProxyType(
    {
        "fairness": {
            "afs": _named("afs"),
            "sia": _named("sia"),
            "themis": _named("themis"),
            "shockwave": _named("shockwave"),
            "costate": _costate(),
            "costate, power 1": _costate(fairness=1.0),
            "costate-fair, power 2": _costate(fairness=2.0),
            "costate, power 4": _costate(fairness=4.0),
            **{
                f"costate, ratio at most {most}": _costate(ratio_limit=most) for most in (1.5, 1.25, 1.1, 1.0)
            },
            "costate, attained": _costate("attained"),
            "costate-fair, attained": _costate("attained", fairness=2.0),
        },
        "makespan": {
            "afs": _named("afs"),
            "costate": _costate(),
            **{f"costate, makespan {last}": _costate(makespan=last) for last in (0.1, 0.25, 0.5, 1.0)},
        },
        "constants": {
            "costate": _costate(),
            "H 400 s": _costate(horizon_s=400.0),
            "H 900 s": _costate(horizon_s=900.0),
            "no claim to stay": _costate(stay=0.0),
            "claim to stay of 2": _costate(stay=2.0),
            "costate, attained": _costate("attained"),
            "no claim to stay, attained": _costate("attained", stay=0.0),
        },
        "wrong_work": {
            "afs, work wrong by 0.3": _named("afs", 0.3),
            "costate, work wrong by 0.3": _costate(spread=0.3),
            "afs, work wrong by 1.0": _named("afs", 1.0),
            "costate, work wrong by 1.0": _costate(spread=1.0),
        },
    }
)
"""Tables of such rows; the first row of each is what the others are compared with."""


def variant_rows(data: Path, bounds: Bounds, table: str, gpus: int = 48) -> list[dict[str, Any]]:
    """Run every policy of a table on the ten workloads and return a row each."""
    policies = VARIANTS[table]
    undercut = bounds.of({CLUSTER_POLICIES[base].round_s for base, _ in policies.values()}, gpus=gpus)
    found: list[dict[str, Any]] = []
    first: tuple[list[float], list[float]] | None = None
    progress = Progress("runs", len(policies) * len(WORKLOADS))
    for name, (base, make) in policies.items():
        named = CLUSTER_POLICIES[base]
        means, makespans, worst, late = [], [], [], []
        for workload in WORKLOADS:
            made = prepared(data, Case(workload, base, gpus=gpus))
            beliefs = made.beliefs(named.adaptive)
            account = FairnessAccount(made.nodes, beliefs, made.requested_gpus, None)
            jobs = SimulatedJobs(
                made.ground_truth(named.adaptive), made.submitted_s, made.requested_gpus, beliefs
            )
            run = run_cluster(make(), made.nodes, jobs, RoundRules(round_s=named.round_s), account=account)
            fair = summarise_fairness(run, account)
            means.append(float((run.completed_s - run.submitted_s).mean()))
            makespans.append(float(run.completed_s.max() - run.submitted_s.min()))
            worst.append(fair.worst_finish_time_ratio or np.nan)
            late.append(fair.share_above_1 or 0.0)
            progress.step()
        first = first or (means, makespans)
        less = [1.0 - one / other for one, other in zip(means, first[0], strict=True)]
        later = [one / other - 1.0 for one, other in zip(makespans, first[1], strict=True)]
        found.append(
            {
                "policy": name,
                "average, s": Mean.of(means).words(),
                "less than the first, per cent": Mean.of(less).words(100.0, 1),
                "of the way from the first to the bound, per cent": way_gone(first[0], means, undercut),
                "above the bound, per cent": above(means, undercut),
                "makespan more than the first, per cent": Mean.of(later).words(100.0, 1),
                "worst finish-time ratio": Mean.of(worst).words(1.0, 2),
                **{
                    f"worst of {trace}": max(
                        round(one, 2) for one, name in zip(worst, WORKLOADS, strict=True) if trace in name
                    )
                    for trace in ("philly", "pollux")
                },
                "jobs above 1, per cent": Mean.of(late).words(100.0, 1),
            }
        )
    return found

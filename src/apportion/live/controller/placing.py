"""From how many units every job gets to which ones, where not every unit has what every job needs.

A policy holds units to be alike. A pilot was asked for with the share of one job, though, and a node may have
GPUs left and no CPUs for them; so what a plan hands out is looked at here, and for jobs that too few units
fit it is said how many do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.live.controller.ordering import serves
from apportion.live.offers import Offer, Share
from apportion.live.record.jobs import Job
from apportion.live.record.state import Pilot
from apportion.policies.gap_filling_view import FREE, count_held

__all__ = ["Units", "placed"]


@dataclass(frozen=True, slots=True)
class Units:
    """What a decision is about.

    Attributes
    ----------
    nodes
        The node of every unit.
    pilots
        The pilot that holds it, ``None`` where one is to be taken.
    offers
        What nodes have, as far as that is known.
    """

    nodes: tuple[str, ...]
    pilots: tuple[Pilot | None, ...]
    offers: Mapping[str, Offer]

    def types(self) -> list[str]:
        """Return the type of every unit."""
        sizes = {node: offer.size.type for node, offer in self.offers.items()}
        return [
            sizes.get(node, "") if pilot is None else pilot.type
            for node, pilot in zip(self.nodes, self.pilots, strict=True)
        ]

    def part(self, places: Sequence[int]) -> Units:
        """Return some of the units."""
        return Units(
            tuple(self.nodes[at] for at in places), tuple(self.pilots[at] for at in places), self.offers
        )


@dataclass(slots=True)
class _Left:
    """What is left of nodes while units are handed out."""

    units: Units
    offers: dict[str, Offer]
    fresh: Counter[str] = field(default_factory=Counter)

    def best_first(self, pool: Sequence[int], job: Job) -> list[int]:
        """Return units in the order in which a job takes them: those whose pilots must be replaced last."""

        def too_small(unit: int) -> bool:
            pilot = self.units.pilots[unit]
            return pilot is not None and not serves(pilot, job, self.offers.get(self.units.nodes[unit]))

        return sorted(pool, key=too_small)

    def give(self, unit: int, job: Job) -> bool | None:
        """Return whether a job has a unit at once, or else once its pilot is replaced; ``None``: neither."""
        node, pilot = self.units.nodes[unit], self.units.pilots[unit]
        offer = self.offers.get(node)
        if pilot is not None:
            if serves(pilot, job, offer):
                return True
            return self._replace(node, pilot.share, job)
        if offer is None:
            return True
        share = offer.share(job.spec, self.fresh[node])
        if share is None:
            return True if Share(offer.size.cpus, offer.size.memory_mib).serves(job.spec) else None
        if not offer.has(share):
            return None
        self.offers[node] = offer.without(share)
        self.fresh[node] -= 1
        return True

    def _replace(self, node: str, held: Share | None, job: Job) -> bool | None:
        """Return false if a pilot with a share for a job fits where one with this share is, else ``None``."""
        offer = self.offers.get(node)
        if held is None or offer is None:
            return None
        cpus, memory = job.spec.cpus_per_rank, job.spec.memory_mib_per_rank
        more = Share(max((cpus or 0) - held.cpus, 0), max((memory or 0) - held.memory_mib, 0))
        if not offer.has(more):
            return None
        self.offers[node] = offer.without(more)
        return False


def placed(
    units: Units, jobs: Sequence[Job], before: NDArray[np.int64], plan: NDArray[np.int64]
) -> tuple[NDArray[np.int64], frozenset[int], dict[int, int]]:
    """Return a plan of the same counts in which every job has what it needs.

    Parameters
    ----------
    units, jobs
        Positions as in the plan.
    before, plan
        int64 [units]: the job that holds a unit, and the one that is to.

    Returns
    -------
    plan
        int64 [units].
    replaced
        Units whose pilots are to be given back, so that one with a larger share takes their place.
    short
        By job, how many units it can have, where that is fewer than planned.
    """
    if not any(_needy(job) for job in jobs):
        return plan, frozenset(), {}
    kept = plan == before
    result = np.where(kept, plan, FREE)
    pool = np.flatnonzero(~kept | (plan == FREE)).tolist()
    fresh = Counter(units.nodes[unit] for unit in pool if units.pilots[unit] is None)
    left, replaced, short = _Left(units, dict(units.offers), fresh), set[int](), dict[int, int]()
    wanted = count_held(plan, len(jobs)) - count_held(result, len(jobs))
    for job in sorted(np.flatnonzero(wanted > 0).tolist(), key=lambda job: (_largest(jobs[job]), job)):
        missing = int(wanted[job])
        for unit in left.best_first(pool, jobs[job]):
            given = left.give(unit, jobs[job]) if missing else None
            if given is None:
                continue
            pool.remove(unit)
            missing -= 1
            if given:
                result[unit] = job
            else:
                replaced.add(unit)
        if missing:
            short[job] = int(np.count_nonzero(plan == job)) - missing
    return result, frozenset(replaced), short


def _needy(job: Job) -> bool:
    return job.spec.cpus_per_rank is not None or job.spec.memory_mib_per_rank is not None


def _largest(job: Job) -> tuple[int, int]:
    return -(job.spec.memory_mib_per_rank or 0), -(job.spec.cpus_per_rank or 0)

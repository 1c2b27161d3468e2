"""What the jobs of a gap-filling instance may get, as tenants see it: node counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from apportion.instances.gap_filling.meaning import CAPACITY, exact_job_value, rate_at
from apportion.instances.gap_filling.schema import GapFillingInstance, GapFillingJob
from apportion.instances.tenants.offers import Offer, Offering

__all__ = ["OFFERING"]


def _offers(instance: GapFillingInstance, job: GapFillingJob) -> Iterator[Offer]:
    horizon, forbidden = Fraction(instance.horizon_s), set(job.forbidden_counts)
    for count in (0, *range(job.min_nodes, min(job.max_nodes, len(instance.nodes)) + 1)):
        if count in forbidden or job.pinned_count not in (None, count):
            continue
        value = exact_job_value(job, horizon, count)
        holds = count == len(job.current_nodes)
        uses = {CAPACITY: count} if count else {}
        yield Offer(str(count), uses, value, rate_at(job.scaling, count), holds, nothing=count == 0)


def _taken(instance: GapFillingInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    allocation = plan["allocation"]
    return {job.id: str(len(allocation.get(job.id, ()))) for job in instance.jobs}


OFFERING = Offering(_offers, _taken)

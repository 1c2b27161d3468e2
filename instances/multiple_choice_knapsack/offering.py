"""What the jobs of a multiple-choice knapsack may get, as tenants see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apportion.instances.multiple_choice_knapsack.schema import KnapsackJob, MultipleChoiceKnapsackInstance
from apportion.instances.tenants.offers import Offer, Offering

__all__ = ["OFFERING"]


def _offers(instance: MultipleChoiceKnapsackInstance, job: KnapsackJob) -> Iterator[Offer]:
    """Yield a job's options; where values are maximised, they are rates."""
    maximizes = instance.sense == "maximize"
    for option in job.options:
        if option.id not in job.forbidden and job.pinned in (None, option.id):
            rate = max(0.0, option.value) if maximizes else 0.0
            yield Offer(option.id, option.uses, option.value, rate, option.id == job.current)
    if not job.required and job.pinned is None:
        yield Offer(None, {}, 0.0, 0.0, nothing=True)


def _taken(_: MultipleChoiceKnapsackInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    choice: Mapping[str, str | None] = plan["choice"]
    return choice


OFFERING = Offering(_offers, _taken)

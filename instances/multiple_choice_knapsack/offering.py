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
    forbidden, pinned, current = job.forbidden, job.pinned, job.current
    for option in job.options:
        name, value = option.id, option.value
        if name not in forbidden and (pinned is None or pinned == name):
            rate = value if maximizes and value > 0.0 else 0.0
            yield Offer(name, option.uses, value, rate, name == current)
    if not job.required and pinned is None:
        yield Offer(None, {}, 0.0, 0.0, nothing=True)


def _taken(_: MultipleChoiceKnapsackInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    choice: Mapping[str, str | None] = plan["choice"]
    return choice


OFFERING = Offering(_offers, _taken)

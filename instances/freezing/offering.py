"""What the jobs of a layer-freezing round may get, as tenants see it: configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.instances.freezing.meaning import configuration_name, offered
from apportion.instances.freezing.nodes import NodeWeights
from apportion.instances.freezing.schema import FreezingInstance
from apportion.instances.tenants.offers import Further, Offer, Offering

__all__ = ["OFFERING"]


def _taken(_: FreezingInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    return {
        job: configuration_name(one["gpu_type"], one["gpus"], one["depth"])
        for job, one in plan["configuration"].items()
    }


def _further(instance: FreezingInstance, name: str) -> Further | None:
    """Return the capacity of node weights."""
    weights = NodeWeights.named(instance, name)
    if weights is None:
        return None

    def use(_: str, offer: Offer) -> int:
        gpus = offer.uses.get(weights.gpu_type, 0)
        return weights.of(gpus) if gpus else 0

    cut = weights.gpu_type, weights.weights
    return Further(weights.capacity(instance.gpus[weights.gpu_type]), use, cut)


OFFERING = Offering(offered, _taken, _further)

"""What the jobs of a layer-freezing round may get, as tenants see it: configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.instances.freezing.meaning import configuration_name, offered
from apportion.instances.freezing.schema import FreezingInstance
from apportion.instances.tenants.offers import Offering

__all__ = ["OFFERING"]


def _taken(_: FreezingInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    return {
        job: configuration_name(one["gpu_type"], one["gpus"], one["depth"])
        for job, one in plan["configuration"].items()
    }


OFFERING = Offering(offered, _taken)

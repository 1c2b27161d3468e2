"""Placement instances: pods on the nodes of a cluster with places, under rules, by goals in strict order."""

from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementNodes,
    PlacementOption,
    PlacementPods,
    PlacementRunning,
)

__all__ = [
    "PlacementInstance",
    "PlacementJob",
    "PlacementNodes",
    "PlacementOption",
    "PlacementPods",
    "PlacementRunning",
]

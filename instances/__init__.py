"""What a problem is: schema, meaning, readers and writers, generators."""

from apportion.instances.freezing import FreezingConfiguration, FreezingInstance, FreezingJob, FreezingRow
from apportion.instances.gap_filling import GapFillingInstance, GapFillingJob, ScalingCurve
from apportion.instances.kinds import KINDS, Instance, ProblemType, kind_of
from apportion.instances.matching import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.instances.multiple_choice_knapsack import (
    KnapsackGoal,
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)
from apportion.instances.placement import (
    PlacementInstance,
    PlacementJob,
    PlacementNodes,
    PlacementOption,
    PlacementPods,
    PlacementRunning,
)

__all__ = [
    "KINDS",
    "FreezingConfiguration",
    "FreezingInstance",
    "FreezingJob",
    "FreezingRow",
    "GapFillingInstance",
    "GapFillingJob",
    "Instance",
    "KnapsackGoal",
    "KnapsackJob",
    "KnapsackOption",
    "MatchingEntry",
    "MatchingInstance",
    "MatchingJob",
    "MatchingMachine",
    "MultipleChoiceKnapsackInstance",
    "PlacementInstance",
    "PlacementJob",
    "PlacementNodes",
    "PlacementOption",
    "PlacementPods",
    "PlacementRunning",
    "ProblemType",
    "ScalingCurve",
    "kind_of",
]

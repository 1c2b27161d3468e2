"""Why a plan is as it is, why there is none, and what would change if the instance did."""

from apportion.explanation.comparison import Comparison, JobChange, compare
from apportion.explanation.explain import LEFT_OUT, explain
from apportion.explanation.result import (
    CapacityWorth,
    Conflict,
    Difference,
    Explanation,
    JobWorth,
    OptionWorth,
    Relaxation,
    Rival,
)
from apportion.explanation.what_if import what_if

__all__ = [
    "LEFT_OUT",
    "CapacityWorth",
    "Comparison",
    "Conflict",
    "Difference",
    "Explanation",
    "JobChange",
    "JobWorth",
    "OptionWorth",
    "Relaxation",
    "Rival",
    "compare",
    "explain",
    "what_if",
]

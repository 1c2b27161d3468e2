"""Why a plan is as it is, why there is none, and what would change if the instance did."""

from apportion.explanation.comparison import Comparison, compare
from apportion.explanation.explain import explain
from apportion.explanation.parts import (
    CapacityWorth,
    Conflict,
    Difference,
    JobChange,
    JobWorth,
    OptionWorth,
    Relaxation,
    Rival,
)
from apportion.explanation.result import Explanation
from apportion.explanation.subject import LEFT_OUT
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

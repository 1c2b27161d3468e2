"""The table of instance kinds: type, checker, exact objective and exact bound of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from apportion.instances.freezing import FreezingInstance
from apportion.instances.freezing import meaning as freezing
from apportion.instances.gap_filling import GapFillingInstance
from apportion.instances.gap_filling import meaning as gap_filling
from apportion.instances.matching import MatchingInstance
from apportion.instances.matching import meaning as matching
from apportion.instances.multiple_choice_knapsack import MultipleChoiceKnapsackInstance
from apportion.instances.multiple_choice_knapsack import meaning as knapsack
from apportion.report import Report

__all__ = ["KINDS", "Instance", "Kind", "kind_of"]

Instance = GapFillingInstance | MultipleChoiceKnapsackInstance | MatchingInstance | FreezingInstance


@dataclass(frozen=True, slots=True)
class Kind:
    """Everything the package knows about one kind of instance, independent of formulations and solvers.

    Attributes
    ----------
    name
        The value of ``kind`` in JSON.
    type
        The msgspec type.
    maximizes
        Whether a larger objective is better in a given instance.
    check
        ``check(instance, plan) -> Report``.
    exact_objective
        ``exact_objective(instance, plan) -> Fraction`` for a feasible plan.
    exact_bound
        ``exact_bound(instance, multipliers) -> Fraction | None``, valid by weak duality.
    """

    name: str
    type: type[Any]
    maximizes: Callable[[Any], bool]
    check: Callable[[Any, Any], Report]
    exact_objective: Callable[[Any, Mapping[str, Any]], Fraction]
    exact_bound: Callable[[Any, Mapping[str, float]], Fraction | None]


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "gap_filling": Kind(
            "gap_filling",
            GapFillingInstance,
            lambda _: True,
            gap_filling.check,
            gap_filling.exact_objective,
            gap_filling.exact_bound,
        ),
        "multiple_choice_knapsack": Kind(
            "multiple_choice_knapsack",
            MultipleChoiceKnapsackInstance,
            lambda instance: bool(instance.sense == "maximize"),
            knapsack.check,
            knapsack.exact_objective,
            knapsack.exact_bound,
        ),
        "matching": Kind(
            "matching",
            MatchingInstance,
            lambda instance: bool(instance.objective == "value"),
            matching.check,
            matching.exact_objective,
            matching.exact_bound,
        ),
        "freezing": Kind(
            "freezing",
            FreezingInstance,
            lambda instance: bool(instance.power > 0),
            freezing.check,
            freezing.exact_objective,
            freezing.exact_bound,
        ),
    }
)


def kind_of(instance: Instance) -> Kind:
    """Return the kind of an instance; ``TypeError`` for anything else."""
    for kind in KINDS.values():
        if isinstance(instance, kind.type):
            return kind
    raise TypeError(f"expected an instance ({', '.join(KINDS)}), not {type(instance).__name__}")

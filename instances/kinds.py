"""The table of instance kinds; each kind's own folder says in ``kind.py`` all that differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from os import PathLike
from types import MappingProxyType
from typing import Any, Union

from apportion.core.outcome import Report
from apportion.instances.freezing import FreezingInstance
from apportion.instances.freezing.kind import FREEZING
from apportion.instances.gap_filling import GapFillingInstance
from apportion.instances.gap_filling.kind import GAP_FILLING
from apportion.instances.kind import ProblemType, options_bound
from apportion.instances.matching import MatchingInstance
from apportion.instances.matching.kind import MATCHING
from apportion.instances.multiple_choice_knapsack import MultipleChoiceKnapsackInstance
from apportion.instances.multiple_choice_knapsack.kind import MULTIPLE_CHOICE_KNAPSACK
from apportion.instances.placement import PlacementInstance
from apportion.instances.placement.kind import PLACEMENT
from apportion.instances.tenants.check import checked, less_stops, with_what_is_kept
from apportion.instances.tenants.ledger import is_tenanted

__all__ = ["KINDS", "Instance", "ProblemType", "any_instance", "kind_of", "kinds"]

Instance = (
    GapFillingInstance
    | MultipleChoiceKnapsackInstance
    | MatchingInstance
    | FreezingInstance
    | PlacementInstance
)


def _with_tenants(kind: ProblemType) -> ProblemType:
    """Return a kind whose checker, objective and bound know tenants, where an instance has any."""
    if kind.option_set is None:
        return kind

    def check(instance: Any, plan: Any) -> Report:
        if not is_tenanted(instance):
            return kind.check(instance, plan)
        report = kind.check(with_what_is_kept(kind, instance), plan)
        if report.violations or report.objective is None:
            return report
        return checked(kind, instance, plan, report)

    def exact_objective(instance: Any, plan: Mapping[str, Any]) -> Fraction:
        total = kind.exact_objective(instance, plan)
        return less_stops(kind, instance, plan, total) if is_tenanted(instance) else total

    def exact_bound(instance: Any, multipliers: Mapping[str, float]) -> Fraction | None:
        options = kind.option_set
        by_options = options is not None and options.sums(instance) and not options.relaxes
        if kind.exact_bound is not options_bound and not (by_options and is_tenanted(instance)):
            return kind.exact_bound(instance, multipliers)
        from apportion.instances.columns import price_bound

        return price_bound(kind, instance, multipliers)

    return replace(kind, check=check, exact_objective=exact_objective, exact_bound=exact_bound)


KINDS: Mapping[str, ProblemType] = MappingProxyType(
    {
        kind.name: _with_tenants(kind)
        for kind in (GAP_FILLING, MULTIPLE_CHOICE_KNAPSACK, MATCHING, FREEZING, PLACEMENT)
    }
)


def kinds() -> Mapping[str, ProblemType]:
    """Return the table of kinds by name."""
    return KINDS


def any_instance() -> Any:
    """Return the union of the types of all kinds: what JSON is decoded as."""
    return Union[tuple(kind.type for kind in kinds().values())]  # noqa: UP007  (a union of a computed tuple)


def kind_of(instance: Any) -> ProblemType:
    """Return the kind of an instance; ``TypeError`` for anything else."""
    for kind in kinds().values():
        if isinstance(instance, kind.type):
            return kind
    raise TypeError(
        f"expected an instance ({', '.join(kinds())}), not {type(instance).__name__}{_how(instance)}"
    )


def _how(given: Any) -> str:
    """Return how an instance is had from something else, in words; empty where nobody knows."""
    if isinstance(given, str | PathLike):
        return f"; apportion.read({str(given)[:100]!r}) reads one"
    if isinstance(given, Mapping | bytes):
        return "; apportion.read(...) makes one of it"
    made = getattr(type(given), "instance", None)
    if made is None:
        return ""
    return "; its method instance() returns one" if callable(made) else "; its instance is one"

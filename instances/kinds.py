"""The table of instance kinds; each kind's own folder says in ``kind.py`` all that differs."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from types import MappingProxyType
from typing import Any, Union

from apportion.instances.freezing import FreezingInstance
from apportion.instances.freezing.kind import FREEZING
from apportion.instances.gap_filling import GapFillingInstance
from apportion.instances.gap_filling.kind import GAP_FILLING
from apportion.instances.kind import Kind
from apportion.instances.matching import MatchingInstance
from apportion.instances.matching.kind import MATCHING
from apportion.instances.multiple_choice_knapsack import MultipleChoiceKnapsackInstance
from apportion.instances.multiple_choice_knapsack.kind import MULTIPLE_CHOICE_KNAPSACK
from apportion.instances.tenants.check import with_tenants

__all__ = ["KINDS", "Instance", "Kind", "any_instance", "kind_of", "kinds"]

Instance = GapFillingInstance | MultipleChoiceKnapsackInstance | MatchingInstance | FreezingInstance

KINDS: Mapping[str, Kind] = MappingProxyType(
    {kind.name: with_tenants(kind) for kind in (GAP_FILLING, MULTIPLE_CHOICE_KNAPSACK, MATCHING, FREEZING)}
)


def kinds() -> Mapping[str, Kind]:
    """Return the table of kinds by name."""
    return KINDS


def any_instance() -> Any:
    """Return the union of the types of all kinds: what JSON is decoded as."""
    return Union[tuple(kind.type for kind in kinds().values())]  # noqa: UP007  (a union of a computed tuple)


def kind_of(instance: Any) -> Kind:
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

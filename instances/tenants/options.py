"""What tenants need to know of the options of any kind of instance, and the hooks by which a kind says it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from msgspec import Struct

__all__ = ["DerivedCapacity", "Option", "OptionSet"]


class Option(Struct, frozen=True, gc=False):
    """One thing that a job may get, or that it gets nothing.

    Attributes
    ----------
    name
        The option's name as formulations and explanations say it; ``None`` for being left out where the kind
        has no word for it.
    uses
        What it takes of every capacity.
    value
        What it adds to the objective, exactly.
    rate
        How fast the job then is, in units of its own; at least 0.
    holds
        Whether the job has it now.
    nothing
        Whether this means that the job does not run.
    """

    name: str | None
    uses: Mapping[str, int]
    value: float | Fraction
    rate: float
    holds: bool = False
    nothing: bool = False


class DerivedCapacity(NamedTuple):
    """A capacity that follows from an instance without standing in it; its name says which.

    Attributes
    ----------
    limit
        What no plan exceeds.
    use
        ``use(job, offer)``: what an offer of the job of an id takes of it.
    cut
        The type or pool and the weights by which a `PlacedFormulation` is `bounded`.
    """

    limit: int
    use: Callable[[str, Option], int]
    cut: tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class OptionSet:
    """How one kind of instance tells what its jobs may get.

    Attributes
    ----------
    offers
        ``offers(instance, job)``: every admissible option of a job, and nothing where that is admissible.
    taken
        ``taken(instance, plan)``: the name of the offer that each job gets in a plan that keeps the kind's
        own rules, by job id; a job that is left out may be absent.
    further
        ``further(instance, name)``: a capacity that prices may name beside those of the instance; ``None``
        for a name that is none.
    capacities
        ``capacities(instance)``: what is shared, where that is not what edits name.
    sums
        ``sums(instance)``: whether the objective is the sum of what offers add to it.
    """

    offers: Callable[[Any, Any], Iterable[Option]]
    taken: Callable[[Any, Any], Mapping[str, str | None]]
    further: Callable[[Any, str], DerivedCapacity | None] = lambda _instance, _name: None
    capacities: Callable[[Any], dict[str, int]] | None = None
    sums: Callable[[Any], bool] = lambda _: True

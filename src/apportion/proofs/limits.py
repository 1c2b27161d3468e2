"""What tenants add to the menus of a matching: limits beside those of its machines, and what jobs may get."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from apportion.instances import MatchingInstance, kind_of
from apportion.instances.tenants.ledger import is_tenanted
from apportion.instances.tenants.meaning import ledger_of, shared_capacities

__all__ = ["Limits", "limits_of"]


class Limits(NamedTuple):
    """Limits of tenants and shares that must be reached.

    Attributes
    ----------
    names, rooms
        What every limit is called, and what no plan exceeds.
    uses
        ``uses(job, pool)``: what a job takes of them by place, on a pool or, for ``None``, left out; ``None``
        where it may not have that.
    """

    names: list[str]
    rooms: list[int]
    uses: Callable[[str, str | None], Mapping[int, int] | None]


def limits_of(instance: MatchingInstance) -> Limits:
    """Return the limits of a matching; none where its jobs belong to nobody."""
    if not is_tenanted(instance):
        return Limits([], [], lambda _job, _pool: {})
    kind = kind_of(instance)
    ledger, shared = ledger_of(kind, instance), shared_capacities(kind, instance)
    names = [name for name in ledger.limits if name not in shared]
    column = {name: at for at, name in enumerate(names)}
    places = {
        job: {offer.name: at for at, offer in enumerate(offers)} for job, offers in ledger.offers.items()
    }

    def uses(job: str, pool: str | None) -> Mapping[int, int] | None:
        at = places[job].get(pool)
        if at is None:
            return None
        return {column[name]: use for name, use in ledger.uses(job, at).items() if name in column}

    return Limits(names, [ledger.limits[name] for name in names], uses)

"""The share of a job in whole units: what is compared between jobs and, added up, between tenants.

Dominant shares are counted in parts that divide every capacity, so that three jobs of one GPU have what one
job of three has; all other shares, and dominant ones under capacities without such a part above a millionth
of a millionth, in billionths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from apportion.instances.tenants.offers import Offer
from apportion.instances.tenants.schema import MOST_SHARE

__all__ = ["BILLION", "RELATIVE", "Counter", "share_counter", "unit_of"]

BILLION = 1_000_000_000

RELATIVE = frozenset({"normalised_throughput"})
"""Shares of an offer that depend on what else the job may get."""

Counter = Callable[[Any, Sequence[Offer]], list[int]]
"""The share of every offer of a job, in whole units."""


def unit_of(kind_of_share: str, capacities: Mapping[str, int]) -> int:
    """Return how many units a share of 1 has."""
    if kind_of_share != "dominant_share":
        return BILLION
    found = math.lcm(*(amount for amount in capacities.values() if amount))
    return found if found <= MOST_SHARE else BILLION


def share_counter(kind_of_share: str, capacities: Mapping[str, int]) -> Counter:
    """Return what counts the shares of a job's offers; see `apportion.instances.tenants.schema.Fairness`.

    Shares are rounded down to whole units; throughputs and times are divided as doubles, in the order written
    here.
    """
    if kind_of_share == "dominant_share":
        unit = unit_of(kind_of_share, capacities)
        there = {name: amount or 1 for name, amount in capacities.items()}

        def dominant(_: Any, offers: Sequence[Offer]) -> list[int]:
            found = []
            for offer in offers:
                largest = 0
                for name, use in offer.uses.items():
                    if (part := unit * use // there[name]) > largest:
                        largest = part
                found.append(largest if largest < MOST_SHARE else MOST_SHARE)
            return found

        return dominant
    if kind_of_share == "normalised_throughput":
        return _throughputs
    return lambda job, offers: [_finish(job, offer) for offer in offers]


def _throughputs(job: Any, offers: Sequence[Offer]) -> list[int]:
    before = 0.0 if job.best_rate is UNSET else job.best_rate
    best = max((offer.rate for offer in offers), default=0.0)
    best = max(best, before)
    return [int(offer.rate / best * BILLION) if best > 0 else 0 for offer in offers]


def _finish(job: Any, offer: Offer) -> int:
    if job.finish is UNSET or offer.rate <= 0:
        return 0
    lasts = job.finish.elapsed_s + job.finish.remaining / offer.rate
    return min(MOST_SHARE, int(min(job.finish.isolated_s / lasts, 1e3) * BILLION))

"""KAI's division of one resource between queues, written after its specification, in exact arithmetic.

Everybody gets what it deserves and asks for; what is left goes over quota, priority after priority, by
weights that past usage corrects; whole pieces first, then one piece each to the largest remainders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

from apportion.errors import InvalidOption

__all__ = ["Division", "KaiQueue", "divided", "divided_over_quota"]

Number = int | float | Fraction


@dataclass(frozen=True, slots=True)
class KaiQueue:
    """What one queue claims of one resource.

    Attributes
    ----------
    id
        Breaks ties.
    deserved
        Its quota; ``None``: the total.
    request
        What its jobs ask for.
    limit
        The most it may get; ``None``: no limit.
    weight
        Its weight over quota.
    usage
        Its use in the past window, as a share of the cluster's capacity, 0 to 1.
    priority
        Over quota the greater is served first.
    created
        Order of creation; the earlier breaks ties.
    """

    id: str
    deserved: Number | None
    request: Number
    limit: Number | None = None
    weight: Number = 0
    usage: Number = 0
    priority: int = 0
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class Division:
    """What a division of one resource gives to every queue.

    Attributes
    ----------
    shares
        What every queue gets, in the order given.
    left
        What nobody got.
    """

    shares: tuple[Fraction, ...]
    left: Fraction


def divided(queues: Sequence[KaiQueue], total: Number, sensitivity: Number = 0) -> Division:
    """Divide a resource.

    Parameters
    ----------
    queues
        The claims.
    total
        Amount there is.
    sensitivity
        How much past usage counts against a queue over quota, 0 or more.

    Raises
    ------
    InvalidOption
        If an amount, a weight or the sensitivity is negative.

    Examples
    --------
    >>> division = divided([KaiQueue("a", 2, 9, weight=1), KaiQueue("b", 2, 3, weight=1)], 10)
    >>> [str(share) for share in division.shares], str(division.left)
    (['7', '3'], '0')
    """
    amount = _checked("total", total)
    shares = []
    for queue in queues:
        deserved = amount if queue.deserved is None else _checked("deserved", queue.deserved)
        shares.append(min(deserved, _ask(queue)))
    left = amount - sum(shares, Fraction(0))
    if left <= 0:
        return Division(tuple(shares), Fraction(0))
    return divided_over_quota(queues, shares, left, sensitivity)


def divided_over_quota(
    queues: Sequence[KaiQueue], before: Sequence[Number], left: Number, sensitivity: Number = 0
) -> Division:
    """Divide what is left over quota, on top of what the queues have; see `divided`."""
    _checked("sensitivity", sensitivity)
    shares = [Fraction(amount) for amount in before]
    amount = _checked("left", left)
    remainders: dict[int, Fraction] = {}
    by_priority = sorted(range(len(queues)), key=lambda place: -queues[place].priority)
    levels = [list(level) for _, level in groupby(by_priority, key=lambda place: queues[place].priority)]
    for level in levels:
        amount = _by_weight(queues, level, shares, amount, Fraction(sensitivity), remainders)
    for level in levels:
        owed = [place for place in level if place in remainders]
        for place in sorted(owed, key=lambda at: (-remainders[at], queues[at].created, queues[at].id)):
            piece = min(Fraction(1), amount)
            shares[place] += piece
            amount -= piece
    return Division(tuple(shares), amount)


def _by_weight(
    queues: Sequence[KaiQueue],
    level: Sequence[int],
    shares: list[Fraction],
    left: Fraction,
    sensitivity: Fraction,
    remainders: dict[int, Fraction],
) -> Fraction:
    """Give whole pieces by weight among one priority until nobody asks for less than its part."""
    while left > 0:
        asking = [place for place in level if shares[place] < _ask(queues[place])]
        weights = sum((Fraction(queues[place].weight) for place in asking), Fraction(0))
        if not weights:
            break
        effective = {place: _effective(queues[place], weights, sensitivity) for place in asking}
        everybody = sum(effective.values(), Fraction(0))
        if not everybody:
            break
        pot, sated = left, False
        for place in asking:
            if queues[place].weight == 0:
                continue
            fair = pot * effective[place] / everybody
            want = _ask(queues[place]) - shares[place]
            given = want if want <= fair else Fraction(fair.__floor__())
            remainders.pop(place, None)
            if want > fair and fair > given:
                remainders[place] = fair - given
            sated = sated or want < fair
            shares[place] += given
            left -= given
        if not sated:
            break
    return left


def _effective(queue: KaiQueue, weights: Fraction, sensitivity: Fraction) -> Fraction:
    """Return a weight as a part of all weights, corrected by past usage."""
    part = Fraction(queue.weight) / weights
    return max(Fraction(0), part + sensitivity * (part - Fraction(_checked("usage", queue.usage))))


def _ask(queue: KaiQueue) -> Fraction:
    request = _checked("request", queue.request)
    return request if queue.limit is None else min(_checked("limit", queue.limit), request)


def _checked(name: str, amount: Number) -> Fraction:
    if amount < 0:
        raise InvalidOption(f"{name} must be 0 or more, not {amount}")
    return Fraction(amount)

"""KAI's division as a policy of a cluster: a baseline.

All GPUs are divided between the tenants by `kai_division`; the tenant with the least part of its fair share
goes next, its jobs in order of submission. One that stays within its fair share may take GPUs back from
tenants above theirs, the youngest jobs first.

KAI's division of one resource between queues, written after its specification, in exact arithmetic.

Everybody gets what it deserves and asks for; what is left goes over quota, priority after priority, by
weights that past usage corrects; whole pieces first, then one piece each to the largest remainders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import Claims, ClusterPlan, ClusterView, claims_of
from apportion.cluster.policies.rounds.placing import believed_speeds, place_by_type
from apportion.core.errors import InvalidOption

__all__ = ["Division", "KaiQueue", "KaiQueues", "divided", "divided_over_quota"]


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


class KaiQueues:
    """Queues served by how much of their fair share they have."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        jobs = view.jobs.tolist()
        since = np.array([self._since.get(job, view.time_s) for job in jobs])
        chosen = _Round(view, claims_of(view), since).run()
        self._since = {
            job: at for job, at, kind in zip(jobs, since.tolist(), chosen, strict=True) if kind >= 0
        }
        return ClusterPlan(place_by_type(view, chosen))


class _Round:
    def __init__(self, view: ClusterView, claims: Claims, since: NDArray[np.float64]) -> None:
        self._gpus, self._tenant, self._since = view.requested_gpus, claims.tenant, since
        self._speeds = believed_speeds(view)
        self._chosen = np.array(
            [view.nodes.kind[held[0]] if held else -1 for held in view.held], dtype=np.int64
        )
        self._left = view.nodes.gpus_by_type
        running = self._chosen >= 0
        np.subtract.at(self._left, self._chosen[running], self._gpus[running])
        self._held = np.bincount(
            self._tenant[running], weights=self._gpus[running], minlength=len(claims.tenants)
        )
        self._fair = _fair_shares(view, claims)
        order = np.lexsort((np.arange(view.num_jobs), view.submitted_s))
        self._waiting: list[list[int]] = [[] for _ in claims.tenants]
        for job in order[::-1].tolist():
            if not running[job]:
                self._waiting[int(self._tenant[job])].append(job)

    def run(self) -> NDArray[np.int64]:
        """Return the type of every job, -1 to wait."""
        while any(self._waiting):
            tenant = min(
                (number for number, queue in enumerate(self._waiting) if queue),
                key=self._served,
            )
            job = self._waiting[tenant].pop()
            if not self._start(job) and self._held[tenant] + self._gpus[job] <= self._fair[tenant]:
                self._reclaim(job)
        return self._chosen

    def _served(self, tenant: int) -> tuple[float, int]:
        """Return what tenants are ordered by: the part of its fair share that one has."""
        return float(self._held[tenant]) / max(float(self._fair[tenant]), 1e-9), tenant

    def _start(self, job: int) -> bool:
        for kind in np.argsort(-self._speeds[job], kind="stable").tolist():
            if self._speeds[job, kind] > 0 and self._gpus[job] <= self._left[kind]:
                self._chosen[job] = kind
                self._left[kind] -= self._gpus[job]
                self._held[self._tenant[job]] += self._gpus[job]
                return True
        return False

    def _reclaim(self, job: int) -> None:
        """Stop the youngest jobs of tenants above their fair share, if that makes room on some type."""
        for kind in np.argsort(-self._speeds[job], kind="stable").tolist():
            if self._speeds[job, kind] <= 0:
                continue
            free, held, victims = int(self._left[kind]), self._held.copy(), []
            on_type = np.flatnonzero(self._chosen == kind)
            for victim in on_type[np.argsort(-self._since[on_type], kind="stable")].tolist():
                owner = self._tenant[victim]
                if free < self._gpus[job] and owner != self._tenant[job] and held[owner] > self._fair[owner]:
                    free += int(self._gpus[victim])
                    held[owner] -= self._gpus[victim]
                    victims.append(victim)
            if free >= self._gpus[job]:
                self._chosen[victims] = -1
                self._held, self._left[kind] = held, free
                self._start(job)
                return


def _fair_shares(view: ClusterView, claims: Claims) -> NDArray[np.float64]:
    asked = np.bincount(claims.tenant, weights=view.requested_gpus, minlength=len(claims.tenants))
    queues = [
        KaiQueue(
            name, int(claims.entitled[number].sum()), int(asked[number]), weight=float(claims.share[number])
        )
        for number, name in enumerate(claims.tenants)
    ]
    return np.array([float(share) for share in divided(queues, view.nodes.total_gpus).shares])

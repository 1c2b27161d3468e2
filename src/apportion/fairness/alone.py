"""The best share on a guarantee without a search: a bound by single amounts that a short walk reaches.

An option that uses capacity k at all has a share of at most ``r_k`` times what it uses of it, ``r_k`` the
largest such ratio. So on amounts ``g_k`` no choice has more than ``sum_k r_k g_k``, and none more than the
largest sum of its jobs' shares up to there. Where a walk comes to that sum, it is the best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np

from apportion.fairness.claimants import Claimant
from apportion.fairness.level_model import LevelModel

__all__ = ["filled_alone"]


def filled_alone(
    model: LevelModel, claimant: Claimant, own: Mapping[str, int], inside: Mapping[Claimant, int]
) -> int | None:
    """Return the largest share that a claimant has alone; ``None`` where bound and walk do not meet.

    Those below it must lend all that they own.

    Parameters
    ----------
    model
        The shares of the instance.
    claimant
        Who is alone.
    own
        How much it has of every capacity of the cluster.
    inside
        Shares of claimants below it that must be kept.
    """
    bound = _bound(model, claimant, own)
    begin = model.least()
    if bound is None or begin is None:
        return None
    most = model.last_sum(claimant, min(bound, model.most(claimant)) + 1)
    menus = model.model
    limits = [own.get(name, room) for name, room in zip(menus.capacity_names, menus.capacities, strict=True)]
    capacities = np.array(limits, dtype=np.int64)
    if (begin.used > capacities).any():
        return None
    found = model.walker([claimant]).raised(
        begin, np.array([most], dtype=np.int64), replace(menus, capacities=capacities)
    )
    if found is None or model.of(claimant, found.choice) != most:
        return None
    return most if model.keeps(found, inside) else None


def _bound(model: LevelModel, claimant: Claimant, own: Mapping[str, int]) -> int | None:
    """Return a bound on the share; ``None`` where some option has a share of no capacity."""
    rows = model.rows(claimant)
    rows = rows[model.share[rows] > 0]
    names = model.model.capacity_names
    columns = np.array([column for column, name in enumerate(names) if name in own], dtype=np.int64)
    share, uses = model.share[rows], model.model.uses[np.ix_(rows, columns)]
    if (uses == 0).all(axis=1).any():
        return None
    total = Fraction(0)
    for place, column in enumerate(columns.tolist()):
        some = np.flatnonzero(uses[:, place])
        pairs = {*zip(share[some].tolist(), uses[some, place].tolist(), strict=True)}
        ratio = max((Fraction(part, use) for part, use in pairs), default=Fraction(0))
        total += ratio * own[names[column]]
    return math.floor(total)

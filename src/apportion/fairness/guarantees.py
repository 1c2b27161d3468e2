"""What every tenant could have alone, on its guarantee and nothing else: its share must not be less.

Alone, its jobs that must run do so, and those below it withhold what they do not lend. All of these together
can be had, as guarantees add up to no more than there is, unless jobs that must run hold more than their
tenant's own, or what each could have needs the same nodes.

The best share on a guarantee without a search: a bound by single amounts that a short walk reaches.

An option that uses capacity k at all has a share of at most ``r_k`` times what it uses of it, ``r_k`` the
largest such ratio. So on amounts ``g_k`` no choice has more than ``sum_k r_k g_k``, and none more than the
largest sum of its jobs' shares up to there. Where a walk comes to that sum, it is the best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Termination
from apportion.core.solution import Solution
from apportion.fairness.feasibility_oracle import Ask
from apportion.fairness.level_model import LevelModel, Placing
from apportion.fairness.share_holders import ShareHolder, tenant_claimant
from apportion.formulations.tenants import TenantedMenus
from apportion.instances.tenants.rows import Row
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["filled_alone", "guaranteed"]


class Alone(NamedTuple):
    """What somebody has alone: its share, and the rows that its jobs get, ``None`` where none are at hand."""

    share: int
    rows: NDArray[np.int64] | None


def filled_alone(
    model: LevelModel, holder: ShareHolder, own: Mapping[str, int], inside: Mapping[ShareHolder, int]
) -> Alone | None:
    """Return the largest share that a holder has alone; ``None`` where bound and walk do not meet.

    Those below it must lend all that they own.

    Parameters
    ----------
    model
        The shares of the instance.
    holder
        Who is alone.
    own
        How much it has of every capacity of the cluster.
    inside
        Shares of holders below it that must be kept.
    """
    bound = _bound(model, holder, own)
    begin = model.least()
    if bound is None or begin is None:
        return None
    most = model.last_sum(holder, min(bound, model.most(holder)) + 1)
    menus = model.model
    limits = [own.get(name, room) for name, room in zip(menus.capacity_names, menus.capacities, strict=True)]
    capacities = np.array(limits, dtype=np.int64)
    if (begin.used > capacities).any():
        return None
    found = model.walker([holder]).raised(
        begin, np.array([most], dtype=np.int64), replace(menus, capacities=capacities)
    )
    if found is None or model.of(holder, found.choice) != most:
        return None
    return Alone(most, found.choice[model.jobs(holder)]) if model.keeps(found, inside) else None


def _bound(model: LevelModel, holder: ShareHolder, own: Mapping[str, int]) -> int | None:
    """Return a bound on the share; ``None`` where some option has a share of no capacity."""
    rows = model.rows(holder)
    rows = rows[model.share[rows] > 0]
    names = model.model.capacity_names
    columns = np.array([column for column, name in enumerate(names) if name in own], dtype=np.int64)
    share, uses = model.share[rows], model.model.uses_of(rows)[:, columns]
    if (uses == 0).all(axis=1).any():
        return None
    total = Fraction(0)
    for place, column in enumerate(columns.tolist()):
        some = np.flatnonzero(uses[:, place])
        pairs = {*zip(share[some].tolist(), uses[some, place].tolist(), strict=True)}
        ratio = max((Fraction(part, use) for part, use in pairs), default=Fraction(0))
        total += ratio * own[names[column]]
    return math.floor(total)


def guaranteed(model: LevelModel, ask: Ask) -> tuple[dict[ShareHolder, int], NDArray[np.int64] | None]:
    """Return the share of every tenant with a guarantee if it were alone on it, children before parents.

    A share that a limit kept from being proved the largest is still one that can be had. Beside it what all
    have alone as one choice, which only jobs that must run, or nodes, keep from fitting.
    """
    placing = model.placing
    menus = placing.menus
    ledger, tree = menus.ledger, menus.ledger.tree
    capacities = menus.capacities
    amounts = {name: tree.guarantees(name) for name in capacities}
    index = {job: place for place, job in enumerate(menus.job_names())}
    found: dict[ShareHolder, int] = {}
    least = model.least()
    choice = None if least is None else least.choice.copy()
    for name, node in reversed(list(tree.nodes.items())):
        own = {capacity: amounts[capacity][name] for capacity in capacities}
        theirs = {
            capacity: sum(amounts[capacity][child] for child in node.children) for capacity in capacities
        }
        holder = tenant_claimant(ledger, name)
        if not holder.jobs or not any(own.values()) or (node.children and own == theirs):
            continue
        below = set(tree.below(name))
        inside = {one: share for one, share in found.items() if set(tree.below(one.name)) <= below}
        places = [index[job] for job in holder.jobs]
        rows = ledger.rows_alone(name, capacities)
        reserved = any(len(row.leaves) < len(below) for row in rows)
        alone = None if reserved else filled_alone(model, holder, own, inside)
        if alone is None:
            alone = _best_share(placing, ask, holder, places, rows, inside)
        if alone is None and inside:  # what is due below takes more, or need not lie beside each other
            alone = _best_share(placing, ask, holder, places, rows, {})
        if alone is not None and alone.share:
            found[holder] = alone.share
            if choice is not None and alone.rows is not None:
                choice[places] = alone.rows
    return found, choice


def _best_share(
    placing: Placing,
    ask: Ask,
    holder: ShareHolder,
    places: Sequence[int],
    alone: Sequence[Row],
    inside: Mapping[ShareHolder, int],
) -> Alone | None:
    """Return the largest share found that a tenant has alone; ``None`` where it was refuted altogether."""
    solution, chosen = _asked(placing, ask, holder, places, alone, inside)
    if solution is None:
        return Alone(0, None)
    if solution.termination is Termination.INFEASIBLE:
        return None
    share = 0 if solution.objective is None else int(solution.objective)
    if solution.termination is Termination.OPTIMAL and solution.bound is not None:
        most = math.floor(solution.bound)
        while share < most:  # optimal is within a billionth, and of many units that is some
            middle = (share + most + 1) // 2
            answer, more = _asked(placing, ask, holder, places, alone, {**inside, holder: middle})
            if answer is not None and answer.objective is not None:
                share, chosen = max(middle, int(answer.objective)), more
            elif answer is not None and answer.termination is Termination.INFEASIBLE:
                most = middle - 1
            else:
                break
    return Alone(share, chosen)


def _asked(
    placing: Placing,
    ask: Ask,
    holder: ShareHolder,
    places: Sequence[int],
    alone: Sequence[Row],
    inside: Mapping[ShareHolder, int],
) -> tuple[Solution | None, NDArray[np.int64] | None]:
    """Ask for the best share until the jobs that have it can be placed; ``None`` if that was not decided.

    Beside it the rows that the jobs get.
    """
    while True:
        model, rows = _alone(placing.menus, holder, places, alone, inside)
        solution = ask(model)
        if not isinstance(solution.plan, np.ndarray):
            return solution, None
        choice = np.full(placing.menus.model.num_jobs, -1, dtype=np.int64)
        chosen = solution.plan.astype(np.int64)
        choice[places] = np.where(chosen >= 0, rows[np.maximum(chosen, 0)], -1)
        verdict = placing.of(choice)
        if verdict != "cut":
            return (solution, choice[places]) if verdict == "placed" else (None, None)


def _alone(
    menus: TenantedMenus,
    holder: ShareHolder,
    places: Sequence[int],
    alone: Sequence[Row],
    inside: Mapping[ShareHolder, int],
) -> tuple[MultipleChoiceKnapsack, NDArray[np.int64]]:
    """Return the menus of a tenant's jobs on its guarantee, each worth its share, and their options' rows."""
    ledger, model = menus.ledger, menus.model
    menu = [np.arange(model.offsets[job], model.offsets[job + 1]) for job in places]
    sizes = np.array([part.size for part in menu], dtype=np.int64)
    rows = np.concatenate(menu)
    values = menus.share[rows]
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    best = np.array([ledger.best[job] for job in holder.jobs], dtype=np.int64)
    forgone = np.repeat(best, sizes) - values
    uses = model.uses_of(rows)
    touched = [
        column
        for column in np.flatnonzero(uses.any(axis=0)).tolist()
        if model.capacity_names[column] not in menus.capacities
    ]
    columns = [uses[:, touched]]
    limits = model.capacities[touched].tolist()
    leaf = np.repeat(np.array([ledger.jobs[job].tenant for job in holder.jobs], dtype=object), sizes)
    for row in alone:
        own = uses[:, model.capacity_names.index(row.capacity)]
        columns.append(np.where(np.isin(leaf, list(row.leaves)), own, 0)[:, None])
        limits.append(row.limit)
    for one, share in inside.items():
        mine = set(one.jobs)
        member = np.repeat([job in mine for job in holder.jobs], sizes)
        columns.append(np.where(member, forgone, 0)[:, None])
        limits.append(sum(ledger.best[job] for job in one.jobs) - share)
    model_alone = MultipleChoiceKnapsack.from_arrays(
        values.astype(np.float64), np.hstack(columns), offsets, np.array(limits, dtype=np.int64)
    )
    return model_alone, rows

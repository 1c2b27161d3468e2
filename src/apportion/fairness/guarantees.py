"""What every tenant could have alone, on its guarantee and nothing else: its share must not be less.

Alone, its jobs that must run do so, and those below it withhold what they do not lend. All of these together
can be had, as guarantees add up to no more than there is, unless jobs that must run hold more than their
tenant's own, or what each could have needs the same nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from apportion.fairness.alone import filled_alone
from apportion.fairness.answering import Ask
from apportion.fairness.claimants import Claimant, tenant_claimant
from apportion.fairness.level_model import LevelModel
from apportion.fairness.placing import Placing
from apportion.formulations.tenants import TenantedMenus
from apportion.instances.tenants.rows import Row, rows_alone
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.outcome import Termination
from apportion.solution import Solution

__all__ = ["guaranteed"]


def guaranteed(model: LevelModel, ask: Ask) -> dict[Claimant, int]:
    """Return the share of every tenant with a guarantee if it were alone on it, children before parents.

    A share that a limit kept from being proved the largest is still one that can be had.
    """
    placing = model.placing
    menus = placing.menus
    ledger, tree = menus.ledger, menus.ledger.tree
    capacities = menus.capacities
    amounts = {name: tree.guarantees(name) for name in capacities}
    index = {job: place for place, job in enumerate(menus.job_names())}
    found: dict[Claimant, int] = {}
    for name, node in reversed(list(tree.nodes.items())):
        own = {capacity: amounts[capacity][name] for capacity in capacities}
        theirs = {
            capacity: sum(amounts[capacity][child] for child in node.children) for capacity in capacities
        }
        claimant = tenant_claimant(ledger, name)
        if not claimant.jobs or not any(own.values()) or (node.children and own == theirs):
            continue
        below = set(tree.below(name))
        inside = {one: share for one, share in found.items() if set(tree.below(one.name)) <= below}
        places = [index[job] for job in claimant.jobs]
        rows = rows_alone(tree, name, capacities)
        withheld = len(rows) > len(capacities)
        share = None if withheld else filled_alone(model, claimant, own, inside)
        if share is None:
            share = _best_share(placing, ask, claimant, places, rows, inside)
        if share is None and inside:  # what is due below takes more, or need not lie beside each other
            share = _best_share(placing, ask, claimant, places, rows, {})
        if share:
            found[claimant] = share
    return found


def _best_share(
    placing: Placing,
    ask: Ask,
    claimant: Claimant,
    places: Sequence[int],
    alone: Sequence[Row],
    inside: Mapping[Claimant, int],
) -> int | None:
    """Return the largest share found that a tenant has alone; ``None`` where it was refuted altogether."""
    solution = _asked(placing, ask, claimant, places, alone, inside)
    if solution is None:
        return 0
    if solution.termination is Termination.INFEASIBLE:
        return None
    share = 0 if solution.objective is None else int(solution.objective)
    if solution.termination is Termination.OPTIMAL and solution.bound is not None:
        most = math.floor(solution.bound)
        while share < most:  # optimal is within a billionth, and of many units that is some
            middle = (share + most + 1) // 2
            answer = _asked(placing, ask, claimant, places, alone, {**inside, claimant: middle})
            if answer is not None and answer.objective is not None:
                share = max(middle, int(answer.objective))
            elif answer is not None and answer.termination is Termination.INFEASIBLE:
                most = middle - 1
            else:
                break
    return share


def _asked(
    placing: Placing,
    ask: Ask,
    claimant: Claimant,
    places: Sequence[int],
    alone: Sequence[Row],
    inside: Mapping[Claimant, int],
) -> Solution | None:
    """Ask for the best share until the jobs that have it can be placed; ``None`` if that was not decided."""
    while True:
        model, rows = _alone(placing.menus, claimant, places, alone, inside)
        solution = ask(model)
        if not isinstance(solution.plan, np.ndarray):
            return solution
        choice = np.full(placing.menus.model.num_jobs, -1, dtype=np.int64)
        chosen = solution.plan.astype(np.int64)
        choice[places] = np.where(chosen >= 0, rows[np.maximum(chosen, 0)], -1)
        verdict = placing.of(choice)
        if verdict != "cut":
            return solution if verdict == "placed" else None


def _alone(
    menus: TenantedMenus,
    claimant: Claimant,
    places: Sequence[int],
    alone: Sequence[Row],
    inside: Mapping[Claimant, int],
) -> tuple[MultipleChoiceKnapsack, NDArray[np.int64]]:
    """Return the menus of a tenant's jobs on its guarantee, each worth its share, and their options' rows."""
    ledger, model = menus.ledger, menus.model
    menu = [np.arange(model.offsets[job], model.offsets[job + 1]) for job in places]
    sizes = np.array([part.size for part in menu], dtype=np.int64)
    rows = np.concatenate(menu)
    values = menus.share[rows]
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    best = np.array([ledger.best[job] for job in claimant.jobs], dtype=np.int64)
    forgone = np.repeat(best, sizes) - values
    uses = model.uses[rows]
    touched = [
        column
        for column in np.flatnonzero(uses.any(axis=0)).tolist()
        if model.capacity_names[column] not in menus.capacities
    ]
    columns = [uses[:, touched]]
    limits = model.capacities[touched].tolist()
    leaf = np.repeat(np.array([ledger.jobs[job].tenant for job in claimant.jobs], dtype=object), sizes)
    for row in alone:
        own = uses[:, model.capacity_names.index(row.capacity)]
        columns.append(np.where(np.isin(leaf, list(row.leaves)), own, 0)[:, None])
        limits.append(row.limit)
    for one, share in inside.items():
        mine = set(one.jobs)
        member = np.repeat([job in mine for job in claimant.jobs], sizes)
        columns.append(np.where(member, forgone, 0)[:, None])
        limits.append(sum(ledger.best[job] for job in one.jobs) - share)
    model_alone = MultipleChoiceKnapsack.from_arrays(
        values.astype(np.float64), np.hstack(columns), offsets, np.array(limits, dtype=np.int64)
    )
    return model_alone, rows

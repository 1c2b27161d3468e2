"""An instance as a plain statement in JSON, for a checker that shares nothing with this package.

What a job may get is what its kind offers (`apportion.instances.options`), the limits of tenants and
the shares that must be reached among the capacities. Values, times and amounts are exact. The fields are
listed in `apportion.proofs.reference`, which reads statements; `apportion.proofs.stating` makes of
the same columns the menus that the package's own checker walks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from apportion.instances import kind_of
from apportion.instances.columns import Columns, PoolUse
from apportion.instances.options import Place
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.models.uses import by_row, sparse
from apportion.proofs.bare_models import columns, relaxes
from apportion.proofs.certificate import instance_digest

__all__ = ["Statement", "statement_of"]

Statement = dict[str, Any]
"""As it stands in JSON."""


def statement_of(instance: Any, plan: Any = None) -> Statement:
    """Return the statement of an instance, or of a bare model.

    Parameters
    ----------
    instance
        Where shares are due, the instance under its floors.
    plan
        A plan to be stated beside it, if it says for every job all that a choice of options needs: none where
        jobs lie on nodes or on pools of several machines.
    """
    given = columns(instance, one_by_one=True)
    found = _stated(given)
    alone = all(pool["count"] == 1 for pool in found["pools"]) and found["goal"] != "shares"
    if plan is not None and alone and not found["nodes"] and given.alike is None and not relaxes(instance):
        found["plan"] = _chosen(instance, plan, found["jobs"])
    return {"format": "apportion-statement", "version": 1, "instance": instance_digest(instance), **found}


def _stated(given: Columns) -> Statement:
    distinct, held, nodes = _apart(given.capacities), given.pool_use, given.nodes or {}
    gpus = {k: name for k, name in enumerate(given.capacities) if name in nodes}
    first, which, amount = by_row(given.uses if isinstance(given.uses, np.ndarray) else sparse(given.uses))
    options = []
    for row, (name, value) in enumerate(zip(given.names(), given.values, strict=True)):
        cells = range(first[row], first[row + 1])
        uses = {distinct[which[at]]: amount[at] for at in cells}
        option = {"name": name, "value": _number(value), "uses": uses}
        if held is not None and held.pool[row] >= 0:
            option |= _on(held, row)
        for at in cells:
            if which[at] in gpus:
                option |= {"gpu_type": gpus[which[at]], "gpus": amount[at]}
        options.append(option)
    number = {} if held is None else {pool.name: at for at, pool in enumerate(held.pools)}
    jobs = []
    for job, (begin, end) in enumerate(pairwise(given.offsets.tolist())):
        waits = given.waits is not None and given.waits[job]
        nothing: list[Statement] = [{"name": None, "value": 0, "uses": {}}] if waits else []
        barred = [_place(number[one.pool], one) for one in (given.barred or {}).get(job, ())]
        own: Statement = {"name": given.jobs[job], "options": [*options[begin:end], *nothing]}
        jobs.append(own | ({"barred": barred} if barred else {}))
    return {
        "goal": given.goal,
        "capacities": dict(zip(distinct, given.rooms, strict=True)),
        "pools": _pools(given),
        "nodes": {
            name: {"size": one.size, "rooms": one.room()} for name, one in nodes.items() if one is not None
        },
        "jobs": jobs,
        "prices": list(given.sections),
    }


def _pools(given: Columns) -> list[Statement]:
    """Return the pools; machines of a bare model have no names of their own."""
    pools = [] if given.pool_use is None else [asdict(pool) for pool in given.pool_use.pools]
    return pools if given.alike is None else [{**pool, "name": str(at)} for at, pool in enumerate(pools)]


def _on(held: PoolUse, row: int) -> Statement:
    gang, use = int(held.gang[row]), int(held.use[row])
    return _place(int(held.pool[row]), Place("", gang, use, float(held.time[row])))


def _place(pool: int, place: Place) -> Statement:
    """Return what an option says of the pool's machines."""
    return {"pool": pool, "time": _number(place.time), "gang": place.gang, "use": place.use}


def _number(value: float | tuple[int, int]) -> int | str:
    """Return a number exactly: a whole one as it is, a fraction as text."""
    above, below = (Fraction(*value) if isinstance(value, tuple) else float(value)).as_integer_ratio()
    return above if below == 1 else f"{above}/{below}"


def _apart(names: Sequence[str]) -> list[str]:
    """Return names that differ: of equal ones all but the first get their position."""
    return [name if names.index(name) == at else f"{name} #{at}" for at, name in enumerate(names)]


def _chosen(instance: Any, plan: Any, jobs: Sequence[Statement]) -> list[int]:
    """Return the position of the option that every job has in a plan; being left out has a name or none."""
    if isinstance(instance, MultipleChoiceKnapsack):
        taken: Mapping[str, Any] = {str(j): str(row) for j, row in enumerate(plan.tolist()) if row >= 0}
    else:
        option_set = kind_of(instance).option_set
        assert option_set is not None
        taken = option_set.taken(instance, plan)
    found = []
    for job in jobs:
        names = [option["name"] for option in job["options"]]
        name = taken.get(job["name"])
        found.append(names.index(name) if name in names else len(names) - 1)
    return found

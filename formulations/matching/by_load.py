"""The least makespan among the matchings that keep the limits of tenants: every machine, and a row a limit.

| here | meaning |
|---|---|
| x_jm | job j runs on machine m |
| p_jm, u_jm, C_m | time, use and room |
| s_jm | share of job j on machine m, in whole units |

    min T    sum_m x_jm = 1    sum_j p_jm x_jm <= T    sum_j u_jm x_jm <= C_m
             sum_(j in row) u_jm x_jm <= limit_row     sum_(j in floor) s_jm x_jm >= floor
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidOption
from apportion.formulations.protocol import Plan
from apportion.instances.kinds import kind_of
from apportion.instances.matching import MatchingInstance
from apportion.instances.tenants.check import ledger_of
from apportion.instances.tenants.ledger import TenantLedger, is_tenanted
from apportion.models.affine import Affine
from apportion.models.linear import LinearModel, LinearModelBuilder

__all__ = ["MatchingByLoad"]


class _Cell(NamedTuple):
    """A job on a machine."""

    job: str
    pool: str
    machine: int
    time: float
    uses: int
    share: int


class MatchingByLoad:
    """The linear model of a makespan with tenants, and the way back to its plans.

    Attributes
    ----------
    instance
        What was compiled.
    exact
        True: its optimum is the instance's.
    model
        The linear model.
    """

    def __init__(self, instance: MatchingInstance) -> None:
        if instance.objective != "makespan" or not is_tenanted(instance):
            raise InvalidOption("formulation by_load is for a makespan with tenants; leave it out")
        self.instance = instance
        self.exact = True
        ledger = ledger_of(kind_of(instance), instance)
        self._pools = {pool.id: pool for pool in instance.machines}
        self._cells = list(self._told(ledger))
        self.model = self._compiled(ledger)

    def plan(self, point: NDArray[np.float64]) -> Plan:
        """Return the plan of a point: the pool of every job, and its machine where the pool has several."""
        x = point[self.model.variable("x")] > 0.5
        held = [cell for cell, taken in zip(self._cells, x.tolist(), strict=True) if taken]
        plan: Plan = {"assignment": {cell.job: cell.pool for cell in held}}
        index = {cell.job: cell.machine for cell in held if self._pools[cell.pool].count > 1}
        return {**plan, "machine_index": index} if index else plan

    def point(self, plan: Any) -> NDArray[np.float64] | None:
        """Return the point of a feasible plan, or ``None`` if it cannot be carried over."""
        named = plan.get("assignment") if isinstance(plan, Mapping) else None
        if not isinstance(named, Mapping):
            return None
        at = plan.get("machine_index", {})
        point = np.zeros(self.model.num_columns)
        x = self.model.variable("x")
        load: dict[tuple[str, int], float] = {}
        for row, cell in enumerate(self._cells):
            if named.get(cell.job) == cell.pool and at.get(cell.job, 0) == cell.machine:
                point[x.start + row] = 1.0
                load[cell[1:3]] = load.get(cell[1:3], 0.0) + cell.time
        if point.sum() != len(self.instance.jobs):
            return None  # somebody has a machine beyond those that are told apart
        point[self.model.variable("end").start] = max(load.values(), default=0.0)
        return point

    def _told(self, ledger: TenantLedger) -> Iterator[_Cell]:
        """Yield every job on every machine; no more machines of a pool than there are jobs for it."""
        names = [name for job in self.instance.jobs for name in job.on]
        for job in self.instance.jobs:
            for option, share in zip(ledger.options[job.id], ledger.shares[job.id], strict=True):
                entry = job.on[str(option.name)]
                for machine in range(min(self._pools[str(option.name)].count, names.count(str(option.name)))):
                    yield _Cell(job.id, str(option.name), machine, entry.time_s or 0.0, entry.uses, share)

    def _compiled(self, ledger: TenantLedger) -> LinearModel:
        m = LinearModelBuilder("minimize")
        cells = self._cells
        x = m.binary("x", (len(cells),))
        end = m.continuous("end", (1,), 0.0)
        for job in self.instance.jobs:
            mine = [row for row, cell in enumerate(cells) if cell.job == job.id]
            m.equal(f"one_machine[{job.id}]", _sum(x, mine, [1.0] * len(mine)), 1.0)
        for pool, machine in dict.fromkeys((cell.pool, cell.machine) for cell in cells):
            held = [row for row, cell in enumerate(cells) if cell[1:3] == (pool, machine)]
            load = _sum(x, held, [cells[row].time for row in held]) - end.sum()
            m.at_most(f"load[{pool},{machine}]", load, 0.0)
            room = self._pools[pool].capacity
            if room is not None:
                used = _sum(x, held, [cells[row].uses for row in held])
                m.at_most(f"capacity[{pool},{machine}]", used, float(room))
        for limit in ledger.rows:
            held = [
                row
                for row, cell in enumerate(cells)
                if cell.pool == limit.capacity and ledger.counts(limit, cell.job)
            ]
            m.at_most(limit.name, _sum(x, held, [cells[row].uses for row in held]), float(limit.limit))
        for name, (floor, members) in ledger.floors.items():
            held = [row for row, cell in enumerate(cells) if cell.job in members]
            shares = [cells[row].share for row in held]
            m.at_least(ledger.floor_names[name], _sum(x, held, shares), float(floor))
        m.objective(end.sum())
        return m.build()


def _sum(x: Affine, rows: list[int], weights: list[Any]) -> Affine:
    if not rows:
        return Affine.constants(0.0)
    return (x[np.array(rows)] * np.array(weights, dtype=np.float64)).sum()

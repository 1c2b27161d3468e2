"""Matching by cost or value on pools where gangs and other jobs of different uses share machines: every unit.

| here | meaning |
|---|---|
| x_jp | job j runs on pool p |
| y_jm | job j holds machine m of a pool that has a capacity and several machines |
| g_jp, u_jp | machines held by the gang, use of each of them |

    optimise sum v_jp x_jp    sum_p x_jp = 1 (at most 1 of a job that may be left out)
    sum_m y_jm = g_jp x_jp    sum_j u_jp y_jm <= C_p

`by_machine` keeps such a pool in sum, which is a relaxation: its choice need not fit on the machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidOption
from apportion.formulations.protocol import Plan
from apportion.instances.matching import MatchingInstance
from apportion.models.affine import Affine
from apportion.models.linear import LinearModel, LinearModelBuilder

__all__ = ["MatchingByUnit"]


class MatchingByUnit:
    """The linear model of an instance, and the way back to its plans.

    Attributes
    ----------
    instance
        What was compiled: an instance with a cost or a value.
    exact
        True: its optimum is the instance's.
    model
        The linear model.
    """

    __slots__ = ("_count", "_entries", "_held", "exact", "instance", "model")

    def __init__(self, instance: MatchingInstance) -> None:
        if instance.objective == "makespan":
            raise InvalidOption(
                "formulation by_unit is for a cost or a value, not for a makespan; take by_machine"
            )
        self.instance = instance
        self.exact = True
        self._entries = [(j, name) for j, job in enumerate(instance.jobs) for name in job.on]
        placed = {pool.id for pool in instance.machines if pool.capacity is not None and pool.count > 1}
        self._held: dict[int, slice] = {}
        # no more machines of a pool than all who may go there could hold: a pool of 10^9 has as many columns
        wanted = dict.fromkeys((pool.id for pool in instance.machines), 0)
        for j, name in self._entries:
            wanted[name] += instance.jobs[j].on[name].gpus
        self._count = count = {pool.id: min(pool.count, wanted[pool.id]) for pool in instance.machines}
        end = 0
        for row, (_, name) in enumerate(self._entries):
            if name in placed:
                self._held[row] = slice(end, end + count[name])
                end += count[name]
        self.model = self._compiled(end)

    def plan(self, point: NDArray[np.float64]) -> Plan:
        """Return the plan of a point: the pool of every job, and its machines where it must say them."""
        x = point[self.model.variable("x")] > 0.5
        y = point[self.model.variable("y")] > 0.5
        plan: Plan = {"assignment": {}}
        index: dict[str, int | list[int]] = {}
        for row in np.flatnonzero(x).tolist():
            job, name = self._entries[row]
            plan["assignment"][self.instance.jobs[job].id] = name
            if row in self._held:
                units = np.flatnonzero(y[self._held[row]]).tolist()
                index[self.instance.jobs[job].id] = units if len(units) != 1 else units[0]
        return {**plan, "machine_index": index} if index else plan

    def point(self, plan: Any) -> NDArray[np.float64] | None:
        """Return the point of a feasible plan, or ``None`` if it cannot be carried over."""
        named = plan.get("assignment") if isinstance(plan, Mapping) else None
        if not isinstance(named, Mapping):
            return None
        index = plan.get("machine_index", {})
        point = np.zeros(self.model.num_columns)
        x, y = self.model.variable("x"), self.model.variable("y")
        for row, (job, name) in enumerate(self._entries):
            own = self.instance.jobs[job].id
            if named.get(own) != name:
                continue
            point[x.start + row] = 1.0
            if row in self._held:
                units = np.atleast_1d(np.asarray(index.get(own, ()), dtype=np.int64))
                if (units >= self._count[name]).any():
                    return None
                point[y.start + self._held[row].start + units] = 1.0
        return point

    def _compiled(self, units: int) -> LinearModel:
        instance = self.instance
        m = LinearModelBuilder("maximize" if instance.objective == "value" else "minimize")
        x = m.binary("x", (len(self._entries),))
        y = m.binary("y", (units,))
        entries = [instance.jobs[j].on[name] for j, name in self._entries]
        sizes = [len(job.on) for job in instance.jobs]
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        required = np.array([job.required for job in instance.jobs], dtype=np.float64)
        m.between("one_machine", required, x.segment_sum(offsets), 1.0, ([job.id for job in instance.jobs],))
        for pool in instance.machines:
            rows = [row for row, (_, name) in enumerate(self._entries) if name == pool.id]
            misfits = [row for row in rows if not _fits(entries[row], pool)]
            if misfits:
                m.equal(f"fits_nowhere[{pool.id}]", x[np.array(misfits)].sum(), 0.0)
            if pool.capacity is None:
                continue
            uses = np.array([entries[row].uses for row in rows], dtype=np.float64)
            if pool.count == 1 and rows:
                m.at_most(f"capacity[{pool.id}]", (x[np.array(rows)] * uses).sum(), pool.capacity)
            elif rows:
                self._on_units(m, x, y, pool, rows, uses)
        m.objective(x * np.array([getattr(entry, instance.field) for entry in entries]))
        return m.build()

    def _on_units(
        self,
        m: LinearModelBuilder,
        x: Affine,
        y: Affine,
        pool: Any,
        rows: list[int],
        uses: NDArray[np.float64],
    ) -> None:
        gpus = [self.instance.jobs[self._entries[row][0]].on[pool.id].gpus for row in rows]
        held = np.concatenate([np.arange(self._held[row].start, self._held[row].stop) for row in rows])
        count = self._count[pool.id]
        ends = np.arange(len(rows) + 1, dtype=np.int64) * count
        m.equal(
            f"gang[{pool.id}]", y[held].segment_sum(ends), x[np.array(rows)] * np.array(gpus, dtype=float)
        )
        by_unit = held.reshape(len(rows), count).T.ravel()
        ends = np.arange(count + 1, dtype=np.int64) * len(rows)
        used = (y[by_unit] * np.tile(uses, count)).segment_sum(ends)
        m.at_most(f"capacity[{pool.id}]", used, float(pool.capacity))


def _fits(entry: Any, pool: Any) -> bool:
    return entry.gpus <= pool.count and (pool.capacity is None or entry.uses <= pool.capacity)

"""A matching as menus over pools: what every job takes of a pool in sum, then places on its machines.

| here | meaning |
|---|---|
| x_jp | job j runs on pool p |
| g_jp, u_jp | machines held by the gang, use of each of them |
| c_p, C_p | machines of the pool, room on each of them |

    optimise sum v_jp x_jp    sum_p x_jp = 1 (at most 1 of a job that may be left out)
    sum_j g_jp u_jp x_jp <= c_p C_p

The sum over a pool is a relaxation: what was chosen must also lie on the machines. Of what does not, the
search learns that too many jobs use t or more of a machine, sum_(u_jp >= t) g_jp x_jp <= c_p floor(C_p / t),
or which jobs do not fit together. A makespan has the same rooms and no sum: its menus, worth nothing, say
what tenants may have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidOption
from apportion.formulations.protocol import Plan
from apportion.instances.matching import MatchingInstance
from apportion.instances.matching.schema import machines_by, total_capacities
from apportion.models.lowering import Lowered, OptionLabels, lower
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.models.packing import MachinePacking

__all__ = ["MatchingByPool"]


class MatchingByPool:
    """The menus of an instance, its choices placed on machines.

    Parameters
    ----------
    instance
        What to compile: a cost or a value.
    timed
        Whether it is a makespan, of which only the rooms are asked about.

    Attributes
    ----------
    instance
        What was compiled.
    model
        The pools that every job fits on, and those with a capacity as capacities.
    value_error
        0: values are taken as they are.
    relaxes
        True: what is chosen must also lie on the machines.
    """

    relaxes = True

    def __init__(self, instance: MatchingInstance, timed: bool = False) -> None:
        if not timed and instance.objective == "makespan":
            raise InvalidOption("formulation by_pool is for a cost or a value; leave it out for a makespan")
        self.instance = instance
        self.value_error = 0.0
        self._pools = {pool.id: pool for pool in instance.machines}
        entries = [
            (j, name)
            for j, job in enumerate(instance.jobs)
            for name, entry in job.on.items()
            if (pool := self._pools[name]).capacity is None or entry.uses <= pool.capacity
        ]
        owner = np.array([j for j, _ in entries], dtype=np.int64)
        self._pool = [name for _, name in entries]
        offered = [instance.jobs[j].on[name] for j, name in entries]
        self._gpus = np.array([entry.gpus for entry in offered], dtype=np.int64)
        self._uses = np.array([entry.uses for entry in offered], dtype=np.int64)
        self._row = {(instance.jobs[j].id, name): row for row, (j, name) in enumerate(entries)}
        room = total_capacities(instance)
        column = {name: k for k, name in enumerate(room)}
        uses = np.zeros((len(entries), len(room)), dtype=np.int64)
        for row, name in enumerate(self._pool):
            if name in column:
                uses[row, column[name]] = self._gpus[row] * self._uses[row]
        values = [0.0 if timed else getattr(entry, instance.field) for entry in offered]
        sizes = np.bincount(owner, minlength=len(instance.jobs))
        self.model = MultipleChoiceKnapsack.from_arrays(
            np.array(values, dtype=np.float64),
            uses,
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            np.array(list(room.values()), dtype=np.int64),
            required=np.array([job.required for job in instance.jobs], dtype=np.bool_),
            sense="maximize" if instance.objective == "value" else "minimize",
            capacity_names=tuple(room),
        )

    def more(self, capacity: str, amount: int) -> tuple[str, int]:
        """Return the pool and the room on each of its machines that give a pool so much more."""
        return capacity, -(-amount // self._pools[capacity].count)

    def packings(self, choice: NDArray[np.int64]) -> dict[str, MachinePacking]:
        """Return what a choice asks of the machines of every pool that has a capacity."""
        held: dict[str, list[tuple[int, int]]] = {}
        for job, row in enumerate(choice.tolist()):
            if row >= 0 and self._pools[self._pool[row]].capacity is not None:
                held.setdefault(self._pool[row], []).append((job, row))
        return {
            name: MachinePacking(
                self._pools[name].count,
                self._pools[name].capacity or 0,
                tuple(job for job, _ in jobs),
                tuple(int(self._gpus[row]) for _, row in jobs),
                tuple(int(self._uses[row]) for _, row in jobs),
            )
            for name, jobs in held.items()
        }

    def plan_on(self, choice: NDArray[np.int64], placed: Mapping[str, Sequence[Sequence[int]]]) -> Plan:
        """Return the plan of a choice with the machines of every job, given as in `packings`."""
        plan = self.plan(choice)
        names, index = self.job_names(), dict[str, int | list[int]]()
        for name, packing in self.packings(choice).items():
            for job, machines in zip(packing.jobs, placed[name], strict=True):
                index[names[job]] = list(machines) if len(machines) != 1 else machines[0]
        return {**plan, "machine_index": index} if index else plan

    def bounded(self, gpu_type: str, weights: tuple[int, ...]) -> MatchingByPool:
        """Return the same with the capacity of the jobs that use so much, or more, of a machine of a pool."""
        (size,) = weights
        pool = self._pools[gpu_type]
        mine = np.array([name == gpu_type for name in self._pool], dtype=np.bool_)
        use = np.where(mine & (self._uses >= size), self._gpus, 0)
        return self._with(use, pool.count * ((pool.capacity or 0) // size), machines_by(gpu_type, size))

    def excluding(self, gpu_type: str, choice: NDArray[np.int64]) -> MatchingByPool:
        """Return the same without all jobs of a choice on a pool at once."""
        rows = [row for row in choice.tolist() if row >= 0 and self._pool[row] == gpu_type]
        use = np.zeros(self.model.num_options, dtype=np.int64)
        use[rows] = 1
        return self._with(use, len(rows) - 1, f"excluded choice {self.model.num_capacities}")

    def provable(self) -> MatchingByPool:
        """Return the same with the pools alone: the certificate of a matching names nothing else."""
        room = total_capacities(self.instance)
        return self._of(self.model.uses[:, : len(room)], self.model.capacities[: len(room)], tuple(room))

    def exact_values(self) -> list[Fraction]:
        """Return the values themselves."""
        return list(map(Fraction, self.model.values.tolist()))

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return the pool of every job."""
        names = self.job_names()
        taken = {names[job]: self._pool[row] for job, row in enumerate(choice.tolist()) if row >= 0}
        return {"assignment": taken}

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the choice of a plan as far as it fits; ``None`` if it is no plan."""
        named = plan.get("assignment") if isinstance(plan, Mapping) else None
        if not isinstance(named, Mapping):
            return None
        rows = [
            self._row.get((job, pool), -1) if isinstance(pool := named.get(job), str) else -1
            for job in self.job_names()
        ]
        return np.array(rows, dtype=np.int64)

    def present(self) -> None:
        """Return ``None``: a matching has no present state."""
        return

    def lowered(self) -> Lowered:
        """Return the linear model, its columns named ``x[job,pool]``."""
        jobs = self.job_names()
        return lower(self.model, OptionLabels(self.model.offsets, jobs, self._pool), jobs)

    def job_names(self) -> list[str]:
        """Return the jobs' names."""
        return [job.id for job in self.instance.jobs]

    def option_name(self, row: int) -> str:
        """Return the pool of an option."""
        return self._pool[row]

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the menus themselves."""
        return self.model

    def _with(self, use: NDArray[np.int64], capacity: int, name: str) -> MatchingByPool:
        model = self.model
        uses, capacities = np.column_stack([model.uses, use]), np.append(model.capacities, capacity)
        return self._of(uses, capacities, (*model.capacity_names, name))

    def _of(self, uses: Any, capacities: Any, names: tuple[str, ...]) -> MatchingByPool:
        other = copy(self)
        other.model = self.model.under(np.ascontiguousarray(uses), capacities, names)
        return other

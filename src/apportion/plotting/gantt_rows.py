"""What a machine's row of a matching plan shows: bars of jobs, and where its room ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apportion.instances.matching import MatchingInstance
from apportion.instances.matching.schedule import machine_name, schedule

__all__ = ["Bar", "Row", "machine_rows", "pool_rows"]


@dataclass(frozen=True, slots=True)
class Bar:
    """One job on one machine.

    Attributes
    ----------
    job
        Its number.
    begin, end
        From where to where: seconds, uses, or machines of a pool that is shared.
    """

    job: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Row:
    """A machine, or a pool whose machines are shared.

    Attributes
    ----------
    name
        What it is called.
    pool
        The number of its pool.
    room
        How much there is of it: its capacity, the machines of the pool; ``None`` for no limit.
    bars
        The jobs in it.
    """

    name: str
    pool: int
    room: float | None
    bars: list[Bar] = field(default_factory=list)

    @property
    def end(self) -> float:
        """Where its last bar ends."""
        return max((bar.end for bar in self.bars), default=0.0)


def machine_rows(instance: MatchingInstance, plan: Mapping[str, Any], most: int) -> tuple[list[Row], int]:
    """Return a row per machine, at most some of them, and how many machines are left away.

    Parameters
    ----------
    instance, plan
        The instance and a feasible plan of it.
    most
        How many rows there may be: those that end last, or are fullest, and then idle ones.
    """
    position = {job.id: number for number, job in enumerate(instance.jobs)}
    number = {machine.id: pool for pool, machine in enumerate(instance.machines)}
    timed = instance.objective == "makespan"
    held: dict[tuple[int, int], list[Bar]] = {}
    for job, placed in schedule(instance, plan).items():
        for index in placed.machines:
            bar = Bar(position[job], placed.begin, placed.end)
            held.setdefault((number[placed.pool], index), []).append(bar)
    last = sorted(held, key=lambda at: -max(bar.end for bar in held[at]))[:most]
    shown = set(last)
    for pool, machine in enumerate(instance.machines):
        for index in range(min(machine.count, most)):
            if len(shown) < most:
                shown.add((pool, index))
    rows = []
    for pool, index in sorted(shown):
        machine = instance.machines[pool]
        room = None if timed or machine.capacity is None else float(machine.capacity)
        bars = held.get((pool, index), [])
        rows.append(Row(machine_name(machine.id, index, machine.count), pool, room, bars))
    return rows, sum(machine.count for machine in instance.machines) - len(rows)


def pool_rows(instance: MatchingInstance, plan: Mapping[str, Any]) -> list[Row]:
    """Return a row per pool with the shares of its machines' time, in machines."""
    rows = {
        machine.id: Row(machine.id, k, float(machine.count)) for k, machine in enumerate(instance.machines)
    }
    for position, job in enumerate(instance.jobs):
        for pool, share in plan["fractions"].get(job.id, {}).items():
            begin = rows[pool].end
            rows[pool].bars.append(Bar(position, begin, begin + share * job.on[pool].gpus))
    return list(rows.values())

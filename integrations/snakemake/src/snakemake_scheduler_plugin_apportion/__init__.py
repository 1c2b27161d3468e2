"""Snakemake scheduler plug-in: which ready jobs start is decided exactly, by goals in strict order.

First jobs that the command line prioritises above all, then the sum of priorities, then cores in use, then
temporary files freed. Every resource with a number is a capacity.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from snakemake_interface_scheduler_plugins.base import SchedulerBase
from snakemake_interface_scheduler_plugins.settings import SchedulerSettingsBase

__all__ = ["Scheduler", "SchedulerSettings"]

_ABOVE_ALL = 2**40
"""Priorities from here on are Snakemake's own highest one, not a number that somebody adds up."""
_LARGEST_ROOM = 10**15
"""What there is more of counts as unlimited."""
_SOON = 0.25
"""Part of the limit within which the ready jobs are read, or temporary files are not looked at."""
_LEAST_SECONDS = 0.1


@dataclass
class SchedulerSettings(SchedulerSettingsBase):
    """What a user may set: ``--scheduler-apportion-time-limit`` and ``--scheduler-apportion-gap``."""

    time_limit: Optional[float] = field(  # noqa: UP045  (the command line is made of these types)
        default=2.0,
        metadata={"help": "Seconds that one choice of jobs may take; the best found by then is used."},
    )
    gap: Optional[float] = field(  # noqa: UP045
        default=0.0,
        metadata={"help": "Part of the best sum of priorities that a choice may miss; 0 asks for the best."},
    )


class Scheduler(SchedulerBase):
    """Chooses among ready jobs by goals in strict order."""

    def __post_init__(self) -> None:
        self._warned = False

    def select_jobs(
        self,
        selectable_jobs: Sequence[Any],
        remaining_jobs: Sequence[Any],
        available_resources: Mapping[str, int | str],
        input_sizes: Mapping[Any, int],
    ) -> Sequence[Any] | None:
        """Return the jobs to start; ``None``, with one warning, where the choice failed."""
        jobs = list(selectable_jobs)
        if not jobs:
            return []
        try:
            return self._selected(jobs, remaining_jobs, available_resources, input_sizes)
        except Exception as error:  # a workflow is never stopped by its scheduler: Snakemake has a greedy one
            if not self._warned:
                self._warned = True
                self.logger.warning(f"apportion chose no jobs, Snakemake's greedy scheduler does: {error}")
            return None

    def _selected(
        self,
        jobs: list[Any],
        remaining: Iterable[Any],
        available: Mapping[str, int | str],
        input_sizes: Mapping[Any, int],
    ) -> list[Any]:
        import apportion

        began = perf_counter()
        rooms = {name: _number(amount) for name, amount in available.items()}
        limited = {name: room for name, room in rooms.items() if room is not None and room < _LARGEST_ROOM}
        uses = np.array(
            [[_number(job.scheduler_resources.get(name)) or 0 for name in limited] for job in jobs],
            dtype=np.int64,
        ).reshape(len(jobs), len(limited))
        room = np.array([max(0, amount) for amount in limited.values()], dtype=np.int64)
        fits = np.flatnonzero((uses <= room).all(axis=1))  # what is larger than what is free waits
        if not fits.size:
            return []
        uses = uses[fits]
        short = uses.sum(axis=0) > room  # the others are enough for all together
        model = apportion.MultipleChoiceKnapsack.from_arrays(
            values=np.zeros(fits.size),
            uses=uses[:, short],
            offsets=np.arange(fits.size + 1),
            capacities=room[short],
            required=False,
        )
        some = [jobs[at] for at in fits.tolist()]
        settings = self.settings if isinstance(self.settings, SchedulerSettings) else SchedulerSettings()
        goals, limit = _goals(some), settings.time_limit
        if limit is None or perf_counter() - began < _SOON * limit:
            goals |= _freed(some, remaining, input_sizes)
        left = None if limit is None else max(_LEAST_SECONDS, limit - (perf_counter() - began))
        found = apportion.solve_in_order(model, goals, time_limit=left, gap=settings.gap or 0.0)
        if found.termination is apportion.Termination.INTERRUPTED:
            raise KeyboardInterrupt  # meant for the workflow, not for this choice
        if found.choice is None:
            raise RuntimeError(f"no choice was found ({found.termination.value})")
        open_ = [goal.name for goal in found.goals if not goal.proven]
        if open_:
            self.logger.debug(
                f"apportion: within {settings.time_limit} s not proven best in {', '.join(open_)}"
            )
        return [job for job, row in zip(some, found.choice.tolist(), strict=True) if row >= 0]


def _number(amount: object) -> int | None:
    """Return a resource as a whole number, rounded up; ``None`` for text and for nothing."""
    if isinstance(amount, bool) or not isinstance(amount, int | float) or not math.isfinite(amount):
        return None
    return math.ceil(amount)


def _goals(jobs: Sequence[Any]) -> dict[str, NDArray[np.int64]]:
    """Return what every job adds to priorities and to cores in use."""
    priorities = [int(job.priority) for job in jobs]
    above = np.array([priority >= _ABOVE_ALL for priority in priorities], dtype=np.int64)
    plain = np.array([0 if priority >= _ABOVE_ALL else priority for priority in priorities], dtype=np.int64)
    cores = np.array(
        [max(1, _number(job.scheduler_resources.get("_cores", 1)) or 1) for job in jobs], dtype=np.int64
    )
    goals = {"prioritised above all": above} if above.any() else {}
    if plain.any():
        goals["priorities"] = plain
    return {**goals, "cores in use": cores}


def _freed(
    jobs: Sequence[Any], remaining: Iterable[Any], sizes: Mapping[Any, int]
) -> dict[str, NDArray[np.int64]]:
    """Return what every job adds to temporary files freed, in megabytes; nothing where there are none.

    A file is freed when all jobs that still need it are done. Where one job alone needs it, it is that job's;
    of a file that k jobs need each counts a k-th, as a step towards it.
    """
    needed: dict[Any, int] = {}
    own: list[list[Any]] = []
    for job in jobs:
        own.append(list({file for file in job.input if file.is_flagged("temp")}))
        needed.update(dict.fromkeys(own[-1], 0))
    if not needed:
        return {}
    for job in remaining:
        for file in set(job.input):
            if file in needed:
                needed[file] += 1
    freed = [sum(sizes[file] / max(1, needed[file]) for file in files) for files in own]
    return {"temporary files freed": np.array([round(amount / 1e6) for amount in freed], dtype=np.int64)}

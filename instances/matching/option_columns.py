"""The options of a matching in vectors: the twin of its options, for speed."""

from __future__ import annotations

import numpy as np

from apportion.instances.columns import Columns, PoolUse
from apportion.instances.matching.schema import OPTION_SET, MatchingEntry, MatchingInstance
from apportion.instances.options import Place

__all__ = ["columns"]


def columns(instance: MatchingInstance) -> Columns:
    """Return the pools that jobs fit on; those that may be left out are told apart."""
    assert OPTION_SET.goal is not None
    number = {machine.id: at for at, machine in enumerate(instance.machines)}
    room = {machine.id: machine.capacity for machine in instance.machines if machine.capacity is not None}
    jobs = [
        [(name, entry) for name, entry in job.on.items() if name not in room or entry.uses <= room[name]]
        for job in instance.jobs
    ]
    entries = [one for own in jobs for one in own]
    barred = {
        at: [_place(name, entry) for name, entry in job.on.items() if (name, entry) not in own]
        for at, (job, own) in enumerate(zip(instance.jobs, jobs, strict=True))
        if len(own) < len(job.on)
    }
    timed, field = instance.objective == "makespan", instance.field
    count = len(entries)
    return Columns(
        OPTION_SET.goal(instance),
        [job.id for job in instance.jobs],
        np.concatenate(([0], np.cumsum([len(own) for own in jobs]))).astype(np.int64),
        np.zeros(count)
        if timed
        else np.array([getattr(entry, field) for _, entry in entries], dtype=np.float64),
        np.zeros((count, 0), dtype=np.int64),
        (),
        (),
        np.array([not job.required for job in instance.jobs], dtype=np.bool_),
        PoolUse(
            OPTION_SET.pools(instance),
            np.fromiter((number[name] for name, _ in entries), np.int64, count),
            np.fromiter((entry.gpus for _, entry in entries), np.int64, count),
            np.fromiter((entry.uses for _, entry in entries), np.int64, count),
            np.fromiter((entry.time_s or 0.0 for _, entry in entries), np.float64, count),
        ),
        sections=("pools", "cuts", "capacities"),
        names=lambda: [name for name, _ in entries],
        barred=barred,
    )


def _place(name: str, entry: MatchingEntry) -> Place:
    return Place(name, entry.gpus, entry.uses, entry.time_s or 0.0)

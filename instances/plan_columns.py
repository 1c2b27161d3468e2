"""Any plan as a table: one row per job, one column per thing that the plan says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["plan_columns"]


def plan_columns(instance: Any, plan: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of a plan of any kind, ``job`` first, in the order of the instance's jobs.

    A plan is one or more tables by job. Where a table gives a job a word, a number or a list, the column is
    called as the table is; where it gives an object, every key of it is a column (``gpu_type``, ``gpus`` and
    ``depth`` of a configuration; the pools of fractions). A job of which nothing is said has ``None``.

    Parameters
    ----------
    instance
        The instance.
    plan
        Its plan, as it stands in JSON.
    """
    jobs: Sequence[str] = [job.id for job in instance.jobs]
    columns: dict[str, list[Any]] = {"job": list(jobs)}
    for name, given in plan.items():
        entries = [given.get(job) for job in jobs]
        if any(isinstance(entry, Mapping) for entry in entries):
            keys = dict.fromkeys(key for entry in entries if isinstance(entry, Mapping) for key in entry)
            for key in keys:
                columns[key] = [None if entry is None else entry.get(key) for entry in entries]
        else:
            columns[name] = entries
    return columns

"""Any instance as a table: the columns that its kind's builder takes, a row per line of a job's menu.

Any plan as a table: one row per job, one column per thing that the plan says of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from apportion.instances.kinds import kind_of

__all__ = ["menu_table", "plan_columns"]


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


def menu_table(instance: Any, most: int | None = None) -> dict[str, list[Any]]:
    """Return the menus of an instance as columns by name, ``job`` first.

    The fields of a job that differ from their defaults stand in each of its rows; a cell of which nothing is
    said is ``None``. A job with an empty menu has one row.

    Parameters
    ----------
    instance
        An instance of any kind.
    most
        Only so many rows, the first ones.
    """
    kind = kind_of(instance)
    rows: list[dict[str, Any]] = []
    for job in instance.jobs:
        if most is not None and len(rows) >= most:
            break
        own = _cells(job, besides=("id", kind.menu_field))
        menu = [{}] if kind.menu is None else list(kind.menu(job)) or [{}]
        rows.extend({"job": job.id, **line, **own} for line in menu)
    rows = rows[:most]
    names = dict.fromkeys(["job", *(name for row in rows for name in row)])
    return {name: [row.get(name) for row in rows] for name in names}


def _cells(job: Any, besides: tuple[str | None, ...]) -> dict[str, Any]:
    """Return the fields of a job that are not as they are by default, as plain JSON."""
    cells = {}
    for field in msgspec.structs.fields(job):
        value = getattr(job, field.name)
        if field.name not in besides and value is not msgspec.UNSET and value != field.default:
            cells[field.name] = msgspec.to_builtins(value)
    return cells

"""Any instance as a table: the columns that its kind's builder takes, a row per line of a job's menu."""

from __future__ import annotations

from typing import Any

import msgspec

from apportion.instances.kinds import kind_of

__all__ = ["menu_table"]


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

"""A plan as CSV: one line per job, whatever its kind."""

from __future__ import annotations

import csv
import io
from typing import Any

from apportion.instances.plan_columns import plan_columns

__all__ = ["plan_csv"]


def plan_csv(instance: Any, plan: Any) -> bytes:
    """Return the table of a plan: lists as words with blanks between, empty cells where nothing is said."""
    columns = plan_columns(instance, plan)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_cells, zip(*columns.values(), strict=True)))
    return text.getvalue().encode().rstrip(b"\n")


def _cells(row: tuple[Any, ...]) -> list[Any]:
    return [" ".join(map(str, cell)) if isinstance(cell, list | tuple) else cell for cell in row]

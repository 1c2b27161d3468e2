"""Rows that a reader passes over are said, never dropped in silence."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from os import PathLike, fspath

__all__ = ["log_skipped_rows"]


def log_skipped_rows(path: str | PathLike[str], rows: int, reasons: Mapping[str, int]) -> None:
    """Log ``FILE: 3 of 40 rows skipped: 2 not ended yet, 1 of no node`` as a warning; nothing for none.

    Parameters
    ----------
    path
        The file.
    rows
        How many rows it has.
    reasons
        How many were passed over, by why.
    """
    counted = [f"{count} {reason}" for reason, count in reasons.items() if count]
    if counted:
        skipped = sum(reasons.values())
        logging.getLogger("apportion").warning(
            "%s: %d of %d rows skipped: %s", fspath(path), skipped, rows, ", ".join(counted)
        )

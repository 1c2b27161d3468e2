"""Forgetting old decisions, and the states of sessions that none of the others needs."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from apportion.record.packing import pack_instance
from apportion.record.reading import History

if TYPE_CHECKING:
    from apportion.record.writing import Record

__all__ = ["prune"]

_OLD = """
at_s < ?1 AND id NOT IN (
    SELECT max(decision.id) FROM decision JOIN session ON session.name = decision.session
    WHERE session.closed_s IS NULL GROUP BY decision.session
)
"""
_NEEDED = """
SELECT name, closed_s IS NULL, (SELECT max(revision) FROM state WHERE session = name),
    (SELECT min(revision) FROM decision WHERE session = name) FROM session
"""


def prune(record: Record, connection: sqlite3.Connection, before_s: float) -> int:
    """Delete what is older than a moment, in one transaction, and give its room back to the disk."""
    run = connection.execute
    with record.together():
        gone = run(f"DELETE FROM decision WHERE {_OLD}", (before_s,)).rowcount
        run("DELETE FROM request WHERE at_s < ? AND decision IS NULL", (before_s,))
        with History(record.path) as history:  # states are never deleted by anybody else
            for name, is_open, last, oldest in run(_NEEDED).fetchall():
                if oldest is None and not is_open:
                    run("DELETE FROM state WHERE session = ?", (name,))
                    run("DELETE FROM session WHERE name = ?", (name,))
                    continue
                first = last if oldest is None else oldest
                (whole,) = run(
                    "SELECT instance IS NOT NULL FROM state WHERE session = ? AND revision = ?", (name, first)
                ).fetchone()
                if not whole:
                    packed = pack_instance(history.instance(name, first))
                    run(
                        "UPDATE state SET instance = ? WHERE session = ? AND revision = ?",
                        (packed, name, first),
                    )
                run("DELETE FROM state WHERE session = ? AND revision < ?", (name, first))
    run("PRAGMA incremental_vacuum").fetchall()
    run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return int(gone)

"""The tables of a record, version by version, and how an older file becomes one of today."""

from __future__ import annotations

import sqlite3

from apportion.record.errors import RecordDamaged

__all__ = ["APPLICATION", "MIGRATIONS", "VERSION", "migrate", "version_of"]

APPLICATION = 0x61707072
"""``PRAGMA application_id`` of a record ("appr"): no other SQLite file is taken for one."""

_FIRST = """
CREATE TABLE session (
    name TEXT PRIMARY KEY,
    created_s REAL NOT NULL,
    asked_by TEXT NOT NULL,
    closed_s REAL
) WITHOUT ROWID;
CREATE TABLE state (
    session TEXT NOT NULL REFERENCES session (name),
    revision INTEGER NOT NULL,
    at_s REAL NOT NULL,
    asked_by TEXT NOT NULL,
    instance BLOB,
    deltas BLOB,
    PRIMARY KEY (session, revision),
    CHECK (instance IS NOT NULL OR deltas IS NOT NULL)
) WITHOUT ROWID;
CREATE TABLE decision (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL,
    revision INTEGER NOT NULL,
    at_s REAL NOT NULL,
    seconds REAL NOT NULL,
    asked_by TEXT NOT NULL,
    policy TEXT NOT NULL,
    status TEXT NOT NULL,
    options TEXT NOT NULL,
    kind TEXT NOT NULL,
    termination TEXT NOT NULL,
    objective REAL,
    bound REAL,
    gap REAL,
    result BLOB NOT NULL,
    digest TEXT,
    proof BLOB,
    proof_digest TEXT,
    FOREIGN KEY (session, revision) REFERENCES state (session, revision)
);
CREATE INDEX decision_by_time ON decision (at_s);
CREATE INDEX decision_by_session ON decision (session, id);
"""

_REQUESTS = """
CREATE TABLE request (
    session TEXT NOT NULL,
    id TEXT NOT NULL,
    at_s REAL NOT NULL,
    body TEXT NOT NULL,
    revision INTEGER NOT NULL,
    decision INTEGER REFERENCES decision (id) ON DELETE CASCADE,
    PRIMARY KEY (session, id)
) WITHOUT ROWID;
CREATE INDEX request_by_decision ON request (decision);
"""

MIGRATIONS: tuple[str, ...] = (_FIRST, _REQUESTS)
"""Script N makes a file of version N into one of version N + 1; a script that was released never changes."""
VERSION = len(MIGRATIONS)


def version_of(connection: sqlite3.Connection, path: str) -> int:
    """Return the version of an open file, 0 for an empty one.

    Raises
    ------
    RecordDamaged
        If it is no record, or one of a later version.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION and (tables or version):
        raise RecordDamaged(f"{path} is a database, but no record of apportion")
    if version > VERSION:
        raise RecordDamaged(f"{path} has version {version}; this release reads up to {VERSION}: update it")
    return int(version)


def migrate(connection: sqlite3.Connection, path: str) -> int:
    """Bring a file to today's version, one transaction per step, and return the version that it had."""
    had = version_of(connection, path)
    for number in range(had, VERSION):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if version_of(connection, path) == number:  # nobody else was faster
                for statement in MIGRATIONS[number].split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return had

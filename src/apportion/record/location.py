"""Where a record is kept: a file in a folder that only its user can enter."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["default_folder", "record_file"]

_FILE = "record.sqlite3"


def default_folder() -> Path:
    """Return the folder used where none is named: ``APPORTION_RECORD``, else under the user's own state."""
    named = os.environ.get("APPORTION_RECORD")
    if named:
        return Path(named)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "apportion" / "record"


def record_file(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of the record in a folder, by default in `default_folder`; nothing is made."""
    return Path(default_folder() if folder is None else folder).expanduser().absolute() / _FILE

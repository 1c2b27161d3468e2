"""The log of a run: JSON Lines, a header, one line per step, and the run's record as the last line."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec

from apportion.simulation.run_record import RunRecord
from apportion.simulation.totals import Step

__all__ = ["RunLog"]


class RunLog:
    """A log being written; call it with every `Step`, and `close` it with the record.

    Parameters
    ----------
    path
        The file, begun anew unless `resume_at` is given.
    header
        The first line of the log, which says what is run.
    resume_at
        Length in bytes up to which an earlier run's log is kept and continued.
    """

    def __init__(self, path: str | Path, header: dict[str, Any], resume_at: int | None = None) -> None:
        self._encode = msgspec.json.Encoder().encode
        self._names = tuple(field.name for field in dataclasses.fields(Step))
        if resume_at is None:
            self._file: IO[bytes] = Path(path).open("wb")  # noqa: SIM115 - closed by this context manager
            self._file.write(self._encode({"kind": "replay_header", **header}) + b"\n")
        else:
            self._file = Path(path).open("r+b")  # noqa: SIM115
            self._file.truncate(resume_at)
            self._file.seek(resume_at)

    def __call__(self, step: Step) -> None:
        """Write one step."""
        self._file.write(self._encode({name: getattr(step, name) for name in self._names}) + b"\n")

    def position(self) -> int:
        """Return the length of the log so far, in bytes, all of it written."""
        self._file.flush()
        return self._file.tell()

    def finish(self, record: RunRecord) -> None:
        """Write the last line."""
        self._file.write(self._encode(record) + b"\n")

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

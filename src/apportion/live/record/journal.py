"""The controller's journal: one JSON object a line, in files of bounded size, the oldest thrown away.

A file's name is a number that only grows and never changes, so that whoever reads while the controller writes
meets every line once: nothing is renamed under a reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["Journal", "read_journal"]

_FOLDER = "journal"
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class Journal:
    """Writes a state folder's journal; the folder's lock is the caller's.

    A disk that is full costs lines and nothing else: nodes are not left because a journal cannot be written.

    Parameters
    ----------
    folder
        The state folder.
    limit
        Bytes of a file; the line that goes beyond it is its last.
    kept
        How many files are kept, the one that is written included.

    Attributes
    ----------
    lost
        Lines that could not be written.
    """

    def __init__(self, folder: Path, limit: int, kept: int) -> None:
        self._folder, self._limit, self._kept = folder / _FOLDER, limit, kept
        self.lost = 0
        self._file: int | None = None
        self._number = max(_numbers(self._folder), default=0)

    def write(self, events: Iterable[Mapping[str, object]]) -> None:
        """Append events, all of them in one file."""
        lines = [_ENCODER.encode(event) + b"\n" for event in events]
        if not lines:
            return
        try:
            self._append(b"".join(lines))
        except OSError:
            self.lost += len(lines)
            self.close()

    def close(self) -> None:
        """Close the file; the next line opens a new one."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, data: bytes) -> None:
        if self._file is not None and os.fstat(self._file).st_size >= self._limit:
            self.close()
        if self._file is None:
            self._file = self._opened()
        written = 0
        while written < len(data):
            written += os.write(self._file, data[written:])

    def _opened(self) -> int:
        """Open the newest file if there is room in it, else the next one, and throw the oldest away."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        newest = _path(self._folder, self._number)
        if newest.exists() and newest.stat().st_size < self._limit:
            file = os.open(newest, _FLAGS)
            if newest.read_bytes()[-1:] not in (b"", b"\n"):
                os.write(file, b"\n")  # it ends in half a line
            return file
        self._number += 1
        file = os.open(_path(self._folder, self._number), _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        for number in _numbers(self._folder):
            if number <= self._number - self._kept:
                _path(self._folder, number).unlink(missing_ok=True)
        return file


def read_journal(folder: Path, since_s: float = 0.0) -> Iterator[dict[str, Any]]:
    """Yield the events of a state folder from a time on, in the order in which they were written.

    A controller may write meanwhile. Half a line, of a machine that went down or a full disk, is left out.
    """
    for number in _numbers(folder / _FOLDER):
        try:
            lines = _path(folder / _FOLDER, number).read_bytes().split(b"\n")
        except FileNotFoundError:  # thrown away since it was listed
            continue
        for line in lines[:-1]:
            try:
                event = _DECODER.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            time_s = event.get("time_s")
            if isinstance(time_s, int | float) and time_s >= since_s:
                yield event


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(path.stem) for path in folder.glob("*.jsonl") if path.stem.isdecimal())


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:08d}.jsonl"

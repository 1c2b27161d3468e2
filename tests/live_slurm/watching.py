"""A witness: which ranks run on which nodes, looked up among the machine's processes again and again."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path

_SETTLED = 200
"""A process that was no rank in so many looks, ten seconds, becomes none: it is not read again."""


class Witness:
    """Looks twenty times a second; a context manager that fails if anything was ever amiss.

    Parameters
    ----------
    folder
        Ranks whose checkpoints are below it are looked at.
    depth
        So many folders below `folder` tell sites apart: the first of their paths stand before a node's name.
    """

    def __init__(self, folder: Path, depth: int = 0) -> None:
        self.folder, self.depth = os.fsencode(folder) + b"/", depth
        self.wrong: list[str] = []
        self.looks = 0
        self.seen: set[tuple[str, int, int, str]] = set()
        self._others: dict[int, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def begin(self) -> None:
        """Look from now on."""
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def __enter__(self) -> Witness:
        self.begin()
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()
        if raised[0] is None:
            assert not self.wrong, self.wrong[:5]
            assert self.looks > 0

    def wrong_at(self, site: str) -> list[str]:
        """Return what was amiss on the nodes of a site."""
        return [told for told in self.wrong if f"{site}/" in told]

    def ranks(self) -> list[tuple[str, int, int, str]]:
        """Return (job, generation, rank, node) of every leader of a rank that runs."""
        return list(self._found().values())

    def leaders(self) -> list[int]:
        """Return the processes of these leaders."""
        return list(self._found())

    def _found(self) -> dict[int, tuple[str, int, int, str]]:
        pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
        found, others = {}, dict[int, int]()
        for pid in pids:
            looks = self._others.get(pid, 0)
            rank = None if looks >= _SETTLED else self._rank(pid)
            if rank is None:
                others[pid] = looks + 1
            else:
                found[pid] = rank
        self._others = others
        return found

    def _rank(self, pid: int) -> tuple[str, int, int, str] | None:
        """Return the rank whose leader this process is, ``None`` if it is none."""
        try:
            text = _read(f"/proc/{pid}/environ")
            if b"\0APPORTION_RANK=" not in text or b"APPORTION_CHECKPOINT=" + self.folder not in text:
                return None
            state = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        except OSError:
            return None
        if state[0] == b"Z" or int(state[3]) != pid:  # not the leader of its session
            return None
        told = dict(entry.decode().partition("=")[::2] for entry in text.split(b"\0") if entry)
        rank = int(told["APPORTION_RANK"])
        below = told["APPORTION_CHECKPOINT"][len(os.fsdecode(self.folder)) :].split("/")
        node = "/".join([*below[: self.depth], told["APPORTION_NODES"].split(",")[rank]])
        return told["APPORTION_JOB"], int(told["APPORTION_GENERATION"]), rank, node

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            ranks = self.ranks()
            self.seen |= set(ranks)
            self.looks += 1
            for node, count in Counter(node for *_, node in ranks).items():
                if count > 1:
                    self.wrong.append(f"{time.time()}: {count} ranks on {node}: {ranks}")
            generations = {(job, generation) for job, generation, *_ in ranks}
            for job, count in Counter(job for job, _ in generations).items():
                if count > 1:
                    self.wrong.append(f"{time.time()}: {count} generations of {job} at once: {ranks}")


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(file, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)

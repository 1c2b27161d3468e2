"""A witness: which ranks run on which nodes, looked up among the machine's processes again and again."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path


class Witness:
    """Looks twenty times a second; a context manager that fails if anything was ever amiss."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder).encode()
        self.wrong: list[str] = []
        self.looks = 0
        self.seen: set[tuple[str, int, int, str]] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()
        if raised[0] is None:
            assert not self.wrong, self.wrong[:5]
            assert self.looks > 0

    def ranks(self) -> list[tuple[str, int, int, str]]:
        """Return (job, generation, rank, node) of every leader of a rank that runs."""
        return list(self._found().values())

    def leaders(self) -> list[int]:
        """Return the processes of these leaders."""
        return list(self._found())

    def _found(self) -> dict[int, tuple[str, int, int, str]]:
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if path.stat().st_uid < 0 or b"\0APPORTION_RANK=" not in (
                    text := (path / "environ").read_bytes()
                ):
                    continue
                if b"APPORTION_CHECKPOINT=" + self.folder not in text:
                    continue
                state = (path / "stat").read_text().rpartition(")")[2].split()
                if state[0] == "Z" or int(state[3]) != int(path.name):  # not the leader of its session
                    continue
            except OSError:
                continue
            told = dict(entry.decode().partition("=")[::2] for entry in text.split(b"\0") if entry)
            rank = int(told["APPORTION_RANK"])
            node = told["APPORTION_NODES"].split(",")[rank]
            pid = int(path.name)
            found[pid] = (told["APPORTION_JOB"], int(told["APPORTION_GENERATION"]), rank, node)
        return found

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

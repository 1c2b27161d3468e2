"""The hunt itself: draw, ask, shrink and store until the time is over, and count."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.hunt.ask import asked
from tests.hunt.case import Case
from tests.hunt.compare import Mismatch
from tests.hunt.draw import drawn
from tests.hunt.shrink import shrunk

__all__ = ["Tally", "compared", "hunt"]

_MOST_STORED = 5
"""Cases of one sort, kind and path that are shrunk and stored; further ones are only counted."""


@dataclass(slots=True)
class Tally:
    """What a hunt met.

    Attributes
    ----------
    cases, reached
        Cases answered, by kind and path; and those of them that really took the path.
    endings
        How calls ended, by kind.
    wrong
        Mismatches by kind, path and sort.
    files
        Where shrunk cases stand.
    """

    cases: Counter[tuple[str, str]] = field(default_factory=Counter)
    reached: Counter[tuple[str, str]] = field(default_factory=Counter)
    endings: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    files: list[Path] = field(default_factory=list)

    def line(self, label: str, seed: int) -> str:
        """Return the counts as one line of JSON, by kind and path: cases, those that took it, mismatches."""
        counts: dict[str, dict[str, list[int]]] = {}
        for (kind, path), cases in sorted(self.cases.items()):
            wrong = sum(n for (k, p, _), n in self.wrong.items() if (k, p) == (kind, path))
            counts.setdefault(kind, {})[path] = [cases, self.reached[kind, path], wrong]
        told = {"label": label, "seed": seed, "cases": self.cases.total(), "wrong": self.wrong.total()}
        return json.dumps({**told, "counts": counts}) + "\n"

    def table(self) -> str:
        """Return the counts as text."""
        lines = [f"{'kind':26}{'path':24}{'cases':>9}{'took it':>9}{'wrong':>7}"]
        for kind, path in sorted(self.cases):
            wrong = sum(n for (k, p, _), n in self.wrong.items() if (k, p) == (kind, path))
            counts = f"{self.cases[kind, path]:9}{self.reached[kind, path]:9}{wrong:7}"
            lines.append(f"{kind:26}{path:24}{counts}")
        lines.append("")
        for kind in sorted({kind for kind, _ in self.endings}):
            ended = (f"{n} {end}" for (k, end), n in sorted(self.endings.items()) if k == kind)
            lines.append(f"{kind}: {', '.join(ended)}")
        for (kind, path, sort), count in sorted(self.wrong.items()):
            lines.append(f"WRONG {count} x {sort}: {kind} on {path}")
        lines.extend(f"stored {file}" for file in self.files)
        lines.append(f"{sum(self.cases.values())} cases, {sum(self.wrong.values())} mismatches")
        return "\n".join(lines)


def hunt(
    seconds: float, seed: int, kinds: list[str], paths: list[str], folder: Path, most: int | None = None
) -> Tally:
    """Hunt for some seconds, or for `most` cases, and store what is found under `folder`."""
    tally, until, number = Tally(), time.monotonic() + seconds, 0
    while time.monotonic() < until and (most is None or number < most):
        number += 1
        case = drawn(f"{seed}:{number}", kinds, paths)
        if case is None:
            continue
        result = asked(case)
        tally.cases[case.kind, case.path] += 1
        tally.reached[case.kind, case.path] += result.reached
        tally.endings[case.kind, result.termination] += 1
        for wrong in {found.sort: found for found in result.wrong}.values():
            key = (case.kind, case.path, wrong.sort)
            tally.wrong[key] += 1
            if tally.wrong[key] <= _MOST_STORED:
                tally.files.append(_store(case, wrong, folder))
    return tally


def _store(case: Case, wrong: Mismatch, folder: Path) -> Path:
    small = shrunk(case, wrong.sort)
    told = next((found for found in asked(small).wrong if found.sort == wrong.sort), wrong)
    small = replace(small, note=f"{told.sort}: {told.told}")
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(small.encode().encode()).hexdigest()[:10]
    file = folder / f"{case.kind}-{wrong.sort}-{name}.json"
    file.write_text(small.encode(), encoding="utf-8")
    print(f"{file}: {small.note[:300]}", flush=True)
    return file


def compared(count: int, round_of: Callable[[int], Iterable[str]]) -> int:
    """Print what differs in so many rounds, and how many things did; return the exit code."""
    differing = 0
    for number in range(count):
        for said in round_of(number):
            differing += 1
            print(f"{number}: {said}")
    print(f"{count} rounds, {differing} differ")
    return 1 if differing else 0

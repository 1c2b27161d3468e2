"""Small tables of results, and by what they were made: every figure that a document quotes stands in one."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from apportion.core.files import write_whole
from paper_repro.sources import REPOSITORY, digest

__all__ = ["Table", "markdown", "write_table"]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of figures.

    Attributes
    ----------
    command
        The module under ``paper_repro`` or ``benchmarks`` that printed them.
    rows
        One dictionary a row.
    seeds
        Seeds or workloads, in words.
    packages
        Whose versions count.
    commit
        Of the code that ran; ``None``: that of this checkout. Rebasing renames it; the digest of the code,
        which is written beside it, stays.
    """

    command: str
    rows: Sequence[dict[str, Any]]
    seeds: str
    packages: Sequence[str] = ("apportion", "numpy", "scipy")
    commit: str | None = None


def write_table(path: Path, table: Table) -> None:
    """Write a table as JSON with commit, digest of the code, versions, Python and processor.

    It is written whole or not at all. The code is that on disk when the table is written, so nobody changes a
    checkout whose study still runs.
    """
    made = {
        "command": table.command,
        "commit": table.commit or _commit(),
        "code": digest(),
        "seeds": table.seeds,
        "versions": {name: _version(name) for name in table.packages},
        "python": platform.python_version(),
        "processor": _processor(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(msgspec.json.encode(_rounded(row)).decode() for row in table.rows)
    text = f'{{"made": {msgspec.json.encode(made).decode()},\n"rows": [\n{rows}\n]}}\n'
    write_whole(str(path), text.encode())


def markdown(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield rows of the same keys as a table in Markdown."""
    if not rows:
        return
    yield "| " + " | ".join(rows[0]) + " |"
    yield "|---" * len(rows[0]) + "|"
    for row in rows:
        yield (
            "| "
            + " | ".join(f"{one:.4g}" if isinstance(one, float) else str(one) for one in row.values())
            + " |"
        )


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: float(f"{one:.6g}") if isinstance(one, float) else one for key, one in row.items()}


def _commit() -> str:
    asked = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty", "--abbrev=12"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=30)
    return found.stdout.strip() or "unknown"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

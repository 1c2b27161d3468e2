"""The command line of the readers' fuzzing."""

from __future__ import annotations

import argparse
import hashlib
import resource
import sys
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from tests.fuzz_readers.guided import become_fuzzer, guided
from tests.fuzz_readers.plain import fuzz
from tests.fuzz_readers.readers import READERS

_BYTES = 4 * 2**30
"""Address space of a process that reads damaged files; what needs more is found as a MemoryError."""


def main() -> int:
    """Fuzz every reader, or those named; the exit code is 1 where anything was found."""
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    if sys.argv[1:2] == ["--child"]:
        become_fuzzer(*sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_readers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="for all readers together")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other inputs")
    parser.add_argument("--reader", action="append", choices=list(READERS), help="only this one (repeatable)")
    parser.add_argument("--plain", action="store_true", help="without guidance even where atheris is there")
    parser.add_argument("--out", type=Path, default=Path("build/fuzzed"), help="where inputs are kept")
    given = parser.parse_args()
    names = given.reader or list(READERS)
    by_coverage = not given.plain and find_spec("atheris") is not None
    print("guided by coverage" if by_coverage else "plain mutation of valid files", flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    total = wrong = 0
    for name in names:
        share = given.seconds / len(names)
        run = _guided if by_coverage else _plain
        inputs, found = run(name, share, given.seed, given.out.resolve())
        total, wrong = total + inputs, wrong + len(found)
        print(
            f"{name:16}{inputs:12,} inputs{len(found):5} found",
            *found,
            sep="\n  " if found else "",
            flush=True,
        )
    print(f"{total:,} inputs, {wrong} found")
    return 1 if wrong else 0


def _guided(name: str, seconds: float, seed: int, folder: Path) -> tuple[int, list[str]]:
    done = guided(name, seconds, seed, folder)
    return done.inputs, [] if done.found is None else [done.found]


def _plain(name: str, seconds: float, seed: int, folder: Path) -> tuple[int, list[str]]:
    found: dict[str, str] = {}
    running = cast(Generator[tuple[bytes, Exception], None, int], fuzz(READERS[name], seconds, seed))
    while True:
        try:
            raw, error = next(running)
        except StopIteration as end:
            return end.value, list(found.values())
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where is not None else ""
        key = f"{type(error).__name__} at {place}"
        if key not in found:
            file = folder / f"crash-{name}-{hashlib.sha256(raw).hexdigest()[:12]}"
            file.write_bytes(raw)
            found[key] = f"{file}: {key}: {str(error)[:200]}"


if __name__ == "__main__":
    sys.exit(main())

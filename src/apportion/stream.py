"""Answer instances line by line: one JSON object in, one JSON object out, the process kept warm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from apportion import stored
from apportion.api import solve
from apportion.errors import ApportionError, InvalidInstance
from apportion.interruption import uninterrupted
from apportion.reading.read import read
from apportion.solution import Solution

__all__ = ["answer", "serve"]


def serve(
    lines: Iterable[bytes],
    write: Callable[[bytes], object],
    *,
    proofs: str | None = None,
    **options: Any,
) -> int:
    """Answer every line and return how many there were; blank lines are passed over.

    Parameters
    ----------
    lines
        One instance as JSON per line.
    write
        Called with every answer, a line ending in a newline, before the next line is read.
    proofs
        A folder for proofs, one file ``N.proof`` for line N whose claim could be proved; its name stands in
        the answer. ``None`` for none.
    **options
        Passed to every `solve` call.

    Notes
    -----
    A line that cannot be answered yields ``{"line": n, "error": {"type", "message", "exit_code",
    "problems"}}`` and the stream goes on. Lines count from 1. Ctrl-C ends it with ``KeyboardInterrupt``,
    after the interrupted solve's answer is written.
    """
    answered = 0
    for number, line in enumerate(lines, start=1):
        if line.strip():
            written, solution = _answered(line, number, proofs, options)
            write(written + b"\n")
            answered += 1
            if solution is not None:
                uninterrupted(solution)
    return answered


def answer(line: bytes, number: int = 1, proofs: str | None = None, **options: Any) -> bytes:
    """Return the answer to one line as JSON without a newline: the stored document, or an error object."""
    return _answered(line, number, proofs, options)[0]


def _answered(
    line: bytes, number: int, proofs: str | None, options: dict[str, Any]
) -> tuple[bytes, Solution | None]:
    began = time.perf_counter()
    try:
        instance = read(line)
        read_seconds = time.perf_counter() - began
        solution = solve(instance, proof=proofs is not None, **options)
        named = None if proofs is None else _write_proof(solution, Path(proofs), number)
        return stored.encode(stored.document(solution, read_seconds, named)), solution
    except ApportionError as error:
        return _error(number, error, error.exit_code), None
    except Exception as error:  # the stream must outlive any one line
        return _error(number, error, 1), None


def _write_proof(solution: Solution, folder: Path, number: int) -> str | None:
    if solution.proof is None:
        return None
    from apportion.files import write_whole
    from apportion.proofs.certificate import encode

    name = f"{number}.proof"
    write_whole(folder / name, encode(solution.proof))
    return name


def _error(number: int, error: Exception, exit_code: int) -> bytes:
    said: dict[str, Any] = {
        "type": type(error).__name__,
        "message": str(error) or type(error).__name__,
        "exit_code": exit_code,
        "problems": [],
    }
    if isinstance(error, InvalidInstance):
        said["problems"] = [problem.as_json() for problem in error.problems]
    return msgspec.json.encode({"line": number, "error": said})

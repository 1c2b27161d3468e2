"""Answer instances line by line: one JSON object in, one JSON object out, the process kept warm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from apportion.core.errors import InvalidInstance, InvalidOption, error_object
from apportion.core.interruption import uninterrupted
from apportion.core.solution import Solution
from apportion.io import stored
from apportion.io.read import read
from apportion.solving.api import solve

if TYPE_CHECKING:
    from apportion.service.applying import StreamedAsk
    from apportion.service.session import Session

__all__ = ["answer", "serve"]

_SESSION_OPTIONS = frozenset(
    {"backend", "time_limit", "gap", "threads", "seed", "deterministic", "work_limit", "on_incumbent"}
)


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
        Per line an instance as JSON, or a message to the stream's session
        (`apportion.service.applying.StreamedAsk`).
    write
        Called with every answer, a line ending in a newline, before the next line is read.
    proofs
        A folder for proofs, one file ``N.proof`` for line N whose claim could be proved; its name stands in
        the answer. ``None`` for none.
    **options
        Passed to every `solve` call.

    Notes
    -----
    A message with an ``instance`` begins the session anew, its ``deltas`` change it, and it is decided by a
    ``policy`` and options of the line; the answer is ``{"line", "request", "policy", "changes", "result"}``.
    A line that cannot be answered yields ``{"line": n, "error": {"type", "message", "exit_code",
    "problems"}}``, with the message's ``request``, and the stream goes on. Lines count from 1. Ctrl-C ends
    it with ``KeyboardInterrupt``, after the interrupted solve's answer is written.
    """
    answered, stream = 0, _Stream(proofs, options)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            written, solution = stream.answered(line, number)
            write(written + b"\n")
            answered += 1
            if solution is not None:
                uninterrupted(solution)
    return answered


def answer(line: bytes, number: int = 1, proofs: str | None = None, **options: Any) -> bytes:
    """Return the answer to one line as JSON without a newline: the stored document, or an error object."""
    return _Stream(proofs, options).answered(line, number)[0]


class _Stream:
    """What one stream remembers: the options of the command, and a session if its lines speak of one."""

    def __init__(self, proofs: str | None, options: dict[str, Any]) -> None:
        self._proofs = proofs
        self._options = options
        self._session: Session | None = None

    def answered(self, line: bytes, number: int) -> tuple[bytes, Solution | None]:
        began, request = time.perf_counter(), None
        try:
            ask = _ask(line)
            if ask is not None:
                request = ask.request
                return self._decided(ask, number)
            instance = read(line)
            read_seconds = time.perf_counter() - began
            solution = solve(instance, proof=self._proofs is not None, **self._options)
            return stored.encode(self._document(solution, number, read_seconds)), solution
        except Exception as error:  # the stream must outlive any one line
            named = {} if request is None else {"request": request}
            return msgspec.json.encode({"line": number, **named, "error": error_object(error)}), None

    def _decided(self, ask: StreamedAsk, number: int) -> tuple[bytes, Solution | None]:
        from apportion.service.session import Session

        other = [name for name in self._options if name not in _SESSION_OPTIONS and self._options[name]]
        if other:
            raise InvalidOption(f"messages to a session do not go with the option {other[0]!r}")
        if ask.instance is not msgspec.UNSET:
            session = Session(read(bytes(ask.instance)))
        elif self._session is None:
            raise InvalidInstance.at("$.instance", "is missing: the stream has no session yet")
        else:
            session = self._session
        session.apply(*ask.deltas)
        self._session = session
        options = {name: value for name, value in self._options.items() if name in _SESSION_OPTIONS}
        options |= ask.options()
        decision = session.decide(ask.policy, proof=self._proofs is not None, **options)
        answer = {
            "line": number,
            "request": ask.request,
            "policy": ask.policy,
            "changes": decision.changes,
            "result": self._document(decision.solution, number, 0.0),
        }
        return msgspec.json.encode(answer), decision.solution

    def _document(self, solution: Solution, number: int, read_seconds: float) -> dict[str, Any]:
        named = None if self._proofs is None else _write_proof(solution, Path(self._proofs), number)
        return stored.document(solution, read_seconds, named)


def _ask(line: bytes) -> StreamedAsk | None:
    """Return the message of a line, ``None`` for one that is read as an instance."""
    from apportion.service.applying import StreamedAsk

    try:
        return msgspec.json.decode(line, type=StreamedAsk)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        wrong = error
    try:
        fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if "kind" in fields or not fields.keys() & set(StreamedAsk.__struct_fields__):
        return None
    raise InvalidInstance.at("$", f"is no message to a session: {wrong}") from None


def _write_proof(solution: Solution, folder: Path, number: int) -> str | None:
    if solution.proof is None:
        return None
    from apportion.core.files import write_whole
    from apportion.proofs.certificate import encode

    name = f"{number}.proof"
    write_whole(folder / name, encode(solution.proof))
    return name

"""Whether what is on record can still be checked: every plan, bound, digest and proof, without any solver."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from apportion.errors import ApportionError
from apportion.record.entries import Entry
from apportion.record.reading import History
from apportion.stored import verify

__all__ = ["Checked", "check"]


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a decision again.

    Attributes
    ----------
    entry
        The decision.
    failures
        What does not hold, in words; empty if everything does.
    """

    entry: Entry
    failures: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every claim of the decision holds."""
        return not self.failures


def check(history: History, entries: Iterable[Entry]) -> Iterator[Checked]:
    """Yield every decision checked again against the instance that the record gives for it."""
    for entry in entries:
        try:
            yield Checked(entry, tuple(_failures(history, entry)))
        except ApportionError as error:
            yield Checked(entry, (f"instance: {error}",))


def _failures(history: History, entry: Entry) -> Iterator[str]:
    document = msgspec.json.decode(history.result(entry.id))
    proof = history.proof(entry.id)
    digest = None if proof is None else hashlib.sha256(proof).hexdigest()
    if digest != entry.proof_digest:
        yield "proof_digest: the proof was edited"
    if document["certificate"]["digest"] != entry.digest or document["termination"] != entry.termination:
        yield "columns: differ from the stored result"
    instance = history.instance(entry.session, entry.revision)
    for name, passed, message in verify(instance, document, proof).checks:
        if not passed:
            yield f"{name}: {message}"

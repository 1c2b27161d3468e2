"""What stands on record, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

__all__ = ["Asked", "Decided", "DecisionSummary", "Entry", "SessionEntry"]


class _Decision(Struct, frozen=True, kw_only=True):
    """What every decision has, on its way to the record, on it, and as callers see it.

    Attributes
    ----------
    session, revision
        The state of the session that it is about.
    at_s
        When it was asked for, seconds since 1970.
    seconds
        How long the caller waited.
    asked_by
        Who asked: a user of the machine, a token's name, a command.
    policy
        The policy's name.
    status
        ``decided``, or ``late`` where the deadline passed and an earlier plan was answered.
    """

    session: str
    revision: int
    at_s: float
    seconds: float
    asked_by: str
    policy: str
    status: str

    def _summary(self, number: int) -> DecisionSummary:
        shared = {name: getattr(self, name) for name in _Decision.__struct_fields__}
        return DecisionSummary(id=number, **shared)


class Decided(_Decision, frozen=True, kw_only=True):
    """A decision that is to be put on record.

    Attributes
    ----------
    result
        The stored document as JSON, as `apportion.stored.encode` writes it.
    options
        What else was asked for, as plain JSON.
    proof
        The bytes of the proof of its claim.
    """

    result: bytes
    options: Mapping[str, Any] | None = None
    proof: bytes | None = None

    def summary(self, number: int) -> DecisionSummary:
        """Return what callers of the service see beside the result, now that it has a number."""
        return self._summary(number)


class DecisionSummary(_Decision, frozen=True):
    """What is known of a decision beside its result.

    Attributes
    ----------
    id
        Its number on record; numbers grow and are never used twice.
    """

    id: int


class Entry(DecisionSummary, frozen=True, kw_only=True):
    """A decision on record, without its instance, result and proof.

    Attributes
    ----------
    options
        As in `Decided`.
    kind, termination, objective, bound, gap
        From its result.
    digest
        The digest of its result, over instance and document.
    proof_digest
        SHA-256 of the proof as hex, ``None`` without one.
    """

    options: Mapping[str, Any]
    kind: str
    termination: str
    objective: float | None
    bound: float | None
    gap: float | None
    digest: str | None
    proof_digest: str | None

    def summary(self) -> DecisionSummary:
        """Return what callers of the service see beside the result."""
        return self._summary(self.id)


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A session on record.

    Attributes
    ----------
    name, created_s, asked_by
        Its name, when it was opened, and by whom.
    closed_s
        When it was closed, ``None`` while it is open.
    revision
        The last revision of its instance, from 0.
    """

    name: str
    created_s: float
    asked_by: str
    closed_s: float | None
    revision: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A request on record, so that it is not carried out twice.

    Attributes
    ----------
    body
        SHA-256 of what was asked, as hex.
    revision
        The revision that its deltas led to.
    decision
        The number of the decision that answered it, ``None`` while there is none.
    """

    body: str
    revision: int
    decision: int | None

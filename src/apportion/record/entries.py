"""What stands on record, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Asked", "Decided", "Entry", "SessionEntry"]


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that is to be put on record.

    Attributes
    ----------
    session, revision
        The state of the session that it is about.
    result
        The stored document as JSON, as `apportion.stored.encode` writes it.
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
    options
        What else was asked for, as plain JSON.
    proof
        The bytes of the proof of its claim.
    """

    session: str
    revision: int
    result: bytes
    at_s: float
    seconds: float
    asked_by: str
    policy: str = "optimal"
    status: str = "decided"
    options: Mapping[str, Any] | None = None
    proof: bytes | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A decision on record, without its instance, result and proof.

    Attributes
    ----------
    id
        Its number; numbers grow and are never used twice.
    session, revision, at_s, seconds, asked_by, policy, status, options
        As in `Decided`.
    kind, termination, objective, bound, gap
        From its result.
    digest
        The digest of its result, over instance and document.
    proof_digest
        SHA-256 of the proof as hex, ``None`` without one.
    """

    id: int
    session: str
    revision: int
    at_s: float
    seconds: float
    asked_by: str
    policy: str
    status: str
    options: Mapping[str, Any]
    kind: str
    termination: str
    objective: float | None
    bound: float | None
    gap: float | None
    digest: str | None
    proof_digest: str | None


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

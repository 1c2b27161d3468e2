"""A session as the service holds it: its instance, its revision, and what workers need to follow it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from apportion.instances import edits
from apportion.instances.draft import Draft
from apportion.instances.kinds import kind_of
from apportion.service.applying import apply_all
from apportion.service.deltas import read_deltas
from apportion.service.messages import SessionSummary
from apportion.service.pool import Seat
from apportion.service.record import Asked, Record, RecordFull
from apportion.service.tasks import Decide

__all__ = ["Change", "OpenedSession"]

_REMEMBERED = 64


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A change of a session that has been made, and is on record together with what is answered next.

    Attributes
    ----------
    revision, draft
        The revision that it leads to, and the instance there.
    deltas
        What changes; nothing where only the request is noted.
    request, body
        The id that it was asked for by, ``None`` without one, and the digest of what was asked.
    at_s, asked_by
        When, and who.
    """

    revision: int
    draft: Draft
    deltas: list[dict[str, Any]]
    request: str | None
    body: str
    at_s: float
    asked_by: str

    def write(self, record: Record, session: str) -> None:
        """Put it on record; one that is there already stays as it is."""
        if self.deltas:
            record.change(
                session,
                self.deltas,
                self.draft.instance(),
                at_s=self.at_s,
                asked_by=self.asked_by,
                revision=self.revision,
            )
        if self.request is not None:
            record.ask(session, self.request, Asked(self.body, self.revision, None), at_s=self.at_s)


class OpenedSession:
    """An open session.

    Parameters
    ----------
    name, created_s, asked_by
        Its name, when it was opened, and by whom.
    instance, revision
        Its instance, and which revision of it that is.

    Attributes
    ----------
    plan, decision
        The last plan as JSON, and the number of the decision that it comes from.
    unwritten
        Changes that are not known to be on disk, in their order.
    epoch
        How many rollbacks there were, because changes could not be written. Results of an earlier epoch are
        about an instance that was rolled back; they are discarded.
    """

    def __init__(self, name: str, instance: Any, revision: int, *, created_s: float, asked_by: str) -> None:
        self.name = name
        self.created_s = created_s
        self.asked_by = asked_by
        self.revision = revision
        self.plan: bytes | None = None
        self.decision: int | None = None
        self.unwritten: list[Change] = []
        self.epoch = 0
        self._torn = -1  # the age whose changes could not be written, as the thread that writes knows it
        self._draft = Draft(instance)
        self._on_disk = (revision, self._draft)
        self._recent: deque[tuple[int, list[dict[str, Any]]]] = deque(maxlen=_REMEMBERED)

    @property
    def instance(self) -> Any:
        """The instance as it is now."""
        return self._draft.instance()

    def asked(self, request: str) -> Asked | None:
        """Return what is known of a request whose change is not on disk yet."""
        for change in self.unwritten:
            if change.request == request:
                return Asked(change.body, change.revision, None)
        return None

    def change(
        self, deltas: list[dict[str, Any]], request: str | None, body: str, at_s: float, asked_by: str
    ) -> int:
        """Change the instance and return its revision; `InvalidInstance` if the deltas do not fit."""
        if deltas:
            draft = self._draft.copied()
            apply_all(draft, read_deltas(deltas))
            self._draft = draft
            self.revision += 1
            self._recent.append((self.revision, deltas))
        if deltas or request is not None:
            self.unwritten.append(Change(self.revision, self._draft, deltas, request, body, at_s, asked_by))
        return self.revision

    def write(self, record: Record, changes: Sequence[Change], epoch: int) -> None:
        """Put changes on record, in the thread that writes.

        Raises
        ------
        RecordFull
            If an earlier one of the same age could not be written.
        """
        if self._torn >= epoch:
            raise RecordFull("an earlier change of this session could not be put on record; ask again")
        for change in changes:
            change.write(record, self.name)

    def mark_failed(self, epoch: int) -> None:
        """Note, in the thread that writes, that changes could not be written: no later one may be, then."""
        self._torn = max(self._torn, epoch)

    def landed(self, changes: Sequence[Change]) -> None:
        """Note that changes are on disk."""
        for change in changes:
            if change in self.unwritten:
                self.unwritten.remove(change)
                self._on_disk = (change.revision, change.draft)

    def rollback(self) -> None:
        """Go back to what is on disk, because changes could not be written."""
        self.epoch += 1
        self.revision, self._draft = self._on_disk
        self.unwritten.clear()
        self._recent.clear()

    def task(self, seat: Seat, instance: Any, revision: int, whole: bool, asked: Any) -> Decide:
        """Return the task for a worker: the deltas since what it holds, or the instance."""
        since = None if whole else seat.held.get(self.name)
        deltas = None if since is None else self._deltas(since, revision)
        seat.held[self.name] = revision
        return Decide(
            session=self.name,
            revision=revision,
            since=None if deltas is None else since,
            instance=msgspec.json.encode(instance) if deltas is None else None,
            deltas=msgspec.json.encode(deltas or []),
            policy=asked.policy,
            time_limit=asked.time_limit,
            gap=asked.gap,
            seed=asked.seed,
            proof=asked.proof,
        )

    def _deltas(self, since: int, until: int) -> list[dict[str, Any]] | None:
        """Return what changed between two revisions, ``None`` where that is not remembered."""
        if since > until:
            return None
        between = [deltas for revision, deltas in self._recent if since < revision <= until]
        return [delta for deltas in between for delta in deltas] if len(between) == until - since else None

    def summary(self) -> SessionSummary:
        """Return the session as callers are told of it."""
        return SessionSummary(
            name=self.name,
            revision=self.revision,
            kind=kind_of(self.instance).name,
            jobs=len(self.instance.jobs),
            created_s=self.created_s,
            asked_by=self.asked_by,
            capacities=edits.capacities(self.instance),
            decision=self.decision,
        )

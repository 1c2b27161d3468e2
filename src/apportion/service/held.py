"""A session as the service holds it: its instance, its revision, and what workers need to follow it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from apportion.instances.draft import Draft
from apportion.service.messages import SessionSummary
from apportion.service.pool import Seat
from apportion.service.tasks import Decide
from apportion.session.applying import apply_all
from apportion.session.deltas import read_deltas

__all__ = ["Held"]

_REMEMBERED = 64


class Held:
    """An open session.

    Parameters
    ----------
    name, created_s, asked_by
        Its name, when it was opened, and by whom.
    instance, revision
        Its instance, and which revision of it that is.

    Attributes
    ----------
    lock
        Held while the instance is changed.
    plan, decision
        The last plan, and the number of the decision that it comes from.
    """

    def __init__(self, name: str, instance: Any, revision: int, *, created_s: float, asked_by: str) -> None:
        self.name = name
        self.created_s = created_s
        self.asked_by = asked_by
        self.revision = revision
        self.lock = asyncio.Lock()
        self.plan: Mapping[str, Any] | None = None
        self.decision: int | None = None
        self._draft = Draft(instance)
        self._recent: deque[tuple[int, list[dict[str, Any]]]] = deque(maxlen=_REMEMBERED)

    @property
    def instance(self) -> Any:
        """The instance as it is now."""
        return self._draft.instance()

    def tried(self, deltas: list[dict[str, Any]]) -> Draft:
        """Return the instance as it will be with deltas; `InvalidInstance` if they do not fit."""
        draft = self._draft.copied()
        apply_all(draft, read_deltas(deltas))
        return draft

    def changed(self, draft: Draft, deltas: list[dict[str, Any]], revision: int) -> None:
        """Take over what `tried` returned, now that it is on record."""
        self._draft = draft
        self.revision = revision
        self._recent.append((revision, deltas))

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

    def summary(self, kind: str, capacities: dict[str, int]) -> SessionSummary:
        """Return the session as callers are told of it."""
        return SessionSummary(
            name=self.name,
            revision=self.revision,
            kind=kind,
            jobs=len(self.instance.jobs),
            created_s=self.created_s,
            asked_by=self.asked_by,
            capacities=capacities,
            decision=self.decision,
        )

"""What another policy would have done: every decision on record made again from the same instance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from apportion.errors import InvalidOption
from apportion.interruption import uninterrupted
from apportion.record.entries import Entry
from apportion.record.reading import History
from apportion.session.decision import changes_between
from apportion.session.session import Session

__all__ = ["Replayed", "replay"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision, and what another policy makes of the same instance.

    Attributes
    ----------
    entry
        The decision on record.
    objective
        What the other plan is worth by the instance's own objective, recomputed by the checker.
    termination
        How the other decision ended.
    changed
        The jobs that would have got something else.
    skipped
        Why the policy cannot decide it, ``None`` where it did.
    """

    entry: Entry
    objective: float | None
    termination: str
    changed: tuple[str, ...]
    skipped: str | None = None


def replay(
    history: History, entries: Iterable[Entry], policy: str | None, time_limit: float = 10.0
) -> Iterator[Replayed]:
    """Yield every decision beside what a policy decides on the same instance.

    Every decision starts from what was really there, the nodes that jobs held included: it says what the
    policy would have done at that moment, not what would have come of it later.

    Parameters
    ----------
    history, entries
        The record, and which decisions.
    policy
        A policy by name; ``None`` for the optimum.
    time_limit
        Seconds for every decision.

    Raises
    ------
    InvalidOption
        If the policy can decide none of them: there is none of that name for these kinds of instances. What
        it cannot decide among others is skipped, and says so.
    """
    refused: InvalidOption | None = None
    decided = False
    for entry in entries:
        try:
            decision = Session(history.instance(entry.session, entry.revision)).decide(policy, time_limit)
        except InvalidOption as error:
            refused = error
            yield Replayed(entry, None, "skipped", (), str(error))
            continue
        decided = True
        uninterrupted(decision.solution)
        before = msgspec.json.decode(history.result(entry.id))["plan"]
        yield Replayed(
            entry,
            decision.objective,
            decision.status.value,
            tuple(change.job for change in changes_between(before, decision.plan)),
        )
    if refused is not None and not decided:
        raise refused

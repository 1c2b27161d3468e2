"""Decisions on record made again: by another policy, or checked, without any solver.

`replay` says what another policy would have done from the same instances, `check_record` whether every plan,
bound, digest and proof can still be checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from apportion.core.errors import ApportionError, InvalidOption
from apportion.core.interruption import uninterrupted
from apportion.core.outcome import Termination
from apportion.core.solution import Certificate, Solution
from apportion.io.stored import verify
from apportion.service.decision import changes_between
from apportion.service.record.entries import Entry
from apportion.service.record.reading import History
from apportion.service.session import Session
from apportion.solving.api import check

__all__ = ["Checked", "Replayed", "check", "replay", "restored"]


def restored(instance: Any, document: Mapping[str, Any]) -> Solution:
    """Return the solution that a document was written from; its plan is checked again."""
    plan, certificate = document["plan"], document["certificate"]
    report = None if plan is None else check(instance, plan)
    return Solution(
        instance=instance,
        backend=document["backend"],
        reason=document["reason"],
        termination=Termination(document["termination"]),
        plan=plan,
        report=report,
        certificate=Certificate(
            objective=None if report is None else report.objective,
            bound=document["bound"],
            source=certificate["source"],
            verified_bound=document["verified_bound"],
            multipliers=certificate["multipliers"],
        ),
        outcome=None,
        times=document["times"],
        seed=document["seed"],
        notes=tuple(document["notes"]),
        confirmed=document.get("evidence") == "by_search",
    )


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


def check_record(history: History, entries: Iterable[Entry]) -> Iterator[Checked]:
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

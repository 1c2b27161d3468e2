"""Forge results and proofs of small instances, and count what a checker says of each beside what is true."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import apportion
from apportion.instances.tenants.ledger import under_floors
from apportion.io import stored
from apportion.proofs import Proof
from apportion.proofs.certificate import MalformedProof, encode, instance_digest, validated
from apportion.proofs.claims import Verdict
from apportion.proofs.walking import Limits
from tests.forgeries.judging import Judge
from tests.forgeries.mutating import OF_INSTANCES, OF_PROOFS, OF_RESULTS, consistent
from tests.hunt.case import INSTANCE, Case, subject_of
from tests.proofs.claims import KINDS, Drawn

__all__ = ["KINDS", "Tally", "cut_short", "drawn_case", "forged"]

_LIMITS = Limits(states=200_000, kept=4_000_000, steps=200_000_000)
_FORGERIES = 40
"""Forgeries of one instance."""
_SECONDS = 5.0
_MOST_CHOICES = 3_000
"""Choices of an instance that are enumerated at most."""
_DECISIVE = ("plan", "objective", "bound", "verified_bound", "termination", "floors", "fair_bound")


@dataclass(slots=True)
class Tally:
    """What became of the forgeries of one kind.

    Attributes
    ----------
    instances, true, refused_true
        Instances, their true results and proofs, and how many of these were refused.
    forged, false, refused, words
        Forgeries, those that claim something false, and of these the refused, and those that pass with the
        false claim listed as somebody's word.
    accepted
        False claims that were called derived.
    of
        Forgeries with a false claim, by the claim; by mutator.
    """

    instances: int = 0
    true: int = 0
    refused_true: int = 0
    forged: int = 0
    false: int = 0
    refused: int = 0
    words: int = 0
    accepted: int = 0
    of: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def line(self, kind: str) -> str:
        """Return a line of the table."""
        counts = (self.instances, self.true, self.refused_true, self.forged, self.false, self.refused)
        return f"{kind:28} " + " ".join(f"{one:9}" for one in (*counts, self.words, self.accepted))


HEADER = f"{'kind':28} " + " ".join(
    f"{name:>9}"
    for name in ("instances", "true", "(refused)", "forged", "false", "refused", "words", "accepted")
)


def forged(kind: str, seed: int, number: int, tally: Tally) -> None:
    """Draw an instance of a kind, forge its result and its proof, and count."""
    rng = Random(f"forgeries {kind} {seed} {number}")
    case, subject = drawn_case(KINDS[kind], rng)
    own = _Answer.of(case, subject)
    if own is None:
        return
    tally.instances += 1
    others = [one for one in (_neighbour(rng, case) for _ in range(3)) if one is not None]
    judge = Judge(case)
    name = f"{kind} {seed}/{number}"
    _true(own, judge, tally, name)
    for at in range(_FORGERIES):
        if own.told is None or rng.random() < 0.35:
            _forge_proof(rng, own, others, judge, tally, f"{name} proof {at}")
        else:
            _forge_result(rng, own, others, judge, tally, f"{name} result {at}")


def cut_short(kind: str, seed: int, number: int, tally: Tally) -> None:
    """Hold results that limits of milliseconds ended against the checker: honest, they are not refused."""
    case, subject = drawn_case(KINDS[kind], Random(f"limits {kind} {seed} {number}"))
    if case.subject != INSTANCE:
        return
    judge = Judge(case)
    for limit in (0.001, 0.002, 0.005):
        try:
            solution = apportion.solve(subject, time_limit=limit)
        except apportion.InvalidInstance:
            return  # what tenants are due cannot be kept, and is refused when asked
        told = json.loads(stored.encode(stored.document(solution)))
        found = stored.verify(subject, told)
        name = f"{kind} {seed}/{number} within {limit} s"
        tally.true += 1
        if not found.ok:
            tally.refused_true += 1
            refused = [line.claim for line in found.claims if line.verdict is Verdict.REFUSED]
            tally.wrong.append(f"{name}: a true result is refused: {refused}")
        _count_derived(judge, told, found, tally, name)


@dataclass(frozen=True, slots=True)
class _Answer:
    """An instance with its true result, as JSON, and its proof."""

    subject: Any
    told: dict[str, Any] | None
    proof: Proof | None
    floors: dict[str, int] | None

    @classmethod
    def of(cls, case: Case, subject: Any) -> _Answer | None:
        try:
            solution = apportion.solve(subject, proof=True, time_limit=_SECONDS)
        except apportion.ApportionError:
            return None
        told = None
        if case.subject == INSTANCE:
            told = json.loads(stored.encode(stored.document(solution, proof_name="its.proof")))
        floors = None if solution.floors is None else dict(solution.floors)
        return cls(subject, told, solution.proof, floors)

    def held(self, floors: dict[str, int] | None) -> Any:
        """Return the instance under shares, where it can be had."""
        try:
            return under_floors(self.subject, floors)
        except apportion.InvalidInstance:
            return self.subject


def drawn_case(drawn: Drawn, rng: Random) -> tuple[Case, Any]:
    """Draw a case whose choices are few enough to be enumerated."""
    while True:
        document = drawn.draw(rng, drawn.wants)
        if not drawn.fits(document) or _choices(document) > _MOST_CHOICES:
            continue
        case = Case(drawn.subject, document)
        try:
            return case, subject_of(case)
        except apportion.InvalidInstance:
            continue


def _choices(document: dict[str, Any]) -> int:
    """Return about how many choices an instance has."""
    found = 1
    for job in document.get("jobs", ()):
        sizes = [len(job[name]) for name in ("options", "on", "menu") if name in job]
        found *= 1 + sum(sizes) if sizes else 1 + len(document.get("nodes", ()))
    if "offsets" in document:
        for first, last in zip(document["offsets"], document["offsets"][1:], strict=False):
            found *= 1 + last - first
    return found


def _neighbour(rng: Random, case: Case) -> _Answer | None:
    """Return an instance that differs a little, with its result and proof."""
    document = copy.deepcopy(case.document)
    for _ in range(rng.choice((1, 1, 2))):
        OF_INSTANCES[rng.choice(list(OF_INSTANCES))](rng, document)
    other = case.with_document(document)
    try:
        return _Answer.of(other, subject_of(other))
    except (apportion.ApportionError, ValueError, OverflowError):
        return None


def _true(own: _Answer, judge: Judge, tally: Tally, name: str) -> None:
    """Hold the true result and the true proof against the checker, which must not refuse them."""
    proof = own.proof
    if proof is not None:
        tally.true += 1
        verdict = apportion.verify(own.held(own.floors), proof)
        if not verdict.proved:
            tally.refused_true += 1
            tally.wrong.append(f"{name}: a true proof is {verdict.status}: {verdict.why}")
    if own.told is not None:
        tally.true += 1
        found = stored.verify(own.subject, own.told, None if proof is None else encode(proof))
        if not found.ok:
            tally.refused_true += 1
            refused = [
                f"{line.claim}: {line.how}" for line in found.claims if line.verdict is Verdict.REFUSED
            ]
            tally.wrong.append(f"{name}: a true result is refused: {refused}")
        _count_derived(judge, own.told, found, tally, name)


def _count_derived(judge: Judge, told: dict[str, Any], found: Any, tally: Tally, name: str) -> None:
    derived = {line.claim for line in found.claims if line.verdict is Verdict.DERIVED}
    for claim in sorted(set(_false_of(judge, told)) & derived):
        tally.accepted += 1
        tally.wrong.append(f"{name}: {claim} is false and called derived")


def _false_of(judge: Judge, told: dict[str, Any]) -> Iterator[str]:
    """Yield the false claims of a document whose fields are of their types."""
    try:
        yield from judge.false_claims(told)
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError):
        yield "document"


def _forge_result(
    rng: Random, own: _Answer, others: list[_Answer], judge: Judge, tally: Tally, name: str
) -> None:
    neighbours = [one.told for one in others if one.told is not None]
    told = copy.deepcopy(rng.choice([own.told, own.told, own.told, *neighbours]))
    assert told is not None and own.told is not None
    told["kind"], told["name"] = own.told["kind"], own.told["name"]
    named = [rng.choice(list(OF_RESULTS)) for _ in range(rng.choice((1, 1, 2, 3)))]
    for one in named:
        OF_RESULTS[one](rng, told, neighbours)
    if rng.random() < 0.9:
        consistent(told)
    proofs = [one.proof for one in (own, own, *others) if one.proof is not None]
    proof = rng.choice(proofs) if proofs and rng.random() < 0.7 else None
    data = None
    if proof is not None:
        if rng.random() < 0.4:
            proof = OF_PROOFS[rng.choice(list(OF_PROOFS))](rng, proof, proofs)
        data = _bytes(proof, own.held(told.get("floors")))
    told["certificate"]["digest"] = stored.digest(own.subject, told)
    found = stored.verify(own.subject, told, data)
    false = sorted(set(_false_of(judge, told)))
    tally.forged += 1
    if not false:
        return
    tally.false += 1
    for claim in false:
        tally.of[f"result, false {claim}"] += 1
    for one in set(named):
        tally.of[f"by {one}"] += 1
    if not found.ok:
        tally.refused += 1
    else:
        before = tally.accepted
        _count_derived(judge, told, found, tally, f"{name} {named}")
        unmarked = found.verified and tally.accepted == before
        if unmarked:
            tally.accepted += 1
            tally.wrong.append(f"{name} {named}: {false} false, and the result is called verified")
        tally.words += tally.accepted == before


def _forge_proof(
    rng: Random, own: _Answer, others: list[_Answer], judge: Judge, tally: Tally, name: str
) -> None:
    proofs = [one.proof for one in (own, *others) if one.proof is not None]
    if not proofs:
        return
    proof = rng.choice(proofs)
    named = [rng.choice(list(OF_PROOFS)) for _ in range(rng.choice((1, 1, 2, 3)))]
    for one in named:
        proof = OF_PROOFS[one](rng, proof, proofs)
    floors = own.floors
    held = own.held(floors)
    given: Proof | bytes = _addressed(proof, held)
    if rng.random() < 0.5 or not _is_valid(proof):
        given = _bytes(proof, held)
    verdict = apportion.verify(held, given, _LIMITS)
    tally.forged += 1
    try:
        false = judge.proof_is_false(proof.claim, floors)
    except (TypeError, ValueError, OverflowError):
        return
    if not false:
        return
    tally.false += 1
    tally.of[f"proof, false {proof.claim.kind}"] += 1
    for one in set(named):
        tally.of[f"by proof's {one}"] += 1
    if verdict.proved:
        tally.accepted += 1
        tally.wrong.append(f"{name} {named}: {proof.claim} is false and proved")
    else:
        tally.refused += 1


def _addressed(proof: Proof, held: Any) -> Proof:
    from dataclasses import replace

    return replace(proof, instance=instance_digest(held))


def _bytes(proof: Proof, held: Any) -> bytes:
    return encode(_addressed(proof, held))


def _is_valid(proof: Proof) -> bool:
    try:
        return validated(proof) is proof
    except MalformedProof:
        return False

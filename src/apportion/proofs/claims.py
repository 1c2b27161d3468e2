"""What a stored result claims, and what of it follows from the instance: one table, decided in one place.

`apportion.proofs.verified_document` is the shape of a result and looks at every claim beside its instance,
`apportion.proofs.claims_of_fairness` derives what is due to tenants, and `decided` says of each claim whether
it is derived, a solver's word, or refused. The table stands in ``docs/certificate.md``.

What becomes of every claim of a result: derived, a solver's word, nothing claimed, or refused.

The table of ``docs/certificate.md`` as one function of finitely many facts. Every case is named: none is left
to an ``else``, and what no line says is derived is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import NamedTuple, assert_never

from apportion.core.outcome import Termination

__all__ = ["Bound", "Facts", "Line", "Plan", "Proved", "Shares", "Verdict", "decided"]


CLAIMS = frozenset({Termination.OPTIMAL, Termination.GAP_REACHED, Termination.INFEASIBLE})
"""Terminations that claim something of the instance; the others say why a search ended."""


class Verdict(StrEnum):
    """What becomes of a claim."""

    DERIVED = "derived"
    WORD = "word"
    NOTHING = "nothing"
    REFUSED = "refused"


class Line(NamedTuple):
    """One claim of a result.

    Attributes
    ----------
    claim
        The field, or what several fields say together.
    verdict
        What becomes of it.
    how
        By what it is derived, whose word it is, or what is wrong, in words.
    """

    claim: str
    verdict: Verdict
    how: str


class Plan(Enum):
    """The plan of a result beside the rules of its instance."""

    ABSENT = auto()
    KEEPS_RULES = auto()
    BREAKS_RULES = auto()


class Bound(Enum):
    """The stated bound: by what it is shown, if it is."""

    ABSENT = auto()
    SHOWN = auto()
    SAID = auto()
    WRONG = auto()


class Proved(Enum):
    """What a proof that was given shows once it is walked."""

    NOT_GIVEN = auto()
    NO_BETTER_PLAN = auto()
    NO_PLAN = auto()
    NOTHING = auto()


class Shares(Enum):
    """What is due to tenants, derived anew, beside what the result says it kept."""

    NOT_DUE = auto()
    AS_DUE = auto()
    NOT_DERIVED = auto()
    WRONG = auto()


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the verdict on a result's main claim depends on; nothing here is taken from the result unseen.

    Attributes
    ----------
    termination, evidence
        As the result states them.
    plan, bound, proved, shares
        See there.
    meets
        Whether the stated bound meets the objective.
    multipliers_show, proof_shows
        Whether the derived bound of the multipliers, or that of the proof, shows the claim: it meets the
        objective of an optimum, and is at least as tight as the bound of a gap.
    no_option
        Whether a job has no admissible option, so that there is no plan.
    """

    termination: Termination
    evidence: str | None
    plan: Plan
    bound: Bound
    proved: Proved
    shares: Shares
    meets: bool
    multipliers_show: bool
    proof_shows: bool
    no_option: bool


def decided(facts: Facts) -> Iterator[Line]:
    """Yield what becomes of the termination, and of how it is said to stand."""
    ended = _termination(facts)
    yield Line("termination", *ended)
    yield Line("evidence", *_evidence(facts, ended[0]))


_Decided = tuple[Verdict, str]


def _termination(facts: Facts) -> _Decided:
    said = facts.termination
    match said:
        case Termination.OPTIMAL | Termination.GAP_REACHED:
            return _best(facts)
        case Termination.INFEASIBLE | Termination.INFEASIBLE_OR_UNBOUNDED:
            return _no_plan(facts)
        case Termination.UNBOUNDED:
            return Verdict.REFUSED, "unbounded, but every job has finitely many options"
        case (
            Termination.TIME_LIMIT
            | Termination.NODE_LIMIT
            | Termination.MEMORY_LIMIT
            | Termination.SOLUTION_LIMIT
            | Termination.INTERRUPTED
            | Termination.NUMERICAL_ERROR
            | Termination.ERROR
        ):
            return Verdict.NOTHING, f"{said} says why the search ended, and nothing of the instance"
    assert_never(said)


def _best(facts: Facts) -> _Decided:
    """Decide on an optimum, or on a plan within a gap."""
    said = facts.termination
    if facts.plan is not Plan.KEEPS_RULES:
        return Verdict.REFUSED, f"{said} without a plan that keeps every rule"
    if facts.shares is Shares.WRONG:
        return Verdict.REFUSED, f"{said}, but under other shares than are due"
    if facts.bound in (Bound.ABSENT, Bound.WRONG):
        return Verdict.REFUSED, f"{said} without a bound that could be true"
    if said is Termination.OPTIMAL and not facts.meets:
        return Verdict.REFUSED, "is optimal, but the bound leaves a gap"
    match facts.shares:
        case Shares.NOT_DUE | Shares.AS_DUE:
            pass
        case Shares.NOT_DERIVED:
            return Verdict.WORD, f"{said} under shares that are not derived"
        case _:
            assert_never(facts.shares)
    if facts.multipliers_show:
        return Verdict.DERIVED, f"{said}: plan and multipliers show it"
    if facts.proof_shows and facts.proved is Proved.NO_BETTER_PLAN:
        return Verdict.DERIVED, f"{said}: plan and proof show it"
    return Verdict.WORD, f"{said}, as is said {facts.evidence or 'without a word how'}"


def _no_plan(facts: Facts) -> _Decided:
    """Decide on the claim that there is no plan."""
    said = facts.termination
    if facts.plan is not Plan.ABSENT:
        return Verdict.REFUSED, f"{said} beside a plan"
    if facts.shares is Shares.WRONG:
        return Verdict.REFUSED, f"{said} under other shares than are due"
    if facts.proved in (Proved.NO_BETTER_PLAN, Proved.NOTHING):
        return Verdict.REFUSED, f"{said}, but the proof given does not show that there is no plan"
    if facts.evidence == "by_multipliers":
        return Verdict.REFUSED, f"{said} cannot be shown by multipliers"
    if facts.shares is Shares.NOT_DERIVED:
        return Verdict.WORD, f"{said} under shares that are not derived"
    if facts.no_option:
        return Verdict.DERIVED, "a job has no admissible option"
    if facts.proved is Proved.NO_PLAN:
        return Verdict.DERIVED, "the proof shows that there is no plan"
    if facts.evidence == "by_proof":
        return Verdict.REFUSED, f"{said}, and the proof that shows it is not given"
    return Verdict.WORD, f"{said}, as is said {facts.evidence or 'without a word how'}"


def _evidence(facts: Facts, ended: Verdict) -> _Decided:
    """Decide on how the claim is said to stand; `ended` is what became of the claim itself."""
    named = facts.evidence
    if named is None:
        return Verdict.NOTHING, "nothing is said of how far the termination can be checked"
    if facts.termination not in CLAIMS:
        return Verdict.REFUSED, f"{named} is said of {facts.termination}, which claims nothing"
    if named == "by_multipliers":
        if facts.multipliers_show and facts.plan is Plan.KEEPS_RULES:
            return Verdict.DERIVED, "the multipliers show it"
        return Verdict.REFUSED, "the multipliers do not show it"
    if named == "by_proof":
        if facts.proved is Proved.NOT_GIVEN:
            return Verdict.REFUSED, "by_proof, and no proof is given to be walked; name its file with --proof"
        if facts.proof_shows:
            return Verdict.DERIVED, "the proof shows it"
        return Verdict.REFUSED, "the proof does not show it"
    if named in ("by_search", "by_solver"):
        whose = "our own search's" if named == "by_search" else "a general solver's"
        if ended is Verdict.DERIVED:
            return Verdict.DERIVED, f"is said {named}, and more is shown"
        return Verdict.WORD, f"{named}: the claim is {whose} word"
    return Verdict.REFUSED, f"{named!r} is unknown"

"""The verdict on a result's main claim, for every combination of facts, beside the table told anew."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from apportion.core.outcome import Termination as T
from apportion.proofs.claims import Bound, Facts, Line, Plan, Proved, Shares, Verdict, decided

EVIDENCE = (None, "by_multipliers", "by_proof", "by_search", "by_solver")
TRUTHS = (False, True)
BEST = (T.OPTIMAL, T.GAP_REACHED)
NONE = (T.INFEASIBLE, T.INFEASIBLE_OR_UNBOUNDED)


def every(termination: T) -> Iterator[Facts]:
    """Yield every combination of facts beside a termination."""
    for rest in itertools.product(EVIDENCE, Plan, Bound, Proved, Shares, *[TRUTHS] * 4):
        yield Facts(termination, *rest)


def of(facts: Facts) -> tuple[Verdict, Verdict]:
    ended, evidence = decided(facts)
    assert (ended.claim, evidence.claim) == ("termination", "evidence") and ended.how and evidence.how
    return ended.verdict, evidence.verdict


def shown(facts: Facts) -> bool:
    """Return whether what is derived says all that the termination claims."""
    kept = facts.shares in (Shares.NOT_DUE, Shares.AS_DUE)
    if facts.termination in BEST:
        by_proof = facts.proved is Proved.NO_BETTER_PLAN and facts.proof_shows
        return kept and facts.plan is Plan.KEEPS_RULES and (facts.multipliers_show or by_proof)
    by_proof = facts.proved is Proved.NO_PLAN
    return kept and facts.plan is Plan.ABSENT and (facts.no_option or by_proof)


def contradicted(facts: Facts) -> bool:
    """Return whether something of the result, or of the instance, says that the termination is wrong."""
    if facts.shares is Shares.WRONG:
        return True
    if facts.termination in BEST:
        gap = facts.termination is T.OPTIMAL and not facts.meets
        return facts.plan is not Plan.KEEPS_RULES or facts.bound in (Bound.ABSENT, Bound.WRONG) or gap
    other = facts.proved in (Proved.NO_BETTER_PLAN, Proved.NOTHING) or facts.evidence == "by_multipliers"
    return facts.plan is not Plan.ABSENT or other


@pytest.mark.parametrize("termination", [*BEST, *NONE])
def test_a_claim_is_derived_only_where_it_is_shown_and_nothing_contradicts_it(termination: T) -> None:
    seen = set()
    for facts in every(termination):
        ended, _ = of(facts)
        seen.add(ended)
        if contradicted(facts):
            expected = Verdict.REFUSED
        elif shown(facts):
            expected = Verdict.DERIVED
        elif termination in NONE and facts.evidence == "by_proof" and facts.shares is not Shares.NOT_DERIVED:
            expected = Verdict.REFUSED  # nothing but a proof was to show it, and there is none
        else:
            expected = Verdict.WORD
        assert ended is expected, facts
    assert seen == {Verdict.DERIVED, Verdict.WORD, Verdict.REFUSED}


@pytest.mark.parametrize("termination", [one for one in T if one not in (*BEST, *NONE)])
def test_a_limit_claims_nothing_and_unbounded_is_never_true(termination: T) -> None:
    expected = Verdict.REFUSED if termination is T.UNBOUNDED else Verdict.NOTHING
    assert {of(facts)[0] for facts in every(termination)} == {expected}


@pytest.mark.parametrize("termination", list(T))
def test_evidence_is_derived_only_by_what_it_names_or_by_more(termination: T) -> None:
    claims = termination in (*BEST, T.INFEASIBLE)
    for facts in every(termination):
        ended, found = of(facts)
        named = facts.evidence
        if named is None:
            expected = Verdict.NOTHING
        elif not claims:
            expected = Verdict.REFUSED
        elif named == "by_multipliers":
            holds = facts.multipliers_show and facts.plan is Plan.KEEPS_RULES
            expected = Verdict.DERIVED if holds else Verdict.REFUSED
        elif named == "by_proof":
            holds = facts.proof_shows and facts.proved is not Proved.NOT_GIVEN
            expected = Verdict.DERIVED if holds else Verdict.REFUSED
        else:
            expected = Verdict.DERIVED if ended is Verdict.DERIVED else Verdict.WORD
        assert found is expected, facts


SEEN = (Plan.KEEPS_RULES, Bound.SAID, Proved.NOT_GIVEN, Shares.NOT_DUE, True, False, False, False)
FACTS = Facts(T.OPTIMAL, "by_search", *SEEN)


def test_unknown_evidence_is_refused() -> None:
    assert of(Facts(T.OPTIMAL, "by_magic", *SEEN)) == (Verdict.WORD, Verdict.REFUSED)


def test_what_is_said_names_what_shows_it_or_whose_word_it_is() -> None:
    ended, evidence = decided(FACTS)
    assert ended == Line("termination", Verdict.WORD, "optimal, as is said by_search")
    assert evidence.how == "by_search: the claim is our own search's word"
    _, evidence = decided(Facts(T.OPTIMAL, "by_solver", *SEEN))
    assert evidence.how == "by_solver: the claim is a general solver's word"

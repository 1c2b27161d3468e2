"""The checker agrees with the naive one and with enumeration, on true claims and on false ones."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from benchmarks.suite.making import make
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.instances.tenants.ledger import under_floors
from apportion.models import MultipleChoiceKnapsack
from apportion.proofs import Claim, Proof, verify
from apportion.proofs.bare_models import columns
from apportion.proofs.certificate import LARGEST_ROW, MalformedProof, encode, named
from apportion.proofs.relaxed_rows import cells
from apportion.proofs.stating import stated
from apportion.solving.call import kind_of_any
from apportion.solving.proving import draft_of
from tests import strategies
from tests.budgets import examples
from tests.hunt.case import INSTANCE
from tests.proofs import naive
from tests.proofs.claims import KINDS as DRAWN
from tests.proofs.test_walks import exact_objective

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "menus": strategies.knapsack_instances(),
    "gap filling": strategies.gap_filling_instances(pins=True),
    "matching": strategies.matchings(),
    "freezing": strategies.freezing_instances(),
    "freezing on nodes": strategies.freezing_on_nodes(),
}
NAMED = [kind for kind, drawn in DRAWN.items() if drawn.subject == INSTANCE]
STEPS = (1e-3, -1e-3, 1e-7, -1e-7, 0.3, -0.3)


def agree(instance: Any) -> int:
    """Offer both the proof of an instance under true and false claims; return how many were compared."""
    solution = apportion.solve(instance, time_limit=60.0)
    if solution.evidence is None:
        return 0
    instance = under_floors(instance, solution.floors)
    objective = exact_objective(instance, solution.plan)
    up = kind_of_any(instance).maximizes(instance)
    draft = draft_of(columns(instance), objective, maximizes=up, multipliers=solution.certificate.multipliers)
    proof = named(instance, draft)
    compared = 0
    canonical = msgspec.json.encode(instance, order="deterministic")
    near = 0.0 if objective is None else float(objective)
    claims = [Claim("no_better_plan", near + step * max(abs(near), 0.01)) for step in STEPS]
    others = [replace(proof, claim=claim) for claim in (proof.claim, Claim("infeasible"), *claims)]
    if not getattr(instance, "divisible", False):
        others += [rows for other in (others[0], *others[2:5]) for rows in by_rows(instance, other)]
    for other in others:
        said = naive.check(canonical, encode(other))
        if said != "incomplete":
            verdict, compared = verify(instance, other), compared + 1
            assert verdict.status == said, verdict
    return compared


def by_rows(instance: Any, proof: Proof) -> list[Proof]:
    """Return the proof with numbers of jobs, drawn near what their options are worth, in place of prices.

    None where its cuts do not hold under its claim, and of capacities too large for the checker's tables.
    """
    try:
        menus = stated(columns(instance), proof)
    except MalformedProof:
        return []
    if cells(menus) > 10_000:
        return []
    rng, drawn = Random(str(proof)), []
    for first, last in pairwise(menus.offsets.tolist()):
        at = rng.randrange(first, last) if first < last else 0
        paid = [0, *map(int, menus.uses[at])] if first < last else [0]
        drawn.append((int(menus.worths[at]) if first < last else 0) - rng.choice(paid))
    row = tuple(max(1 - LARGEST_ROW, min(number, LARGEST_ROW - 1)) for number in drawn)
    return [replace(proof, prices=(), order=(), rows=(row,))]


def holds(instance: Any) -> None:
    agree(instance)


@pytest.mark.parametrize("kind", KINDS)
def test_both_checkers_agree(kind: str) -> None:
    settings(max_examples=examples(40))(given(KINDS[kind])(holds))()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_both_checkers_agree_at_length(kind: str) -> None:
    settings(max_examples=20_000)(given(KINDS[kind])(holds))()


@pytest.mark.parametrize("kind", NAMED)
def test_both_checkers_agree_on_hostile_instances(kind: str) -> None:
    """Gangs with their orders, pools apart, shares and tenants among them, numbers of all magnitudes."""
    count = examples(25, fewest=5)
    cases = (DRAWN[kind].case(Random(f"naive {kind} {number}")) for number in range(count))
    assert sum(map(agree, cases)) > 4 * count


@pytest.mark.parametrize("seed", range(3))
def test_the_naive_checker_goes_by_rows_where_choices_are_too_many(seed: int) -> None:
    """24 jobs on 4 machines without a price: 300,000 choices of 4**24 are tried, so rows must close them."""
    instance = make("generalised_assignment", {"jobs": 24, "machines": 4, "seed": seed}, None)
    solution = apportion.solve(instance, time_limit=60.0)
    objective, outcome = exact_objective(instance, solution.plan), solution.outcome
    assert outcome is not None and outcome.row_multipliers is not None
    rows = outcome.row_multipliers
    proof = named(instance, draft_of(columns(instance), objective, maximizes=False, row_multipliers=rows))
    assert proof.rows and not proof.prices
    canonical = msgspec.json.encode(instance, order="deterministic")
    assert verify(instance, proof).status == naive.check(canonical, encode(proof)) == "proved"


def test_the_naive_checker_is_short_and_shares_nothing() -> None:
    assert len(Path(naive.__file__).read_text().splitlines()) <= 225
    asked = "import sys, tests.proofs.naive; print([m for m in ('numpy', 'apportion') if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def best_of(model: MultipleChoiceKnapsack) -> Fraction | None:
    """Try every choice, in fractions."""
    menus = [
        ([] if model.required[job] else [None]) + list(range(model.offsets[job], model.offsets[job + 1]))
        for job in range(model.num_jobs)
    ]
    values = [Fraction(float(value)) for value in model.values]
    found = []
    for combination in product(*menus):
        rows = [row for row in combination if row is not None]
        used = [sum(int(model.uses[row, k]) for row in rows) for k in range(model.num_capacities)]
        if all(use <= room for use, room in zip(used, model.capacities.tolist(), strict=True)):
            found.append(sum((values[row] for row in rows), Fraction(0)))
    if not found:
        return None
    return max(found) if model.sense == "maximize" else min(found)


@given(
    model=strategies.knapsacks(max_jobs=4, max_options=3),
    exponent=st.sampled_from([0, -70, -400, 59, 500]),
    prices=st.lists(st.integers(0, 2**70), min_size=3, max_size=3),
)
@settings(max_examples=examples(150))
def test_only_what_enumeration_finds_is_proved(
    model: MultipleChoiceKnapsack, exponent: int, prices: list[int]
) -> None:
    """Whatever the magnitude of the values and whatever the prices, also such that leave 64 bits."""
    model = replace(model, values=np.ldexp(model.values, exponent))
    best = best_of(model)
    up = model.sense == "maximize"
    written = named(model, draft_of(columns(model), best, maximizes=up))
    assert verify(model, written).status == "proved"
    odd: Proof = replace(written, prices=(tuple(prices[: model.num_capacities]),))
    assert verify(model, odd).status == "proved"  # any prices >= 0 are valid: the walk then does the work
    if best is not None:
        step = Fraction(2) ** exponent / 10**6 * (1 if up else -1)
        for proof in (written, odd):
            stronger = replace(proof, claim=Claim("no_better_plan", float(best - step)))
            assert verify(model, stronger).status == "refused" or Fraction(float(best - step)) == best

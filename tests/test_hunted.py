"""Every wrong answer that the hunt ever found stays right; and the hunt itself can be believed."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import apportion
from apportion.explanation.parts import Difference
from tests.budgets import examples
from tests.hunt.ask import asked
from tests.hunt.case import Case, subject_of
from tests.hunt.draw import KINDS, drawn
from tests.hunt.explained import misexplained
from tests.hunt.paths import PATHS, forced
from tests.hunt.reuse import Round
from tests.hunt.shrink import shrunk
from tests.hunt.simplex import maximum
from tests.hunt.truth import truth_of, worth_of
from tests.hunt.truth_tenants import misshared
from tests.oracles import enumerate_knapsack

FOUND = sorted((Path(__file__).parent / "hunted").glob("*.json"))


@pytest.mark.parametrize("file", FOUND, ids=[file.stem for file in FOUND])
def test_what_was_hunted_down_stays_right(file: Path) -> None:
    wrong = asked(Case.read(file)).wrong
    assert not wrong, f"{file.name} is wrong again: {wrong}"


@pytest.mark.parametrize("name", PATHS)
def test_every_path_names_what_is_there(name: str) -> None:
    with forced(PATHS[name]) as taken:
        assert taken.reached is (PATHS[name].witness is None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_draws_the_same_case_that_survives_being_stored(kind: str) -> None:
    for number in range(50):
        case = drawn(f"7:{number}", [kind], list(PATHS))
        assert case is not None and case.kind == kind
        assert drawn(f"7:{number}", [kind], list(PATHS)) == case
        assert Case.decode(case.encode()) == case


def test_what_the_hunt_calls_true_agrees_with_plain_enumeration() -> None:
    """In small integers, where doubles are exact."""
    compared = 0
    for number in range(400):
        case = drawn(f"11:{number}", ["menus"], ["plain"])
        assert case is not None
        told = dict(case.document)
        rng = random.Random(number)
        told["values"] = [float(rng.randint(-9, 30)) for _ in told["values"]]
        told["uses"] = [[use % 10 for use in row] for row in told["uses"]]
        told["capacities"] = [rng.randint(0, 20) for _ in told["capacities"]]
        if len(told["values"]) > 12:
            continue
        uses = np.array(told["uses"], dtype=np.int64).reshape(len(told["values"]), len(told["capacities"]))
        model = apportion.MultipleChoiceKnapsack.from_arrays(
            told["values"],
            uses,
            told["offsets"],
            told["capacities"],
            np.array(told["required"], dtype=np.bool_),
            told["sense"],
        )
        plain = enumerate_knapsack(model)
        small = case.with_document(told)
        assert truth_of(small).best == (None if plain is None else Fraction(plain[0]))
        if plain is not None:
            assert worth_of(small, plain[1]) is not None
        compared += 1
    assert compared > 100


def test_the_exact_simplex_solves_a_programme_known_from_a_textbook() -> None:
    """max 3x + 5y with x <= 4, 2y <= 12, 3x + 2y <= 18: 36 at (2, 6)."""
    rows = [[Fraction(1), Fraction(0)], [Fraction(0), Fraction(2)], [Fraction(3), Fraction(2)]]
    rights = [Fraction(4), Fraction(12), Fraction(18)]
    assert maximum(rows, rights, [Fraction(3), Fraction(5)]) == 36
    assert maximum([[Fraction(1), Fraction(-1)]], [Fraction(1)], [Fraction(1), Fraction(0)]) is None


def test_a_wrong_answer_is_noticed_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that forgets the last job of every plan."""
    true_solve = apportion.solve

    def forgetful(*given: object, **named: object) -> apportion.Solution:
        solution = true_solve(*given, **named)  # type: ignore[arg-type]
        if solution.plan and solution.plan["choice"]:
            solution.plan["choice"].popitem()
        return solution

    monkeypatch.setattr(apportion, "solve", forgetful)
    cases = (drawn(f"3:{n}", ["multiple_choice_knapsack"], ["plain"]) for n in range(100))
    caught = [case for case in cases if case is not None and asked(case).wrong]
    assert len(caught) > 10
    sorts = {wrong.sort for case in caught for wrong in asked(case).wrong}
    assert {"plan_breaks_a_rule", "objective_wrong"} <= sorts
    broken = next(
        case for case in caught if any(wrong.sort == "plan_breaks_a_rule" for wrong in asked(case).wrong)
    )
    small = shrunk(broken, "plan_breaks_a_rule", seconds=60.0)
    assert len(small.document["jobs"]) == 1 and not small.options


def test_a_plan_that_shares_out_unfairly_is_noticed() -> None:
    """The plan that is best for the sum alone, called fair."""
    caught = fair = 0
    for number in range(examples(500)):
        case = drawn(f"13:{number}", ["tenants"], ["plain"])
        assert case is not None
        told = case.document
        if told.get("fairness", {}).get("over") not in ("tenants", "jobs") or told["fairness"]["keep"] < 1:
            continue
        try:
            solution = apportion.solve(apportion.read(told))
            greedy = apportion.solve(apportion.read({**told, "fairness": {**told["fairness"], "keep": 0.0}}))
        except apportion.InvalidInstance:
            continue
        if solution.plan is None or greedy.plan is None:
            continue
        assert not list(misshared(told, solution))
        fair += 1
        caught += bool(list(misshared(told, replace(greedy, floors=solution.floors))))
    assert fair > 4 and caught > 0


@pytest.mark.slow
def test_a_process_that_was_asked_much_answers_as_a_fresh_one() -> None:
    """Calls cut off while solvers start, children killed, another instance's solution as a start."""
    one = Round("reuse:quick:2")
    one.run()
    assert one.calls > 2 and not one.wrong, one.wrong


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["multiple_choice_knapsack", "gap_filling", "matching", "freezing"])
def test_an_explanation_that_lies_is_noticed(kind: str) -> None:
    """What one more unit is worth, and what a runner-up lacks, each told a little too high."""
    worths = rivals = 0
    for number in range(60):
        if min(worths, rivals) > 10:
            break
        case = drawn(f"17:{number}", [kind], ["explained"])
        assert case is not None
        try:
            explanation = apportion.explain(subject_of(case))
        except apportion.InvalidInstance:
            continue
        truth = truth_of(case)
        assert not misexplained(case, truth, explanation)
        size = 1e-6 * max(abs(explanation.objective or 0.0), 1e-9)
        for k, capacity in enumerate(explanation.capacities):
            if capacity.one_more is None or capacity.one_more.exact is None:
                continue
            more = capacity.one_more.exact * 1.001 + size
            lie = replace(capacity, one_more=Difference(more, more, more))
            told = (*explanation.capacities[:k], lie, *explanation.capacities[k + 1 :])
            worths += bool(misexplained(case, truth, replace(explanation, capacities=told)))
        for k, job in enumerate(explanation.jobs):
            if job.runner_up is None or job.runner_up.needed is None or job.runner_up.needed.exact is None:
                continue
            more = job.runner_up.needed.exact * 1.001 + size
            lying = replace(job, runner_up=replace(job.runner_up, needed=Difference(more, more, more)))
            told_jobs = (*explanation.jobs[:k], lying, *explanation.jobs[k + 1 :])
            rivals += bool(misexplained(case, truth, replace(explanation, jobs=told_jobs)))
    assert worths > 10 and rivals > 10, (worths, rivals)


def test_every_inner_path_is_listed_with_what_it_forces() -> None:
    told = "\n".join(path.described() for path in PATHS.values())
    for path in PATHS.values():
        assert f"{path.name}: " in told
        assert all(place in told for place in path.constants)

"""What a call claims under a limit of milliseconds is true; ``python -m tests.hunt.timed`` asks more."""

from __future__ import annotations

from collections import Counter

import pytest

import apportion
from tests.forgeries.judging import Judge
from tests.hunt.case import ASSIGNMENT, Case, subject_of
from tests.hunt.timed import TIMED, asked, wrong_words


@pytest.mark.parametrize("kind", TIMED)
def test_no_word_under_a_limit_of_milliseconds_is_false(kind: str) -> None:
    counted: Counter[str] = Counter()
    wrong = [one for number in range(4) for one in asked(kind, 34, number, "auto", counted)]
    assert wrong == [] and counted.total() > 0


def test_the_hunt_knows_a_false_word() -> None:
    """Two jobs that need not run, of a makespan: one may be left out, and there is a plan."""
    document = {
        "goal": "makespan",
        "values": [3.0, 4.0],
        "machine": [0, 0],
        "offsets": [0, 1, 2],
        "machines": 1,
        "uses": [1, 1],
        "capacities": None,
        "required": [False, True],
    }
    case = Case(ASSIGNMENT, document)
    judge, solution = Judge(case), apportion.solve(subject_of(case))
    assert list(wrong_words(case, solution, judge)) == [] and judge.optimum(None).best == 4
    worse = apportion.solve(subject_of(case.with_document({**document, "required": [True, True]})))
    assert any("optimal with 7.0" in wrong for wrong in wrong_words(case, worse, judge))
    nothing = apportion.solve(
        subject_of(case.with_document({**document, "uses": [1, 5], "capacities": [1]})), time_limit=5.0
    )
    assert nothing.termination.value == "infeasible"
    assert any(wrong.startswith("infeasible, but") for wrong in wrong_words(case, nothing, judge))

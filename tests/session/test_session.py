"""Whatever deltas a session has seen, it answers as a cold call does: objective and status."""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.core.errors import InvalidInstance
from apportion.core.outcome import relative_gap
from apportion.service.session import Session
from tests.budgets import examples
from tests.session.differential import compared, patching, ran
from tests.session.drawn_deltas import INSTANCES, drawn_delta
from tests.session.random_instances import SORTS, random_instance

T = TypeVar("T")
LIMIT = 60.0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["gap_filling", "multiple_choice_knapsack", "freezing"])
@settings(max_examples=examples(40))
@given(data=st.data())
def test_a_session_answers_as_a_cold_call_does(kind: str, data: Any) -> None:
    drawn_and_compared(kind, data)


@settings(max_examples=5)  # general solvers in processes of their own take their time
@given(data=st.data())
def test_a_session_of_a_matching_answers_as_a_cold_call_does(data: Any) -> None:
    drawn_and_compared("matching", data)


def drawn_and_compared(kind: str, data: Any) -> None:
    """Draw deltas and hold every decision between them against a cold call."""
    session, donor = patching(data.draw(INSTANCES[kind])), data.draw(INSTANCES[kind])

    def choose(options: Sequence[T]) -> T:
        return data.draw(st.sampled_from(options))

    for _ in range(data.draw(st.integers(1, 3))):
        before = session.instance
        try:
            session.apply(drawn_delta(choose, before, donor))
        except InvalidInstance as error:
            assert all(problem.path.startswith("$.deltas[0]") for problem in error.problems)
            assert session.instance is before
        else:
            compared(session)


@pytest.mark.slow
@pytest.mark.parametrize("sort", SORTS)
def test_a_long_session_answers_as_cold_calls_do(sort: str) -> None:
    """``python -m tests.session.differential`` does the same half a million times."""
    told = ran(sort, random.Random(sort), 1200)
    assert told["applied"] > 350 and told["decided"] > 90 and told["applied on both roads"] > 100
    assert told["refused by both roads"] > 5


@pytest.mark.parametrize("sort", [sort for sort in SORTS if sort != "matching"])
def test_a_session_becomes_what_its_json_would_read_as(sort: str) -> None:
    told = ran(sort, random.Random(f"short {sort}"), 150)
    assert told["applied"] > 20 and told["decided"] > 5


def test_a_plan_that_is_carried_out_changes_nothing_when_asked_again() -> None:
    session = Session(apportion.read("examples/gap_filling_small.json"))
    first = session.decide()
    session.apply({"op": "adopt", "plan": first.plan})
    again = session.decide()
    assert again.changes == ()
    assert again.edits == ("the plan is carried out",)
    assert (first.number, again.number) == (1, 2)
    assert first.digest != again.digest == session.digest


def test_a_decision_says_what_changed_and_why() -> None:
    session = Session(apportion.read("examples/gap_filling_small.json"))
    first = session.decide()
    gone = next(iter(first.plan["allocation"]))
    session.remove_job(gone)
    second = session.decide()
    assert second.edits == (f"{gone} is removed",)
    last = second.changes[-1]
    assert (last.job, last.before, last.after) == (gone, first.plan["allocation"][gone], None)
    assert "idle_nodes" in str(second.explain())
    assert second.to_dict()["solution"]["certificate"]["digest"]


def test_a_session_survives_being_sent_elsewhere() -> None:
    session = Session(apportion.read("examples/gap_filling_small.json"))
    session.decide()
    session.set_capacity("idle_nodes", 20)
    there = pickle.loads(pickle.dumps(session))
    assert there.instance == session.instance
    one, other = there.decide(), session.decide()
    assert (one.objective, one.number, one.edits) == (other.objective, other.number, other.edits)


def test_threads_that_decide_at_once_get_answers_of_their_own_instance() -> None:
    session = patching(random_instance("multiple_choice_knapsack", random.Random(4)))
    wrong: list[Any] = []

    def work(number: int) -> None:
        rng = random.Random(number)
        for _ in range(20):
            jobs = session.instance.jobs
            session.update_job(rng.choice(jobs).id, required=False)
            decision = session.decide(time_limit=LIMIT)
            cold = apportion.solve(decision.instance, time_limit=LIMIT)
            if decision.objective is None or relative_gap(decision.objective, cold.objective or 0.0) > 1e-9:
                wrong.append((decision, cold))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)

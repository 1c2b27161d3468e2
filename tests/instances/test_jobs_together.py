"""Jobs that are checked all at once: what passes there passes one by one, and nothing is changed in it."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import UNSET

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances import fields
from apportion.instances.multiple_choice_knapsack import (
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
    schema,
)
from tests.budgets import examples

BARE = MultipleChoiceKnapsackInstance("1", "maximize", {"gpu": 8, "cpu": 3}, ())
NAMES = ["a", "b", "", "x" * 1000, "x" * 1001, "\ud800", "é", 1, None, True]
VALUES = [0.0, -0.0, 1.5, 3, True, "2", None, 1e-31, -1e-30, 1e18, 2e18, float("nan"), float("-inf")]
AMOUNTS = [0, 1, 10**12, 10**12 + 1, -1, True, 1.0, None, np.int64(2)]
USES = [{}, {"gpu": 1, "cpu": 2}, {"gup": 1}, {1: 1}, [], None, UNSET]


def one_of(rng: Random, usual: Any, others: list[Any]) -> Any:
    return rng.choice(others) if rng.random() < 0.04 else usual


def drawn_option(rng: Random, number: int) -> Any:
    uses: Any = {"gpu": one_of(rng, rng.randrange(5), AMOUNTS)} if rng.random() < 0.9 else rng.choice(USES)
    goals = one_of(rng, UNSET, [{}, {"kept": 1}, None])
    option = KnapsackOption(
        one_of(rng, f"o{number}", NAMES), one_of(rng, rng.random(), VALUES), uses, goals=goals
    )
    return one_of(rng, option, [None, {"id": "a"}]) if rng.random() < 0.2 else option


def drawn_jobs(rng: Random) -> tuple[Any, ...]:
    jobs: list[Any] = []
    for number in range(rng.randrange(4)):
        menu: Any = tuple(drawn_option(rng, k) for k in range(rng.randrange(4)))
        menu = one_of(rng, menu, [[*menu], None, (*menu, *menu[:1])])
        job = KnapsackJob(one_of(rng, f"j{number}", NAMES), menu, one_of(rng, True, [False, 1, None]))
        job = msgspec.structs.replace(
            job,
            current=one_of(rng, None, ["o0", *NAMES]),
            pinned=one_of(rng, None, ["o0", "none", 3]),
            forbidden=one_of(rng, (), [[], ("o0",), ("none",), None]),
        )
        jobs.append(one_of(rng, job, [None, "job"]))
    return tuple(jobs)


def test_jobs_that_pass_together_pass_one_by_one_and_stay_as_they_are() -> None:
    passed = refused = 0
    for number in range(count := examples(20_000)):
        jobs = drawn_jobs(Random(f"plain {number}"))
        instance = fields.remade(BARE, jobs=jobs)
        kind = fields._record(MultipleChoiceKnapsackInstance)
        together = kind.fits([instance]) and schema._are_valid(instance)
        before = msgspec.json.encode(jobs) if together else b""
        problems: list[Problem] = []
        kind.normalised("$", instance, problems)
        for job in () if problems else instance.jobs:
            schema.check_job("$", job, BARE, problems)
        if together:
            passed += 1
            assert problems == [] and msgspec.json.encode(jobs) == before, jobs
        refused += bool(problems)
    assert passed > count / 4 and refused > count / 4


class Typed(msgspec.Struct, frozen=True):
    """A field of every type."""

    name: fields.Name
    count: fields.Count
    amount: fields.Number
    given: fields.PositiveAmount | None
    uses: dict[fields.Name, fields.Use]
    words: tuple[fields.Name, ...] | msgspec.UnsetType = UNSET


ANY = [*VALUES, *AMOUNTS, *NAMES, [], ["a"], (), ("a", 1), {}, {"a": 1}, {"a": 1.5}, {1: 1}, UNSET, object()]


def test_what_fits_is_what_decoding_leaves() -> None:
    """Fields that pass come back from JSON equal; those that do not are refused there, or read as others."""
    right = wrong = 0
    for number in range(examples(20_000)):
        rng = Random(f"fields {number}")
        usual = {"name": "a", "count": 1, "amount": 1.0, "given": None, "words": (), "uses": {"gpu": 1}}
        made = Typed(**{name: one_of(rng, value, ANY) for name, value in usual.items()})
        problems = fields.normalise(made)
        right, wrong = right + (not problems), wrong + bool(problems)
        try:
            back = msgspec.json.decode(msgspec.json.encode(made), type=Typed)
        except (msgspec.ValidationError, TypeError, UnicodeEncodeError):
            assert problems, made
            continue
        tiny = 1e-31 in (made.amount, made.given)  # JSON has no least magnitude
        assert problems == [] or tiny or back != made, (made, problems)
        assert problems or back == made
    assert right > 2 * wrong > 0


@pytest.mark.parametrize("value", [float("nan"), 1e300])
def test_of_many_jobs_the_one_that_is_wrong_is_named(value: float) -> None:
    jobs = [KnapsackJob(f"j{k}", (KnapsackOption("o", 1.0, {"gpu": 1}),)) for k in range(100)]
    assert schema._are_valid(fields.remade(BARE, jobs=tuple(jobs)))
    jobs[70] = KnapsackJob("j70", (KnapsackOption("o", value, {"gpu": 1}),))
    with pytest.raises(InvalidInstance) as refused:
        MultipleChoiceKnapsackInstance("1", "maximize", {"gpu": 8}, tuple(jobs))
    assert [problem.path for problem in refused.value.problems] == ["$.jobs[70].options[0].value"]

"""Every argument that is one of a few words is checked: another word is refused, never guessed at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import apportion
from apportion.cluster.estimation.layer_throughput import ring_term
from apportion.cluster.estimation.model_similarity import believed_times
from apportion.cluster.policies.names import cluster_policy, policy
from apportion.cluster.policies.rounds.gavel import Gavel
from apportion.cluster.simulation.job_table import generated_jobs
from apportion.core.errors import ApportionError, did_you_mean
from apportion.draw import check_name
from apportion.instances.matching.generator import generate_assignment, generate_unrelated
from apportion.instances.multiple_choice_knapsack.generator import generate
from apportion.instances.readers import read_text
from apportion.io.schemas import committed
from apportion.models.assignment import Assignment
from apportion.models.linear import LinearModelBuilder
from apportion.scale.executors import open_executor

MODEL = apportion.MultipleChoiceKnapsack.from_arrays([1.0], [1], [0, 1], [1])
ORLIB = b"1\n1\n1\n"


def _open(word: str) -> None:
    with open_executor(word):
        pass


CALLS: dict[str, Callable[[Any], object]] = {
    "Assignment.from_arrays(goal)": lambda word: Assignment.from_arrays(word, [1.0], [0], [0, 1], 1),
    "Assignment.from_matrix(goal)": lambda word: Assignment.from_matrix(word, [[1.0]]),
    "MultipleChoiceKnapsack.from_arrays(sense)": lambda word: apportion.MultipleChoiceKnapsack.from_arrays(
        [1.0], [1], [0, 1], [1], sense=word
    ),
    "LinearModelBuilder(sense)": LinearModelBuilder,
    "MultipleChoiceKnapsackInstance(sense)": lambda word: apportion.MultipleChoiceKnapsackInstance(
        "1", word, {"gpu": 1}, ()
    ),
    "MatchingInstance(objective)": lambda word: apportion.MatchingInstance("1", word, (), ()),
    "MatchingInstance(schema_version)": lambda word: apportion.MatchingInstance(word, "cost", (), ()),
    "solve(backend)": lambda word: apportion.solve(MODEL, backend=word),
    "solve(formulation)": lambda word: apportion.solve(MODEL, formulation=word),
    "read(format)": lambda word: apportion.read(ORLIB, format=word),
    "read(sense)": lambda word: apportion.read(ORLIB, format="orlib-assign", sense=word),
    "read_text(format)": lambda word: read_text(ORLIB, word),
    "read_text(sense)": lambda word: read_text(ORLIB, "orlib-assign", 0, word),
    "open_executor(executor)": _open,
    "committed(kind)": committed,
    "policy(name)": policy,
    "cluster_policy(name)": cluster_policy,
    "Gavel(objective)": Gavel,
    "drawing(path)": lambda word: check_name(f"plan.{word}"),
    "generate(law)": lambda word: generate(1, word, 2, 2),
    "generate_unrelated(correlated)": lambda word: generate_unrelated(1, 2, 2, correlated=word),
    "generate_assignment(law)": lambda word: generate_assignment(1, 2, 2, law=word),
    "generated_jobs(mix)": lambda word: generated_jobs(1, mix=word),
    "ring_term(law)": lambda word: ring_term(np.ones(1), word),
    "model_similarity(information)": lambda word: believed_times((), (), cast(Any, None), word),
}

DEFAULT_NONE = (
    "open_executor(executor)",
    "solve(formulation)",
    *("read(format)", "read(sense)", "read_text(sense)"),
)


@pytest.mark.parametrize("word", ["banana", "max ", "", None, 3])
@pytest.mark.parametrize("name", CALLS)
def test_a_word_that_is_none_of_them_is_refused(name: str, word: object) -> None:
    """`Assignment.from_arrays("max", ...)` minimised, and called the result optimal."""
    if word is None and name in DEFAULT_NONE:
        return
    with pytest.raises((ApportionError, TypeError)) as refused:
        CALLS[name](word)
    assert "banana" in str(refused.value) or word != "banana"


def test_what_was_meant_is_suggested() -> None:
    assert did_you_mean("gapfilling", ("matching", "gap_filling")) == "; did you mean 'gap_filling'?"
    assert did_you_mean("explian", ("explain", "export")) == "; did you mean 'explain'?"
    assert did_you_mean("A100", ("a100", "v100")) == "; did you mean 'a100'?"
    assert did_you_mean("banana", ("matching",)) == ""
    assert did_you_mean(3, ("matching",)) == ""


def test_the_right_words_still_pass() -> None:
    assert Assignment.from_matrix("value", [[1.0, 2.0]]).sense == "maximize"
    assert apportion.solve(MODEL, backend="exact").termination == "optimal"

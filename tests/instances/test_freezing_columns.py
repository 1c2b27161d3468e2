"""A round from arrays is the round from rows; arrays kept by jobs are what the menus say."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given

from apportion.core.errors import InvalidInstance
from apportion.instances import FreezingConfiguration, FreezingInstance, FreezingJob, FreezingRow
from apportion.instances.freezing.columns import from_arrays
from tests.strategies import freezing_instances

PLACES = [("v100", 1), ("v100", 2)]


def test_rows_and_arrays_make_the_same_round() -> None:
    now = FreezingConfiguration("v100", 1, 5)
    made = from_arrays(
        ["a", "b"],
        [10, 20],
        PLACES,
        [[0, 5], [0, 7]],
        [[[10.0, 12.0], [18.0, np.nan]], [[1.0, 2.0], [3.0, 4.0]]],
        {"v100": 2},
        60.0,
        penalty=[[0.0, 0.1], [0.0, 0.25]],
        current=[now, None],
        states={"age_s": [30.0, 0.0]},
        power=0.5,
    )
    first = (
        FreezingRow("v100", 1, (0, 5), (10.0, 12.0), (0, 100_000)),
        FreezingRow("v100", 2, (0,), (18.0,), (0,)),
    )
    second = (
        FreezingRow("v100", 1, (0, 7), (1.0, 2.0), (0, 250_000)),
        FreezingRow("v100", 2, (0, 7), (3.0, 4.0), (0, 250_000)),
    )
    jobs = (FreezingJob("a", 10, first, current=now, age_s=30.0), FreezingJob("b", 20, second))
    assert made == FreezingInstance("1", {"v100": 2}, 60.0, jobs, power=0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"progress": [[1.0, 2.0]]}, r"\$.progress: shape is \(1, 2\)"),
        ({"depths": [0, 1, 2]}, r"\$.depths: shape is \(3,\)"),
        ({"depths": [0.0, 5.0]}, r"\$.depths: must be numbers \(int64\)"),
        ({"penalty": [[0.0, 1.5]]}, r"\$.penalty: must be from 0 to 1"),
        ({"states": {"age_s": [1.0, 2.0]}}, r"\$.age_s: has 2 values for 1 jobs"),
        ({"progress": [[[1.0, -2.0], [1.0, 2.0]]]}, r"effective_progress\[1\]: must not be negative"),
        ({"depths": [5, 0]}, r"depths\[1\]: 0 does not exceed 5"),
    ],
)
def test_arrays_that_do_not_fit_are_named(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "ids": ["a"],
        "layers": [10],
        "places": PLACES,
        "depths": [0, 5],
        "progress": [[[1.0, 2.0], [3.0, 4.0]]],
        "gpus": {"v100": 2},
        "round_s": 60.0,
    }
    with pytest.raises(InvalidInstance, match=message):
        from_arrays(**{**arguments, **changes})


@given(freezing_instances())
def test_the_arrays_a_job_keeps_are_its_menu_and_no_part_of_it(instance: FreezingInstance) -> None:
    for job in instance.jobs:
        menu = job.menu_arrays
        assert [menu.types[index] for index in menu.type_index] == [row.gpu_type for row in job.menu]
        assert menu.gpus.tolist() == [row.gpus for row in job.menu]
        assert menu.depth.tolist() == [depth for row in job.menu for depth in row.depths]
        told = [value for row in job.menu for value in row.effective_progress]
        assert menu.progress.tolist() == told
        assert menu.least == min((value for value in told if value > 0), default=None)
        twin = msgspec.structs.replace(job)
        assert twin == job and "menu_arrays" not in twin.__dict__
        assert msgspec.json.encode(twin) == msgspec.json.encode(job)


def test_lists_become_tuples_so_that_what_was_checked_stays() -> None:
    row = FreezingRow("v100", 1, [0, 5], [1, 2.0], [0, 1])  # type: ignore[arg-type]
    instance = FreezingInstance("1", {"v100": 1}, 60.0, [FreezingJob("a", 9, [row])])  # type: ignore[arg-type]
    kept = instance.jobs[0].menu[0]
    assert (kept.depths, kept.effective_progress, kept.penalty_millionths) == ((0, 5), (1.0, 2.0), (0, 1))
    assert isinstance(instance.jobs, tuple) and isinstance(instance.jobs[0].menu, tuple)
    decoded = msgspec.json.decode(msgspec.json.encode(instance), type=FreezingInstance)
    assert decoded == instance

"""The gap and the one rule for what counts as none, to the digit."""

from __future__ import annotations

import pytest

from apportion.core.outcome import absolute_gap, meets, relative_gap


def test_a_gap_is_relative_to_the_objective_but_not_below_1e_9() -> None:
    assert relative_gap(-200.0, -150.0) == 0.25
    assert relative_gap(0.0, 1e-9) == 1.0
    assert relative_gap(1e-10, 3e-10) == pytest.approx(0.2, rel=1e-12)


def test_how_far_a_bound_may_lie_from_the_objective() -> None:
    assert absolute_gap(-200.0, 0.25) == 50.0
    assert absolute_gap(0.0, 0.5) == 5e-10


def test_a_bound_meets_an_objective_within_1e_9_of_it_on_either_side() -> None:
    for objective in (1.0, -1.0, 1e-20, -1e18):
        assert meets(objective, objective * (1 + 0.9e-9)) and meets(objective, objective * (1 - 0.9e-9))
        assert not meets(objective, objective * (1 + 1.1e-9))
        assert not meets(objective, objective * (1 - 1.1e-9))


def test_next_to_zero_only_the_neighbouring_double_counts_as_none() -> None:
    assert meets(0.0, 5e-324) and meets(0.0, -5e-324)
    assert not meets(0.0, 1e-323)

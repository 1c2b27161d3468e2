"""Rounds of queues on many nodes over days: what runs is a plan, and every plan passes the checker."""

from __future__ import annotations

import pytest

from apportion.instances.kinds import kind_of
from apportion.instances.readers.kueue.dump import HOST
from tests.instances.kueue.large_days import days


@pytest.mark.slow
def test_every_round_of_every_day_has_a_plan_between_what_runs_and_its_bound() -> None:
    rounds = [*days(60, 80, ("rack", HOST), 4, 4.0)]
    for one in rounds:
        said, kind = one.solution, kind_of(one.solution.instance)
        assert kind.check(said.instance, said.require()).feasible
        assert said.bound is not None and said.objective is not None
        assert said.objective <= said.bound * (1.0 + 1e-9)
        assert all(level.bound is not None and level.share <= level.bound for level in said.levels)
    assert sum(one.decided["admit"] for one in rounds[1:]) > 5

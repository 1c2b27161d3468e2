"""Ratios of two cases are means of the ratios seed by seed, and every pair has its runs."""

from __future__ import annotations

import pytest
from paper_repro.joint.matching import MATCHING
from paper_repro.joint.packing import PACKING
from paper_repro.joint.pairs import PAIRS, pair_rows
from paper_repro.joint.tasks import Result, Task
from paper_repro.joint.with_rounds import ROUNDS

from apportion.cluster.simulation.rounds.accounts import ClusterSummary


def _result(setting: str, case: str, seed: int, average_s: float) -> Result:
    summary = ClusterSummary(
        policy=case,
        jobs=1,
        jobs_done=1,
        avg_jct_s=average_s,
        p50_jct_s=average_s,
        p99_jct_s=2.0 * average_s,
        makespan_s=3.0 * average_s,
        restarts=0,
        mean_frozen_fraction=0.0,
        gpu_hours=1.0,
        rounds=1,
        events=1,
        seconds=0.0,
    )
    return Result(Task("packing", setting, case, seed), summary)


def test_ratios_are_taken_seed_by_seed() -> None:
    case, other = PAIRS["packing"][0]
    # 1/2, 9/6 and 4/4: 1 on average, where the means are 14/12
    results = [_result("a", case, seed, value) for seed, value in enumerate((1.0, 9.0, 4.0))]
    results += [_result("a", other, seed, value) for seed, value in ((2, 4.0), (0, 2.0), (1, 6.0))]
    results += [_result("b", case, 0, 1.0)]
    (row,) = pair_rows("packing", results)
    assert (row["setting"], row["case"], row["over"], row["runs"]) == ("a", case, other, 3)
    assert row["average over it"] == row["makespan over it"] == row["99th percentile over it"] == 1.0
    assert row["± average over it"] == pytest.approx(4.302653 * 0.5 / 3**0.5, rel=1e-6)


def test_every_pair_is_one_of_two_cases() -> None:
    cases = {"matching": MATCHING, "packing": PACKING, "rounds": ROUNDS}
    for part, pairs in PAIRS.items():
        assert {case for pair in pairs for case in pair} <= set(cases[part])

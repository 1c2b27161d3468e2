"""What is said of rows: measures, duels, drift between runs, the gate."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.__main__ import main
from benchmarks.reporting.drift import drift_of, sign_test
from benchmarks.reporting.duels import duels, scores
from benchmarks.reporting.gate import failures, remarks
from benchmarks.reporting.measures import (
    growth,
    performance_profile,
    primal_integral,
    shifted_geometric_mean,
)
from benchmarks.reporting.records import groups_of
from click.testing import CliRunner


def row(solver: str = "apportion", instance: str = "a", **more: Any) -> dict[str, Any]:
    seconds = more.get("seconds", 0.1)
    objective = more.get("objective", 10.0)
    return {
        "kind": "cell",
        "key": f"set/{instance}|{solver}|2s",
        "family": "sia",
        "set": "set",
        "instance": instance,
        "solver": solver,
        "ours": solver.startswith("apportion"),
        "limit_s": 2.0,
        "gap_asked": 0.0,
        "threads": 1,
        "seed": 0,
        "maximizes": True,
        "termination": "optimal",
        "told": "",
        "seconds": seconds,
        "samples": [seconds] * 5,
        "objective": objective,
        "bound": objective,
        "check": {"feasible": True, "objective": objective, "violations": []},
        "trace": [[seconds, objective, objective]],
        **more,
    }


def test_shifted_means_tell_long_times_from_short_ones() -> None:
    assert shifted_geometric_mean([0.01, 1.0], 0.0) == pytest.approx(0.1)
    assert shifted_geometric_mean([1e-6, 1.0], 1.0) == pytest.approx(math.sqrt(2.0) - 1, abs=1e-6)
    assert shifted_geometric_mean([3.0] * 4, 0.01) == pytest.approx(3.0)


def test_profiles_agree_with_their_definition() -> None:
    rng = np.random.default_rng(0)
    costs = {name: rng.lognormal(0, 1, 30).tolist() for name in "abc"}
    costs["b"][3] = costs["c"][3] = None
    profile = performance_profile(costs)
    for name, values in costs.items():
        for factor in (1.0, 1.3, 2.0, 7.0, 1e9):
            ratios = [
                v / min(costs[o][k] for o in costs if costs[o][k] is not None)
                for k, v in enumerate(values)
                if v is not None
            ]
            share = sum(ratio <= factor for ratio in ratios) / 30
            assert max(s for f, s in profile[name] if f <= factor) == pytest.approx(share)


def test_the_primal_integral_is_the_area_under_the_gap() -> None:
    traced = row(objective=10.0, trace=[[0.5, 5.0, None], [1.0, None, 11.0], [1.5, 10.0, 10.0]])
    (group,) = groups_of([traced])
    record = group.records["apportion"]
    assert primal_integral(record, group) == pytest.approx((0.5 * 1.0 + 1.0 * 0.5) / 2.0)
    (group,) = groups_of([row(objective=None), row("peer")])
    assert primal_integral(group.records["apportion"], group) == 1.0
    assert primal_integral(group.records["peer"], group) == pytest.approx(0.05)


def test_growth_is_fitted_on_three_sizes_or_more() -> None:
    fitted = growth({n: [1e-3 * n**1.5, 1e9, 1e-9] for n in (10, 100, 1000, 5000)})
    assert fitted.exponent == pytest.approx(1.5) and fitted.factor == pytest.approx(1e-3)
    assert growth({10: [1.0], 100: [2.0]}).exponent is None


@pytest.mark.parametrize(
    ("ours", "other", "result", "reason"),
    [
        ({"objective": None, "check": None, "termination": "time_limit"}, {}, "lost", "plan"),
        ({}, {"objective": None, "check": None, "termination": "crash", "seconds": None}, "won", "plan"),
        ({"objective": 9.0}, {"seconds": 5.0}, "lost", "quality"),
        ({"objective": 10.0 - 1e-7}, {}, "tied", "time"),
        ({"termination": "time_limit"}, {"seconds": 1.9}, "lost", "proof"),
        ({"seconds": 0.1}, {"seconds": 0.07}, "lost", "time"),
        ({"seconds": 0.1}, {"seconds": 0.11}, "tied", "time"),
        ({"seconds": 0.1}, {"seconds": 1.0}, "won", "time"),
    ],
)
def test_a_duel_is_decided_by_the_first_difference(
    ours: dict[str, Any], other: dict[str, Any], result: str, reason: str
) -> None:
    (duel,) = duels(groups_of([row(**ours), row("peer", **other)]), "peer")
    assert (duel.result, duel.reason) == (result, reason)


def test_who_beats_us_most_stands_first_and_who_did_not_run_is_said() -> None:
    rows = [row(), row("slow", seconds=1.0), row("fast", seconds=0.01)]
    rows.append(row("absent", termination="unavailable", told="x not installed", objective=None, check=None))
    made = scores(groups_of(rows), ["absent", "slow", "fast"])
    assert [score.other for score in made] == ["fast", "slow", "absent"]
    assert made[0].mean_ratio == pytest.approx(0.1) and made[0].losses[0].reason == "time"
    assert made[2].not_run == 1 and made[2].why_not == "unavailable: x not installed" and not made[2].duels


def noisy(seed: int, factor: float = 1.0, **more: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(20):
        samples = (0.02 * (k + 1) * factor * rng.lognormal(0, 0.08, 5)).tolist()
        rows.append(row(instance=str(k), samples=samples, seconds=min(samples), **more))
    return rows


def test_noise_alone_is_not_told_as_a_change() -> None:
    for seed in range(20):
        drift = drift_of(noisy(seed), noisy(seed + 100))
        assert sum(cell.verdict != "alike" for cell in drift.cells) <= 1
        assert drift.solvers[0].low < 1.08 and drift.solvers[0].high > 0.92 and not drift.regressions


def test_a_slower_solver_is_told_and_fails_nothing(tmp_path: Path) -> None:
    drift = drift_of(noisy(0), noisy(1, 1.6))
    assert sum(cell.verdict == "slower" for cell in drift.cells) >= 18
    assert drift.solvers[0].low > 1.4 and drift.solvers[0].p_value < 1e-4 and not drift.regressions
    faster = drift_of(noisy(0, 1.6), noisy(1))
    assert sum(cell.verdict == "faster" for cell in faster.cells) >= 18
    files = []
    for name, rows in (("a", noisy(0)), ("b", noisy(1, 1.6))):
        files.append(tmp_path / name)
        files[-1].write_text("".join(json.dumps(r) + "\n" for r in rows))
    told = CliRunner().invoke(main, ["compare", *map(str, files)])
    assert told.exit_code == 0 and "Slower (told, never fails)" in told.output


def test_one_slow_call_of_a_millisecond_or_without_repeats_needs_more() -> None:
    quick = drift_of([row(seconds=1e-3)], [row(seconds=2.5e-3)])
    assert quick.cells[0].verdict == "alike"
    single = drift_of([row(samples=[1.0])], [row(samples=[1.5])])
    assert single.cells[0].verdict == "alike" and single.cells[0].low is None
    assert drift_of([row(samples=[1.0])], [row(samples=[2.5])]).cells[0].verdict == "slower"


@pytest.mark.parametrize(
    ("worse", "words"),
    [
        ({"objective": 9.9}, "gap to the best known value rose"),
        ({"termination": "time_limit"}, "was proven"),
        ({"objective": None, "check": None, "termination": "crash"}, "now crash"),
        ({"objective": None, "check": {"feasible": False, "violations": ["x"]}}, "fails the check"),
        ({"termination": "unavailable", "objective": None, "check": None}, "was run, now unavailable"),
    ],
)
def test_quality_lost_fails_the_comparison(tmp_path: Path, worse: dict[str, Any], words: str) -> None:
    drift = drift_of([row()], [row(**worse)])
    assert any(words in line for line in drift.regressions)
    assert not drift_of([row(**worse)], [row()]).regressions
    of_a_peer = drift_of([row("peer")], [row("peer", **worse)])
    assert not of_a_peer.regressions and any(words in line for line in of_a_peer.changes)
    for name, told in (("a", row()), ("b", row(**worse))):
        (tmp_path / name).write_text(json.dumps(told) + "\n")
    assert CliRunner().invoke(main, ["compare", str(tmp_path / "a"), str(tmp_path / "b")]).exit_code == 1


def test_a_slower_machine_is_not_a_slower_solver() -> None:
    peers = [dict(r, solver="peer", ours=False, key="p" + r["key"]) for r in noisy(5)]
    later = [dict(r, solver="peer", ours=False, key="p" + r["key"]) for r in noisy(6, 3.0)]
    drift = drift_of([*noisy(0), *peers], [*noisy(1, 3.0), *later])
    assert drift.machine == pytest.approx(3.0, rel=0.1)
    assert sum(cell.verdict != "alike" for cell in drift.cells) <= 2
    slower = drift_of([*noisy(0), *peers], [*noisy(1, 6.0), *later])
    assert sum(c.verdict == "slower" for c in slower.cells if c.solver == "apportion") >= 18


def test_what_a_clock_decided_is_told_and_fails_nothing() -> None:
    late = drift_of([row(seconds=0.9)], [row(termination="time_limit", seconds=2.0)])
    assert not late.regressions and "a clock decided" in late.changes[0]
    assert drift_of([row(seconds=0.1)], [row(termination="time_limit", seconds=2.0)]).regressions
    cut = {"termination": "time_limit", "family": "mmkp"}
    assert not drift_of([row(**cut)], [row(objective=9.9, **cut)]).regressions
    assert drift_of([row(**cut)], [row(objective=9.0, **cut)]).regressions


def test_the_sign_test_is_the_binomial() -> None:
    for wins, losses in ((0, 0), (3, 0), (7, 2), (10, 10)):
        draws = np.random.default_rng(0).binomial(wins + losses, 0.5, 200_000)
        off = abs(2 * wins - wins - losses)
        assert sign_test(wins, losses) == pytest.approx(
            (abs(2 * draws - wins - losses) >= off).mean(), abs=5e-3
        )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"termination": "crash", "objective": None, "check": None, "told": "SIGSEGV"}, "SIGSEGV"),
        ({"termination": "unavailable", "objective": None, "check": None}, "unavailable"),
        ({"objective": None, "check": {"feasible": False, "violations": ["capacity"]}}, "fails the check"),
        ({"objective": 9.0, "bound": 9.0}, "is beaten by a plan"),
        ({"verified_bound": 9.5}, "verified bound"),
        ({"objective": 9.5, "bound": 11.0}, "claims optimal"),
        ({"objective": 9.5, "bound": 11.0, "termination": "time_limit"}, "gap 5.00e-02"),
        ({"objective": None, "check": None, "termination": "time_limit"}, "no plan"),
    ],
)
def test_the_gate_fails_on_quality(tmp_path: Path, wrong: dict[str, Any], words: str) -> None:
    found = failures([row(**wrong), row("peer")])
    assert any(words in line for line in found), found
    file = tmp_path / "rows"
    file.write_text("".join(json.dumps(r) + "\n" for r in (row(**wrong), row("peer"))))
    assert CliRunner().invoke(main, ["gate", str(file)]).exit_code == 1


def test_the_gate_lets_slow_and_peers_pass() -> None:
    wrong_peer = row("peer", objective=9.0, bound=9.0)
    rows = [row(seconds=1.99), wrong_peer]
    assert failures(rows) == [] and len(remarks(rows)) == 2
    stopped = row(termination="memory_limit", bound=10.1)
    assert failures([stopped]) == [], "an engine may stop at its own memory limit with a good plan"
    assert any("family mckp has no row" in line for line in failures(rows, complete=True))

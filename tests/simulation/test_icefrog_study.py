"""The study of IceFrog's claim: pairs of runs, intervals, and runs that are not repeated."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from paper_repro.icefrog.__main__ import _by_workload
from paper_repro.icefrog.cases import WORKLOADS, Case, Result
from paper_repro.icefrog.experiments import BASELINES, PARTS, TUNED, cases, plan
from paper_repro.icefrog.figures import Study
from paper_repro.icefrog.store import Runs
from paper_repro.icefrog.tables import (
    ablation,
    believed_thetas,
    depths,
    loads,
    policies,
    reductions,
    together,
    wrong_beliefs,
)
from paper_repro.icefrog.tuning import tuned
from paper_repro.intervals import Mean
from paper_repro.tables import markdown

from apportion.cluster.policies.names import cluster_policy


def result(average_s: float) -> Result:
    return Result(average_s, 9e3, 9e4, 320, 0.2, 0.1, 0.5, 0.25, 160, 1.0, (int(average_s),) * 160, 99.0)


def stored(folder: Path, told: dict[Case, Result]) -> Runs:
    lines = [
        {"case": msgspec.to_builtins(case), "result": msgspec.to_builtins(one)} for case, one in told.items()
    ]
    (folder / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Runs(folder, folder / "runs.jsonl", 1)


def test_reductions_pair_runs_of_the_same_workload(tmp_path: Path) -> None:
    sia, own = Case("", "sia", 48), Case("", "icefrog", 48, theta=0.5)
    told = {}
    for number, name in enumerate(WORKLOADS[:4]):
        told[msgspec.structs.replace(own, workload=name)] = result(500.0 * (number + 1))
        if number:
            told[msgspec.structs.replace(sia, workload=name)] = result(1000.0 * (number + 1) + 100.0 * number)
    study = Study(stored(tmp_path, told), WORKLOADS)
    shares = [1 - 500.0 * (k + 1) / (1000.0 * (k + 1) + 100.0 * k) for k in (1, 2, 3)]
    found = study.shorter(own, sia)
    assert found.count == 3 and found.value == pytest.approx(np.mean(shares))
    # Student's t for two degrees of freedom
    assert found.half == pytest.approx(4.30265 * np.std(shares, ddof=1) / 3**0.5, rel=1e-5)
    assert Mean.of([1.0, 2.0]).half is None
    assert study.completion_s(sia).size == 3 * 160


def test_who_stops_early_has_whole_workloads_of_every_part() -> None:
    asked = plan(quick=False)
    found = list(_by_workload(PARTS, asked, False))
    order = [case.workload for case in found]
    assert order == sorted(order, key=WORKLOADS.index)
    every = [case for part in PARTS for case in cases(part, asked[part], False)]
    assert set(found) == set(every) and len(set(found)) == 161 * len(WORKLOADS)


def test_settings_are_tuned_round_first(tmp_path: Path) -> None:
    """The folder has no data: what is asked for must be known."""
    averages = {None: 50.0, 30.0: 60.0, 120.0: 40.0, 240.0: 45.0}
    told = {Case(WORKLOADS[0], "sia", 48, round_s=key): result(one) for key, one in averages.items()}
    told |= {
        Case(WORKLOADS[0], "sia", 48, round_s=120.0, power=power): result(one)
        for power, one in ((-1.0, 38.0), (-0.5, 40.0), (0.5, 39.0))
    }
    rows = list(tuned(stored(tmp_path, told), "sia"))
    assert [(row["rounds of, s"], row["best"]) for row in rows[:4]] == [
        (30.0, False),
        (60.0, False),
        (120.0, True),
        (240.0, False),
    ]
    assert [(row["p"], row["best"]) for row in rows[4:]] == [(-1.0, True), (-0.5, False), (0.5, False)]


def test_every_baseline_has_a_row_at_the_settings_that_were_best() -> None:
    table = Path(__file__).parents[2] / "paper_repro" / "icefrog" / "results" / "tuning.json"
    rows = json.loads(table.read_text(encoding="utf-8"))["rows"]
    found = set()
    for policy in BASELINES:
        best = [row for row in rows if row["policy"] == policy and row["best"]][-1]
        round_s = None if best["rounds of, s"] == cluster_policy(policy).round_s else best["rounds of, s"]
        power = None if best["p"] == "as published" else best["p"]
        if round_s is not None or power is not None:
            found.add(Case("", policy, round_s=round_s, power=power))
    assert found == set(TUNED.values())


def test_what_is_known_is_not_run_again_and_every_table_finds_its_runs(tmp_path: Path) -> None:
    """The folder has no data: a run would fail."""
    told = plan(quick=True)
    asked = [case for part in PARTS for case in cases(part, told[part], True)]
    rng = np.random.default_rng(0)
    runs = stored(tmp_path, {case: result(float(rng.integers(2000, 9000))) for case in asked})
    assert runs.run(asked) == 0
    study = Study(runs, told["main"])
    tables = [
        policies(study, 48, None),
        reductions(study, 48, None),
        loads(study),
        depths(study),
        believed_thetas(study),
        wrong_beliefs(study, (0.5,)),
        ablation(study, (0.5,)),
    ]
    for rows in tables:
        lines = list(markdown(rows))
        assert len(lines) > 3 and not any("nan" in line for line in lines)
        # one sort of row a table
        assert len({tuple(row) for row in rows}) == 1
    assert any(row["policy"] == "sia" for row in tables[0])
    assert [row["less than"] for row in together(study)] == ["Sia, depth afterwards, theta 0.5"]

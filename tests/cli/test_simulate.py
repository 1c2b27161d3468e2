"""`apportion simulate`: the shipped example, its figures, and wrong input by field and line."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from apportion.cli.main import main
from tests.cli.calling import call

FIGURES = {
    "avg_jct_s",
    "p99_jct_s",
    "makespan_s",
    "restarts",
    "mean_frozen_fraction",
    "seconds",
}


@pytest.fixture
def example(root: Path) -> Path:
    return root / "examples" / "cluster"


def _called(*arguments: str) -> tuple[int | None, str, str]:
    told = call(main, *arguments)
    return told.code, told.out, told.err


def simulated(profiles: Path, workload: Path, policy: str, *more: str) -> tuple[int | None, str, str]:
    where = ("--profiles", str(profiles), "--workload", str(workload), "--nodes", "4", "--policy", policy)
    return _called("simulate", *where, *more)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("policy", ["tiresias", "sia", "icefrog", "joint"])
def test_the_shipped_example_runs(example: Path, policy: str) -> None:
    code, out, err = simulated(example / "profiles", example / "workload.csv", policy, "--json")
    assert code == 0
    told = json.loads(out)
    assert told.keys() >= FIGURES
    if policy in ("icefrog", "joint"):  # they ran them unfrozen without a word
        assert err == (
            f"simulate: {policy} runs unfrozen, for want of a freezing profile: "
            + ", ".join(f"{name} ({count} jobs)" for name, count in told["cannot_freeze"].items())
            + "\n"
        )
        assert sum(told["cannot_freeze"].values()) == 40
    else:
        assert (err, told["cannot_freeze"]) == ("", {})
    assert told["jobs_done"] == told["jobs"] == 40
    assert told["avg_jct_s"] < told["p99_jct_s"] <= told["makespan_s"]
    assert told["mean_frozen_fraction"] == 0.0  # these networks have no freezing curves


def test_the_example_is_what_its_script_writes(root: Path, example: Path, tmp_path: Path) -> None:
    script = root / "examples" / "make_cluster.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.csv")}
    assert made == {path.relative_to(example): path.read_bytes() for path in example.rglob("*.csv")}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x,0,unknown_net,1,64", "application 'unknown_net' has no profile"),
        ("x,soon,small_net,1,64", "time and work must be numbers"),
        ("x,0,small_net,0,64", "num_replicas and batch_size at least 1"),
        ("x,0,small_net,1", "has 4 cells, the header 5"),
        ("x,0,small_net,99,64", "asks for 99 GPUs, the cluster has 16"),
    ],
)
def test_a_wrong_job_is_told_by_its_place(example: Path, tmp_path: Path, row: str, message: str) -> None:
    workload = tmp_path / "jobs.csv"
    workload.write_text(f"name,time,application,num_replicas,batch_size\n{row}\n")
    code, out, err = simulated(example / "profiles", workload, "fifo")
    assert (code, out) == (3, "")
    assert message in err and "Traceback" not in err


def test_jobs_that_end_early_or_take_more_work(example: Path, tmp_path: Path) -> None:
    def run_of(*rows: str) -> tuple[int | None, str, str]:
        workload = tmp_path / "jobs.csv"
        workload.write_text("\n".join(["name,time,application,num_replicas,batch_size,epochs,work", *rows]))
        return simulated(example / "profiles", workload, "costate", "--remaining", "asked", "--json")

    whole, early, more = (
        json.loads(run_of(f"x,0,small_net,1,64,{cells}")[1])["avg_jct_s"] for cells in (",", "1,", ",2")
    )
    assert early < 0.5 * whole and 1.5 * whole < more < 2.5 * whole
    code, out, err = run_of("x,0,small_net,1,64,99,", "y,0,small_net,1,64,,0", "z,0,small_net,1,64,some,")
    assert (code, out) == (3, "")
    assert "line 2: epochs must be from 1 to small_net's" in err and "line 3: work must be from" in err
    assert "line 4: " in err and "epochs whole numbers" in err


def test_jobs_that_would_wait_for_ever_are_named_before_any_round(example: Path, tmp_path: Path) -> None:
    """Nine of 160 jobs of a published workload: it ended with a count, after 10,001 idle rounds."""
    workload = tmp_path / "jobs.csv"
    rows = "fits,0,small_net,2,64\nthin,0,small_net,16,32\nhuge,9,small_net,2,1000000\n"
    workload.write_text(f"name,time,application,num_replicas,batch_size\n{rows}")
    for policy in ("gavel-max-min", "tiresias", "matching"):
        code, out, err = simulated(example / "profiles", workload, policy)
        assert (code, out) == (3, "")
        named = [line for line in err.splitlines() if "would wait for ever" in line]
        assert [line.split()[1] for line in named] == ["thin", "huge"]
        assert "change num_replicas or batch_size" in named[0] and "fits" not in err
    code, _, _ = simulated(example / "profiles", workload, "pollux")
    assert code == 0


def test_wrong_profiles_are_told(example: Path, tmp_path: Path) -> None:
    code, _, err = simulated(tmp_path / "none", example / "workload.csv", "fifo")
    assert code == 3 and "is no folder" in err
    code, _, err = simulated(tmp_path, example / "workload.csv", "fifo")
    assert code == 3 and "validation-BATCH.csv" in err


def test_a_log_of_durations_needs_no_profiles(tmp_path: Path) -> None:
    log = tmp_path / "log.csv.gz"
    rows = "\n".join(f"2026-01-01 00:{minute:02d}:00,{600 + minute},{1 + minute % 4}" for minute in range(20))
    log.write_bytes(gzip.compress(f"timestamp,duration,num_gpus\n{rows}\n".encode()))
    where = ("--workload", str(log), "--nodes", "2", "--json")
    for policy in ("fifo", "srtf", "tiresias"):
        code, out, _ = _called("simulate", *where, "--policy", policy)
        assert code == 0 and json.loads(out)["jobs_done"] == 20
    code, _, err = _called("simulate", *where, "--policy", "optimus")
    assert code == 2 and "needs jobs with measured profiles" in err


def test_policies_are_compared_on_one_workload(example: Path, tmp_path: Path) -> None:
    where = ("--profiles", example / "profiles", "--workload", example / "workload.csv", "--nodes", 4)
    table, page = tmp_path / "jobs.csv", tmp_path / "page.html"
    more = ("--compare", "fifo", "--compare", "srtf", "--jobs", table, "--report", page)
    code, out, err = _called("simulate", *map(str, where), "--policy", "fifo", *map(str, more))
    assert code == 0, err
    rows = [line.split() for line in out.splitlines()]
    assert [row[0] for row in rows[-3:]] == ["policy", "fifo", "srtf"]
    lines = table.read_text().splitlines()
    assert lines[0].startswith("policy,job,submitted_s,completed_s")
    assert [line.split(",")[0] for line in lines[1:]] == ["fifo"] * 40 + ["srtf"] * 40
    text = page.read_text()
    assert text.count("shared the cluster") >= 2 and "Jobs done over time" in text
    assert not re.search(r"(src|href)=|url\((?!#)", text)
    code, out, err = _called("simulate", *map(str, where), "--policy", "fifo", "--json", "--compare", "srtf")
    told = json.loads(out)
    assert [told["policy"], told["compared"][0]["policy"]] == ["fifo", "srtf"]
    jct = [float(line.split(",")[3]) - float(line.split(",")[2]) for line in lines[41:]]
    assert told["compared"][0]["avg_jct_s"] == pytest.approx(sum(jct) / 40)


@pytest.mark.slow
def test_a_comparison_reads_its_inputs_once(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()

    def counted(module: str, name: str) -> None:
        whole = getattr(import_module(module), name)

        def call(*given: Any) -> Any:
            asked[name] += 1
            return whole(*given)

        monkeypatch.setattr(f"{module}.{name}", call)

    counted("apportion.cluster.estimation.training", "read_applications")
    counted("apportion.cluster.simulation.rounds.scenario", "read_workload")
    counted("apportion.cluster.simulation.rounds.workload_files", "read_claims")
    where = ("--profiles", example / "profiles", "--workload", example / "workload.csv", "--nodes", 4)
    more = ("--policy", "fifo", "--compare", "srtf", "--compare", "tiresias", "--jobs", tmp_path / "jobs.csv")
    code, _, err = _called("simulate", *map(str, (*where, *more)))
    assert code == 0, err
    assert asked == {"read_applications": 1, "read_workload": 1, "read_claims": 1}
    lines = (tmp_path / "jobs.csv").read_text().splitlines()[1:]
    names = [line.split(",")[0] for line in (example / "workload.csv").read_text().splitlines()[1:]]
    assert [line.split(",")[1] for line in lines] == names * 3
    alone = _called("simulate", *map(str, where), "--policy", "tiresias", "--json")[1]
    among = _called("simulate", *map(str, (*where, *more)), "--json")[1]
    told, [_, compared] = json.loads(alone), json.loads(among)["compared"]
    assert all(told[name] == compared[name] for name in ("avg_jct_s", "restarts", "gpu_hours", "rounds"))


def test_the_bound_is_printed_and_computed_again_from_its_prices(example: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.csv"
    few.write_text("".join((example / "workload.csv").read_text().splitlines(keepends=True)[:9]))
    given = ["simulate", "--profiles", example / "profiles", "--workload", few]
    given += ["--nodes", "2", "--policy", "costate", "--policy", "icefrog", "--json"]
    told = call(main, *given, "--bound")
    assert told.code == 0
    answer = json.loads(told.out)
    least = answer["bound"]["avg_jct_s"]
    assert 0.4 * answer["avg_jct_s"] < least < answer["avg_jct_s"]
    stored = tmp_path / "answer.json"
    stored.write_text(told.out)
    again = json.loads(call(main, *given, "--bound-of", stored).out)
    assert again["bound"] == answer["bound"]
    words = call(main, *given[:-1], "--bound-of", stored).out
    assert "No policy without freezing ends jobs sooner than" in words
    assert "costate ends" in words and "icefrog ends" not in words
    refused = call(main, *given, "--bound", "--slowdown", "large_net=2")
    assert refused.code == 2 and "without --slowdown" in refused.err


def test_why_a_job_gets_its_gpus_is_printed_whenever_they_change(example: Path) -> None:
    given = ["simulate", "--profiles", example / "profiles", "--workload", example / "workload.csv"]
    given += ["--nodes", "4", "--policy", "costate"]
    told = call(main, *given, "--remaining", "true", "--why", "large_net-3")
    lines = [line for line in told.out.splitlines() if "delays all jobs together by" in line]
    assert told.code == 0 and len(lines) > 1 and lines[0].startswith("0.0")
    assert all(line.split(" h, GPUs: ")[1] != after.split(" h, GPUs: ")[1] for line, after in pairwise(lines))
    for wrong, said in (
        (["--why", "large_net-x"], "large_net-3"),
        (["--why", "large_net-3", "--json"], "--json"),
        (["--ratio-limit", "0"], "--ratio-limit"),
    ):
        refused = call(main, *given, *wrong)
        assert refused.code == 2 and said in refused.err
    for option in (["--why", "large_net-3"], ["--ratio-limit", "2"]):
        refused = call(main, *given[:-1], "afs", *option)
        assert refused.code == 2 and "costate" in refused.err


def test_no_job_ends_much_later_than_the_limit_on_its_finish_time_ratio(example: Path) -> None:
    given = ["simulate", "--profiles", example / "profiles", "--workload", example / "workload.csv"]
    given += ["--nodes", "2", "--policy", "costate", "--remaining", "true", "--json"]
    worst = [
        json.loads(call(main, *given, *limit).out)["fairness"]["worst_finish_time_ratio"]
        for limit in ([], ["--ratio-limit", "1.1"])
    ]
    assert worst[1] < 1.2 < worst[0]


def test_beliefs_of_gpu_types(example: Path, tmp_path: Path) -> None:
    where = (example / "profiles", example / "workload.csv")
    told = {}
    for belief in ("true", "none"):
        code, out, _ = simulated(*where, "matching", "--belief", belief, "--json")
        assert code == 0
        told[belief] = json.loads(out)
        del told[belief]["seconds"]
    assert told["true"] == told["none"], "there is one type"
    code, _, err = simulated(*where, "matching", "--models", str(tmp_path / "none.csv"))
    assert (code, err) == (2, "apportion: --models tells of --belief similar only\n")
    models = tmp_path / "models.csv"
    models.write_text("model,family\nsmall_net,net\nsmall_net,net\n")
    code, _, err = simulated(*where, "matching", "--belief", "similar", "--models", str(models))
    assert code == 3 and "line 3, model: stands twice: small_net" in err


@pytest.mark.slow
def test_a_policy_that_is_named_beside_another_runs_too(
    example: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of `--policy tiresias --policy optimus` only the last ran, without a word."""
    inputs = (example / "profiles", example / "workload.csv", "tiresias")
    code, out, _ = simulated(*inputs, "--policy", "optimus", "--json")
    told = json.loads(out)
    assert code == 0
    assert [told["policy"], *(other["policy"] for other in told["compared"])] == ["tiresias", "optimus"]
    alone = json.loads(simulated(*inputs, "--compare", "optimus", "--json")[1])
    assert told["avg_jct_s"] == alone["avg_jct_s"]
    assert [other["avg_jct_s"] for other in told["compared"]] == [
        other["avg_jct_s"] for other in alone["compared"]
    ]
    words = ["replay", "--trace", "generated", "--jobs", "generated", "--machine-nodes", "9", "--days", "0.1"]
    replayed = json.loads(call(main, *words, "--policy", "static", "--policy", "greedy", "--json").out)
    assert (replayed["policy"], replayed["compared"][0]["policy"]) == ("static", "greedy")
    config = tmp_path / "config.toml"
    config.write_text('[replay]\npolicy = "equal-share"\n')
    monkeypatch.setenv("APPORTION_CONFIG", str(config))
    assert json.loads(call(main, *words, "--json").out)["policy"] == "equal-share"

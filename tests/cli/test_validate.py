"""``validate`` reads every kind of input, by its look or by name, and lists what is wrong with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apportion.cli.main import main
from apportion.cli.validate import INPUTS
from tests.cli.calling import call

EXAMPLES = Path("examples")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((EXAMPLES / "slurm_log" / "backlog.csv",), "valid: jobs, "),
        ((EXAMPLES / "slurm_log" / "sacct.txt", "--as", "trace"), "valid: trace, "),
        ((EXAMPLES / "cluster" / "profiles",), "valid: profiles, applications large_net, small_net"),
        ((EXAMPLES / "cluster" / "workload.csv",), "valid: workload, "),
        ((EXAMPLES / "freezing_fitted" / "layers.csv",), "valid: layers, "),
        ((EXAMPLES / "freezing_small.json",), "valid: freezing, freezing_small"),
    ],
)
def test_inputs_that_ship_are_valid(arguments: tuple[object, ...], words: str) -> None:
    done = call(main, "validate", *arguments)
    assert done.code == 0, done.err
    assert done.out.startswith(words)


@pytest.mark.parametrize(
    ("name", "text", "kind", "words"),
    [
        ("jobs.csv", ",Tcup,Tcdw,Jmin,Jmax,Pmax,tsub_s\nx-ResNet18,1,soon,1,2,3,4\n", None, "line 2"),
        ("steps.csv", "placement,local_bsz,step_time,frozen_layer\n1,32,fast,0\n", None, "line 2, step_time"),
        ("log.csv", "timestamp,duration,num_gpus\nyesterday,1,1\n", None, "2"),
        ("layers.csv", "frozen_layers,param_frac_unfrozen\n0,1\n", None, "must rise from 0"),
        ("curves.json", "[1]", "curves", "curves.json"),
        ("trace.npz", "no zip", None, "trace.npz"),
        ("workload.csv", "name,time,application,batch_size,num_gpus\n", "durations", "lacks"),
    ],
)
def test_a_wrong_input_is_listed_with_its_place(
    name: str, text: str, kind: str | None, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    done = call(main, "validate", path, *(("--as", kind) if kind else ()))
    assert done.code == 3, done.out + done.err
    assert words in done.out and "problem" in done.out
    told = json.loads(call(main, "validate", path, "--json", *(("--as", kind) if kind else ())).out)
    assert told["valid"] is False and told["problems"] and told["kind"] in INPUTS


def test_too_many_lenders_who_may_use_more_are_problems(tmp_path: Path) -> None:
    path = tmp_path / "lenders.json"
    quota = {"gpu": {"guarantee": 4, "lending_limit": 2}}
    tenants = [{"id": f"t{k}", "quotas": quota} for k in range(20)]
    options = [{"id": "o", "value": 1.0, "uses": {"gpu": 30}}]
    jobs = [{"id": f"j{k}", "tenant": f"t{k}", "required": False, "options": options} for k in range(20)]
    told = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize"}
    path.write_text(json.dumps({**told, "capacities": {"gpu": 100}, "jobs": jobs, "tenants": tenants}))
    done = call(main, "validate", path)
    assert done.code == 3
    assert "$.tenants: too many tenants limit what they lend" in done.out


def test_a_workload_without_its_profiles_says_which_command_reads_both(tmp_path: Path) -> None:
    path = tmp_path / "workload.csv"
    path.write_text("name,time,application,batch_size,num_gpus\n")
    done = call(main, "validate", path)
    assert done.code == 2 and "apportion simulate --profiles FOLDER --workload" in done.err


def test_a_file_that_is_not_there_is_no_traceback(tmp_path: Path) -> None:
    for kind in INPUTS:
        done = call(main, "validate", tmp_path / "nowhere", "--as", kind)
        assert done.code in (2, 3) and "nowhere" in done.err + done.out

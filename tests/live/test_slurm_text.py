"""What Slurm prints, of several releases: layouts of ours, after its documentation and a real 22.05."""

from __future__ import annotations

import contextlib
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.core.errors import ClusterUnreachable, InvalidOption, SchedulerMissing, SchedulerRefused
from apportion.live.cluster import PilotSeen, PilotState
from apportion.live.slurm.cluster import SlurmCluster
from apportion.live.slurm.commands import EXPORTED
from apportion.live.slurm.text import (
    NotUnderstood,
    expand,
    idle,
    nodes_of_json,
    nodes_of_text,
    pilots_of_json,
    pilots_of_text,
    sound,
)


def raw(told: Any) -> bytes:
    return json.dumps(told).encode()


def node(name: str, state: str, flags: list[str] | None = None, partition: str = "harvest") -> dict[str, Any]:
    """A node as Slurm 22.05 writes it (openapi/v0.0.38)."""
    return {"name": name, "state": state, "state_flags": flags or [], "partitions": ["main", partition]}


def test_idle_nodes_of_22_05() -> None:
    told = {
        "meta": {"plugin": {"type": "openapi/v0.0.38"}},
        "nodes": [
            node("n10", "idle"),
            node("n2", "idle"),
            node("n3", "allocated"),
            node("n4", "idle", ["DRAIN"]),
            node("n5", "idle", ["NOT_RESPONDING"]),
            node("n6", "idle", partition="other"),
            node("n7", "down"),
            node("n8", "idle", ["PLANNED"]),
        ],
    }
    assert idle(nodes_of_json(raw(told), "harvest")) == ("n2", "n10")


def test_idle_nodes_of_later_releases() -> None:
    def group(names: list[str], state: list[str], partition: Any) -> dict[str, Any]:
        return {"node": {"state": state}, "nodes": {"nodes": names, "idle": 1}, "partition": partition}

    told = {
        "meta": {"plugin": {"data_parser": "data_parser/v0.0.41"}},
        "sinfo": [
            group(["n1", "n2"], ["IDLE"], {"name": "harvest"}),
            group(["n[07-08]"], ["IDLE", "CLOUD"], {"name": "harvest"}),
            group(["n3"], ["IDLE", "DRAIN"], {"name": "harvest"}),
            group(["n4"], ["MIXED"], {"name": "harvest"}),
            group(["n5"], ["IDLE"], {"name": "main"}),
        ],
    }
    assert idle(nodes_of_json(raw(told), "harvest")) == ("n1", "n2", "n07", "n08")


def test_idle_nodes_of_text() -> None:
    states = nodes_of_text("n2|idle\nn1|idle\nn3|idle*\nn4|allocated\nn5|idle~\nn6|planned\n\nn7|down\n")
    assert idle(states) == ("n1", "n2")
    assert sound(states) == {"n1", "n2", "n4", "n6"}
    with pytest.raises(NotUnderstood):
        idle(nodes_of_text("PARTITION AVAIL\n"))


STATES = {
    "PENDING": PilotState.PENDING,
    "CONFIGURING": PilotState.PENDING,
    "RUNNING": PilotState.RUNNING,
    "COMPLETING": PilotState.ENDING,
    "CANCELLED": PilotState.ENDED,
    "PREEMPTED": PilotState.ENDED,
    "NODE_FAIL": PilotState.LOST,
}


@pytest.mark.parametrize(("word", "state"), STATES.items())
def test_pilots_of_every_layout(word: str, state: PilotState) -> None:
    expected = (PilotSeen("0a1b2c3d-17", "42", "n4", state),)
    old = {"jobs": [{"job_id": 42, "name": "apportion-0a1b2c3d-17", "job_state": word, "nodes": "n4"}]}
    assert pilots_of_json(raw(old), "0a1b2c3d") == expected
    new = {
        "jobs": [
            {
                "job_id": {"set": True, "infinite": False, "number": 42},
                "name": "apportion-0a1b2c3d-17",
                "job_state": [word],
                "nodes": "",
                "required_nodes": "n4",
                "something_new": [1, {}],
            }
        ]
    }
    assert pilots_of_json(raw(new), "0a1b2c3d") == expected
    line = f"42|{word}|n4|n4|apportion-0a1b2c3d-17\n"
    assert pilots_of_text(line, "0a1b2c3d") == expected


def test_pilots_of_others_are_not_ours() -> None:
    lines = (
        "1|RUNNING|n1||apportion-ffffffff-1\n2|RUNNING|n2||simulation\n3|PENDING||n3|apportion-0a1b2c3d-2\n"
    )
    assert [pilot.pilot for pilot in pilots_of_text(lines, "0a1b2c3d")] == ["0a1b2c3d-2"]


def test_errors_in_the_json_are_no_empty_list() -> None:
    """Slurm 22.05 without slurmctld prints no jobs, an error, and ends with exit code 0."""
    told = {
        "errors": [
            {"description": "Failed while looking for jobs", "error_number": -1, "error": "Unspecified"}
        ],
        "jobs": [],
        "nodes": [],
    }
    with pytest.raises(ClusterUnreachable, match="Failed while looking for jobs, Unspecified"):
        pilots_of_json(raw(told), "i")
    with pytest.raises(ClusterUnreachable):
        idle(nodes_of_json(raw(told), "harvest"))


def test_running_and_completing_is_ending() -> None:
    told = {"jobs": [{"job_id": 1, "name": "apportion-i-1", "job_state": ["COMPLETED", "COMPLETING"]}]}
    assert pilots_of_json(raw(told), "i")[0].state is PilotState.ENDING


def test_a_state_that_no_list_names_is_an_error_with_its_text() -> None:
    with pytest.raises(ClusterUnreachable, match="TELEPORTED"):
        pilots_of_text("1|TELEPORTED|n1||apportion-i-1\n", "i")


@pytest.mark.parametrize(
    "told", [b"", b"[]", b"{}", b'{"nodes": [3]}', b'{"sinfo": ["x"]}', b"slurm_load_node error", b"\xff\xfe"]
)
def test_what_is_not_understood_is_said(told: bytes) -> None:
    with pytest.raises(NotUnderstood):
        idle(nodes_of_json(told, "harvest"))
    with pytest.raises(NotUnderstood):
        pilots_of_json(told.replace(b"nodes", b"jobs").replace(b"sinfo", b"jobs"), "i")


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_readers(told: bytes) -> None:
    for read in (lambda: idle(nodes_of_json(told, "p")), lambda: pilots_of_json(told, "i")):
        with pytest.raises((NotUnderstood, ClusterUnreachable)):
            read()


@given(st.text(max_size=60))
def test_no_text_crashes_the_readers(told: str) -> None:
    with contextlib.suppress(NotUnderstood, ClusterUnreachable):
        states = nodes_of_text(told)
        assert set(idle(states)) <= states.keys()
        assert all(name and name in told for name in states), "no node that was not printed"
    with contextlib.suppress(NotUnderstood, ClusterUnreachable):
        assert all(seen.pilot.startswith("i-") and seen.pilot in told for seen in pilots_of_text(told, "i"))
    with contextlib.suppress(NotUnderstood, ClusterUnreachable):
        names = expand(told)
        assert "[" in told or names == [name.strip() for name in told.split(",") if name]


def test_lists_of_nodes() -> None:
    assert expand("n[1-3,07]") == ["n1", "n2", "n3", "n07"]
    assert expand("a1,b[09-10]x,c") == ["a1", "b09x", "b10x", "c"]
    assert expand("r[1-2]n[1-2]") == ["r1n1", "r1n2", "r2n1", "r2n2"]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that stand for Slurm's; each writes down its arguments and the pilot's token."""
    programs = tmp_path / "bin"
    programs.mkdir()
    body = """#!{python}
import json, os, pathlib, sys
here = pathlib.Path({here!r})
name = pathlib.Path(sys.argv[0]).name
with open(here / "calls", "a") as calls:
    calls.write(json.dumps([name, *sys.argv[1:], os.environ.get("APPORTION_PILOT_TOKEN")]) + "\\n")
answer = here / name
if answer.exists():
    code, out, err = json.loads(answer.read_text())
    sys.stdout.write(out)
    sys.stderr.write(err)
    sys.exit(code)
"""
    for name in ("sinfo", "squeue", "sbatch", "scancel", "scontrol"):
        program = programs / name
        program.write_text(body.format(python=sys.executable, here=str(tmp_path)))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(programs))
    return tmp_path


def answers(folder: Path, command: str, out: str = "", code: int = 0, err: str = "") -> None:
    (folder / command).write_text(json.dumps([code, out, err]))


def calls(folder: Path) -> list[list[str]]:
    return [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


def made(folder: Path, **more: Any) -> SlurmCluster:
    return SlurmCluster(
        "harvest", "0a1b2c3d", folder, "10.0.0.1:5000", "f" * 64, python="/usr/bin/python3", **more
    )


def test_pilots_wait_for_no_login_shell_and_are_given_few_variables(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of names after ``--export=`` has slurmd run ``su -`` on the node before the pilot starts."""
    for name in ("SLURM_CONF", "HARVESTERS_SECRET", "LC_ALL"):
        monkeypatch.setenv(name, "C")
    noted = f"/usr/bin/env > {fake}/given\necho $@ > {fake}/asked\necho 7\n"
    (fake / "bin" / "sbatch").write_text(f"#!/bin/sh\n{noted}")
    assert made(fake).take("n3", "0a1b2c3d-5", "s3cret") == "7"
    assert "--export=ALL" in (fake / "asked").read_text().split()
    lines = (fake / "given").read_text().splitlines()
    given = {line.partition("=")[0] for line in lines} - {"PWD", "_", "SHLVL", "OLDPWD"}
    assert {"PATH", "SLURM_CONF", "APPORTION_PILOT_TOKEN"} <= given
    assert given <= {*EXPORTED, "SLURM_CONF", "LC_MESSAGES"}


def test_a_pilot_is_submitted_by_an_argument_list_with_its_secret_in_the_environment(fake: Path) -> None:
    answers(fake, "sbatch", "77;cluster\n")
    cluster = made(fake, options=("--account=ml",))
    assert cluster.take("n3", "0a1b2c3d-5", "s3cret") == "77"
    (call,) = calls(fake)
    assert call[-1] == "s3cret"
    assert "s3cret" not in call[:-1], "other users see arguments"
    for word in ("--nodelist=n3", "--partition=harvest", "--no-requeue", "--exclusive", "--account=ml"):
        assert word in call
    at = call.index("/usr/bin/python3")
    wanted = [
        *("-m", "apportion.live.agent.agent", "--controller", "10.0.0.1:5000"),
        *("--certificate", "f" * 64, "--pilot", "0a1b2c3d-5"),
    ]
    assert call[at + 1 : -1] == wanted
    assert stat.S_IMODE(Path(call[at - 1]).stat().st_mode) == 0o700


def test_no_answer_and_a_refusal_are_told_apart(fake: Path) -> None:
    cluster = made(fake)
    answers(fake, "sbatch", code=1, err="sbatch: error: invalid partition specified: harvest")
    with pytest.raises(SchedulerRefused, match="invalid partition"):
        cluster.take("n1", "0a1b2c3d-1", "t")
    answers(fake, "sbatch", code=1, err="sbatch: error: Unable to contact slurm controller (connect failure)")
    with pytest.raises(ClusterUnreachable):
        cluster.take("n1", "0a1b2c3d-1", "t")
    answers(
        fake, "scancel", code=1, err="scancel: error: Kill job error on job id 5: Invalid job id specified"
    )
    cluster.release("5")
    with pytest.raises(SchedulerRefused):
        cluster.release("5; rm -rf /")


def test_a_script_that_cannot_be_written_takes_no_node(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SchedulerRefused, match="No space left"):
        made(fake).take("n1", "0a1b2c3d-1", "t")
    assert not (fake / "pilot.sh").exists(), "and no half of it is left to be run"


def test_text_where_there_is_no_json(fake: Path) -> None:
    cluster = made(fake)
    answers(fake, "squeue", code=1, err="squeue: unrecognized option '--json'")
    with pytest.raises(ClusterUnreachable):
        made(fake, output="json").look()
    answers(fake, "sinfo", "n1|idle\nn2|allocated\n")
    with pytest.raises(SchedulerRefused):
        cluster.look()
    answers(fake, "squeue", "9|RUNNING|n2|n2|apportion-0a1b2c3d-1\n")
    seen = cluster.look()
    assert seen.idle == ("n1",)
    assert seen.pilots == (PilotSeen("0a1b2c3d-1", "9", "n2", PilotState.RUNNING),)


def test_a_partition_that_does_not_make_room_is_warned_of(fake: Path) -> None:
    answers(fake, "sinfo", "8|1\n")
    answers(fake, "scontrol", "PartitionName=harvest PriorityTier=1 PreemptMode=OFF State=UP\n")
    warning = made(fake).check()
    assert warning is not None
    assert "PreemptMode=OFF" in warning
    answers(fake, "scontrol", "PartitionName=harvest PriorityTier=1 PreemptMode=CANCEL State=UP\n")
    assert made(fake).check() is None
    answers(fake, "sinfo", "")
    with pytest.raises(InvalidOption, match="no partition"):
        made(fake).check()


def test_wrong_options(fake: Path) -> None:
    for wrong in ("", "-p", "a,b"):
        with pytest.raises(InvalidOption):
            SlurmCluster(wrong, "i", fake, "h:1", "")
    with pytest.raises(InvalidOption, match="--NAME=VALUE"):
        made(fake, options=("account=ml",))


def test_missing_commands_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SchedulerMissing, match="sinfo, squeue, sbatch, scancel") as caught:
        made(tmp_path)
    assert caught.value.exit_code == 7

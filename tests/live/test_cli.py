"""The commands of a live cluster, without one."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from pathlib import Path
from typing import Any

import click
import pytest

from apportion.cli.harvest import address_of
from apportion.cli.main import main
from apportion.core.errors import SchedulerMissing
from apportion.live.controller.harvest import Settings, harvest, rehearse
from apportion.live.controller.monitoring import in_words
from apportion.live.record.jobs import Job, JobSpec, JobState
from apportion.live.record.requests import Cancel, Drain, Submit, waiting
from apportion.live.record.store import Lock, Store, read_state
from tests.cli.calling import GROUP, Called, call, process
from tests.live.memory_cluster import MemoryCluster


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def apportion(*words: object, terminal: bool = False) -> Called:
    return call(main, *words, terminal=terminal)


def submitted(folder: Path, *more: object) -> str:
    called = apportion("submit", "--state", folder, "--max", 4, *more, "--", "train", "--lr", "0.1")
    assert called.code == 0, called.err
    return called.out.strip()


def listed(folder: Path) -> dict[str, Any]:
    called = apportion("queue", "--state", folder, "--json")
    assert called.code == 0
    told: dict[str, Any] = json.loads(called.out)
    return told


def test_a_job_is_submitted_listed_and_cancelled_without_a_controller(folder: Path) -> None:
    id = submitted(
        folder, "--min", 2, "--samples", 500, "--name", "mine", "--env", "A=b=c", "--curve", "1:5,2:9"
    )
    (job,) = listed(folder)["jobs"]
    assert (job["id"], job["state"], job["name"], job["goal"]) == (id, "queued", "mine", 500)
    assert job["command"] == ["train", "--lr", "0.1"]
    ((request,), problems) = waiting(folder)
    assert not problems
    assert isinstance(request.request, Submit)
    assert request.request.spec.environment == {"A": "b=c"}
    assert request.request.spec.curve == ((1, 5.0), (2, 9.0))
    table = apportion("queue", "--state", folder).out
    assert "mine" in table
    assert "does not run" in table
    assert apportion("cancel", "--state", folder, id).code == 0
    assert isinstance(waiting(folder)[0][1].request, Cancel)
    assert listed(folder)["jobs"][0]["cancelling"]


def test_paths_are_made_absolute_and_the_checkpoint_is_the_jobs_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    id = submitted(folder)
    (request,) = waiting(folder)[0]
    assert isinstance(request.request, Submit)
    assert request.request.spec.directory == str(tmp_path)
    assert request.request.spec.checkpoint == str(tmp_path / "apportion-checkpoints" / id)


def test_the_command_needs_no_dashes_before_it(folder: Path) -> None:
    called = apportion("submit", "--state", folder, "--max", 2, "python", "train.py", "--min", "7")
    assert called.code == 0
    assert listed(folder)["jobs"][0]["command"] == ["python", "train.py", "--min", "7"]
    assert listed(folder)["jobs"][0]["min_nodes"] == 1


def test_a_job_may_list_the_counts_that_it_runs_on(folder: Path) -> None:
    called = apportion("submit", "--state", folder, "--counts", "8,2,4", "--", "train")
    assert called.code == 0, called.err
    job = listed(folder)["jobs"][0]
    assert (job["min_nodes"], job["max_nodes"], job["allowed_counts"]) == (2, 8, [2, 4, 8])
    assert "2,4,8" in apportion("queue", "--state", folder).out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--max", 2), 2, "COMMAND"),
        (("--", "x"), 2, "--max"),
        (("--counts", "1,x", "--", "x"), 2, "N,N,..."),
        (("--counts", "1,2", "--max", 2, "--", "x"), 2, "instead of --min and --max"),
        (("--counts", "0,2", "--", "x"), 3, "$.min_nodes"),
        (("--max", 2, "--env", "A", "--", "x"), 2, "NAME=VALUE"),
        (("--max", 2, "--curve", "1-2", "--", "x"), 2, "NODES:RATE"),
        (("--max", 2, "--min", 3, "--", "x"), 3, "$.max_nodes"),
        (("--max", 2, "--samples", 0, "--", "x"), 3, "$.samples"),
        (("--max", 2, "--env", "APPORTION_JOB=x", "--", "x"), 3, "APPORTION_JOB"),
        (("--max", 2, "--curve", "2:5,1:9", "--", "x"), 3, "$.curve"),
    ],
)
def test_a_wrong_job_is_one_clear_error(
    folder: Path, words: tuple[object, ...], code: int, says: str
) -> None:
    called = apportion("submit", "--state", folder, *words)
    assert called.code == code
    assert says in called.err
    assert "Traceback" not in called.err
    assert not folder.exists() or waiting(folder) == ([], [])


def test_requests_are_taken_up_in_order_also_where_the_clock_was_set_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour = 3_600 * 10**9
    for jump in (0, -hour, hour):
        now = time.time_ns() + jump
        monkeypatch.setattr("time.time_ns", lambda now=now: now)
        assert apportion("cancel", "--state", folder, submitted(folder)).code == 0
        monkeypatch.undo()
    assert [job["cancelling"] for job in listed(folder)["jobs"]] == [True] * 3
    kinds = [type(waits.request) for waits in waiting(folder)[0]]
    assert kinds == [Submit, Cancel] * 3


def test_unknown_jobs_cannot_be_cancelled(folder: Path) -> None:
    called = apportion("cancel", "--state", folder, "nobody")
    assert called.code == 3
    assert "nobody" in called.err


def test_the_state_folder_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPORTION_STATE", str(tmp_path / "elsewhere"))
    assert apportion("submit", "--max", 1, "--", "x").code == 0
    assert len(listed(tmp_path / "elsewhere")["jobs"]) == 1


def test_without_slurm_there_is_one_clear_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    for more in ((), ("--dry-run",)):
        called = apportion("harvest", "--partition", "p", "--state", folder, *more)
        assert called.code == 7
        assert "slurm-client" in called.err
    with pytest.raises(SchedulerMissing):
        harvest(Settings(folder, "p"))


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--partition", "a,b"),
        ("--partition", "p", "--address", "h:99999"),
        ("--partition", "p", "--address", "h:\u00b2"),
        ("--partition", "p", "--address", "h:" + "8" * 5_000),
        ("--partition", "p", "--address", "0.0.0.0"),
        ("--partition", "p", "--trainers", 0),
        ("--partition", "p", "--interval", "-1"),
        ("--partition", "p", "--horizon", "0"),
        ("--partition", "p", "--sbatch", "oops"),
    ],
)
def test_wrong_options_of_harvest(folder: Path, words: tuple[object, ...]) -> None:
    called = apportion("harvest", "--state", folder, *words)
    assert called.code in (2, 7), called.err
    assert "Traceback" not in called.err
    assert "internal error" not in called.err


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("h", ("h", None)),
        ("h:80", ("h", 80)),
        ("[::1]", ("::1", None)),
        ("[::1]:80", ("::1", 80)),
        ("::1", ("::1", None)),
    ],
)
def test_an_address_has_a_host_and_perhaps_a_port(text: str, address: tuple[str, int | None]) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize("port", ["\u00b2", "8\u00b2", "8" * 5_000, "0", "65536", "-1", " 80", ""])
def test_a_port_is_a_number_from_1_to_65535(port: str) -> None:
    """A superscript two is a digit that is no number: it ended in a traceback."""
    with pytest.raises(click.UsageError, match="--address takes HOST or HOST:PORT"):
        address_of(f"h:{port}")


def test_two_controllers_by_mistake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's commands were missed first (code 7); with them it ended with the code of internal errors."""
    folder.mkdir()
    monkeypatch.setenv("PATH", "/nonexistent")
    with Lock(folder):
        called = apportion("harvest", "--partition", "p", "--state", folder)
        assert called.code == 6
        assert "in use" in called.err
        assert listed(folder)["controller"]


def test_a_drain_without_a_controller_says_so(folder: Path) -> None:
    assert "nothing is held" in apportion("drain", "--state", folder).out
    submitted(folder)
    assert "no node is held" in apportion("drain", "--state", folder).out
    assert not any(isinstance(item.request, Drain) for item in waiting(folder)[0])


def test_a_drain_that_takes_too_long(folder: Path) -> None:
    folder.mkdir()
    with Lock(folder):
        assert apportion("drain", "--state", folder, "--no-wait").code == 0
        assert apportion("drain", "--state", folder, "--timeout", "0.3").code == 5
    assert isinstance(waiting(folder)[0][0].request, Drain)


def test_a_dry_run_writes_and_takes_nothing(folder: Path) -> None:
    id = submitted(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    world = MemoryCluster(("n0", "n1", "n2"))
    decision = rehearse(Settings(folder, "harvest"), world)
    (told,) = decision.explain()
    assert (told["job"], told["gets"]) == (id, 3)
    assert "profiled" in str(told["why"])
    assert not world.pilots
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert rehearse(Settings(folder.parent / "none", "harvest"), world).counts.size == 0
    assert not (folder.parent / "none").exists()


def test_a_dry_run_beside_a_running_controller_sees_its_state(folder: Path) -> None:
    folder.mkdir()
    with Lock(folder):
        store = Store(folder)
        state = store.load()
        state.new_pilot("n1", "t", time.time(), None)
        store.commit(state, time.time())
        assert listed(folder)["nodes_held"] == ["n1"]
        assert rehearse(Settings(folder, "harvest"), MemoryCluster(("n0", "n1"))).nodes == ("n0", "n1")
        store.close()


def test_the_journal_in_words() -> None:
    event: dict[str, object] = {
        "time_s": 1.0,
        "event": "node_gone",
        "node": "n1",
        "jobs": [{"job": "a", "held": 1, "gets": 2}],
    }
    assert in_words(event) == "node gone: node n1, jobs a 1->2"


def test_help_needs_neither_rich_nor_a_solver(root: Path) -> None:
    source = (
        f"import sys\ntry:\n    {GROUP.replace('; ', chr(10) + '    ')}\nexcept SystemExit: pass\n"
        "print(sorted({'rich', 'ortools', 'highspy', 'scipy', 'sqlite3'} & sys.modules.keys()))"
    )
    for name in ("submit", "queue", "cancel", "drain", "harvest"):
        done = process(root, source, name, "--help")
        assert b"[]" in done.stdout.splitlines()[-1], done.stdout
        assert b"--state" in done.stdout


def test_a_full_disk_refuses_a_submission(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    folder.mkdir()
    monkeypatch.setattr(os, "fsync", full)
    called = apportion("submit", "--state", folder, "--max", 1, "--", "x")
    assert called.code == 1
    assert "No space left" in called.err
    assert waiting(folder) == ([], [])


def test_a_view_on_a_terminal(folder: Path) -> None:
    from rich.console import Console

    from apportion.cluster.policies import FreeTrain
    from apportion.live.controller.advisor import LiveAdvisor
    from apportion.live.controller.controller import Controller
    from apportion.live.controller.core import Limits
    from apportion.live.controller.monitoring import LiveView
    from apportion.live.record.requests import apply

    world = MemoryCluster(("n0", "n1"))
    controller = Controller(
        Store(None), world, world, FreeTrain(), LiveAdvisor(), Limits(), clock=lambda: world.now_s
    )
    spec = JobSpec(("x",), 1, 2, "/w", "/c", samples=50, name="[red]evil[/]")
    apply(controller.state, Submit("a", 0.0, spec), 0.0)
    view = LiveView()
    console = Console(width=120, file=open(os.devnull, "w"), record=True)  # noqa: SIM115, PTH123
    with console.file:
        for _ in range(4):
            stepped = controller.step()
            console.print(view._page(controller, stepped))
            world.advance(1.0)
        text = console.export_text()
    assert "[red]evil[/]" in text
    assert "2 nodes held" in text
    assert read_state(folder) is None


def test_the_queue_is_watched_until_interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = apportion("submit", "--state", folder, "--max", 1, "--", "x").out.strip()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            apportion("submit", "--state", folder, "--max", 1, "--name", "second", "--", "x")
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("apportion.cli.queue.time.sleep", sleep)
    called = apportion("queue", "--state", folder, "--watch", 5)
    assert (called.code, waits) == (130, [5.0, 5.0, 5.0])
    assert called.out.count(first) == 3 and called.out.count("second") == 1
    waits[:] = [0.0, 0.0]
    lines = apportion("queue", "--state", folder, "--watch", 5, "--json").out.splitlines()
    assert len(json.loads(lines[0])["jobs"]) == 2


def test_metrics_need_their_package_and_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = apportion("harvest", "--partition", "p", "--metrics", tmp_path / "no" / "a.prom")
    assert nowhere.code != 0 and "its folder does not exist" in nowhere.err
    monkeypatch.setattr("apportion.cli.harvest.find_spec", lambda name: None)
    bare = apportion("harvest", "--partition", "p", "--metrics", tmp_path / "a.prom")
    assert bare.code == 2 and "pip install prometheus-client" in bare.err


def test_nothing_harvested_is_said_so(folder: Path) -> None:
    called = apportion("harvested", "--state", folder)
    assert called.code == 0 and "0.00 node hours used" in called.out
    assert apportion("harvested", "--state", folder, "--days", 0).code == 2


def test_doctor_without_arguments_checks_what_it_can(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It wanted --partition first, which somebody whose Slurm is not there yet cannot know."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("APPORTION_STATE", str(folder))
    monkeypatch.chdir(tmp_path)
    called = apportion("doctor", "--json")
    findings = json.loads(called.out)["findings"]
    assert all(set(each) == {"check", "verdict", "told", "advice", "node"} for each in findings)
    found = {each["check"]: each["verdict"] for each in findings}
    assert called.code == 1
    assert found == {"commands": "mend", "encryption": "mend", "address": "ok", "shared folder": "ok"}


def test_the_advice_of_submit_can_be_typed_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It left out the state folder, and `apportion harvest` alone was a usage error."""
    folder = tmp_path / "my state"
    called = apportion("submit", "--state", folder, "--max", 1, "--", "x")
    words = shlex.split(called.err.rpartition(": ")[2])
    assert words[:2] == ["apportion", "harvest"]
    monkeypatch.setenv("PATH", "/nonexistent")
    with Lock(folder):
        typed = apportion(*words[1:])
    assert typed.code == 6 and str(folder) in typed.err


def test_the_queue_says_why_a_job_failed(folder: Path) -> None:
    """`queue --all` showed `failed`; why stood in --json alone."""
    folder.mkdir()
    with Lock(folder), contextlib.closing(Store(folder)) as store:
        state = store.load()
        spec = JobSpec(("train",), 1, 2, "/tmp", "/tmp/c")
        for number, (end, said) in enumerate(
            [(JobState.FAILED, "exit codes 1: no\n such file"), (JobState.DONE, "")], 1
        ):
            job = Job(number, f"{number}", spec, 1.0)
            job.enter(end, 2.0, said)
            state.jobs[number] = job
        store.commit(state, 3.0)
    lines = apportion("queue", "--state", folder, "--all").out.splitlines()
    assert lines[-2] == "1 failed: exit codes 1: no such file"
    assert sum("exit codes" in line for line in lines) == 1
    assert "exit codes" not in apportion("queue", "--state", folder).out


def test_options_of_harvest_have_units() -> None:
    """ "Between looks.", "Of one file.": nobody said of what."""
    told = " ".join(apportion("harvest", "--help").out.split())
    for option, unit in (
        *(
            (f"--{name} FLOAT", "econds")
            for name in ("interval", "horizon", "grace", "hang", "lease", "linger")
        ),
        *((f"--{name} FLOAT", "econds") for name in ("warm-up", "measure")),
        ("--journal-mb INTEGER", "MiB"),
        ("--journal-files INTEGER", "Files"),
    ):
        assert unit in told.partition(option)[2].partition(" --")[0], option


def test_a_curve_that_ends_early_or_falls_is_warned_of(folder: Path) -> None:
    """It was taken without a word."""
    words = ("submit", "--state", folder, "--max", 4)
    told = apportion(*words, "--curve", "1:100,2:90", "--", "x").err
    assert "submit: the curve ends at 2, before --max 4" in told
    assert "submit: the curve falls from 100 at 1 to 90 at 2" in told
    told = apportion(*words, "--curve", "a100=1:9,4:20", "--curve", "v100=1:4,3:6", "--", "x").err
    assert "the curve of v100 ends at 3" in told and "a100" not in told
    assert "submit:" not in apportion(*words, "--curve", "1:9,4:30", "--", "x").err

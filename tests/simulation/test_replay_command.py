"""The replay and report commands: JSON, logs, checkpoints, the page, and a look at it in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from apportion.cli.main import main
from apportion.cli.replay import command as replay_command
from apportion.cli.replay import report as report_command
from apportion.cluster.policies import EqualShare, Policy
from apportion.cluster.policies.adaptive import Adaptive
from apportion.cluster.simulation.idle_trace import node_changes
from apportion.cluster.simulation.replay import Replay, load_checkpoint, save_checkpoint
from apportion.cluster.simulation.run_record import read_record
from apportion.cluster.simulation.summary import makespan_bound
from apportion.core.errors import InvalidInstance
from tests.budgets import examples
from tests.cli.calling import call
from tests.simulation.cases import random_jobs, random_trace

GENERATED = ["--trace", "generated", "--jobs", "generated", "--machine-nodes", "300", "--days", "1.5"]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(replay_command, arguments, catch_exceptions=False, standalone_mode=False)
    return result.stdout


def test_json_is_one_object_with_the_promised_fields() -> None:
    told = json.loads(run(*GENERATED, "--policy", "equal-share", "--compare", "greedy", "--json"))
    promised = "makespan_h equivalent_nodes to_dedicated lost_preemption lost_rescale rescales events seconds"
    assert set(promised.split()) <= set(told)
    assert told["makespan_h"] is None and told["jobs_done"] < 1001 and 0 < told["to_dedicated"] < 1.2
    assert [other["policy"] for other in told["compared"]] == ["greedy"] and told["seed"] == 1
    assert "equal-share" in run(*GENERATED, "--policy", "equal-share")


def test_the_objective_can_be_the_speed_up() -> None:
    small = [
        "--trace",
        "generated",
        "--jobs",
        "generated",
        "--machine-nodes",
        "60",
        "--days",
        "0.6",
        "--json",
    ]
    told = [json.loads(run(*small, "--objective", value)) for value in ("throughput", "speedup")]
    assert told[0]["output"] != told[1]["output"] and told[0]["events"] == told[1]["events"]


def test_the_log_ends_with_the_record_the_report_is_made_of(tmp_path: Path) -> None:
    log, page = tmp_path / "run.jsonl", tmp_path / "page.html"
    told = json.loads(run(*GENERATED, "--policy", "equal-share", "--log", str(log), "--json"))
    lines = log.read_text().splitlines()
    assert json.loads(lines[0])["kind"] == "replay_header" and json.loads(lines[-1])["kind"] == "replay"
    assert len(lines) == told["events"] + 2
    assert sum(json.loads(line)["rescaled"] for line in lines[1:-1]) == told["rescales"]
    assert read_record(log).summary.rescales == told["rescales"]
    CliRunner().invoke(
        report_command, [str(log), "-o", str(page)], catch_exceptions=False, standalone_mode=False
    )
    text = page.read_text()
    assert "equal-share" in text and "<svg" in text and "<script" not in text
    assert not re.search(r"(src|href)=|url\(|https?://", text), "the page fetches nothing"
    assert "to dedicated" in text and "can exceed 1" in text, "the ratio's name, and what it is not"
    assert "fficiency" not in text
    log.write_text("\n".join(lines[:-1]))
    with pytest.raises(InvalidInstance, match="no record of a run"):
        read_record(log)


def make(policy: Policy) -> Replay:
    rng = np.random.default_rng(21)
    return Replay(node_changes(random_trace(rng, 9, 90)), random_jobs(rng, 20), policy, 4)


@pytest.mark.parametrize("kind", [EqualShare, Adaptive])
def test_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path: Path, kind: type) -> None:
    whole = make(kind())
    whole.run()
    for steps in (1, 7, 25):
        first = make(kind())
        first.run(steps=steps)
        save_checkpoint(first, tmp_path / "state.npz", kind.__name__, 123)
        second = make(kind())
        assert load_checkpoint(second, tmp_path / "state.npz", kind.__name__) == 123
        second.run()
        assert second.totals == whole.totals
        assert np.array_equal(second.completed_s, whole.completed_s, equal_nan=True)
    with pytest.raises(InvalidInstance, match="of another trace"):
        load_checkpoint(make(kind()), tmp_path / "state.npz", "other")
    (tmp_path / "state.npz").write_bytes(b"junk")
    with pytest.raises(InvalidInstance, match="is no checkpoint"):
        load_checkpoint(make(kind()), tmp_path / "state.npz", kind.__name__)


def test_a_resumed_command_writes_the_same_log(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    state = str(tmp_path / "state.npz")
    run(*GENERATED, "--policy", "equal-share", "--log", str(whole), "--json")
    run(*GENERATED, "--policy", "equal-share", "--log", str(part), "--checkpoint", state, "--json")
    run(
        *GENERATED, "--policy", "equal-share", "--log", str(part), "--checkpoint", state, "--resume", "--json"
    )
    assert whole.read_text().splitlines()[1:-1] == part.read_text().splitlines()[1:-1]


def test_no_policy_beats_the_bound() -> None:
    rng = np.random.default_rng(31)
    compared = 0
    for _ in range(examples(100)):
        changes, jobs = node_changes(random_trace(rng, 9, 60)), random_jobs(rng, 6)
        jobs.submitted_s[:] = 0.0
        bound = makespan_bound(changes, jobs, 3)
        for policy in (EqualShare(), Adaptive()):
            replay = Replay(changes, jobs, policy, 3)
            replay.run()
            if replay.finished:
                assert bound is not None and bound <= replay.totals.elapsed_s * (1 + 1e-9)
                compared += 1
    assert compared > 4


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_the_window_of_a_real_browser(browser: str, tmp_path: Path, width: int) -> None:
    """Chromium lays the page out; a probe appended to it reports what sticks out and what is drawn.

    Chromium's windows are not as narrow as a phone; the page has no rule that asks for the window's width, so
    a root of a phone's width is laid out as on a phone.
    """
    page = tmp_path / "page.html"
    run(*GENERATED, "--policy", "equal-share", "--compare", "greedy", "--report", str(page))
    probe = (
        "<script>const d=document.documentElement,b=e=>e.getBoundingClientRect();"
        "const out=[...document.querySelectorAll('body *')].filter(e=>!e.closest('.scroll table')&&"
        f"b(e).width&&b(e).right>{width}+1).length;"
        "document.title=JSON.stringify({wide:out,"
        "charts:[...document.querySelectorAll('svg')].map(e=>[b(e).width,b(e).height]),"
        "small:[...document.querySelectorAll('.x,.y,td,th,p,span')].filter(e=>e.textContent&&"
        "parseFloat(getComputedStyle(e).fontSize)<11).length})</script></body>"
    )
    text = page.read_text().replace("</style>", f"html{{width:{width}px}}</style>")
    assert "@media(max-width" not in text and "vw" not in text
    page.write_text(text.replace("</body>", probe))
    done = subprocess.run(
        [
            browser,
            *("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900", "--dump-dom"),
            f"--user-data-dir={tmp_path / 'profile'}",
            page.as_uri(),
        ],
        capture_output=True,
        timeout=120,
        check=False,
    )
    found = re.search(rb"<title>(.*?)</title>", done.stdout)
    assert found is not None, done.stderr[-500:]
    told = json.loads(found[1])
    assert told["wide"] == 0 and told["small"] == 0
    assert len(told["charts"]) >= 4 and all(w > 250 and h > 150 for w, h in told["charts"])


def test_all_jobs_may_have_one_curve(tmp_path: Path) -> None:
    """The published table of hyper-parameter optimisation names no model: it was fifty identical errors."""
    table = tmp_path / "hpo.csv"
    rows = [f"HPO{k:03},18,12,1,64,1.3e8,{60 * k}" for k in range(60)]
    table.write_text("\n".join([",Tcup,Tcdw,Jmin,Jmax,Pmax,tsub_s", *rows]) + "\n")
    words = ["replay", "--trace", "generated", "--machine-nodes", "32", "--days", "0.2", "--jobs", table]
    refused = call(main, *words, "--json")
    assert refused.code == 3 and len(refused.err.splitlines()) == 1
    assert "60 of 60 jobs have no name of a curve" in refused.err and "--curve NAME" in refused.err
    done = call(main, *words, "--curve", "shufflenet", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["jobs"] == 60
    mistaken = call(main, *words, "--curve", "shuflenet")
    assert mistaken.code == 2 and "did you mean 'ShuffleNet'?" in mistaken.err


def test_a_job_log_that_does_not_say_the_machine_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The most nodes ever busy were silently the machine: 5.5 equivalent nodes instead of 50.5."""
    log = tmp_path / "sacct.txt"
    log.write_text("JobID|Start|End|NNodes\n1|0|9000|4\n2|1000|5000|6\n3|9500|20000|2\n")
    backlog = tmp_path / "jobs.csv"
    backlog.write_text(",Tcup,Tcdw,Jmin,Jmax,Pmax,tsub_s\nJ0-AlexNet,18,12,1,64,99999999999,0\n")
    words = ["--trace", str(log), "--jobs", str(backlog), "--policy", "greedy", "--json"]
    nodes = {}
    for size in (None, 10, 55):
        caplog.clear()
        more = [] if size is None else ["--machine-nodes", str(size)]
        nodes[size] = json.loads(run(*words, *more))["equivalent_nodes"]
        assert ("--machine-nodes" in caplog.text and "taken are 10" in caplog.text) == (size is None)
    assert nodes[None] == nodes[10]
    assert nodes[55] == pytest.approx(nodes[10] + 45, rel=0.02)

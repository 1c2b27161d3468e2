"""Whoever waits at a terminal sees that something happens, and what was written."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
import rich.progress  # noqa: F401  a busy machine takes longer to import it than these calls last

from apportion.cli import running
from apportion.cli.commands import COMMANDS
from apportion.cli.history import SUBCOMMANDS
from apportion.cli.main import main
from apportion.io import stored
from tests.cli.calling import call

LONG = {
    "explain": (["{root}/examples/matching_gangs.json", "--time-limit", "0.3"], "explaining, at most 0.3 s"),
    "what-if": (
        ["{root}/examples/matching_gangs.json", "--remove-job", "j0", "--time-limit", "2"],
        "solving before and after, at most 2 s",
    ),
    "simulate": (
        [
            *(
                "--profiles",
                "{root}/examples/cluster/profiles",
                "--workload",
                "{root}/examples/cluster/workload.csv",
            ),
            *("--policy", "gavel-max-min"),
        ],
        "of 40 jobs done",
    ),
    "solve": (["{root}/examples/matching_gangs.json", "--time-limit", "2"], "bound 25"),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", LONG)
def test_a_long_call_shows_a_clock_on_a_terminal_and_nothing_elsewhere(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """`simulate`, `explain` and `what-if` were silent for twenty seconds."""
    monkeypatch.setattr(running, "_PATIENCE_S", 0.0)
    words, text = LONG[name]
    arguments = [name, *(word.format(root=root) for word in words)]
    shown = call(main, *arguments, terminal=True)
    assert shown.code == 0
    assert text in shown.err and "0:00:0" in shown.err
    assert call(main, *arguments, "--json").err == ""


def test_a_terminal_is_told_what_was_written(root: Path, tmp_path: Path) -> None:
    instance, out, plot = (
        root / "examples" / "gap_filling_small.json",
        tmp_path / "o.json",
        tmp_path / "p.svg",
    )
    shown = call(main, "solve", instance, "-o", out, "--plot", plot, terminal=True)
    assert [line for line in shown.err.splitlines() if line.startswith("wrote")] == [
        f"wrote {out}",
        f"wrote {plot}",
    ]
    assert call(main, "solve", instance, "-o", out).err == ""


def test_what_if_without_edits_is_no_change(root: Path) -> None:
    done = call(main, "what-if", root / "examples" / "gap_filling_small.json")
    assert (done.code, done.out, done.err) == (0, "no change\n", "")


def test_whatever_may_take_a_second_shows_a_clock(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` of a large proof, `snapshot` of a large trace and others were silent."""
    at_once = {"init", "schema", "submit", "queue", "cancel", "drain", "help"}
    tell_themselves = {"serve", "harvest", "history"}
    assert {name for name, listed in COMMANDS.items() if listed.doing is None} == at_once | tell_themselves
    assert {name for name, listed in SUBCOMMANDS.items() if listed.doing is None} == {"prune"}
    instance, answer = root / "examples" / "gap_filling_small.json", tmp_path / "answer.json"
    assert call(main, "solve", instance, "-o", answer).code == 0
    whole, terminal = stored.verify, True

    def late(*given: Any) -> stored.Verification:
        end = time.monotonic() + 60
        while terminal and "verifying" not in sys.stderr.buffer.getvalue().decode():
            assert time.monotonic() < end, "nothing is shown"
            time.sleep(0.01)
        return whole(*given)

    monkeypatch.setattr(running, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(stored, "verify", late)
    shown = call(main, "check", instance, answer, terminal=True)
    assert shown.code == 0 and "0:00:0" in shown.err
    assert "somebody's word: bound, goal jobs stopped, goal jobs moved, termination, evidence" in shown.out
    terminal = False
    assert call(main, "check", instance, answer).err == ""

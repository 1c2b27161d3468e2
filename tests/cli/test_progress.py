"""Whoever waits at a terminal sees that something happens, and what was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from apportion.cli import progress
from apportion.cli.main import main
from tests.cli.calling import call

COMMANDS = {
    "explain": (["{root}/examples/matching_gangs.json", "--time-limit", "2"], "explaining, at most 2 s"),
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
    "solve": (["{root}/examples/matching_gangs.json", "--time-limit", "2"], "objective 3190"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_long_call_shows_a_clock_on_a_terminal_and_nothing_elsewhere(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """`simulate`, `explain` and `what-if` were silent for twenty seconds."""
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.0)
    words, text = COMMANDS[name]
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

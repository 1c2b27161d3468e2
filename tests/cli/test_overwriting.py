"""No command writes over what it reads, however the file is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from apportion.cli.main import main as group
from apportion.cli.solve_instance import main as solve
from tests.cli.calling import call

COMMANDS = {
    "solve-instance -o": (solve, ["{x}", "-o", "{again}"]),
    "solve-instance --proof": (solve, ["{x}", "--proof", "{again}"]),
    "solve-instance --warm-start": (solve, ["{instance}", "--warm-start", "{x}", "-o", "{again}"]),
    "solve-instance twice": (solve, ["{instance}", "-o", "{x}", "--proof", "{again}"]),
    "convert": (group, ["convert", "{x}", "-o", "{again}"]),
    "export": (group, ["export", "{x}", "--format", "json", "--to", "mps", "-o", "{again}"]),
    "fit -o": (group, ["fit", "{x}", "-o", "{again}"]),
    "fit --layers": (group, ["fit", "{instance}", "--layers", "{x}", "-o", "{again}"]),
    "snapshot": (
        group,
        ["snapshot", "--trace", "{x}", "--jobs", "{x}", "--at", "0", "--trainers", "3", "-o", "{again}"],
    ),
    "replay --log": (group, ["replay", "--trace", "generated", "--jobs", "{x}", "--log", "{again}"]),
    "replay --checkpoint": (
        group,
        ["replay", "--trace", "{x}", "--jobs", "generated", "--checkpoint", "{again}"],
    ),
    "replay --report": (
        group,
        [
            *("replay", "--trace", "generated", "--jobs", "generated", "--curves", "{x}"),
            "--report",
            "{again}",
        ],
    ),
    "report": (group, ["report", "{instance}", "{x}", "-o", "{again}"]),
}


@pytest.mark.parametrize("way", ["the same", "another way", "a link"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_writes_over_an_input(root: Path, tmp_path: Path, name: str, way: str) -> None:
    """`solve-instance x.json -o x.json` replaced the instance by its answer."""
    instance, x = tmp_path / "instance.json", tmp_path / "x.json"
    shutil.copy(root / "examples" / "gap_filling_small.json", instance)
    shutil.copy(instance, x)
    again = x
    if way == "another way":
        (tmp_path / "folder").mkdir()
        again = tmp_path / "folder" / ".." / "x.json"
    elif way == "a link":
        again = tmp_path / "link.json"
        again.symlink_to(x)
    before = x.read_bytes()
    main, words = COMMANDS[name]
    done = call(main, *(word.format(instance=instance, x=x, again=again) for word in words))
    assert done.code == 2, done
    assert "nothing is written over what was read" in " ".join(done.err.split())
    assert x.read_bytes() == before


def test_another_name_is_fine(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert call(solve, root / "examples" / "gap_filling_small.json", "-o", out).code == 0
    assert out.is_file()

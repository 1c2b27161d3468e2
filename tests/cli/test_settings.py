"""Defaults of one's own, and how loud a command is."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from apportion.cli.main import main
from apportion.cli.solve_instance import main as solve_instance
from tests.cli.calling import call

SMALL = Path("examples/gap_filling_small.json")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("APPORTION_CONFIG", str(path))
    return path


def backend(*arguments: object) -> str:
    return str(json.loads(call(main, "solve", SMALL, "--json", *arguments).out)["backend"])


def test_the_line_wins_over_the_variable_the_variable_over_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text('[solve]\nbackend = "highs"\ntime-limit = 5\n')
    assert backend() == "highs"
    monkeypatch.setenv("APPORTION_SOLVE_BACKEND", "cp-sat")
    assert backend() == "cp-sat"
    assert json.loads(call(solve_instance, SMALL, "--json").out)["backend"] == "cp-sat"
    assert backend("--backend", "exact") == "exact"


def test_a_flag_can_be_set(config: Path) -> None:
    config.write_text("[solve]\njson = true\n")
    assert json.loads(call(solve_instance, SMALL).out)["solution"] == "optimal"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[solve]\ntime-limi = 3\n",
            "time-limi in [solve] is no option of solve; did you mean 'time-limit'?",
        ),
        ("[slove]\n", "[slove] is no command; did you mean 'solve'?"),
        ("solve = 3\n", "[solve] is no command"),
        ("[solve\n", "is no TOML"),
        ("[solve]\ntime-limit = 'soon'\n", "is neither a number nor none"),
    ],
)
@pytest.mark.parametrize("by", [main, solve_instance])
def test_a_wrong_configuration_is_refused(by: object, text: str, words: str, config: Path) -> None:
    config.write_text(text)
    arguments = ("solve", SMALL) if by is main else (SMALL,)
    done = call(by, *arguments)  # type: ignore[arg-type]
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_the_users_folder_is_read_where_no_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("APPORTION_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert backend() == "exact"
    (tmp_path / "apportion").mkdir()
    (tmp_path / "apportion" / "config.toml").write_text('[solve]\nbackend = "highs"\n')
    assert backend() == "highs"


def test_a_configuration_that_is_named_must_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("APPORTION_CONFIG", str(tmp_path / "nowhere.toml"))
    done = call(main, "solve", SMALL)
    assert done.code == 2 and "nowhere.toml" in done.err


@contextlib.contextmanager
def as_somebody_else() -> Iterator[None]:
    """Be a user who is stopped by permissions: root is not."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize("by", ["HOME", "XDG_CONFIG_HOME"])
def test_a_home_that_cannot_be_read_configures_nothing(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command ended with "Permission denied", `help` too."""
    for name in ("APPORTION_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    (home / ".config" / "apportion").mkdir(parents=True)
    monkeypatch.setenv(by, str(home))
    lines = [("help",), ("help", "solve"), ("schema", "gap_filling"), ("solve", SMALL, "--json")]
    before = [call(main, *line).code for line in lines]  # all modules are imported by their owner
    home.chmod(0)
    try:
        with as_somebody_else():
            with pytest.raises(PermissionError):
                (home / ".config").stat()
            done = [call(main, *line) for line in lines]
    finally:
        home.chmod(0o700)
    assert before == [0] * len(lines)
    assert [(told.code, told.err) for told in done] == [(0, "")] * len(lines)


def test_verbose_tells_incumbents_and_files_and_nothing_stays(tmp_path: Path) -> None:
    before = os.environ.get("APPORTION_DEBUG"), logging.getLogger("apportion").level
    done = call(main, "solve", "examples/sia_round.json", "-v", "-o", tmp_path / "x.json", "--json")
    assert f"wrote {tmp_path / 'x.json'}" in done.err
    assert json.loads(done.out)["solution"] == "optimal"
    assert "objective" in done.err
    quiet = call(main, "solve", SMALL, "-q", "-o", tmp_path / "y.json")
    assert (quiet.code, quiet.err) == (0, "")
    assert (os.environ.get("APPORTION_DEBUG"), logging.getLogger("apportion").level) == before

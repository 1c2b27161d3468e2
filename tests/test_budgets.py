"""What is quick of a test of many cases: one in so many, and of several parameters each value."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.budgets import PROFILES, examples

CASES = """
import pytest

@pytest.mark.one_in(4)
@pytest.mark.parametrize(("first", "second"), [(number, -number) for number in range(12)])
def test_together(first: int, second: int) -> None: ...

@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", "ab")
@pytest.mark.parametrize("seed", range(3))
def test_crossed(seed: int, kind: str) -> None: ...

@pytest.fixture(params="xyz")
def engine(request: pytest.FixtureRequest) -> str:
    return request.param

@pytest.mark.one_in(3)
def test_of_a_fixture(engine: str) -> None: ...

def test_without() -> None: ...
"""


@pytest.mark.slow
def test_one_in_so_many_cases_is_quick_and_every_case_is_somewhere(root: Path, tmp_path: Path) -> None:
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "conftest.py").write_text((root / "tests" / "conftest.py").read_text())

    def chosen(marks: str) -> list[str]:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n0",
            "--collect-only",
            "-p",
            "no:cacheprovider",
            "-m",
            marks,
        ]
        done = subprocess.run(
            [*command, "-c", str(root / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path)],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        return [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]

    quick, slow = chosen("not slow"), chosen("slow")
    assert sorted(quick) == [
        *("test_crossed[0-a]", "test_crossed[1-b]", "test_of_a_fixture[x]"),
        *("test_together[0-0]", "test_together[4--4]", "test_together[8--8]", "test_without"),
    ]
    assert len(slow) == 12 - 3 + 6 - 2 + 3 - 1 and not set(slow) & set(quick)


def test_the_profile_says_how_many_examples_are_drawn() -> None:
    drawn = settings().max_examples
    assert drawn in PROFILES.values()
    assert examples(PROFILES["thorough"]) == drawn
    assert examples(10) <= 10 and examples(3) == 3 and examples(1000, 1) == 10 * drawn


def test_the_quick_profile_is_the_default_and_the_thorough_one_can_be_asked_for(
    pytestconfig: pytest.Config,
) -> None:
    asked = pytestconfig.getoption("--hypothesis-profile")
    assert settings().max_examples == PROFILES[asked or "quick"]

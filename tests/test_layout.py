"""The layout the package stands on: links, wheel contents, the commands of the README."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

LINKED = ("solvers", "formulations", "instances")


@pytest.mark.parametrize("name", LINKED)
def test_top_level_folders_are_linked_into_the_package(root: Path, name: str) -> None:
    link = root / "src" / "apportion" / name
    assert link.is_symlink()
    assert str(link.readlink()) == f"../../{name}"
    assert (link / "__init__.py").samefile(root / name / "__init__.py")


def test_links_are_committed_as_links(root: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-s", *(f"src/apportion/{name}" for name in LINKED)],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    assert [line.split()[0] for line in listed if line] == ["120000"] * len(LINKED)


@pytest.mark.slow
def test_wheel_contains_the_linked_packages(root: Path, tmp_path: Path) -> None:
    """A build backend that skips links would build a hollow wheel."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", str(tmp_path), str(root)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert "-cp311-abi3-" in wheel.name  # one wheel for every version from 3.11 on
    names = set(zipfile.ZipFile(wheel).namelist())
    for expected in (
        "apportion/py.typed",
        "apportion/api.py",
        "apportion/solvers/general/highs.py",
        "apportion/formulations/gap_filling/by_count.py",
        "apportion/instances/gap_filling/meaning.py",
        "apportion/instances/schemas/gap_filling.schema.json",
    ):
        assert expected in names
    if shutil.which("cc") or shutil.which("gcc"):
        assert any(name.startswith("apportion/solvers/search/depth_first_c.abi3") for name in names)


def test_a_checkout_without_links_says_what_to_do(root: Path, tmp_path: Path) -> None:
    package = tmp_path / "apportion"
    package.mkdir()
    for name in ("__init__.py", "version.py"):
        (package / name).write_bytes((root / "src" / "apportion" / name).read_bytes())
    (package / "instances").write_text("../../instances")  # what a ZIP makes of a link
    run = subprocess.run(
        [sys.executable, "-S", "-c", "import apportion"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode != 0
    assert "must be links" in run.stderr


def test_ci_runs_the_readme_commands_word_for_word(root: Path) -> None:
    readme = (root / "README.md").read_text()
    commands = re.findall(r"```sh\n(.+?)\n```", readme, flags=re.DOTALL)
    install_and_solve, install_and_test = commands[0], commands[1]
    ci = (root / ".ci" / "run").read_text()
    assert install_and_test in ci
    assert install_and_solve.split("&&")[-1].strip() in ci


def test_the_version_is_stated_alike_everywhere(root: Path) -> None:
    import tomllib

    import apportion

    stated = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    assert apportion.__version__ == stated
    assert f"version: {stated}\n" in (root / "CITATION.cff").read_text()

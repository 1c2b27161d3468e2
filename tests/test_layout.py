"""The layout the package stands on: links, wheel contents, the commands of the README."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
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
def test_what_is_built_is_whole_with_links_and_without(root: Path, tmp_path: Path) -> None:
    """A clone without symbolic links built a wheel without solvers, formulations and instances."""
    linked, plain = (
        _clone(root, tmp_path / name, links) for name, links in (("linked", True), ("plain", False))
    )
    assert all((linked / "src" / "apportion" / name).is_symlink() for name in LINKED)
    assert all((plain / "src" / "apportion" / name).is_file() for name in LINKED)
    made = _built("build_sdist", plain, tmp_path / "source")
    with tarfile.open(made) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CHANGELOG.md", "examples/gap_filling_small.json", "solvers/search/depth_first_c.c"} <= names
    assert not any(name.startswith("tests/") for name in names)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    wheels = [
        _built("build_wheel", folder, tmp_path / label)
        for label, folder in (("links", linked), ("no-links", plain), ("from-source", unpacked))
    ]
    contents = [
        {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name} for wheel in wheels
    ]
    assert contents[0] == contents[1] == contents[2]
    assert all("-cp311-abi3-" in wheel.name for wheel in wheels)  # one for every version from 3.11 on
    assert {
        "apportion/py.typed",
        "apportion/solvers/general/highs.py",
        "apportion/formulations/gap_filling/by_count.py",
        "apportion/instances/schemas/gap_filling.schema.json",
        "apportion/service/page/page.html",
    } <= contents[0]
    assert not any(name.endswith(".c") or "/tests/" in name for name in contents[0])
    if shutil.which("cc") or shutil.which("gcc"):
        assert any(name.startswith("apportion/solvers/search/depth_first_c.abi3") for name in contents[0])
    zipfile.ZipFile(wheels[1]).extractall(tmp_path / "installed")
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in sorted(contents[1])
        if name.endswith(".py") and "__main__" not in name
    ]
    assert len(modules) > 400
    program = (
        f"import importlib\nfor name in {modules!r}: importlib.import_module(name)\n"
        "import apportion\nprint(apportion.__file__)"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip().startswith(str(tmp_path / "installed"))


def _clone(root: Path, into: Path, links: bool) -> Path:
    """Return a clone of a checkout with what is not committed yet."""
    setting = f"core.symlinks={str(links).lower()}"
    subprocess.run(["git", "clone", "-q", "-c", setting, str(root), str(into)], check=True)
    told = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-m", "-o", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    for name in told.stdout.splitlines():
        if (root / name).is_file() and not (root / name).is_symlink():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, into / name)
    return into


def _built(what: str, folder: Path, into: Path) -> Path:
    """Build a distribution of a folder with the setuptools that is installed; return it."""
    into.mkdir()
    program = f"from setuptools import build_meta; print(build_meta.{what}({str(into)!r}))"
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, capture_output=True)
    (made,) = into.iterdir()
    return made


def test_a_checkout_without_links_says_what_to_do(root: Path, tmp_path: Path) -> None:
    package = tmp_path / "apportion"
    package.mkdir()
    (package / "core").mkdir()
    for name in ("__init__.py", "core/__init__.py"):
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

"""Which engine versions are refused, and that the pinned ones live together in one process."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest

from apportion.core.errors import BackendUnavailable
from apportion.solvers.general import guard

SOLVE_BOTH = """
from {first}
from {second}
from apportion.core.options import SolveOptions
from apportion.solvers.general import cp_sat, highs, scip
from tests.solvers.conformance import small
model = small()
for backend in (highs, cp_sat, scip):
    outcome = backend.solve(model, SolveOptions(), None)
    assert outcome.objective == 9.0, (backend.__name__, outcome)
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("highspy import Highs", "ortools.sat.python import cp_model"),
        ("ortools.sat.python import cp_model", "highspy import Highs"),
        ("ortools.math_opt.python import mathopt", "highspy import Highs"),
    ],
)
def test_engines_solve_in_one_process_in_either_import_order(root: Any, first: str, second: str) -> None:
    """From highspy 1.15 on this is an ImportError: both wheels ship libhighs.so.1."""
    script = f"import sys; sys.path[:0] = [{str(root)!r}, {str(root / 'src')!r}]" + SOLVE_BOTH.format(
        first=first, second=second
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(package: str) -> str:
        if package not in versions:
            raise PackageNotFoundError(package)
        return versions[package]

    monkeypatch.setattr(guard, "version", version)


def test_the_wrong_answering_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, highspy="1.14.0")
    with pytest.raises(BackendUnavailable, match="wrong optima"):
        guard.check_engines("highspy")


@pytest.mark.parametrize("package", ["highspy", "ortools"])
def test_the_clash_is_explained_before_the_import(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    installed(monkeypatch, highspy="1.15.1", ortools="9.15.6755")
    with pytest.raises(BackendUnavailable, match=r"libhighs\.so\.1"):
        guard.check_engines(package)


@pytest.mark.parametrize(
    "versions",
    [
        {"highspy": "1.13.1", "ortools": "9.15.6755"},
        {"highspy": "1.15.1"},
        {"ortools": "9.15.6755"},
        {"highspy": "1.15.1", "ortools": "9.16.1"},
        {"highspy": "1.13.1.post1", "ortools": "9.15.6755"},
    ],
)
def test_what_works_passes(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]) -> None:
    installed(monkeypatch, **versions)
    guard.check_engines("highspy")
    guard.check_engines("ortools")


def test_the_guard_imports_no_engine(root: Any) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(root / 'src')!r})\n"
        "from apportion.solvers.general import guard, highs, cp_sat, scip, pyomo_bridge, export\n"
        "from apportion.solvers.isolation import isolated\n"
        "guard.check_engines('highspy'); guard.check_engines('ortools')\n"
        "loaded = {'highspy', 'ortools', 'pyomo', 'scipy', 'pandas'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr

"""One module opens each engine, no other road reaches it, and a refused version answers nowhere."""

from __future__ import annotations

import ast
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import highspy
import numpy as np
import pytest

import apportion
from apportion.core.errors import BackendUnavailable
from apportion.models.assignment import Assignment
from apportion.solvers.general import guard
from tests.patience import patience
from tests.solvers.multiknapsack.test_several_capacities import random_mmkp

DOORS = {
    "highspy": {"solvers/general/highs_call.py"},
    "ortools.sat": {"solvers/general/cp_sat_call.py"},
    "ortools.math_opt": {"solvers/general/scip.py"},
    "ortools.util": {"solvers/general/scip.py"},
    "ortools.graph": {"solvers/assignment/linear_assignment.py"},
}


def imported(path: Path) -> set[str]:
    names, text = set[str](), path.read_text()
    if "highspy" not in text and "ortools" not in text:  # what names neither need not be parsed
        return names
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_every_engine_is_imported_by_its_door_alone(root: Path) -> None:
    met: dict[str, set[str]] = {engine: set() for engine in DOORS}
    for folder in ("solvers", "formulations", "instances", "src/apportion"):
        for path in (root / folder).rglob("*.py"):
            for name in imported(path):
                if name.split(".")[0] not in ("highspy", "ortools"):
                    continue
                (engine,) = (e for e in DOORS if f"{name}.".startswith(f"{e}."))
                met[engine].add(str(path.relative_to(root)))
    assert met == DOORS


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """highspy says that it is 1.14.0, which is known to return wrong optima; opening it fails the test."""
    monkeypatch.setattr(guard, "version", lambda name: "1.14.0" if name == "highspy" else version(name))

    def opened(*_: object) -> None:
        raise AssertionError("a refused HiGHS was opened")

    monkeypatch.setattr(highspy, "Highs", opened)


def generalised(jobs: int = 12, machines: int = 4) -> Assignment:
    random = np.random.default_rng(3)
    cost, uses = random.integers(10, 50, (jobs, machines)), random.integers(5, 25, (jobs, machines))
    return Assignment.from_matrix("cost", cost, capacities=int(0.9 * 15 * jobs / machines), uses=uses)


@pytest.mark.usefixtures("refused")
def test_a_refused_highs_answers_on_no_road(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the version faked to 1.14.0 the exact engine answered "optimal" through doors of its own."""
    model = generalised()
    with pytest.raises(BackendUnavailable, match="wrong optima"):
        apportion.solve(model, "highs")
    # roads that need no HiGHS stay open
    expected = apportion.solve(model, "cp-sat", time_limit=patience(20.0))
    assert expected.termination.value == "optimal" and "highspy" not in expected.versions
    solution = apportion.solve(model)
    assert solution.objective == expected.objective and "highspy" not in solution.versions
    # a machine with so much room that our tree does not take it: branch and bound by HiGHS or nothing
    monkeypatch.setattr("apportion.solvers.generalised_assignment.least_cost.fits", lambda model: False)
    for backend in ("auto", "exact"):
        with pytest.raises(BackendUnavailable, match="wrong optima"):
            apportion.solve(model, backend)
    with pytest.raises(BackendUnavailable, match="wrong optima"):
        apportion.solve(random_mmkp(8, 4, 3, 1), "highs")
    times = np.random.default_rng(1).integers(1, 40, (20, 4))
    makespan = apportion.solve(Assignment.from_matrix("makespan", times), time_limit=4.0)
    assert makespan.plan is not None and makespan.termination.value in ("optimal", "time_limit")


def test_the_engines_that_were_used_are_named_under_versions() -> None:
    model = generalised()
    assert apportion.solve(model).versions["highspy"] == version("highspy")
    assert "highspy" not in apportion.solve(random_mmkp(20, 4, 3, 1)).versions
    easy = apportion.MultipleChoiceKnapsack.from_arrays([1.0, 2.0], [1, 2], [0, 1, 2], [3])
    assert "highspy" not in apportion.solve(easy).versions


def test_a_missing_distribution_is_not_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(guard, "version", gone)
    assert not guard.usable("highspy") and not guard.usable("ortools")

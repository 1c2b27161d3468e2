"""Known defects are told of the versions that have them, and of no other."""

from __future__ import annotations

from apportion.cli.main import main
from apportion.solvers.general.guard import DEFECTS, known_defects
from apportion.solving.registry import backends
from tests.cli.calling import call


def test_a_defect_is_told_of_the_versions_that_have_it() -> None:
    assert len(known_defects("highs", "highspy", "1.13.1")) == 1
    assert len(known_defects("highs", "highspy", "1.14.0")) == 2
    assert known_defects("highs", "highspy", "1.15.0") == [] == known_defects("highs", "highspy", "1.12.0")
    assert known_defects("highs", "highspy", None) == []
    assert known_defects("scip", "ortools", "9.15.6755") == []
    assert len(known_defects("cp-sat", "ortools", "9.15.6755")) == 1


def test_the_command_lists_the_defects_of_what_is_installed() -> None:
    told = [defect for row in backends() for defect in row["defects"]]
    out = call(main, "backends").out
    assert told and all(f"known defect: {defect}" in out for defect in told)
    assert all(defect.what and defect.here for defect in DEFECTS)

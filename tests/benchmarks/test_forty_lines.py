"""The plain search in forty lines: right beside enumeration, and one clear message where it cannot be had."""

from __future__ import annotations

import ctypes
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from benchmarks import forty_lines
from benchmarks.forty_lines import Measured, Row, disagreeing, main, measure
from benchmarks.peers.forty_lines import NoCompiler, Prepared, compiled
from benchmarks.peers.within_cpu import within_cpu
from benchmarks.suite.making import make
from benchmarks.suite.registry import Selection, cells_of
from click.testing import CliRunner

from apportion.models import MultipleChoiceKnapsack


def best_by_enumeration(model: MultipleChoiceKnapsack) -> float | None:
    menus = [
        [*range(model.offsets[j], model.offsets[j + 1]), *([] if model.required[j] else [-1])]
        for j in range(model.num_jobs)
    ]
    fitting = (np.array(rows) for rows in product(*menus) if model.fits(np.array(rows)))
    return max((model.objective(rows) for rows in fitting), default=None)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    try:
        return compiled(tmp_path_factory.mktemp("forty"))
    except NoCompiler as error:
        pytest.skip(str(error))


def test_it_finds_what_enumeration_finds(library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(14)
    unsolvable = 0
    for _ in range(60):
        jobs, options, capacities = (int(rng.integers(1, most)) for most in (6, 4, 4))
        uses = rng.integers(0, 20, (jobs * options, capacities))
        model = MultipleChoiceKnapsack.from_arrays(
            rng.integers(-5, 50, jobs * options).astype(float),
            uses,
            np.arange(jobs + 1) * options,
            rng.integers(0, 8 * jobs, capacities),
            required=bool(rng.integers(0, 2)),
        )
        expected = best_by_enumeration(model)
        found = Prepared(model).search(library, 10.0)
        assert found.proven and found.value == expected
        if expected is None:
            unsolvable += 1
        else:
            assert model.fits(found.rows) and model.objective(found.rows) == expected
    assert 0 < unsolvable < 30


def test_it_ends_at_its_limit(library: ctypes.CDLL) -> None:
    model = make("knapsack", {"seed": 0, "items": 250, "capacities": 5}, None)
    found = Prepared(model).search(library, 0.05)
    assert not found.proven and 0.045 <= found.cpu_s < 1.0
    assert found.value is not None and model.objective(found.rows) == found.value


def test_all_columns_agree(library: ctypes.CDLL) -> None:
    columns = measure(
        make("half_menus", {"seed": 0, "jobs": 10, "options": 5, "capacities": 3}, None), library, 10.0, 2
    )
    assert list(columns) == ["forty lines", "tree", "engine", "solve"]
    assert {(one.value, one.proven) for one in columns.values()} == {(5549.0, True)}
    assert columns["tree"].cpu_s <= columns["solve"].cpu_s


def test_fractions_and_costs_are_refused() -> None:
    menus = np.ones((1, 1), dtype=np.int64), np.arange(2), [1]
    with pytest.raises(ValueError, match="whole values"):
        Prepared(MultipleChoiceKnapsack.from_arrays(np.array([0.5]), *menus))


def test_proven_optima_that_differ_are_told() -> None:
    told, found = Measured(0.1, 7.0, True), Measured(0.1, 6.0, False)
    assert disagreeing(Row("s", "n", {"a": told, "b": found, "c": Measured(0.1, None, False)})) is None
    assert (
        disagreeing(Row("s", "n", {"a": told, "b": Measured(0.1, 6.0, True)}))
        == "n: a 7.0 proven, b 6.0 proven"
    )
    assert disagreeing(Row("s", "n", {"a": told, "b": Measured(0.1, 8.0, False)})) == "n: a 7.0 proven, b 8.0"


def test_without_a_compiler_it_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(NoCompiler, match="no C compiler: no-such-cc is not there"):
        compiled(tmp_path, "no-such-cc")
    with pytest.raises(NoCompiler, match="false did not compile the search: nothing was said"):
        compiled(tmp_path, "false")


def test_the_command_counts_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-cc")
    words = ["--no-general", "--only", "10-5-3-s0", "--repeats", "1"]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[2] == "| instance | tree, ms | engine, ms | solve, ms |"
    assert "the forty lines are left out of 1 of 1 rows: no C compiler: no-such-cc is not there" in lines
    assert "4 rows of OR-Library are left out: not chosen" in lines
    assert "1 rows, 0 with proven optima that differ" in lines[-1]


def test_the_command_fails_where_proven_optima_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"a": Measured(0.1, 7.0, True), "b": Measured(0.1, 6.0, True)}
    monkeypatch.setattr(forty_lines, "measure", lambda *_: columns)
    done = CliRunner().invoke(main, ["--no-general", "--only", "10-5-3-s0"])
    assert done.exit_code == 1 and "DIFFERS: 10-5-3-s0: a 7.0 proven, b 6.0 proven" in done.output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["HiGHS", "CP-SAT"])
def test_a_general_solver_ends_after_its_processor_time(name: str) -> None:
    cells = cells_of(Selection(only=("half-menus", "apportion"), seeds=1))
    small, large = (
        next(c.instance for c in cells if c.instance.name == one) for one in ("10-5-3-s0", "50-10-3-s0")
    )
    ended = within_cpu(name, small, None, 60.0)
    assert ended.proven and ended.value == 5549.0 and 0 < ended.cpu_s < 60.0
    cut = within_cpu(name, large, None, 0.2)
    assert not cut.proven and cut.cpu_s == 0.2

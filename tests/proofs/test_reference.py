"""The reference checker, the one in C and the package's agree, and statements say what instances mean."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import Any

import pytest

import apportion
from apportion.cli.main import main as apportion_group
from apportion.cli.solve_instance import main as solve_instance
from apportion.instances import kind_of
from apportion.instances.tenants.ledger import under_floors
from apportion.proofs import Claim, reference
from apportion.proofs.certificate import encode
from apportion.proofs.statement import statement_of
from tests.cli.calling import call
from tests.forgeries.forging import drawn_case
from tests.hunt.truth import Truth, truth_of, truth_under
from tests.proofs.agreement import Tally, built, compared, drawn
from tests.proofs.claims import KINDS
from tests.proofs.mangled import SANITIZED, mangled, run

SHIPPED = (
    "freezing_small",
    "freezing_fitted/round",
    "gap_filling_small",
    "gap_filling_summit_like",
    "matching_assignment",
    "matching_shares",
    "matching_unrelated",
    "sia_round",
    "three_teams",
)
"""Examples whose claims carry a proof; what the gangs of ``matching_gangs`` need has none."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    return built(tmp_path_factory.mktemp("checker"))


def test_the_reference_is_short_and_imports_the_standard_library_only(root: Path) -> None:
    source = Path(reference.__file__).read_text()
    assert len(source.splitlines()) <= 400
    nodes = list(ast.walk(ast.parse(source)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert not any(node.level for node in nodes if isinstance(node, ast.ImportFrom))
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
    assert len((root / "examples" / "checker" / "checker.c").read_text().splitlines()) <= 400


@pytest.mark.parametrize("kind", KINDS)
def test_three_checkers_agree(kind: str, program: Path | None) -> None:
    """``python -m tests.proofs.agreement`` compares more: a position in an empty list passed in C."""
    tally = Tally()
    for number in range(2):
        drawn(kind, 34, number, program, tally)
    assert tally.wrong == []
    assert tally.said["reference", "proved"] and tally.said["reference", "refused"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SHIPPED)
def test_checkers_agree_on_the_proofs_of_all_shipped_examples(
    name: str, root: Path, program: Path | None
) -> None:
    instance = apportion.read(root / "examples" / f"{name}.json")
    solution = apportion.solve(instance, proof=True, time_limit=60.0)
    assert solution.proof is not None and solution.objective is not None
    better = solution.objective * (0.999 if kind_of(instance).maximizes(instance) else 1.001)
    false = [
        replace(solution.proof, claim=one) for one in (Claim("infeasible"), Claim("no_better_plan", better))
    ]
    tally = Tally()
    held = under_floors(instance, solution.floors)
    compared(held, [encode(one) for one in (solution.proof, *false)], program, tally, name, states=10_000)
    assert tally.wrong == []
    assert tally.said["package", "proved"] == tally.said["reference", "proved"] == 1
    if program is not None:
        assert tally.said["C", "proved"] == (name != "matching_shares")


def test_the_reference_reads_what_check_writes_and_a_plain_file_is_enough(root: Path, tmp_path: Path) -> None:
    instance = root / "examples" / "three_teams.json"
    result, proof, statement = (tmp_path / name for name in ("plan.json", "plan.proof", "statement.json"))
    assert call(solve_instance, str(instance), "-o", str(result), "--proof", str(proof)).code == 0
    run = call(apportion_group, "check", str(instance), str(result), "--statement", str(statement))
    assert run.code == 0, run.err
    told = json.loads(statement.read_text())
    assert told["plan"] is not None and any(name.startswith("share of") for name in told["capacities"])
    for words in (["-m", "apportion.proofs.reference"], [str(reference.__file__)]):
        asked = [sys.executable, *words, str(statement), str(proof)]
        done = subprocess.run(asked, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0 and done.stdout.startswith("true: the plan is optimal, "), done.stderr
    for change in ({"plan": [0] * len(told["jobs"])}, {"instance": "0" * 64}, {"version": 2}):
        verdict, _ = reference.check({**told, **change}, proof.read_bytes())
        assert verdict is False


def _choices(statement: Mapping[str, Any]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield every choice of options that keeps the capacities of a statement, and a single machine's."""
    for choice in product(*(job["options"] for job in statement["jobs"])):
        if any(
            sum(option["uses"].get(name, 0) for option in choice) > room
            for name, room in statement["capacities"].items()
        ):
            continue
        full = False
        for at, pool in enumerate(statement["pools"]):
            own = [option for option in choice if option.get("pool") == at]
            room = pool["capacity"]
            together = sum(option["use"] * option["gang"] for option in own)
            full |= room is not None and (
                together > room * pool["count"] or any(option["use"] > room for option in own)
            )
        if not full:
            yield choice


def _worth(statement: Mapping[str, Any], choice: Sequence[Mapping[str, Any]]) -> Fraction:
    """Return what a choice is worth; of a makespan the least time in which its machines can do the work."""
    if statement["goal"] not in ("makespan", "shares"):
        return sum((Fraction(option["value"]) for option in choice), Fraction(0))
    ends = [Fraction(option["time"]) for option in choice if option.get("pool") is not None]
    for at, pool in enumerate(statement["pools"]):
        own = [option for option in choice if option.get("pool") == at]
        ends.append(sum((Fraction(one["time"]) * one["gang"] for one in own), Fraction(0)) / pool["count"])
    return max(ends, default=Fraction(0))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "shares of machines"])
def test_the_optimum_of_a_statement_is_that_of_its_instance(kind: str) -> None:
    """By plain enumeration of both; on several machines or nodes a statement may allow more."""
    equal = 0
    for number in range(12):
        case, instance = drawn_case(KINDS[kind], Random(f"statement {kind} {number}"))
        floors = apportion.solve(instance, time_limit=60.0).floors
        statement = json.loads(json.dumps(statement_of(under_floors(instance, floors))))
        truth: Truth = truth_under(case, floors) if floors else truth_of(case)
        found = [_worth(statement, choice) for choice in _choices(statement)]
        best = None if not found else max(found) if statement["goal"] == "maximize" else min(found)
        assert truth.maximize == (statement["goal"] == "maximize")
        if not statement["nodes"] and all(pool["count"] == 1 for pool in statement["pools"]):
            assert best == truth.best
            equal += 1
        elif truth.best is not None:
            assert best is not None and (best >= truth.best if truth.maximize else best <= truth.best)
    assert equal or kind in ("freezing on nodes", "gangs")


def test_what_does_not_name_numbers_is_refused_and_not_read() -> None:
    model = apportion.MultipleChoiceKnapsack.from_arrays(
        [3.0, 4.0], [[2], [3]], [0, 1, 2], [4], required=False
    )
    solution = apportion.solve(model, proof=True)
    assert solution.proof is not None
    statement, data = statement_of(model, solution.plan), encode(solution.proof)
    assert reference.check(statement, data)[0] is True
    for field, value in (("capacities", {"0": 4.5}), ("goal", "most"), ("jobs", None), ("prices", ["cuts"])):
        assert reference.check({**statement, field: value}, data)[0] is False
    for damaged in (b"", b"{}", data[:-3], data + b"x", b"[" * 100_000):
        assert reference.check(statement, damaged)[0] is False


def test_the_checker_in_c_reads_mutated_statements_and_proofs_under_sanitizers(tmp_path: Path) -> None:
    """``python -m tests.proofs.mangled`` runs more: a value without text was compared as text."""
    program = built(tmp_path, SANITIZED)
    if program is None:
        pytest.skip("no compiler of C on this machine")
    for kind in ("tenants", "makespan"):
        for statement, proof in islice(mangled(kind, 1, 4), 20):
            word, broken = run(program, statement, proof)
            assert not broken, (word, broken, statement, proof)

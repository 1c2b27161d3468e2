"""Proofs through the public calls: solve with one, store it, walk it, refuse it beside a stronger claim."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import apportion
from apportion.cli.main import main as apportion_group
from apportion.cli.solve_instance import main as solve_instance
from apportion.io import stored
from apportion.proofs.certificate import encode
from tests.cli.calling import call


def test_a_proof_is_written_named_and_walked_again(root: Path, tmp_path: Path) -> None:
    instance, result, proof = (
        root / "examples" / "matching_unrelated.json",
        tmp_path / "r.json",
        tmp_path / "r.proof",
    )
    run = call(solve_instance, str(instance), "-o", str(result), "--proof", str(proof))
    assert run.code == 0, run.err
    told = json.loads(result.read_text())
    assert told["evidence"] == "by_proof" and told["proof"] == "r.proof"
    checked = call(apportion_group, "check", str(instance), str(result), "--proof", str(proof))
    assert checked.code == 0 and "proved that no plan is better than" in checked.out
    other = call(
        apportion_group,
        "check",
        str(root / "examples" / "matching_assignment.json"),
        str(result),
        "--proof",
        str(proof),
    )
    assert other.code == 3 and "another instance" in other.out


def test_a_proof_of_less_than_the_result_claims_fails_the_check(root: Path) -> None:
    instance = apportion.read(root / "examples" / "matching_unrelated.json")
    solution = apportion.solve(instance, proof=True)
    assert solution.proof is not None
    document = json.loads(gzip.decompress(encode(solution.proof)))
    document["claim"]["bound"] *= 0.99  # no plan ends before less
    weaker = json.dumps(document).encode()
    assert apportion.verify(instance, weaker).status == "proved"
    checked = stored.verify(instance, json.loads(stored.encode(stored.document(solution))), weaker)
    assert [name for name, passed, _ in checked.checks if not passed] == ["evidence", "proof"]


def test_an_infeasible_instance_is_proved_so(tmp_path: Path) -> None:
    model = apportion.MultipleChoiceKnapsack.from_arrays(
        [1.0, 1.0, 1.0, 1.0], [[3, 0], [0, 3], [3, 0], [0, 3]], [0, 2, 4], [2, 3]
    )
    solution = apportion.solve(model, proof=True)
    assert solution.termination.value == "infeasible" and solution.evidence == "by_proof"
    assert apportion.verify(model, encode(solution.proof)).proved  # type: ignore[arg-type]


def test_a_stream_names_the_proof_of_every_line(root: Path, tmp_path: Path) -> None:
    line = json.dumps(json.loads((root / "examples" / "gap_filling_small.json").read_text())).encode()
    answers: list[bytes] = []
    from apportion.service.stream import serve

    serve([line, b"{}", line], answers.append, proofs=str(tmp_path))
    told = [json.loads(answer) for answer in answers]
    assert [one.get("proof") for one in told] == ["1.proof", None, "3.proof"]
    instance = apportion.read(line)
    assert stored.verify(instance, told[2], (tmp_path / "3.proof").read_bytes()).ok


def test_without_being_asked_nothing_is_proved() -> None:
    model = apportion.MultipleChoiceKnapsack.from_arrays([3.0, 4.0, 2.0], [2, 4, 2], [0, 2, 3], [4])
    solution = apportion.solve(model)
    assert solution.proof is None and "proof" not in solution.times


def test_the_suite_says_what_share_of_our_claims_checks(root: Path) -> None:
    from benchmarks.reporting.markdown import markdown
    from benchmarks.reporting.record_list import record_sections
    from benchmarks.reporting.report import report
    from benchmarks.suite.proving import evidence_of

    from tests.benchmarks.test_compare import row

    instance = apportion.read(root / "examples" / "matching_unrelated.json")
    measured = evidence_of(apportion.solve(instance), 10.0)
    assert measured["evidence"] == "by_proof" and measured["proof"]["bytes"] < 100_000
    rows = [
        row(seconds=0.1, family="sia", key="1") | measured,
        row(instance="other", seconds=0.1, family="sia", key="2") | {"evidence": "by_search", "proof": None},
    ]
    text = markdown("t", *report(rows))
    assert "| sia | 2 | 50 % | 0 | 1 | 1 |" in text
    listed = markdown("t", (), record_sections(rows))
    assert "2 instances: 2 claimed optimal, 1 of these by what anybody can check without a solver." in listed
    assert listed.count("optimal, by a proof") == listed.count("optimal, by a search alone") == 1

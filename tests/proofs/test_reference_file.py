"""The reference reads a proof as its format says, and answers in words that name the claim."""

from __future__ import annotations

import gzip
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from apportion.proofs import reference
from tests.proofs.by_hand import (
    INFEASIBLE,
    PROOF,
    SMALL,
    on,
    option,
    pool,
    said,
    stated,
    written,
)


def _reads(data: bytes) -> bool:
    """Return whether a file is read; a refusal is a ``ValueError`` that says why."""
    try:
        reference.read_proof(data)
    except ValueError as wrong:
        assert str(wrong)
        return False
    return True


_TOP = (1 << 1024) - 1
_ROW = (1 << 62) - 1
_TWO = {"version": 2, "rows": []}
FIELDS: tuple[tuple[dict[str, Any], bool], ...] = (
    ({}, True),
    ({"format": "proof"}, False),
    ({"version": 0}, False),
    ({"version": 3}, False),
    ({"version": 3, "rows": []}, True),
    ({"version": 4, "rows": []}, True),
    ({"version": 5, "rows": []}, False),
    ({"version": 3, "rows": [], "cuts": [{"capacity": 0, "divisor": 2}]}, True),
    ({"version": 3, "rows": [], "cuts": [{"capacity": 0, "thresholds": {}, "others": 2}]}, False),
    ({"version": 4, "rows": [], "cuts": [{"capacity": 0, "thresholds": {}, "others": 2}]}, True),
    ({**_TWO, "cuts": [{"capacity": 0, "divisor": 2}]}, False),
    ({"cuts": [{"capacity": 0, "divisor": 2}]}, False),
    ({"version": 1.0}, False),
    ({"version": True}, False),
    ({"version": "1"}, False),
    ({"version": [1]}, False),
    ({"version": 2}, False),
    ({"version": 1, "rows": []}, False),
    (_TWO, True),
    ({"more": 1}, False),
    ({"claim": INFEASIBLE}, True),
    ({"claim": {"kind": "infeasible", "bound": 1.0}}, False),
    ({"claim": {"kind": "no_better_plan", "bound": None}}, False),
    ({"claim": {"kind": "best", "bound": 1.0}}, False),
    ({"claim": {"kind": "no_better_plan", "bound": 1.5}}, True),
    ({"claim": {"kind": "no_better_plan", "bound": True}}, False),
    ({"claim": {"kind": "no_better_plan", "bound": "1"}}, False),
    ({"claim": {"kind": "no_better_plan", "bound": math.inf}}, False),
    ({"claim": {"kind": "no_better_plan", "bound": math.nan}}, False),
    ({"claim": {"kind": "no_better_plan"}}, False),
    ({"claim": {"kind": "no_better_plan", "bound": 1, "by": "us"}}, False),
    ({"claim": {**INFEASIBLE, "by": "us"}}, False),
    ({"claim": ["kind", "bound"]}, False),
    ({"shift": 1200}, True),
    ({"shift": -1200}, True),
    ({"shift": 1201}, False),
    ({"shift": -1201}, False),
    ({"shift": 1.0}, False),
    ({"shift": True}, False),
    ({"shift": None}, False),
    ({"prices": [[0, _TOP]] * 64}, True),
    ({"prices": [[0]] * 65}, False),
    ({"prices": [[_TOP + 1]]}, False),
    ({"prices": [[-1]]}, False),
    ({"prices": [[0], [1, -1]]}, False),
    ({"prices": [[1.0]]}, False),
    ({"prices": [[True]]}, False),
    ({"prices": [3]}, False),
    ({"prices": {}}, False),
    ({"prices": None}, False),
    ({**_TWO, "rows": [[-_ROW, 0, _ROW]] * 64}, True),
    ({**_TWO, "rows": [[0]] * 65}, False),
    ({**_TWO, "rows": [[_ROW + 1]]}, False),
    ({**_TWO, "rows": [[-_ROW - 1]]}, False),
    ({**_TWO, "rows": {}}, False),
    ({**_TWO, "rows": [{}]}, False),
    ({"order": [0, (1 << 40) - 1]}, True),
    ({"order": [1 << 40]}, False),
    ({"order": [-1]}, False),
    ({"order": [0, 1, 0]}, False),
    ({"order": {}}, False),
    ({"apart": [0, (1 << 40) - 1]}, True),
    ({"apart": [1 << 40]}, False),
    ({"apart": [-1]}, False),
    ({"apart": [0, 0]}, False),
    ({"apart": None}, False),
    ({"cuts": [{}, {"pool": 0}]}, True),
    ({"cuts": [{}, [1]]}, False),
    ({"cuts": {}}, False),
)


@pytest.mark.parametrize(("changes", "holds"), FIELDS, ids=[str(changes)[:60] for changes, _ in FIELDS])
def test_a_field_is_read_up_to_its_limits(changes: dict[str, Any], holds: bool) -> None:
    assert _reads(json.dumps({**PROOF, **changes}).encode()) is holds


@pytest.mark.parametrize("name", PROOF)
def test_every_field_must_be_there(name: str) -> None:
    assert not _reads(json.dumps({key: value for key, value in PROOF.items() if key != name}).encode())


def test_what_is_no_object_or_names_a_field_twice_is_no_proof() -> None:
    whole = json.dumps(PROOF)
    for text in ("[]", "3", "null", '"format"', "", "{", whole + "x"):
        assert not _reads(text.encode())
    for twice in (whole[:-1] + ', "shift": 0}', whole.replace('"bound": 7', '"bound": 7, "bound": 7')):
        assert twice != whole and not _reads(twice.encode())


def test_rows_of_a_first_version_are_none() -> None:
    assert reference.read_proof(written())["rows"] == []
    assert reference.read_proof(written(version=2, rows=[[1]]))["rows"] == [[1]]


def test_a_file_is_read_up_to_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = written()
    packed = gzip.compress(plain)
    for data in (plain, packed):
        monkeypatch.setattr(reference, "LARGEST_FILE", len(plain))
        assert _reads(data)
        monkeypatch.setattr(reference, "LARGEST_FILE", len(plain) - 1)
        assert not _reads(data)
    monkeypatch.undo()
    for broken in (packed[:-1], packed + b"x", packed + packed, packed[:2], packed[:1]):
        assert not _reads(broken)


def test_limits_are_those_of_the_page() -> None:
    assert reference.LARGEST_FILE == 64 * 2**20
    assert (reference.MOST_STATES, reference.MOST_CELLS) == (300_000, 2_000_000)
    assert Fraction(5e-324) == reference.LEAST and Fraction("1e-9") == reference.NEAR


def test_another_statement_or_another_instance_is_refused() -> None:
    assert said(SMALL, 7)[0] is True
    assert said({**SMALL, "format": "statement"}, 7) == (False, "no statement")
    assert said({**SMALL, "version": 2}, 7) == (False, "no statement")
    assert said(SMALL, 7, instance="other") == (False, "the proof is about another instance")
    for goal in ("most", "shares"):
        assert said({**SMALL, "goal": goal}, 7)[0] is False


def test_the_answer_names_the_claim() -> None:
    assert said(SMALL, 7)[1].startswith("no plan is better than 7: ")
    nothing = stated("maximize", [option(1, {"gpu": 2})], capacities={"gpu": 1})
    assert said(nothing, None) == (True, "no plan: a capacity is below what jobs need")
    assert said({**SMALL, "plan": [0, 0, 1]}, 7)[1].startswith("the plan is optimal, 7.0: ")
    assert said(stated("maximize", []), None) == (True, "no plan: a job has no option left")


def test_an_error_without_words_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(_: bytes) -> None:
        raise ValueError

    monkeypatch.setattr(reference, "read_proof", empty)
    assert said(SMALL, 7) == (False, "no proof")


def test_a_plan_must_meet_the_bound() -> None:
    for at, holds in (([0, 0, 1], True), ([1, 1, 0], False), ([0, 1, 1], False)):
        assert said({**SMALL, "plan": at}, 7)[0] is holds
    assert said({**SMALL, "plan": [0, 0, 1]}, 8)[0] is False, "not the optimum: the bound leaves a gap"
    for worth in (10**9, -(10**9)):
        for off, holds in ((0, True), (1, True), (2, False)):
            statement = stated("maximize", [option(worth)], plan=[0])
            assert said(statement, worth + off)[0] is holds
    least = Fraction(1, 1 << 1074)
    for value, holds in ((Fraction(0), True), (-least / 2, True), (-least, True), (-2 * least, False)):
        assert said(stated("maximize", [option(str(value))], plan=[0]), 0.0, shift=1074)[0] is holds
    impossible = stated("maximize", [option(1, {"gpu": 2})], capacities={"gpu": 1}, plan=[0])
    assert said(impossible, None)[0] is False


def test_a_plan_keeps_every_rule_of_its_statement() -> None:
    menu = [on(0, "3/2", use=2, value=1), on(1, 2, use=1, value=5), option(2, {"a": 1, "b": 2})]
    base = stated("maximize", menu, menu, menu, pools=[pool(capacity=4), pool()], capacities={"a": 2, "b": 4})
    worth = reference.worth_of_plan
    for plan, value in (([0, 0, 1], 7), ([1, 1, 1], 15), ([2, 2, 0], 5)):
        assert worth({**base, "plan": plan}) == value
    times = {**base, "goal": "makespan"}
    for plan, value in (([0, 0, 1], 3), ([1, 1, 0], 4), ([2, 2, 1], 2), ([0, 2, 2], Fraction(3, 2))):
        assert worth({**times, "plan": plan}) == value
    assert worth(stated("makespan", plan=[])) == 0 and worth(stated("minimize", plan=[])) == 0
    gang = stated("makespan", [on(0, 3, gang=2)], pools=[pool()], plan=[0])
    wide = {**base, "pools": [pool(capacity=4), pool(2)]}
    for wrong in (
        {**base, "plan": [0, 0, 0]},
        {**base, "plan": [2, 2, 2]},
        {**base, "plan": [0, 0]},
        {**base, "plan": [0, 0, 1, 1]},
        {**base, "plan": [0, 0, -1]},
        {**base, "plan": [0, 0, True]},
        {**base, "plan": "001"},
        {**base, "goal": "shares", "plan": [0, 0, 1]},
        {**base, "nodes": {"gpu": {}}, "plan": [0, 0, 1]},
        {**wide, "plan": [0, 0, 1]},
        gang,
    ):
        with pytest.raises(ValueError, match=r"plan|machine|argument"):
            worth(wrong)


def test_numbers_are_integers_or_fractions_as_text() -> None:
    assert reference.exact(3) == 3 and reference.exact("7/2") == Fraction(7, 2)
    for wrong in (1.5, True, None, [1]):
        with pytest.raises(ValueError, match="no whole number"):
            reference.exact(wrong)
    half = Fraction(1, 2)
    assert [reference.scaled(half, shift) for shift in (-1, 0, 1, 2)] == [Fraction(1, 4), half, 1, 2]
    for numbers, holds in (([0, 4], True), ([], True), ([-1, 2], False), ([2, 5], False), ((1,), False)):
        assert reference.wholes(numbers, 0, 5) is holds
    assert not reference.wholes([1, True], 0, 5) and not reference.wholes([1.0], 0, 5)


LESS = ((2.5, 0, False), (2, 0, True), (2.5, 1, True), (2.75, 1, False), (2, -1, True))
MORE = ((2.5, 0, False), (3, 0, True), (2.5, 1, True), (2.25, 1, False), (3, -1, False))
"""Bounds of 5/2, shifts, and whether they are shown."""


@pytest.mark.parametrize(
    ("statement", "bounds"),
    [
        (stated("maximize", [option("5/2")]), MORE),
        (stated("minimize", [option("5/2")]), LESS),
        (stated("makespan", [on(0, "5/2")], pools=[pool()]), LESS),
    ],
    ids=lambda given: given["goal"] if isinstance(given, dict) else "",
)
def test_worth_is_rounded_up_and_times_and_the_threshold_down(
    statement: dict[str, Any], bounds: tuple[tuple[float, int, bool], ...]
) -> None:
    for bound, shift, holds in bounds:
        assert said(statement, bound, shift=shift)[0] is holds


def test_the_command_prints_its_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    statement, proof = tmp_path / "statement.json", tmp_path / "proof.json"
    statement.write_text(json.dumps(SMALL))

    def printed(bound: Any) -> tuple[int, str]:
        proof.write_bytes(written(bound))
        code = reference.main(["reference.py", str(statement), str(proof)])
        return code, capsys.readouterr().out

    code, words = printed(7)
    assert code == 0 and words.startswith("true: no plan is better than 7: ") and words.endswith("\n")
    assert printed(6) == (1, "false: a choice exceeds the threshold\n")
    monkeypatch.setattr(reference, "MOST_CELLS", 5)
    assert printed(7) == (2, "incomplete: too large a table\n")
    monkeypatch.undo()
    monkeypatch.setattr(reference, "LARGEST_FILE", len(written(7)))
    assert printed(7)[0] == 0
    monkeypatch.setattr(Path, "read_bytes", lambda _: json.dumps(SMALL).encode())
    monkeypatch.setattr(reference, "LARGEST_FILE", len(written(7)) - 1)
    code, words = printed(7)
    assert code == 1 and "Expecting value" in words, "a file beyond the limit is not read at all"

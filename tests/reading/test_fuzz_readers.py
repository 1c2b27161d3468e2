"""A short share of the readers' fuzzing, and every input that once broke a reader."""

from __future__ import annotations

import pytest

from tests.budgets import examples
from tests.fuzz_readers.plain import fuzz
from tests.fuzz_readers.readers import READERS, endured

BROKE = {
    "sacct": [
        b"Start|End|NNodes\n0|9|99999999999999999999\n",
        b"Start|End|NNodes\n0|" + b"9" * 400 + b"|1\n",
    ],
    "swf": [
        b"; MaxNodes: " + b"9" * 5000 + b"\n1 0 0 100 2 -1 -1 2 -1 -1 1 1 1 1 -1 -1 -1 -1\n",
        b"; MaxNodes: 999999999999\n1 0 0 100 2 -1 -1 2 -1 -1 1 1 1 1 -1 -1 -1 -1\n",
        b"1 0 0 100 1e308 -1 -1 2 -1 -1 1 1 1 1 -1 -1 -1 -1\n",
        b"\x1f\x8bnothing",
    ],
    "durations": [b"\x1f\x8bnothing"],
    "layers": [b"frozen_layers,forward\n0\x1c,1.0\n2,0.5\n"],
    "measured-steps": [b"placement,local_bsz,step_time,frozen_layer\n1\x1c 2,32\x1c,0.5,0\n"],
    "orlib-assign": [b"999999999"],
    "gavel": [b'{"v": {"(1or 2)": {"null": 1}}}', b'{"v": {"a": {"null": 1' + b"0" * 400 + b"}}}"],
}


@pytest.mark.parametrize(("name", "raw"), [(name, raw) for name, raws in BROKE.items() for raw in raws])
def test_what_broke_a_reader_is_an_error_of_its_own(name: str, raw: bytes) -> None:
    endured(READERS[name], raw)


def test_a_termination_that_is_no_text_does_not_break_the_check_of_a_result() -> None:
    reader = READERS["stored"]
    raw = reader.seeds()[0]
    assert not reader.read(raw.replace(b'"termination": "optimal"', b'"termination": ["optimal"]')).ok
    assert reader.read(raw).ok


@pytest.mark.parametrize("name", READERS)
def test_valid_files_are_read_and_damaged_ones_break_nothing(name: str) -> None:
    if name == "pickled-frame":
        pytest.importorskip("pandas", reason="the frame to be damaged is made with pandas")
    reader = READERS[name]
    assert all(endured(reader, raw) for raw in reader.seeds())
    for raw, error in fuzz(reader, seconds=60.0, seed=0, most=examples(200 if name == "warm-start" else 600)):
        raise AssertionError(f"{raw!r}") from error

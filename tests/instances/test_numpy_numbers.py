"""Instances made in Python from numpy's numbers and arrays are those of the same file, in every kind."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec import Struct

import apportion
from apportion.core.options import SolveOptions
from apportion.instances.draft import Draft
from apportion.io import stored
from apportion.proofs.certificate import encode, instance_digest
from apportion.service.deltas import read_deltas
from tests.hunt.case import INSTANCE
from tests.instances.licences.schema import LicenceInstance, LicenceJob
from tests.proofs.claims import KINDS as DRAWN

NAMED = [name for name, drawn in DRAWN.items() if drawn.subject == INSTANCE]


def of_numpy(value: Any) -> Any:
    """Return a value with every number and text as numpy's, every list of numbers as an array."""
    if isinstance(value, Struct):
        return type(value)(**{name: of_numpy(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, dict):
        return {np.str_(name): of_numpy(item) for name, item in value.items()}
    if isinstance(value, tuple):
        numbers = value and all(type(item) in (int, float) for item in value)
        return np.array(value) if numbers else tuple(map(of_numpy, value))
    of = {bool: np.bool_, int: np.int64, float: np.float64, str: np.str_}.get(type(value))
    return value if of is None else of(value)


@pytest.mark.parametrize("kind", NAMED)
def test_an_instance_of_numpy_numbers_is_that_of_the_file_and_is_proved(kind: str) -> None:
    proved = 0
    for number in range(12):
        read = DRAWN[kind].case(Random(f"{kind} {number}"))
        made = of_numpy(read)
        assert made == read and msgspec.json.encode(made) == msgspec.json.encode(read)
        assert instance_digest(made) == instance_digest(read)
        solution = apportion.solve(made, proof=True, time_limit=np.float64(20))
        assert apportion.solve(read).objective == solution.objective
        record = msgspec.json.decode(stored.encode(stored.document(solution)))
        assert stored.verify(read, record, None if solution.proof is None else encode(solution.proof)).ok
        if solution.proof is not None:
            proved += apportion.verify(read, solution.proof).proved
    assert proved > 1


def test_a_kind_of_someone_else_is_made_plain_too() -> None:
    job = LicenceJob(np.str_("a"), np.int64(2), np.float64(1.5))  # type: ignore[arg-type]
    made = LicenceInstance("1", np.int64(3), (job,))  # type: ignore[arg-type]
    assert msgspec.json.encode(made) == msgspec.json.encode(
        LicenceInstance("1", 3, (LicenceJob("a", 2, 1.5),))
    )


@pytest.mark.parametrize("kind", NAMED)
def test_a_job_of_numpy_numbers_is_put_into_a_draft(kind: str) -> None:
    read = next(one for one in (DRAWN[kind].case(Random(f"{kind} {n}")) for n in range(99)) if one.jobs)
    draft = Draft(read)
    draft.replace(of_numpy(read.jobs[0]))
    assert msgspec.json.encode(draft.instance()) == msgspec.json.encode(read)


def test_deltas_of_numpy_numbers_can_be_put_on_record() -> None:
    (delta,) = read_deltas([{"op": "set_capacity", "name": "gpu", "amount": np.int64(2)}])
    (again,) = read_deltas([of_numpy(delta)])
    assert msgspec.json.encode(again) == msgspec.json.encode(delta)


def test_what_is_neither_a_number_nor_numpy_is_still_refused_by_name() -> None:
    with pytest.raises(apportion.InvalidInstance, match=r"licences.*must be an integer"):
        LicenceInstance("1", "three", ())  # type: ignore[arg-type]
    with pytest.raises(apportion.InvalidInstance, match=r"worth.*must be finite"):
        LicenceInstance("1", 3, (LicenceJob("a", 2, np.float64("nan")),))


def test_limits_of_numpy_are_plain_numbers_of_a_decision() -> None:
    options = SolveOptions(time_limit=np.float64(2.5), gap=np.float64(0.1), work_limit=np.float64(9))
    assert [type(one) for one in (options.time_limit, options.gap, options.work_limit)] == [float] * 3

"""A patched formulation is the one that compiling the changed instance makes, array by array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.instances.gap_filling import GapFillingInstance, GapFillingJob, ScalingCurve
from apportion.instances.kinds import Instance, kind_of
from apportion.models.splice import difference
from apportion.service.session import RememberingCompiler, Session
from apportion.solving.registry import formulation
from tests.budgets import examples
from tests.session.drawn_deltas import changed_instances

PATCHED = ("gap_filling", "multiple_choice_knapsack", "freezing")


@given(st.lists(st.integers(0, 6), max_size=8), st.lists(st.integers(0, 6), max_size=8), st.data())
def test_a_splice_puts_every_job_where_it_belongs(before: list[int], after: list[int], data: Any) -> None:
    objects = [str(number) * 2 for number in range(7)]
    old = [objects[number] for number in dict.fromkeys(before)]
    new = [objects[number] for number in dict.fromkeys(after)]
    sizes = {name: data.draw(st.integers(0, 3)) for name in objects}
    stale = np.array([data.draw(st.booleans()) for _ in old], dtype=np.bool_)
    splice = difference(old, new, stale)
    fresh = [new[at] for at in splice.fresh]

    def rows(names: list[str]) -> np.ndarray[Any, Any]:
        return np.array([f"{name}{i}" for name in names for i in range(sizes[name])], dtype="U3")

    def offsets(names: list[str]) -> np.ndarray[Any, Any]:
        return np.concatenate(([0], np.cumsum([sizes[name] for name in names]))).astype(np.int64)

    parts = offsets(old), offsets(fresh)
    assert splice.spliced_list(old, fresh) == new
    assert splice.rows(rows(old), rows(fresh), *parts).tolist() == rows(new).tolist()
    assert splice.offsets(*parts).tolist() == offsets(new).tolist()
    known = {id(name) for name, gone in zip(old, stale.tolist(), strict=True) if not gone}
    assert [id(name) in known for name in new] == [at not in splice.fresh for at in range(len(new))]
    if splice.fits(*parts):
        array = rows(old)
        splice.write(array, rows(fresh), *parts)
        assert array.tolist() == rows(new).tolist()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", PATCHED)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_a_patched_formulation_is_the_compiled_one(kind: str, data: Any) -> None:
    compiler, entry = RememberingCompiler(least_options=0), formulation(kind, None)
    for instance in data.draw(changed_instances(kind, steps=4)):
        found: Any = compiler(instance, entry)
        assert_same(found.formulation, entry.compile(instance), instance)


def test_other_idle_nodes_alone_are_another_capacity_of_the_same_menus() -> None:
    job = GapFillingJob("a", 2, 4, ScalingCurve((0, 4), (0.0, 3.0)), 1.0, 1.0, ("n1",))
    instance = GapFillingInstance("1", 9.0, tuple(f"n{k}" for k in range(8)), (job,))
    session = Session(instance, hypothetical=True)
    compiler, entry = RememberingCompiler(), formulation("gap_filling", None)
    first: Any = compiler(session.instance, entry)
    for amount, patched in ((6, 1), (4, 2), (3, 2), (2, 2), (5, 2), (7, 3)):  # below 4 the menu is shorter
        found: Any = compiler(session.set_capacity("idle_nodes", amount), entry)
        assert_same(found.formulation, entry.compile(session.instance), session.instance)
        assert compiler.patched == patched, amount
    assert first.formulation.model.capacities.tolist() == [8], "what was handed out stays as it was"
    session.set_nodes(["n0", "n2", "n3", "n4"])  # the job loses its node
    found = compiler(session.instance, entry)
    assert_same(found.formulation, entry.compile(session.instance), session.instance)
    assert compiler.patched == 3


def assert_same(found: Any, expected: Any, instance: Instance) -> None:
    assert found.instance is instance
    for name in ("values", "uses", "offsets", "capacities", "required"):
        one, other = getattr(found.model, name), getattr(expected.model, name)
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-15, atol=0)
        assert not one.flags.writeable
    assert found.model.sense == expected.model.sense
    assert found.model.capacity_names == expected.model.capacity_names
    np.testing.assert_allclose(found.value_error, expected.value_error, rtol=1e-12)
    if found.present() is None:
        assert expected.present() is None
    else:
        assert found.present().rows.tolist() == expected.present().rows.tolist()
    assert [found.option_name(row) for row in range(found.model.num_options)] == [
        expected.option_name(row) for row in range(found.model.num_options)
    ]
    assert found.job_names() == expected.job_names()
    first = np.where(np.diff(found.model.offsets) > 0, found.model.offsets[:-1], -1)
    if (first >= 0).all() and kind_of(instance).name != "gap_filling":
        assert found.plan(first) == expected.plan(first)
        back = found.choice(found.plan(first))
        assert back.tolist() == expected.choice(expected.plan(first)).tolist()

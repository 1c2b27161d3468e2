"""Random deltas for every kind of instance, drawn by hypothesis or by a seeded generator alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from hypothesis import strategies as st

from apportion.core.errors import InvalidInstance
from apportion.instances.draft import Draft
from apportion.instances.kinds import Instance, kind_of
from apportion.instances.placement.site import site_of
from apportion.service.applying import apply_all
from apportion.service.deltas import read_deltas
from tests.strategies import (
    freezing_instances,
    freezing_on_nodes,
    gap_filling_instances,
    knapsack_instances,
    matchings,
)

__all__ = ["INSTANCES", "Choose", "changed_instances", "drawn_delta"]

T = TypeVar("T")

INSTANCES: dict[str, st.SearchStrategy[Any]] = {
    "gap_filling": gap_filling_instances(pins=True),
    "multiple_choice_knapsack": knapsack_instances(),
    "matching": matchings(),
    "freezing": freezing_instances() | freezing_on_nodes(),
}


class Choose(Protocol):
    """Chooses one of some things; hypothesis or a generator of random numbers behind it."""

    def __call__(self, options: Sequence[T], /) -> T:
        """Return one of them."""
        ...


def drawn_delta(choose: Choose, instance: Any, donor: Any) -> dict[str, Any]:
    """Return a random delta as JSON has it, most often a valid one; `donor` has jobs of the same kind."""
    kind = kind_of(instance)
    assert kind.edits is not None
    ids = [job.id for job in instance.jobs]
    ops: list[Callable[[], dict[str, Any]]] = []
    if donor.jobs:
        ops.append(lambda: {"op": "add_job", "job": _json(choose(donor.jobs), id=f"n{choose(range(99))}")})
    if ids:
        ops.append(lambda: {"op": "remove_job", "id": choose(ids)})
        ops.append(lambda: {"op": "update_job", "job": _update(choose, choose(instance.jobs), donor)})
        if kind.edits.pin_field is not None:
            ops.append(lambda: {"op": "unpin", "id": choose(ids)})
            ops.append(lambda: _pin(choose, choose(instance.jobs)))
    amounts = kind.edits.capacities(instance)
    if amounts:
        ops.append(
            lambda: {
                "op": "set_capacity",
                "name": (name := choose(list(amounts))),
                "amount": max(0, amounts[name] + choose([-3, -2, -1, 1, 2, 3])),
            }
        )
    if kind.name == "gap_filling":
        names = sorted({*instance.nodes, *donor.nodes, "x"})
        ops.append(
            lambda: {"op": "set_nodes", "nodes": [name for name in names if choose([True, True, False])]}
        )
        ops.append(lambda: {"op": "set_fields", "fields": {"horizon_s": choose([1.0, 30, 120.0])}})
    if kind.name == "placement":
        nodes, field = site_of(instance).nodes or ("x",), choose(["rules", "goals"])
        ops.append(lambda: {"op": "remove_nodes", "nodes": [choose(nodes)]})
        ops.append(lambda: {"op": "set_fields", "fields": {field: _json(donor)[field]}})
    if kind.name == "matching":
        machine = {"id": f"m{choose(range(4))}", "count": choose([1, 2, 3])}
        ops.append(lambda: {"op": "set_machine", "machine": machine})
    return choose(ops)() if ops else {"op": "set_fields", "fields": {"name": "again"}}


def _update(choose: Choose, job: Any, donor: Any) -> dict[str, Any]:
    if donor.jobs and choose([True, False]):
        return _json(choose(donor.jobs), id=job.id)
    for field, values in (("weight", [0.5, 1, 2.0]), ("required", [True, False]), ("on", [{}])):
        if field in job.__struct_fields__:
            return {"id": job.id, field: choose(values)}
    return {"id": job.id}


def _pin(choose: Choose, job: Any) -> dict[str, Any]:
    names = [option.id for option in getattr(job, "options", ())]
    return {"op": "pin", "id": job.id, "option": choose([*names, "0"])}


def _json(part: Any, **fields: Any) -> dict[str, Any]:
    return {**msgspec.to_builtins(part), **fields}


@st.composite
def changed_instances(draw: st.DrawFn, kind: str, steps: int) -> list[Instance]:
    """An instance and what becomes of it, delta after delta; what cannot be applied is passed over."""
    instance, donor = draw(INSTANCES[kind]), draw(INSTANCES[kind])

    def choose(options: Sequence[T]) -> T:
        return draw(st.sampled_from(options))

    draft = Draft(instance)
    found: list[Instance] = [instance]
    for _ in range(draw(st.integers(1, steps))):
        attempt = draft.copied()
        try:
            apply_all(attempt, read_deltas([drawn_delta(choose, found[-1], donor)]))
        except InvalidInstance:
            continue
        draft = attempt
        found.append(draft.instance())
    return found

"""The messages that change what the jobs of a session share: capacities, nodes, machines and other fields."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from apportion.errors import InvalidInstance, Problem
from apportion.instances import edits
from apportion.instances.draft import Draft
from apportion.instances.kinds import kind_of
from apportion.instances.plain import plain
from apportion.reading.parts import part
from apportion.session.message import Message, name_of

__all__ = ["RemoveNodes", "SetCapacity", "SetFields", "SetMachine", "SetNodes"]

_FIXED_FIELDS = frozenset({"jobs", "schema_version", "kind"})
"""Fields of an instance that `SetFields` does not change."""


class SetCapacity(Message, frozen=True, tag="set_capacity"):
    """How much there is of a capacity from now on.

    Attributes
    ----------
    name
        Gap filling: ``idle_nodes`` (fewer: the last ones go that nobody holds; more are named by `SetNodes`);
        a matching: ``POOL``, ``POOL.count`` or ``POOL.capacity``; freezing: a GPU type, or ``frozen_penalty``
        in millionths; else its own name.
    amount
        At least 0.
    """

    blamed: ClassVar[str] = "amount"
    name: str
    amount: int

    def apply(self, draft: Draft, path: str) -> None:
        """Set the capacity."""
        if isinstance(self.amount, bool) or not isinstance(self.amount, int):
            raise InvalidInstance.at(f"{path}.amount", f"must be an integer, not {self.amount!r}")
        if self.amount < 0:
            raise InvalidInstance.at(f"{path}.amount", f"must not be negative, is {self.amount}")
        present = draft.edits.capacities(draft.base)
        try:
            edits.change_capacity_of(draft, self.name, self.amount - present.get(self.name, 0))
        except InvalidInstance as error:
            if self.name in present:
                raise
            raise InvalidInstance.at(f"{path}.name", error.problems[0].message) from None

    def words(self) -> str:
        """Return the change in a few words."""
        return f"{self.name} is {self.amount}"


class SetNodes(Message, frozen=True, tag="set_nodes"):
    """The nodes that are idle now, all of them; jobs lose the ones that are not among them. Gap filling.

    Attributes
    ----------
    nodes
        Their names.
    """

    blamed: ClassVar[str] = "nodes"
    nodes: Any

    def apply(self, draft: Draft, path: str) -> None:
        """Set the nodes."""
        put = draft.edits.set_nodes
        if put is None:
            raise InvalidInstance.at(path, "this kind of instance has no list of nodes; set a capacity")
        nodes = plain(self.nodes)
        draft.change(lambda instance: put(instance, nodes))

    def words(self) -> str:
        """Return the change in a few words."""
        return f"there are {len(self.nodes)} nodes"


class RemoveNodes(Message, frozen=True, tag="remove_nodes"):
    """Nodes or machines that are gone; jobs that hold one lose it. Gap filling and matching.

    Attributes
    ----------
    nodes
        Their names; of a matching ``v100[3]`` is one machine of a pool, ``v100`` all of them.
    """

    blamed: ClassVar[str] = "nodes"
    nodes: tuple[str, ...]

    def apply(self, draft: Draft, path: str) -> None:
        """Take the nodes away."""
        edits.remove_nodes_of(draft, self.nodes)

    def words(self) -> str:
        """Return the change in a few words."""
        return f"without {', '.join(self.nodes[:5])}{', ...' if len(self.nodes) > 5 else ''}"


class SetMachine(Message, frozen=True, tag="set_machine"):
    """A pool of machines, new or in the place of the one of its id. Matching.

    Attributes
    ----------
    machine
        The pool, as it stands in an instance.
    """

    blamed: ClassVar[str] = "machine"
    machine: Any

    def apply(self, draft: Draft, path: str) -> None:
        """Set the pool."""
        put, wanted = draft.edits.set_machine, draft.edits.machine_type
        if put is None or wanted is None:
            raise InvalidInstance.at(path, "this kind of instance has no pools of machines")
        machine = part(draft.base, wanted, self.machine, f"{path}.machine")
        draft.change(lambda instance: put(instance, machine))

    def words(self) -> str:
        """Return the change in a few words."""
        return f"machines {name_of(self.machine)} are set"


class SetFields(Message, frozen=True, tag="set_fields"):
    """Other fields of the instance: ``horizon_s``, ``queue_penalty``, ``name`` and so on.

    Attributes
    ----------
    fields
        Their new values; ``jobs`` and ``schema_version`` cannot be among them.
    """

    blamed: ClassVar[str] = "fields"
    fields: dict[str, Any]

    def apply(self, draft: Draft, path: str) -> None:
        """Set the fields."""
        known = [name for name in draft.base.__struct_fields__ if name not in _FIXED_FIELDS]
        unknown = [name for name in self.fields if name not in known]
        if unknown:
            reason = f"is no field that can be set; these are {', '.join(known)}"
            raise InvalidInstance([Problem(f"{path}.fields.{name}", reason) for name in unknown])
        bare = {name: getattr(draft.base, name) for name in draft.base.__struct_fields__}
        tree = {**bare, **plain(self.fields), "jobs": (), "kind": kind_of(draft.base).name}
        tree = {name: value for name, value in tree.items() if value is not msgspec.UNSET}
        changed = part(draft.base, type(draft.base), tree, f"{path}.fields")
        values = {name: getattr(changed, name) for name in self.fields}
        draft.change_around(lambda instance: msgspec.structs.replace(instance, **values))

    def words(self) -> str:
        """Return the change in a few words."""
        return ", ".join(f"{name} is set" for name in self.fields)

"""Every message that can change a session, ``{"op": "add_job", "job": {...}}`` and so on, and its reading.

Some are for some kinds of instances alone; what differs by kind stands in the table of kinds
(`apportion.instances.kind.Edits`), which what-if questions use too.

Some change the jobs of a session, which are added, changed, removed, pinned and given what they have now;
some what its jobs share: capacities, nodes, machines and other fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from apportion.core.errors import InvalidInstance, Problem, did_you_mean
from apportion.instances import edits
from apportion.instances.draft import Draft
from apportion.instances.fields import normalise, plain_value
from apportion.instances.kinds import kind_of
from apportion.io.diagnosis import problems_of_part
from apportion.io.places import part

__all__ = [
    "DELTAS",
    "AddJob",
    "Adopt",
    "Delta",
    "Message",
    "Pin",
    "RemoveJob",
    "RemoveNodes",
    "SetCapacity",
    "SetFields",
    "SetMachine",
    "SetNodes",
    "Unpin",
    "UpdateJob",
    "name_of",
    "read_deltas",
]


class Message(Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    """A change of an instance, with the tag ``op``."""

    blamed: ClassVar[str] = ""
    """The field of the message that a problem of the whole instance is reported at."""

    def apply(self, draft: Draft, path: str) -> None:
        """Change a draft; problems are reported at paths that begin with `path`."""
        raise NotImplementedError

    def words(self) -> str:
        """Return the change in a few words."""
        raise NotImplementedError


def name_of(part: Any) -> str:
    """Return the id of a job or of a pool of machines, given as an object or as decoded from JSON."""
    name = part.get("id") if isinstance(part, Mapping) else getattr(part, "id", None)
    return str(name)


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
        nodes = plain_value(self.nodes)
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
        alone = draft.edits.rules is not None  # else fields may name jobs, and are checked with them
        bare["jobs"] = () if alone else draft.instance().jobs
        tree = {**bare, **plain_value(self.fields), "kind": kind_of(draft.base).name}
        tree = {name: value for name, value in tree.items() if value is not msgspec.UNSET}
        changed = part(draft.base, type(draft.base), tree, f"{path}.fields")
        if not alone:
            draft.change(lambda _: changed)
            return
        values = {name: getattr(changed, name) for name in self.fields}
        draft.change_around(lambda instance: msgspec.structs.replace(instance, **values))

    def words(self) -> str:
        """Return the change in a few words."""
        return ", ".join(f"{name} is set" for name in self.fields)


class AddJob(Message, frozen=True, tag="add_job"):
    """A new job, at the end of the list.

    Attributes
    ----------
    job
        The job, as it stands in an instance of this kind.
    """

    blamed: ClassVar[str] = "job"
    job: Any

    def apply(self, draft: Draft, path: str) -> None:
        """Add the job."""
        where = f"{path}.job"
        draft.add(part(draft.base, draft.edits.job_type, self.job, where), where)

    def words(self) -> str:
        """Return the change in a few words."""
        return f"{name_of(self.job)} is added"


class UpdateJob(Message, frozen=True, tag="update_job"):
    """Other values for some fields of a job; fields that are not named stay as they are.

    Attributes
    ----------
    job
        The job's ``id`` and the fields that change.
    """

    blamed: ClassVar[str] = "job"
    job: Any

    def apply(self, draft: Draft, path: str) -> None:
        """Change the fields."""
        where, wanted = f"{path}.job", draft.edits.job_type
        if isinstance(self.job, wanted):
            draft.replace(self.job, where)
            return
        given = plain_value(self.job)
        if not isinstance(given, Mapping) or not isinstance(given.get("id"), str):
            raise InvalidInstance.at(f"{where}.id", "is missing: it says which job changes")
        old = draft.job(given["id"], f"{where}.id")
        merged = {**{name: getattr(old, name) for name in old.__struct_fields__}, **given}
        merged = {name: value for name, value in merged.items() if value is not msgspec.UNSET}
        draft.replace(part(draft.base, wanted, merged, where), where)

    def words(self) -> str:
        """Return the change in a few words."""
        return f"{name_of(self.job)} is changed"


class RemoveJob(Message, frozen=True, tag="remove_job"):
    """A job that is gone, done or withdrawn; the nodes it holds are free.

    Attributes
    ----------
    id
        The job's id.
    """

    blamed: ClassVar[str] = "id"
    id: str

    def apply(self, draft: Draft, path: str) -> None:
        """Take the job away."""
        draft.remove(self.id, f"{path}.id")

    def words(self) -> str:
        """Return the change in a few words."""
        return f"{self.id} is removed"


class Pin(Message, frozen=True, tag="pin"):
    """A job that must get one option.

    Attributes
    ----------
    id
        The job's id.
    option
        An option id; for gap filling a node count, for a matching a pool, for freezing ``2xv100`` or
        ``2xv100, 29 layers frozen``.
    """

    blamed: ClassVar[str] = "option"
    id: str
    option: int | str

    def apply(self, draft: Draft, path: str) -> None:
        """Pin the job."""
        draft.require([self.id], f"{path}.id")
        edits.pin_of(draft, {self.id: self.option})

    def words(self) -> str:
        """Return the change in a few words."""
        return f"{self.id} is pinned to {self.option}"


class Unpin(Message, frozen=True, tag="unpin"):
    """A job whose pin is lifted.

    Attributes
    ----------
    id
        The job's id.
    """

    blamed: ClassVar[str] = "id"
    id: str

    def apply(self, draft: Draft, path: str) -> None:
        """Lift the pin."""
        draft.require([self.id], f"{path}.id")
        edits.unpin_of(draft, [self.id])

    def words(self) -> str:
        """Return the change in a few words."""
        return f"{self.id} is not pinned"


class Adopt(Message, frozen=True, tag="adopt"):
    """A plan that was carried out: every job has now what it gives it.

    Attributes
    ----------
    plan
        A feasible plan of the instance as it is now.
    """

    blamed: ClassVar[str] = "plan"
    plan: Any

    def apply(self, draft: Draft, path: str) -> None:
        """Make the plan the present state."""
        adopt = draft.edits.adopt
        if adopt is None:
            raise InvalidInstance.at(path, "this kind of instance keeps no present state of its jobs")
        instance = draft.instance()
        report = kind_of(instance).check(instance, self.plan)
        if not report.feasible:
            raise InvalidInstance([Problem(f"{path}.plan", str(rule)) for rule in report.violations[:20]])
        for job in list(adopt(instance, self.plan)):
            draft.replace(job, f"{path}.plan")

    def words(self) -> str:
        """Return the change in a few words."""
        return "the plan is carried out"


Delta = (
    AddJob
    | UpdateJob
    | RemoveJob
    | SetCapacity
    | SetNodes
    | RemoveNodes
    | SetMachine
    | SetFields
    | Pin
    | Unpin
    | Adopt
)
"""Any of the messages."""

DELTAS: Mapping[str, type[Any]] = {delta.__struct_config__.tag: delta for delta in Delta.__args__}
"""The messages by their ``op``."""


def read_deltas(source: Any, path: str = "$.deltas") -> list[Delta]:
    """Return deltas from a list of them, each a `Delta` or as decoded from JSON.

    Raises
    ------
    InvalidInstance
        If one is no delta; paths begin with `path`, and every delta that is none is listed.
    """
    if isinstance(source, str | bytes | Mapping) or not isinstance(source, Iterable):
        raise InvalidInstance.at(path, "must be a list of deltas")
    found: list[Delta] = []
    problems: list[Problem] = []
    for index, given in enumerate(source):
        try:
            found.append(_read(given, f"{path}[{index}]"))
        except InvalidInstance as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInstance(problems)
    return found


def _read(given: Any, path: str) -> Delta:
    if isinstance(given, Delta):
        if problems := normalise(given, path):
            raise InvalidInstance(problems)
        return given
    known = ", ".join(DELTAS)
    if not isinstance(given, Mapping):
        raise InvalidInstance.at(path, f"must be an object with an op, one of {known}")
    op = given.get("op")
    if not isinstance(op, str) or op not in DELTAS:
        meant = did_you_mean(op, DELTAS)
        wrong = "is missing" if op is None else f"{op!r} is no delta"
        raise InvalidInstance.at(f"{path}.op", f"{wrong}; there are {known}{meant}")
    tree = plain_value(given)
    try:
        read: Delta = msgspec.convert(tree, DELTAS[op])
        return read
    except msgspec.ValidationError as error:
        found = problems_of_part(DELTAS[op], tree, path)
        raise InvalidInstance(found or Problem.of_decoding(error, path)) from None

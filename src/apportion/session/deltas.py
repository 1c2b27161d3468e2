"""The messages that change the instance of a session: ``{"op": "add_job", "job": {...}}`` and so on.

Every delta is a msgspec struct with the tag ``op``. Some are for some kinds of instances alone; what differs
by kind stands in the table of kinds (`apportion.instances.kind.Edits`), which what-if questions use too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace as replaced
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from apportion.choices import did_you_mean
from apportion.errors import InvalidInstance, Problem
from apportion.instances import edits
from apportion.instances.draft import Draft
from apportion.instances.kinds import kind_of
from apportion.reading.parts import part, plain

__all__ = [
    "DELTAS",
    "AddJob",
    "Adopt",
    "Delta",
    "Pin",
    "RemoveJob",
    "RemoveNodes",
    "SetCapacity",
    "SetFields",
    "SetMachine",
    "SetNodes",
    "Unpin",
    "UpdateJob",
    "apply_all",
    "read_deltas",
]

_NOT_SET = frozenset({"jobs", "schema_version", "kind"})
"""Fields of an instance that `SetFields` does not change."""


class _Delta(Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    """What every delta can do."""

    told_at: ClassVar[str] = ""
    """The field of the delta that a problem of the instance is told at."""

    def apply(self, draft: Draft, path: str) -> None:
        """Change a draft; problems are told at paths that begin with `path`."""
        raise NotImplementedError

    def words(self) -> str:
        """Return the change in a few words."""
        raise NotImplementedError


class AddJob(_Delta, frozen=True, tag="add_job"):
    """A new job, at the end of the list.

    Attributes
    ----------
    job
        The job, as it stands in an instance of this kind.
    """

    told_at: ClassVar[str] = "job"
    job: Any

    def apply(self, draft: Draft, path: str) -> None:
        """Add the job."""
        where = f"{path}.job"
        draft.add(part(draft.base, draft.edits.job_type, self.job, where), where)

    def words(self) -> str:
        """Return the change in a few words."""
        return f"{_name(self.job)} is added"


class UpdateJob(_Delta, frozen=True, tag="update_job"):
    """Other values for some fields of a job; fields that are not named stay as they are.

    Attributes
    ----------
    job
        The job's ``id`` and the fields that change.
    """

    told_at: ClassVar[str] = "job"
    job: Any

    def apply(self, draft: Draft, path: str) -> None:
        """Change the fields."""
        where, wanted = f"{path}.job", draft.edits.job_type
        if isinstance(self.job, wanted):
            draft.replace(self.job, where)
            return
        given = plain(self.job)
        if not isinstance(given, Mapping) or not isinstance(given.get("id"), str):
            raise InvalidInstance.at(f"{where}.id", "is missing: it says which job changes")
        old = draft.job(given["id"], f"{where}.id")
        merged = {**{name: getattr(old, name) for name in old.__struct_fields__}, **given}
        merged = {name: value for name, value in merged.items() if value is not msgspec.UNSET}
        draft.replace(part(draft.base, wanted, merged, where), where)

    def words(self) -> str:
        """Return the change in a few words."""
        return f"{_name(self.job)} is changed"


class RemoveJob(_Delta, frozen=True, tag="remove_job"):
    """A job that is gone, done or withdrawn; the nodes it holds are free.

    Attributes
    ----------
    id
        The job's id.
    """

    told_at: ClassVar[str] = "id"
    id: str

    def apply(self, draft: Draft, path: str) -> None:
        """Take the job away."""
        draft.remove(self.id, f"{path}.id")

    def words(self) -> str:
        """Return the change in a few words."""
        return f"{self.id} is removed"


class SetCapacity(_Delta, frozen=True, tag="set_capacity"):
    """How much there is of a capacity from now on.

    Attributes
    ----------
    name
        Gap filling: ``idle_nodes`` (nodes are made up or taken away); a matching: ``POOL``, ``POOL.count`` or
        ``POOL.capacity``; freezing: a GPU type, or ``frozen_penalty`` in millionths; else its own name.
    amount
        At least 0.
    """

    told_at: ClassVar[str] = "amount"
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


class SetNodes(_Delta, frozen=True, tag="set_nodes"):
    """The nodes that are idle now, all of them; jobs lose the ones that are not among them. Gap filling.

    Attributes
    ----------
    nodes
        Their names.
    """

    told_at: ClassVar[str] = "nodes"
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


class RemoveNodes(_Delta, frozen=True, tag="remove_nodes"):
    """Nodes or machines that are gone; jobs that hold one lose it. Gap filling and matching.

    Attributes
    ----------
    nodes
        Their names; of a matching ``v100[3]`` is one machine of a pool, ``v100`` all of them.
    """

    told_at: ClassVar[str] = "nodes"
    nodes: tuple[str, ...]

    def apply(self, draft: Draft, path: str) -> None:
        """Take the nodes away."""
        draft.change(lambda instance: edits.remove_nodes(instance, self.nodes))

    def words(self) -> str:
        """Return the change in a few words."""
        return f"without {', '.join(self.nodes[:5])}{', ...' if len(self.nodes) > 5 else ''}"


class SetMachine(_Delta, frozen=True, tag="set_machine"):
    """A pool of machines, new or in the place of the one of its id. Matching.

    Attributes
    ----------
    machine
        The pool, as it stands in an instance.
    """

    told_at: ClassVar[str] = "machine"
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
        return f"machines {_name(self.machine)} are set"


class SetFields(_Delta, frozen=True, tag="set_fields"):
    """Other fields of the instance: ``horizon_s``, ``queue_penalty``, ``name`` and so on.

    Attributes
    ----------
    fields
        Their new values; ``jobs`` and ``schema_version`` cannot be among them.
    """

    told_at: ClassVar[str] = "fields"
    fields: dict[str, Any]

    def apply(self, draft: Draft, path: str) -> None:
        """Set the fields."""
        known = [name for name in draft.base.__struct_fields__ if name not in _NOT_SET]
        unknown = [name for name in self.fields if name not in known]
        if unknown:
            told = f"is no field that can be set; these are {', '.join(known)}"
            raise InvalidInstance([Problem(f"{path}.fields.{name}", told) for name in unknown])
        bare = {name: getattr(draft.base, name) for name in draft.base.__struct_fields__}
        tree = {**bare, **plain(self.fields), "jobs": (), "kind": kind_of(draft.base).name}
        tree = {name: value for name, value in tree.items() if value is not msgspec.UNSET}
        changed = part(draft.base, type(draft.base), tree, f"{path}.fields")
        values = {name: getattr(changed, name) for name in self.fields}
        draft.change_around(lambda instance: msgspec.structs.replace(instance, **values))

    def words(self) -> str:
        """Return the change in a few words."""
        return ", ".join(f"{name} is set" for name in self.fields)


class Pin(_Delta, frozen=True, tag="pin"):
    """A job that must get one option.

    Attributes
    ----------
    id
        The job's id.
    option
        An option id; for gap filling a node count, for a matching a pool, for freezing ``2xv100`` or
        ``2xv100, 29 layers frozen``.
    """

    told_at: ClassVar[str] = "option"
    id: str
    option: int | str

    def apply(self, draft: Draft, path: str) -> None:
        """Pin the job."""
        draft.require([self.id], f"{path}.id")
        draft.change_jobs([self.id], lambda instance: draft.edits.pin(instance, {self.id: self.option}))

    def words(self) -> str:
        """Return the change in a few words."""
        return f"{self.id} is pinned to {self.option}"


class Unpin(_Delta, frozen=True, tag="unpin"):
    """A job whose pin is lifted.

    Attributes
    ----------
    id
        The job's id.
    """

    told_at: ClassVar[str] = "id"
    id: str

    def apply(self, draft: Draft, path: str) -> None:
        """Lift the pin."""
        draft.require([self.id], f"{path}.id")
        edits.unpin_of(draft, [self.id])

    def words(self) -> str:
        """Return the change in a few words."""
        return f"{self.id} is not pinned"


class Adopt(_Delta, frozen=True, tag="adopt"):
    """A plan that was carried out: every job has now what it gives it.

    Attributes
    ----------
    plan
        A feasible plan of the instance as it is now.
    """

    told_at: ClassVar[str] = "plan"
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
        If one is no delta; paths begin with `path`, and every delta that is none is told.
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
        return given
    known = ", ".join(DELTAS)
    if not isinstance(given, Mapping):
        raise InvalidInstance.at(path, f"must be an object with an op, one of {known}")
    op = given.get("op")
    if not isinstance(op, str) or op not in DELTAS:
        meant = did_you_mean(op, DELTAS)
        told = "is missing" if op is None else f"{op!r} is no delta"
        raise InvalidInstance.at(f"{path}.op", f"{told}; there are {known}{meant}")
    try:
        read: Delta = msgspec.convert(plain(given), DELTAS[op])
        return read
    except msgspec.ValidationError as error:
        raise InvalidInstance(_misshapen(DELTAS[op], given, str(error), path)) from None


def _misshapen(delta: type[Any], given: Mapping[str, Any], message: str, path: str) -> list[Problem]:
    """Return which fields of a delta are missing, unknown or of the wrong type."""
    fields = delta.__struct_fields__
    problems = [Problem(f"{path}.{name}", "is missing") for name in fields if name not in given]
    problems += [
        Problem(f"{path}.{name}", f"is an unknown field{did_you_mean(str(name), fields)}")
        for name in given
        if name not in (*fields, "op")
    ]
    if problems:
        return problems
    told, _, place = message.partition(" - at ")
    return [Problem(f"{path}{place.strip('`')[1:]}", told)]


def apply_all(draft: Draft, deltas: Iterable[Delta], path: str = "$.deltas") -> None:
    """Apply deltas to a draft in their order.

    Raises
    ------
    InvalidInstance
        At the first one that cannot be applied; the draft is not to be used any more then.
    """
    touched: dict[str, str] = {}
    index = -1
    for index, delta in enumerate(deltas):
        where = f"{path}[{index}]"
        try:
            delta.apply(draft, where)
        except InvalidInstance as error:
            told = [_within(problem, where, delta.told_at) for problem in error.problems]
            raise InvalidInstance(told) from None
        if isinstance(delta, AddJob | UpdateJob):
            touched[_name(delta.job)] = f"{where}.job"
    try:
        draft.instance()
    except InvalidInstance as error:
        raise InvalidInstance([_at_delta(problem, draft, touched) for problem in error.problems]) from None


def _name(job: Any) -> str:
    name = job.get("id") if isinstance(job, Mapping) else getattr(job, "id", None)
    return str(name)


def _within(problem: Problem, where: str, field: str) -> Problem:
    """Return a problem with its path inside a delta; one of the instance itself is told at a field of it."""
    if problem.path.startswith(where):
        return problem
    same = problem.path[2:].startswith(field)  # $.nodes[3] of the instance is that of the delta
    return replaced(problem, path=f"{where}.{problem.path[2:] if same else field}")


def _at_delta(problem: Problem, draft: Draft, touched: Mapping[str, str]) -> Problem:
    """Return a problem between jobs at the delta that brought the job, where one did."""
    name, rest = draft.place(problem.path)
    if name not in touched:
        return problem
    return replaced(problem, path=f"{touched[name]}{rest}", job=name)

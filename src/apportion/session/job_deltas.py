"""The messages that change the jobs of a session: added, changed, removed, pinned, and what each has now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from apportion.errors import InvalidInstance, Problem
from apportion.instances import edits
from apportion.instances.draft import Draft
from apportion.instances.kinds import kind_of
from apportion.instances.plain import plain
from apportion.reading.parts import part
from apportion.session.message import Message, name_of

__all__ = ["AddJob", "Adopt", "Pin", "RemoveJob", "Unpin", "UpdateJob"]


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
        given = plain(self.job)
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

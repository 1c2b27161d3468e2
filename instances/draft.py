"""An instance that is being changed: jobs by id, every change checked at the cost of what it touches."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from itertools import islice
from typing import Any, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from apportion.core.errors import InvalidInstance, Problem, did_you_mean, quoted_names
from apportion.instances.fields import normalise, remade
from apportion.instances.kind import Edits, JobRules
from apportion.instances.kinds import Instance, kind_of
from apportion.instances.tenants.schema import Tenanted, TenantedJob

__all__ = ["Draft", "edits_of", "is_tenanted", "with_jobs"]

_I = TypeVar("_I", bound=Struct)

_JOB = re.compile(r"\$\.jobs\[(\d+)\]")


class Draft:
    """A working copy of an instance; what fails leaves it as it was before.

    Jobs that are added, replaced or removed are checked alone, the rules between jobs and those of tenants
    when the instance is asked for. Jobs that nothing touches stay the same objects.

    Parameters
    ----------
    instance
        A valid instance; it is not changed.
    """

    def __init__(self, instance: Instance) -> None:
        self._edits = edits_of(instance)
        self._base: Any = instance
        self._jobs: dict[str, Any] = {job.id: job for job in instance.jobs}
        self._made: Any = instance
        self._between = False
        self._tenanted = is_tenanted(instance)
        self._touched: frozenset[str] = frozenset()

    def copied(self) -> Draft:
        """Return a draft of its own with the same content."""
        other = Draft.__new__(Draft)
        other.__dict__.update(self.__dict__, _jobs=dict(self._jobs))
        return other

    def __reduce__(self) -> tuple[type[Draft], tuple[Instance]]:
        return (Draft, (self.instance(),))

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def edits(self) -> Edits:
        """How instances of this kind are changed."""
        return self._edits

    @property
    def base(self) -> Any:
        """The instance as it is now in all fields but the jobs, which may be older."""
        return self._base

    def job(self, name: str, path: str = "$.jobs") -> Any:
        """Return a job by its id.

        Raises
        ------
        InvalidInstance
            If there is none, at the given path.
        """
        self.require([name], path)
        return self._jobs[name]

    def require(self, names: list[str], path: str = "$.jobs") -> None:
        """Raise `InvalidInstance` unless there are jobs of these ids."""
        missing = [name for name in names if name not in self._jobs]
        if missing:
            meant = did_you_mean(missing[0], self._jobs)
            raise InvalidInstance.at(path, f"there is no job {quoted_names(missing)}{meant}")

    def add(self, job: Any, path: str = "$.jobs") -> None:
        """Put a job at the end.

        Raises
        ------
        InvalidInstance
            If it is of another kind, breaks a rule or its id is taken; paths begin with `path`.
        """
        self._checked(job, path)
        if job.id in self._jobs:
            raise InvalidInstance.at(path, f"there already is a job {job.id!r}")
        self._put(job)

    def replace(self, job: Any, path: str = "$.jobs") -> None:
        """Put a job in the place of the one of its id.

        Raises
        ------
        InvalidInstance
            If it is of another kind, breaks a rule, or there is no such job; paths begin with `path`.
        """
        self._checked(job, path)
        self.require([job.id], path)
        self._put(job)

    def remove(self, name: str, path: str = "$.jobs") -> None:
        """Take a job away.

        Raises
        ------
        InvalidInstance
            If there is none of that id.
        """
        self.require([name], path)
        del self._jobs[name]
        if self._edits.without_job is not None:
            self._base = self._edits.without_job(self._base, name)
        self._made = None

    def change(self, change: Callable[[Any], Any]) -> None:
        """Apply a function from instance to instance; what it changes is checked."""
        before = self.instance()
        after = change(before)
        self._check_change(before, after)
        if after.jobs is not before.jobs:
            self._jobs = {job.id: job for job in after.jobs}
        self._base = self._made = after
        self._tenanted = is_tenanted(after)

    def change_capacity(self, change: Callable[[Any], Any]) -> None:
        """Apply a function that changes a capacity."""
        rules = self._edits.rules
        if rules is not None and rules.around is not None:
            self.change(change)
        else:
            self.change_around(change)

    def change_around(self, change: Callable[[Any], Any]) -> None:
        """Apply a function that changes other fields than the jobs.

        It is tried without jobs first: where what it changes does not matter to them, they are not gone
        through again.
        """
        rules = self._edits.rules
        if rules is not None and not self._tenanted:
            alone = change(replace(self._base, jobs=()))
            if rules.keep(self._base, alone):
                self._base, self._made, self._tenanted = alone, None, is_tenanted(alone)
                return
        self.change(change)

    def change_jobs(self, names: list[str], change: Callable[[Any], Any]) -> None:
        """Apply a function that changes jobs one by one to an instance of these jobs alone."""
        self.require(names)
        if self._edits.rules is None:
            self.change(change)
            return
        part = remade(self._base, jobs=tuple(self._jobs[name] for name in names))
        for job in change(part).jobs:
            self.replace(job)

    def instance(self) -> Instance:
        """Return the instance as it is now.

        Raises
        ------
        InvalidInstance
            If a rule between jobs is broken.
        """
        if self._made is None:
            self._made = self._assembled()
        made: Instance = self._made
        return made

    def place(self, path: str) -> tuple[str, str]:
        """Return the id of the job that a path of the instance is about and the rest of it, else ``""``."""
        match = _JOB.match(path)
        if match is None or int(match[1]) >= len(self._jobs):
            return "", path
        return next(islice(self._jobs, int(match[1]), None)), path[match.end() :]

    def _assembled(self) -> Any:
        jobs, rules = tuple(self._jobs.values()), self._edits.rules
        if rules is None or (self._tenanted and rules.tenants is None):
            return replace(self._base, jobs=jobs)
        made = with_jobs(self._base, jobs)
        problems: list[Problem] = []
        if self._between and rules.lose is not None:
            rules.lose(made)
            self._jobs = {job.id: job for job in made.jobs}
        if self._between and rules.between is not None:
            rules.between(made, problems)
        self._check_tenants(made, self._touched, problems)
        if problems:
            raise InvalidInstance(problems)
        self._between, self._touched = False, frozenset()
        return made

    def _check_change(self, before: Any, after: Any) -> None:
        """Check what an edit made of an instance: everything, unless the kind has rules for less."""
        rules = self._edits.rules
        if rules is None or rules.around is None:
            return  # the edits of such a kind check the whole instance themselves
        if is_tenanted(after) and rules.tenants is None:
            replace(after)
            return
        problems = normalise(remade(after, jobs=()))
        again = None if problems else rules.around(before, after, problems)
        if problems:
            raise InvalidInstance(problems)
        touched = _touched(before.jobs, after.jobs, again)
        for index in touched:
            _check(rules, f"$.jobs[{index}]", after.jobs[index], after, problems)
        if problems:
            raise InvalidInstance(problems)
        if is_tenanted(after):
            self._check_tenants(after, {after.jobs[index].id for index in touched}, problems)
        if problems:
            raise InvalidInstance(problems)

    def _check_tenants(self, instance: Any, touched: Container[str], problems: list[Problem]) -> None:
        rules = self._edits.rules
        if self._tenanted and rules is not None and rules.tenants is not None:
            rules.tenants(instance, problems, touched)

    def _put(self, job: Any) -> None:
        rules = self._edits.rules
        if rules is not None:
            self._tenanted = self._tenanted or _has_any(job, TenantedJob)
            self._between = self._between or rules.concerns(job)
            self._touched |= {job.id}
        self._jobs[job.id] = job
        self._made = None

    def _checked(self, job: Any, path: str) -> None:
        wanted = self._edits.job_type
        if not isinstance(job, wanted):
            raise InvalidInstance.at(path, f"must be a {wanted.__name__}, not {type(job).__name__}")
        problems: list[Problem] = []
        _check(self._edits.rules, path, job, self._base, problems)
        if problems:
            raise InvalidInstance(problems)


def _check(rules: JobRules | None, path: str, job: Any, instance: Any, problems: list[Problem]) -> None:
    """Note what is wrong with the fields of a job, or where these are right with what they say."""
    wrong = normalise(job, path)
    problems += wrong
    if rules is not None and not wrong:
        rules.check(path, job, instance, problems)


def with_jobs(instance: _I, jobs: Iterable[Any]) -> _I:
    """Return an instance with other jobs; unlike ``msgspec.structs.replace`` this checks nothing."""
    return remade(instance, jobs=tuple(jobs))


def is_tenanted(instance: Any) -> bool:
    """Return whether rules of tenants bind jobs together."""
    return _has_any(instance, Tenanted)


def _touched(
    before: tuple[Any, ...], after: tuple[Any, ...], again: Callable[[Any], bool] | None
) -> list[int]:
    """Return the places of jobs that are not the objects that they were, or that are to be checked again."""
    if after is before:
        return [] if again is None else [at for at, job in enumerate(after) if again(job)]
    old = zip(after, before, strict=True)
    return [at for at, (job, was) in enumerate(old) if job is not was or (again is not None and again(job))]


def _has_any(part: Any, fields: type[Struct]) -> bool:
    return any(getattr(part, name, UNSET) is not UNSET for name in fields.__struct_fields__)


def edits_of(instance: Any) -> Edits:
    """Return how the kind of an instance is changed.

    Raises
    ------
    InvalidInstance
        If it is no instance, or of a kind that is not changed in this way.
    """
    try:
        edits = kind_of(instance).edits
    except TypeError as error:
        raise InvalidInstance.at("$", str(error)) from None
    if edits is None:
        raise InvalidInstance.at("$.kind", f"a {type(instance).__name__} cannot be edited in this way yet")
    return edits

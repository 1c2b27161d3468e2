"""What a kind of instance is: a record of everything that differs from kind to kind below the solvers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from msgspec import Struct

from apportion.core.errors import Problem
from apportion.core.outcome import Report
from apportion.instances.options import OptionSet

__all__ = ["Edits", "JobRules", "ProblemType", "WayIn", "Wording", "options_bound"]


def _as_it_is(instance: Any) -> Any:
    return instance


def options_bound(instance: Any, multipliers: Mapping[str, float]) -> Fraction | None:
    """Stand for the bound of the options, until the kind is in the table of kinds."""
    raise NotImplementedError


def _objective(_: Any) -> str:
    return "objective"


class WayIn(NamedTuple):
    """How a job that waits would get something.

    Attributes
    ----------
    instance
        Another one, in which it does, and whoever has something keeps it as far as that goes.
    said
        ``said(plan)``: what a plan of it does to the others, in words.
    """

    instance: Any
    said: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class JobRules:
    """The rules of an instance job by job, so that a change is checked at the cost of what it touches.

    Attributes
    ----------
    check
        ``check(path, job, instance, problems)``: note what is wrong with one job of an instance whose fields
        are right, whatever the other jobs are.
    keep
        ``keep(old, new)``: whether every job that is valid in the one instance is valid in the other, which
        has the same jobs.
    between
        ``between(instance, problems)``: note what is wrong between jobs, their distinct ids apart; ``None``
        without such rules.
    lose
        ``lose(instance)``: take from jobs what is not there any more; ``None`` where nothing can be lost.
    concerns
        ``concerns(job)``: whether a job has a part in the rules between jobs.
    around
        ``around(old, new, problems)``: note what is wrong with what an edit of nodes, machines or capacities
        has made of a valid instance, its jobs apart. Returned is which of the jobs that it left alone must
        be checked again, ``None`` for none of them. With it the edits of the kind leave all checking to
        their caller; ``None`` where they check the whole instance themselves.
    tenants
        ``tenants(instance, problems, touched)``: note what is wrong with the tenants, and with what belongs
        to the tenant of the jobs of these ids; ``None`` for a kind without tenants, or where the whole
        instance is checked again.
    """

    check: Callable[[str, Any, Any, list[Problem]], None]
    keep: Callable[[Any, Any], bool]
    between: Callable[[Any, list[Problem]], None] | None = None
    lose: Callable[[Any], None] | None = None
    concerns: Callable[[Any], bool] = bool
    around: Callable[[Any, Any, list[Problem]], Callable[[Any], bool] | None] | None = None
    tenants: Callable[[Any, list[Problem], Container[str]], None] | None = None


@dataclass(frozen=True, slots=True)
class Edits:
    """How instances of one kind are changed; `apportion.instances.draft` checks what they return.

    Attributes
    ----------
    job_type
        The msgspec type of a job.
    capacities
        ``capacities(instance)``: how much there is of every capacity, by the names that change it.
    change_capacity
        ``change_capacity(instance, name, present, delta)``: the instance with ``present + delta`` of a
        capacity.
    pin
        ``pin(instance, choices)``: the instance with jobs held to one option each, by job id.
    pin_field
        The field of a job that holds its pin; ``None`` where pinning cuts the menu and cannot be lifted.
    remove_nodes
        ``remove_nodes(instance, names)``; ``None`` if the kind has no nodes.
    change_budgets
        ``change_budgets(instance, deltas)``; ``None`` if the kind has no accuracy budgets.
    rules
        The rules job by job; ``None`` where every change has the whole instance checked again.
    set_nodes
        ``set_nodes(instance, nodes)``: the instance with these nodes, its jobs without those that are gone;
        ``None`` if the kind has no nodes by name.
    machine_type
        The msgspec type of a pool of machines; ``None`` if the kind has none.
    set_machine
        ``set_machine(instance, machine)``: the instance with a pool added, or put in the place of its name.
    named_by
        ``named_by(instance, name)``: the delta of a session that names the nodes behind a capacity, which
        more of it would have to make up; ``None``, or no function, where nothing behind it has a name.
    without_job
        ``without_job(instance, name)``: the instance without what its other fields say of a job that is taken
        away; ``None`` where these say nothing of single jobs.
    adopt
        ``adopt(instance, plan)``: the jobs that have now something else than a feasible plan gives them, each
        with that; ``None`` if the kind keeps no present state.
    """

    job_type: type[Any]
    capacities: Callable[[Any], dict[str, int]]
    change_capacity: Callable[[Any, str, int, int], Any]
    pin: Callable[[Any, Mapping[str, int | str]], Any]
    pin_field: str | None = None
    remove_nodes: Callable[[Any, Iterable[str]], Any] | None = None
    change_budgets: Callable[[Any, Mapping[str, float]], Any] | None = None
    rules: JobRules | None = None
    set_nodes: Callable[[Any, Any], Any] | None = None
    machine_type: type[Any] | None = None
    set_machine: Callable[[Any, Any], Any] | None = None
    adopt: Callable[[Any, Mapping[str, Any]], Iterable[Any]] | None = None
    named_by: Callable[[Any, str], str | None] | None = None
    without_job: Callable[[Any, str], Any] | None = None


@dataclass(frozen=True, slots=True)
class Wording:
    """How instances of one kind are spoken of in explanations and comparisons.

    Attributes
    ----------
    units
        The unit of the objective with a leading blank, by what the objective is called (`measure`); an
        objective that is absent has no unit.
    node
        What one node or machine is called.
    counts_nodes
        Whether options are numbers of nodes.
    runs
        Whether a job "runs on" its option instead of getting it.
    waiting
        The option that means a job waits, where there is one.
    option
        Returns the name of an option as people say it.
    """

    units: Mapping[str, str] = field(default_factory=dict)
    node: str = "node"
    counts_nodes: bool = False
    runs: bool = False
    waiting: str | None = None
    option: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class ProblemType:
    """Everything that differs by kind of instance, independent of formulations and solvers.

    Attributes
    ----------
    name
        The value of ``kind`` in JSON.
    type
        The msgspec type, or the type of a bare model.
    maximizes
        Whether a larger objective is better in a given instance.
    check
        ``check(instance, plan) -> Report``.
    exact_objective
        ``exact_objective(instance, plan) -> Fraction`` for a feasible plan.
    exact_bound
        ``exact_bound(instance, multipliers) -> Fraction | None``, valid by weak duality; that of its options
        where they add up (`apportion.instances.columns`) by default.
    in_id_order
        Returns the same instance with jobs and options sorted by id, the same object where they are.
    measure
        Returns what the objective of an instance is called.
    edits
        How an instance is changed; ``None`` for a bare model, whose jobs have no names.
    wording
        How an instance is spoken of.
    option_set
        What its jobs may get, as tenants see it; ``None`` for a kind without tenants.
    parts
        ``parts(instance, plan)``: by job the option it has and its part of the objective, or when it ends;
        ``None`` where menus say it.
    remarks
        ``remarks(instance, job, plan)``: what only the kind knows of a job's option, in words, and the option
        to compare it with; ``None`` for nothing.
    way_in
        ``way_in(instance, job, plan)``: how a job that has nothing in a plan would have something; ``None``
        where it has, or where that is too large a question.
    menu, menu_field
        ``menu(job)``: the lines of a job's menu as columns by name, those of the builder's table; and the
        field of a job that holds them. ``None``: a table has one row per job.
    schemas
        The package of the committed JSON Schema, ``NAME.schema.json``, and of what ``apportion init`` writes:
        ``NAME.starter.yaml`` and, where a table says all of an instance, ``NAME.starter.csv``.
    """

    name: str
    type: type[Any]
    maximizes: Callable[[Any], bool]
    check: Callable[[Any, Any], Report]
    exact_objective: Callable[[Any, Mapping[str, Any]], Fraction]
    exact_bound: Callable[[Any, Mapping[str, float]], Fraction | None] = options_bound
    in_id_order: Callable[[Any], Any] = _as_it_is
    measure: Callable[[Any], str] = _objective
    edits: Edits | None = None
    wording: Wording = Wording()
    option_set: OptionSet | None = None
    parts: Callable[[Any, Any], Mapping[str, tuple[str | None, float]]] | None = None
    remarks: Callable[[Any, Any, Any], tuple[tuple[str, ...], str | None]] | None = None
    way_in: Callable[[Any, Any, Any], WayIn | None] | None = None
    menu: Callable[[Any], Iterable[Mapping[str, Any]]] | None = None
    menu_field: str | None = None
    schemas: str = "apportion.instances.schemas"

    @property
    def bare(self) -> bool:
        """Whether this is the kind of a bare model: it has no JSON, and its jobs have no names."""
        return not issubclass(self.type, Struct)

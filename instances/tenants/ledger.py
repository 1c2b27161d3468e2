"""All limits of an instance with tenants in one book: what every option takes of every one of them.

A floor under a share is a limit as well: of what its jobs could have at best, so much may be forgone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from fractions import Fraction
from functools import cached_property
from typing import Any

from msgspec import UNSET
from msgspec.structs import force_setattr, replace

from apportion.core.errors import InvalidInstance, Problem, did_you_mean
from apportion.instances.options import Option, OptionSet
from apportion.instances.tenants.rows import (
    MOST_ROWS,
    Range,
    Row,
    most_rows,
    named_apart,
    non_preemptible_rows,
    rows_alone,
    rows_of,
)
from apportion.instances.tenants.schema import Fairness, Tenanted, TenantedJob
from apportion.instances.tenants.tree import (
    RELATIVE,
    Tree,
    distinct,
    job_prefix,
    share_counter,
    tree_of,
    unit_of,
)

__all__ = ["TenantLedger", "check_floors", "is_tenanted", "kept_uses", "shares_are_due", "under_floors"]


def is_tenanted(instance: Any) -> bool:
    """Return whether an instance says whose jobs they are, or what is shared out fairly."""
    return isinstance(instance, Tenanted) and (
        instance.tenants is not UNSET or instance.fairness is not UNSET
    )


def shares_are_due(instance: Any) -> bool:
    """Return whether jobs have guarantees or a rule of fairness, and their floors are not known yet."""
    if not is_tenanted(instance) or not instance.jobs:
        return False
    if instance.fairness is not UNSET:
        return not instance.fairness.floors
    return any(quota.guarantee for tenant in instance.tenants for quota in tenant.quotas.values())


def under_floors(instance: Any, floors: Mapping[str, int] | None) -> Any:
    """Return an instance with tenants whose plans must reach some shares; as it is for ``None``.

    Raises
    ------
    InvalidInstance
        If it has no tenants, or a floor names none of them or cannot be reached.
    """
    if floors is None:
        return instance
    if not isinstance(instance, Tenanted):
        raise InvalidInstance.at("$.floors", "belong to instances with tenants")
    fairness = Fairness() if instance.fairness is UNSET else instance.fairness
    found, problems = copy(instance), list[Problem]()
    force_setattr(found, "fairness", replace(fairness, floors=dict(floors)))
    check_floors(found, problems)  # nothing else has changed
    if problems:
        raise InvalidInstance(problems)
    return found


def check_floors(instance: Any, problems: list[Problem]) -> None:
    """Note every floor that is no share, or of nobody."""
    floors = instance.fairness.floors
    if not floors:
        return
    known = {tenant.id for tenant in (() if instance.tenants is UNSET else instance.tenants)}
    prefix = job_prefix(known)
    known |= {prefix + job.id for job in instance.jobs}
    for name in floors:
        if name not in known:
            meant = did_you_mean(name, known)
            problems.append(Problem(f"$.fairness.floors.{name}", f"is no tenant, and no job of ours{meant}"))


def _stop_cost(job: Any, options: list[Option], stopped: Callable[[Any], bool]) -> float:
    """Return what it costs to give a job nothing: its stop cost where it runs now, else 0."""
    if not isinstance(job, TenantedJob) or job.stop_cost is UNSET or not job.stop_cost:
        return 0.0
    runs = any(option.current and not option.idle for option in options) or stopped(job)
    return job.stop_cost if runs else 0.0


class TenantLedger:
    """The limits of an instance with tenants.

    Parameters
    ----------
    instance
        The instance.
    option_set
        The hooks of its kind.
    capacities
        Its capacities by name.
    sign
        1 where the objective is maximised, -1 where it is minimised.

    Attributes
    ----------
    tree
        The tenants; without any where only jobs share fairly.
    options
        What every job may get, by job id, the cost of being stopped taken into the value of nothing; of a
        running job that may not be stopped, what it has; of a job under a floor, what reaches it.
    stop_costs
        What giving a job nothing costs, by job id.
    kept
        By capacity and tenant what running jobs use that may not be stopped, now or ever.
    never_stopped
        The same of jobs that are not preemptible.
    capacities
        How much there is of what tenants share, by name.
    unshared
        Limits of the instance of which no tenant has a part, by name (`OptionSet.limits`).
    job_prefix
        What stands before a job's name where it is named among tenants, as in floors.
    shares_out
        Whether the instance has a rule of fairness.
    """

    def __init__(
        self, instance: Any, option_set: OptionSet, capacities: Mapping[str, int], sign: int
    ) -> None:
        self.capacities, self.unshared = dict(capacities), dict(option_set.limits(instance))
        self.shares_out = instance.fairness is not UNSET
        self.tree: Tree = tree_of(() if instance.tenants is UNSET else instance.tenants)
        self.jobs = {job.id: job for job in instance.jobs}
        options_of = option_set.options
        listed = {job.id: list(options_of(instance, job)) for job in instance.jobs}
        self.stop_costs = {
            name: _stop_cost(self.jobs[name], options, option_set.stopped) for name, options in listed.items()
        }
        self.options = {
            name: _admissible(options, sign * self.stop_costs[name], kept=keeps_what_it_has(job, self.tree))
            for (name, options), job in zip(listed.items(), instance.jobs, strict=True)
        }
        self.fairness = Fairness() if instance.fairness is UNSET else instance.fairness
        self._told = self.options
        self.job_prefix = self.tree.job_prefix
        self._counted = share_counter(self.fairness.share, self.capacities)
        self.options = {name: self._above_floor(name, options) for name, options in self.options.items()}
        self.kept: dict[str, dict[str, int]] = {}
        self.never_stopped: dict[str, dict[str, int]] = {}
        for name, capacity, use in kept_uses(instance, option_set):
            if isinstance(leaf := self.jobs[name].tenant, str):
                for kept in (self.kept, self.never_stopped)[: 1 if self.is_preemptible(name) else 2]:
                    own = kept.setdefault(capacity, {})
                    own[leaf] = own.get(leaf, 0) + use

    @cached_property
    def _ranges(self) -> dict[str, Range]:
        """What can be used of every capacity; empty where rows are few, and all of them are formed."""
        if sum(most_rows(self.tree, capacity) for capacity in self.capacities) <= MOST_ROWS:
            return {}
        most: dict[str, dict[str, int]] = {capacity: {} for capacity in self.capacities}
        for name, options in self.options.items():
            if isinstance(leaf := self.jobs[name].tenant, str):
                for capacity, own in most.items():
                    use = max((option.uses.get(capacity, 0) for option in options), default=0)
                    own[leaf] = own.get(leaf, 0) + use
        return {
            capacity: Range(
                *(self.tree.claims(capacity, one)[0] for one in (own, self.kept.get(capacity, {})))
            )
            for capacity, own in most.items()
        }

    @cached_property
    def rows(self) -> list[Row]:
        """The limits of the tree."""
        rows = rows_of(self.tree, self.capacities, self._ranges, self.kept)
        taken = {*self.capacities, *self.unshared, *(row.name for row in rows)}
        return rows + named_apart(non_preemptible_rows(self.tree, self.capacities, self.never_stopped), taken)

    @cached_property
    def _rows_of_leaf(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            for leaf in row.leaves:
                found.setdefault(leaf, []).append(row)
        return found

    def rows_alone(self, name: str, capacities: Iterable[str]) -> list[Row]:
        """Return what limits the jobs of a tenant alone on its guarantee; see `tenants.rows.rows_alone`."""
        return rows_alone(self.tree, name, capacities, self._ranges)

    def under(self, instance: Any) -> TenantLedger:
        """Return the book of the same instance with floors under tenants; options and rows stay as they are.

        Raises
        ------
        InvalidInstance
            If a floor cannot be reached.
        """
        found = copy(self)
        for name in ("floors", "_floors_of_job", "limits"):
            found.__dict__.pop(name, None)
        found.fairness = instance.fairness
        found.reach_floors()
        return found

    def reach_floors(self) -> None:
        """Find out whether every floor can be reached by the jobs that are under it.

        Raises
        ------
        InvalidInstance
            If one cannot.
        """
        self._floors()

    @cached_property
    def limits(self) -> dict[str, int]:
        """Every limit by name: capacities, rows, floors."""
        rows = {row.name: row.limit for row in self.rows}
        return {**self.capacities, **self.unshared, **rows, **self._floors()}

    def is_preemptible(self, job_id: str) -> bool:
        """Return whether a job says nothing, or says that it may be stopped and moved."""
        return self.jobs[job_id].preemptible is not False

    def counts(self, row: Row, job_id: str) -> bool:
        """Return whether a row adds up the uses of a job."""
        return self.jobs[job_id].tenant in row.leaves and (
            row.preemptible_too or not self.is_preemptible(job_id)
        )

    @property
    def unit(self) -> int:
        """How many units a share of 1 has."""
        return unit_of(self.fairness.share, self.capacities)

    @cached_property
    def shares(self) -> dict[str, list[int]]:
        """The share of every option, by job id."""
        return {name: self._shares_of(name, options) for name, options in self.options.items()}

    def share(self, name: str, place: int) -> int:
        """Return the share of one option of a job."""
        options = self.options[name]
        if self.fairness.share in RELATIVE:
            return self._shares_of(name, options)[place]
        return self._counted(self.jobs[name], options[place : place + 1])[0]

    @cached_property
    def best(self) -> dict[str, int]:
        """The largest share of any option, by job id."""
        return {name: max(shares, default=0) for name, shares in self.shares.items()}

    @cached_property
    def floors(self) -> dict[str, tuple[int, frozenset[str]]]:
        """Every floor above 0 under a tenant: the share to be reached, and the jobs that add up to it."""
        return {
            name: (floor, self.members(name))
            for name, floor in self.fairness.floors.items()
            if floor > 0 and name in self.tree.nodes
        }

    @cached_property
    def floor_names(self) -> dict[str, str]:
        """What the floor under a tenant is called among limits; no capacity and no row has that name."""
        taken = {*self.capacities, *self.unshared, *(row.name for row in self.rows)}
        found = {}
        for name in self.tree.nodes:
            found[name] = distinct(f"share of {name}", taken)
            taken.add(found[name])
        return found

    @cached_property
    def _floors_of_job(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, (_, members) in self.floors.items():
            for job in members:
                found.setdefault(job, []).append(name)
        return found

    @cached_property
    def _jobs_of_leaf(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, job in self.jobs.items():
            if isinstance(job.tenant, str):
                found.setdefault(job.tenant, []).append(name)
        return found

    def members(self, name: str) -> frozenset[str]:
        """Return the ids of the jobs whose shares add up to that of a tenant."""
        return frozenset(job for leaf in self.tree.below(name) for job in self._jobs_of_leaf.get(leaf, ()))

    def uses(self, job_id: str, position: int) -> dict[str, int]:
        """Return what one option takes of every limit that it takes anything of."""
        option = self.options[job_id][position]
        found = {name: use for name, use in option.uses.items() if use}
        leaf = self.jobs[job_id].tenant
        for row in () if leaf is UNSET else self._rows_of_leaf.get(leaf, ()):
            if option.uses.get(row.capacity) and self.counts(row, job_id):
                found[row.name] = option.uses[row.capacity]
        for name in self._floors_of_job.get(job_id, ()):
            forgone = self.best[job_id] - self.shares[job_id][position]
            if forgone:
                found[self.floor_names[name]] = forgone
        return found

    def _shares_of(self, name: str, options: list[Option]) -> list[int]:
        """Return the shares of some options of a job; its best rate is that of all of them."""
        whole = self._told[name]
        shares = self._counted(self.jobs[name], whole)
        if len(options) == len(whole):
            return shares
        known = {option.name: share for option, share in zip(whole, shares, strict=True)}
        return [known[option.name] for option in options]

    def _above_floor(self, name: str, options: list[Option]) -> list[Option]:
        floor = self.fairness.floors.get(self.job_prefix + name, 0)
        if not floor:
            return options
        shares = self._shares_of(name, options)
        return [option for option, share in zip(options, shares, strict=True) if share >= floor]

    def _floors(self) -> dict[str, int]:
        found = {}
        for name, (floor, members) in self.floors.items():
            most = sum(self.best[job] for job in members)
            if floor > most:
                said = f"is {floor}, but its jobs reach {most} at most"
                raise InvalidInstance.at(f"$.fairness.floors.{name}", said)
            found[self.floor_names[name]] = most - floor
        return found


def keeps_what_it_has(job: Any, tree: Tree) -> bool:
    """Return whether a job that runs may not be stopped or moved, at all or not yet."""
    if job.preemptible is False:
        return True
    if job.running_s is UNSET or job.tenant is UNSET:
        return False
    return bool(job.running_s < tree.min_run_s(job.tenant))


def kept_uses(instance: Any, option_set: OptionSet) -> Iterator[tuple[str, str, int]]:
    """Yield job, capacity and amount of what running jobs use that may not be stopped."""
    tree = tree_of(() if instance.tenants is UNSET else instance.tenants)
    for job in instance.jobs:
        if keeps_what_it_has(job, tree):
            held = [one for one in option_set.options(instance, job) if one.current and not one.idle]
            for capacity in {name for one in held for name in one.uses}:
                use = min(one.uses.get(capacity, 0) for one in held)
                if use:
                    yield job.id, capacity, use


def _admissible(options: list[Option], lost: float, *, kept: bool) -> list[Option]:
    if kept:
        held = [option for option in options if option.current and not option.idle]
        if held:
            return held
    if not lost:
        return options
    return [
        replace(option, value=Fraction(option.value) - Fraction(lost)) if option.idle else option
        for option in options
    ]

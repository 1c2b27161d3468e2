"""Small changes to an instance, as pure functions: what a what-if question is made of.

Every function returns a new instance and leaves the given one as it is. What an edit names must exist:
otherwise `InvalidInstance` says what does not, and what does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from apportion.choices import did_you_mean
from apportion.errors import InvalidInstance, listed
from apportion.instances.freezing import FreezingJob
from apportion.instances.gap_filling import GapFillingJob
from apportion.instances.kind import Edits
from apportion.instances.kinds import Instance, kind_of
from apportion.instances.matching import MatchingJob
from apportion.instances.multiple_choice_knapsack import KnapsackJob

__all__ = [
    "Job",
    "add_jobs",
    "capacities",
    "change_budgets",
    "change_capacity",
    "job_type",
    "pin",
    "remove_jobs",
    "remove_nodes",
    "unpin",
]

Job = GapFillingJob | KnapsackJob | MatchingJob | FreezingJob


def capacities(instance: Instance) -> dict[str, int]:
    """Return how much there is of every capacity, by the names that change it.

    For gap filling ``{"idle_nodes": number of nodes}``; for a matching ``POOL``, ``POOL.count`` and
    ``POOL.capacity``; for freezing the GPU types and ``frozen_penalty``.
    """
    return _edits(instance).capacities(instance)


def add_jobs(instance: Instance, jobs: Iterable[Job]) -> Instance:
    """Return the instance with more jobs at its end.

    Raises
    ------
    InvalidInstance
        If a job is of another kind, its id is taken, or it breaks a rule of the instance.
    """
    added = tuple(jobs)
    wanted = _edits(instance).job_type
    for job in added:
        if not isinstance(job, wanted):
            raise InvalidInstance.at("$.jobs", f"must be a {wanted.__name__}, not {type(job).__name__}")
    taken = {job.id for job in instance.jobs}
    for job in added:
        if job.id in taken:
            raise InvalidInstance.at("$.jobs", f"there already is a job {job.id!r}")
        taken.add(job.id)
    return _with_jobs(instance, (*instance.jobs, *added))


def remove_jobs(instance: Instance, ids: Iterable[str]) -> Instance:
    """Return the instance without some jobs; the nodes a removed job holds stay idle nodes.

    Raises
    ------
    InvalidInstance
        If there is no such job.
    """
    gone = set(ids)
    _require_jobs(instance, gone)
    return _with_jobs(instance, tuple(job for job in instance.jobs if job.id not in gone))


def remove_nodes(instance: Instance, nodes: Iterable[str]) -> Instance:
    """Return a gap-filling instance without some nodes, or a matching without some machines.

    Jobs that hold such a node lose it. Of a matching, ``v100[3]`` is one machine of a pool, ``v100`` all.

    Raises
    ------
    InvalidInstance
        If there is no such node, or the instance is of a kind without nodes.
    """
    remove = _edits(instance).remove_nodes
    if remove is None:
        raise InvalidInstance.at("$", "this kind of instance has no nodes; change a capacity instead")
    changed: Instance = remove(instance, list(dict.fromkeys(nodes)))
    return changed


def change_capacity(instance: Instance, pool: str, delta: int) -> Instance:
    """Return the instance with more or less of one capacity.

    The capacity of gap filling is ``idle_nodes``: new nodes are named ``extra-1``, ``extra-2``, ...; fewer
    means first the nodes nobody holds, from the end of the node list, then held ones from its end. A pool
    of a matching that is left without machines is gone.

    Raises
    ------
    InvalidInstance
        If there is no such capacity, or less than 0 of it would be left.
    """
    edits = _edits(instance)
    present = edits.capacities(instance)
    if isinstance(delta, bool) or not isinstance(delta, int):
        raise InvalidInstance.at(f"$.capacities.{pool}", f"a change must be an integer, not {delta!r}")
    if pool not in present:
        there = listed(present) or "none at all"
        meant = did_you_mean(pool, present)
        raise InvalidInstance.at("$.capacities", f"there is no capacity {pool!r}; there is {there}{meant}")
    if present[pool] + delta < 0:
        raise InvalidInstance.at(f"$.capacities.{pool}", f"is {present[pool]}, {-delta} fewer is below 0")
    changed: Instance = edits.change_capacity(instance, pool, present[pool], delta)
    return changed


def change_budgets(instance: Instance, deltas: Mapping[str, float]) -> Instance:
    """Return a layer-freezing round with accuracy budgets changed, by job, in frozen fraction times seconds.

    Raises
    ------
    InvalidInstance
        If there is no such job, it has no budget, less than 0 would be left, or the kind has no budgets.
    """
    _require_jobs(instance, deltas)
    change = _edits(instance).change_budgets
    if change is None:
        raise InvalidInstance.at("$", "this kind of instance has no accuracy budgets")
    changed: Instance = change(instance, deltas)
    return changed


def pin(instance: Instance, choices: Mapping[str, int | str]) -> Instance:
    """Return the instance with jobs pinned to one option each.

    Parameters
    ----------
    instance
        The instance.
    choices
        Job id to its option: an option id; for gap filling a node count (as a number or in digits), for a
        matching a pool, for freezing ``2xv100`` or ``2xv100, 29 layers frozen``.

    Raises
    ------
    InvalidInstance
        If there is no such job, or it has no such option.
    """
    _require_jobs(instance, choices)
    changed: Instance = _edits(instance).pin(instance, choices)
    return changed


def unpin(instance: Instance, ids: Iterable[str]) -> Instance:
    """Return the instance with the pins of some jobs lifted.

    Raises
    ------
    InvalidInstance
        If there is no such job, or it is not pinned.
    """
    loose = set(ids)
    _require_jobs(instance, loose)
    field = _edits(instance).pin_field
    if field is None:
        if loose:
            message = f"job {listed(sorted(loose))} is not pinned: this kind keeps no pins"
            raise InvalidInstance.at("$.jobs", message)
        return instance
    free = [job.id for job in instance.jobs if job.id in loose and getattr(job, field) is None]
    if free:
        raise InvalidInstance.at("$.jobs", f"job {listed(free)} is not pinned")
    lifted: Any = {field: None}
    return _with_jobs(
        instance, tuple(replace(job, **lifted) if job.id in loose else job for job in instance.jobs)
    )


def job_type(instance: Instance) -> type[Job]:
    """Return the type of the jobs of an instance."""
    return _edits(instance).job_type


def _edits(instance: Instance) -> Edits:
    try:
        edits = kind_of(instance).edits
    except TypeError:
        edits = None
    if edits is None:
        raise InvalidInstance.at("$.kind", f"a {type(instance).__name__} cannot be edited in this way yet")
    return edits


def _with_jobs(instance: Instance, jobs: tuple[Any, ...]) -> Instance:
    changed: Instance = replace(instance, jobs=jobs)
    return changed


def _require_jobs(instance: Instance, ids: Iterable[str]) -> None:
    _edits(instance)
    known = {job.id for job in instance.jobs}
    missing = sorted(set(ids) - known)
    if missing:
        meant = did_you_mean(missing[0], known)
        raise InvalidInstance.at("$.jobs", f"there is no job {listed(missing)}{meant}")

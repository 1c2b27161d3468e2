"""Small changes to an instance, as pure functions: what a what-if question is made of.

Every function returns a new instance and leaves the given one as it is. What an edit names must exist:
otherwise `InvalidInstance` says what does not, and what does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count, islice
from typing import Any

from msgspec.structs import replace

from apportion.errors import InvalidInstance, Problem
from apportion.instances.freezing import FreezingInstance, FreezingJob
from apportion.instances.freezing import edits as freezing_edits
from apportion.instances.gap_filling import GapFillingInstance, GapFillingJob
from apportion.instances.gap_filling.meaning import CAPACITY
from apportion.instances.matching import MatchingInstance, MatchingJob
from apportion.instances.matching import edits as matching_edits
from apportion.instances.multiple_choice_knapsack import (
    KnapsackJob,
    MultipleChoiceKnapsackInstance,
)

__all__ = [
    "MOST_NEW_NODES",
    "Editable",
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

Editable = GapFillingInstance | MultipleChoiceKnapsackInstance | MatchingInstance | FreezingInstance
Job = GapFillingJob | KnapsackJob | MatchingJob | FreezingJob

MOST_NEW_NODES = 1_000_000
"""Most nodes `change_capacity` makes up at once."""


def capacities(instance: Editable) -> dict[str, int]:
    """Return how much there is of every capacity, by the names that change it.

    For gap filling ``{"idle_nodes": number of nodes}``; for a matching ``POOL``, ``POOL.count`` and
    ``POOL.capacity``; for freezing the GPU types and ``frozen_penalty``.
    """
    _require_editable(instance)
    if isinstance(instance, MatchingInstance):
        return matching_edits.capacities(instance)
    if isinstance(instance, FreezingInstance):
        return freezing_edits.capacities(instance)
    if isinstance(instance, GapFillingInstance):
        return {CAPACITY: len(instance.nodes)}
    return dict(instance.capacities)


def add_jobs(instance: Editable, jobs: Iterable[Job]) -> Editable:
    """Return the instance with more jobs at its end.

    Raises
    ------
    InvalidInstance
        If a job is of another kind, its id is taken, or it breaks a rule of the instance.
    """
    _require_editable(instance)
    added = tuple(jobs)
    wanted = job_type(instance)
    for job in added:
        if not isinstance(job, wanted):
            raise _refused("$.jobs", f"must be a {wanted.__name__}, not {type(job).__name__}")
    taken = {job.id for job in instance.jobs}
    for job in added:
        if job.id in taken:
            raise _refused("$.jobs", f"there already is a job {job.id!r}")
        taken.add(job.id)
    return _with_jobs(instance, (*instance.jobs, *added))


def remove_jobs(instance: Editable, ids: Iterable[str]) -> Editable:
    """Return the instance without some jobs; the nodes a removed job holds stay idle nodes.

    Raises
    ------
    InvalidInstance
        If there is no such job.
    """
    gone = set(ids)
    _require_jobs(instance, gone)
    return _with_jobs(instance, tuple(job for job in instance.jobs if job.id not in gone))


def remove_nodes(instance: Editable, nodes: Iterable[str]) -> Editable:
    """Return a gap-filling instance without some nodes, or a matching without some machines.

    Jobs that hold such a node lose it. Of a matching, ``v100[3]`` is one machine of a pool, ``v100`` all.

    Raises
    ------
    InvalidInstance
        If there is no such node, or the instance is of a kind without nodes.
    """
    if isinstance(instance, MatchingInstance):
        return matching_edits.remove_machines(instance, list(dict.fromkeys(nodes)))
    if not isinstance(instance, GapFillingInstance):
        raise _refused("$", "this kind of instance has no nodes; change a capacity instead")
    gone = set(nodes)
    missing = sorted(gone.difference(instance.nodes))
    if missing:
        raise _refused("$.nodes", f"there is no node {_listed(missing)}")
    return replace(
        instance,
        nodes=tuple(node for node in instance.nodes if node not in gone),
        jobs=tuple(
            replace(job, current_nodes=tuple(node for node in job.current_nodes if node not in gone))
            for job in instance.jobs
        ),
    )


def change_capacity(instance: Editable, pool: str, delta: int) -> Editable:
    """Return the instance with more or less of one capacity.

    The capacity of gap filling is ``idle_nodes``: new nodes are named ``extra-1``, ``extra-2``, ...; fewer
    means first the nodes nobody holds, from the end of the node list, then held ones from its end. A pool
    of a matching that is left without machines is gone.

    Raises
    ------
    InvalidInstance
        If there is no such capacity, or less than 0 of it would be left.
    """
    present = capacities(instance)
    if isinstance(delta, bool) or not isinstance(delta, int):
        raise _refused(f"$.capacities.{pool}", f"a change must be an integer, not {delta!r}")
    if pool not in present:
        raise _refused(
            "$.capacities", f"there is no capacity {pool!r}; there is {_listed(present) or 'none at all'}"
        )
    if present[pool] + delta < 0:
        raise _refused(f"$.capacities.{pool}", f"is {present[pool]}, {-delta} fewer is below 0")
    if isinstance(instance, MultipleChoiceKnapsackInstance):
        return replace(instance, capacities={**instance.capacities, pool: present[pool] + delta})
    if isinstance(instance, MatchingInstance):
        return matching_edits.change_capacity(instance, pool, present[pool], delta)
    if isinstance(instance, FreezingInstance):
        return freezing_edits.change_capacity(instance, pool, present[pool], delta)
    if delta > MOST_NEW_NODES:
        raise _refused("$.nodes", f"at most {MOST_NEW_NODES} nodes can be added at once, not {delta}")
    if delta >= 0:
        taken = set(instance.nodes)
        fresh = (name for name in (f"extra-{i}" for i in count(1)) if name not in taken)
        return replace(instance, nodes=(*instance.nodes, *islice(fresh, delta)))
    held = {node for job in instance.jobs for node in job.current_nodes}
    first_to_go = [node for node in reversed(instance.nodes) if node not in held]
    first_to_go += [node for node in reversed(instance.nodes) if node in held]
    return remove_nodes(instance, first_to_go[:-delta])


def change_budgets(instance: Editable, deltas: Mapping[str, float]) -> Editable:
    """Return a layer-freezing round with accuracy budgets changed, by job, in frozen fraction times seconds.

    Raises
    ------
    InvalidInstance
        If there is no such job, it has no budget, less than 0 would be left, or the kind has no budgets.
    """
    _require_jobs(instance, deltas)
    if not isinstance(instance, FreezingInstance):
        raise _refused("$", "this kind of instance has no accuracy budgets")
    return freezing_edits.change_budgets(instance, deltas)


def pin(instance: Editable, choices: Mapping[str, int | str]) -> Editable:
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
    if isinstance(instance, MatchingInstance):
        return matching_edits.pin(instance, choices)
    if isinstance(instance, FreezingInstance):
        return freezing_edits.pin(instance, choices)
    if isinstance(instance, GapFillingInstance):
        return replace(
            instance,
            jobs=tuple(
                replace(job, pinned_count=_node_count(job, choices[job.id])) if job.id in choices else job
                for job in instance.jobs
            ),
        )
    for job in instance.jobs:
        names = [option.id for option in job.options]
        if job.id in choices and choices[job.id] not in names:
            told = _listed(names) or "none"
            raise _refused("$.jobs", f"job {job.id!r} has no option {choices[job.id]!r}; it has {told}")
    return replace(
        instance,
        jobs=tuple(
            replace(job, pinned=str(choices[job.id])) if job.id in choices else job for job in instance.jobs
        ),
    )


def unpin(instance: Editable, ids: Iterable[str]) -> Editable:
    """Return the instance with the pins of some jobs lifted.

    Raises
    ------
    InvalidInstance
        If there is no such job, or it is not pinned.
    """
    loose = set(ids)
    _require_jobs(instance, loose)
    if isinstance(instance, MatchingInstance | FreezingInstance):
        if loose:
            raise _refused("$.jobs", f"job {_listed(sorted(loose))} is not pinned: this kind keeps no pins")
        return instance
    field = "pinned_count" if isinstance(instance, GapFillingInstance) else "pinned"
    free = [job.id for job in instance.jobs if job.id in loose and getattr(job, field) is None]
    if free:
        raise _refused("$.jobs", f"job {_listed(free)} is not pinned")
    return _with_jobs(
        instance, tuple(replace(job, **{field: None}) if job.id in loose else job for job in instance.jobs)
    )


def job_type(instance: Editable) -> type[Job]:
    """Return what the jobs of an instance are."""
    if isinstance(instance, MatchingInstance):
        return MatchingJob
    if isinstance(instance, FreezingInstance):
        return FreezingJob
    return GapFillingJob if isinstance(instance, GapFillingInstance) else KnapsackJob


def _node_count(job: GapFillingJob, wanted: int | str) -> int:
    text = str(wanted)
    admissible = f"0 or {job.min_nodes} to {job.max_nodes} nodes"
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise _refused("$.jobs", f"job {job.id!r} cannot be pinned to {wanted!r}; it takes {admissible}")
    number = int(text)
    if number != 0 and not job.min_nodes <= number <= job.max_nodes:
        raise _refused("$.jobs", f"job {job.id!r} cannot be pinned to {number}; it takes {admissible}")
    return number


def _with_jobs(instance: Editable, jobs: tuple[Any, ...]) -> Editable:
    changed: Editable = replace(instance, jobs=jobs)
    return changed


def _require_editable(instance: Editable) -> None:
    if not isinstance(instance, Editable):
        raise _refused("$.kind", f"a {type(instance).__name__} cannot be edited in this way yet")


def _require_jobs(instance: Editable, ids: Iterable[str]) -> None:
    _require_editable(instance)
    known = {job.id for job in instance.jobs}
    missing = sorted(set(ids) - known)
    if missing:
        raise _refused("$.jobs", f"there is no job {_listed(missing)}")


def _listed(names: Iterable[str]) -> str:
    shown = [repr(name) for name in islice(names, 11)]
    return ", ".join(shown[:10]) + (", ..." if len(shown) > 10 else "")


def _refused(path: str, message: str) -> InvalidInstance:
    return InvalidInstance(Problem(path, message))

"""Small changes to a layer-freezing round: other GPUs and budgets, jobs held to one configuration.

Capacities are the GPU types and, where there is a cap, ``frozen_penalty`` in millionths.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.errors import InvalidInstance, quoted_names
from apportion.instances.fields import remade
from apportion.instances.freezing.job import FreezingConfiguration, FreezingJob, FreezingRow
from apportion.instances.freezing.rules import PENALTY, check_current_nodes, check_job, check_quotas
from apportion.instances.freezing.schema import FreezingInstance
from apportion.instances.kind import Edits, JobRules

__all__ = ["EDITS", "WAITING"]

WAITING = "waiting"
"""What getting no GPUs is called."""


def _capacities(instance: FreezingInstance) -> dict[str, int]:
    """Return the GPUs by type, and the penalty cap where there is one."""
    amounts = dict(instance.gpus)
    if instance.penalty_cap_millionths is not None:
        amounts[PENALTY] = instance.penalty_cap_millionths
    return amounts


def _change_capacity(instance: FreezingInstance, name: str, present: int, delta: int) -> FreezingInstance:
    """Return the round with more or fewer GPUs of a type, or another penalty cap.

    New nodes are named ``extra-1``, ``extra-2``, ...; the last ones go first, and a job on a node that goes
    does not run any more.
    """
    if name == PENALTY:
        return replace(instance, penalty_cap_millionths=present + delta)
    changed = {**instance.gpus, name: present + delta}
    if instance.nodes is UNSET or name not in instance.nodes:
        return replace(instance, gpus=changed)
    kept = instance.nodes[name]
    size = instance.gpus_per_node.get(name, 1)
    wanted = -(-(present + delta) // size)
    taken = {node for nodes in instance.nodes.values() for node in nodes}
    fresh = (node for node in (f"extra-{i}" for i in count(1)) if node not in taken)
    names = (*kept, *islice(fresh, wanted - len(kept))) if wanted > len(kept) else kept[:wanted]
    gone = set(kept) - set(names)
    jobs = tuple(
        replace(job, current=None)
        if job.current is not None
        and job.current.gpu_type == name
        and job.current.nodes is not UNSET
        and gone.intersection(job.current.nodes)
        else job
        for job in instance.jobs
    )
    return replace(instance, gpus=changed, nodes={**instance.nodes, name: names}, jobs=jobs)


def _named_by(instance: FreezingInstance, name: str) -> str | None:
    """Return what names the nodes of a GPU type, ``None`` where they have no names."""
    return None if instance.nodes is UNSET or name not in instance.nodes else "set_fields (gpus and nodes)"


def _change_budgets(instance: FreezingInstance, deltas: Mapping[str, float]) -> FreezingInstance:
    """Return the round with accuracy budgets changed, in frozen fraction times seconds.

    Raises
    ------
    InvalidInstance
        If a job has no budget, or less than 0 of it would be left.
    """
    return remade(
        instance,
        jobs=tuple(_budgeted(job, deltas[job.id]) if job.id in deltas else job for job in instance.jobs),
    )


def _pin(instance: FreezingInstance, choices: Mapping[str, int | str]) -> FreezingInstance:
    """Return the round with jobs held to ``2xv100``, ``2xv100, 29 layers frozen`` or ``waiting``.

    Raises
    ------
    InvalidInstance
        If a job has no such configuration.
    """
    return remade(
        instance,
        jobs=tuple(_held(job, str(choices[job.id])) if job.id in choices else job for job in instance.jobs),
    )


def _budgeted(job: FreezingJob, delta: float) -> FreezingJob:
    where = f"$.jobs.{job.id}.budget_frozen_s"
    if job.budget_frozen_s is None:
        raise InvalidInstance.at(where, "the job has no accuracy budget to change")
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not math.isfinite(delta):
        raise InvalidInstance.at(where, f"a change must be a finite number of seconds, not {delta!r}")
    if job.budget_frozen_s + delta < 0:
        raise InvalidInstance.at(where, f"is {job.budget_frozen_s:g}, {-delta:g} fewer is below 0")
    return replace(job, budget_frozen_s=job.budget_frozen_s + delta)


def _held(job: FreezingJob, wanted: str) -> FreezingJob:
    if wanted in (WAITING, "-") and not job.required:
        return replace(job, menu=())
    rows = [row for row in (_fitting(row, wanted) for row in job.menu) if row is not None]
    if not rows:
        there = [f"{row.gpus}x{row.gpu_type}" for row in job.menu] + ([] if job.required else [WAITING])
        shown = quoted_names(there) or "none"
        raise InvalidInstance.at("$.jobs", f"job {job.id!r} has no configuration {wanted!r}; it has {shown}")
    # the reference is part of what the whole menu means: without its other rows it stays what it is
    positive = [value for row in job.menu for value in row.effective_progress if value > 0]
    reference = job.reference_progress if job.reference_progress is not None else min(positive, default=None)
    return replace(job, menu=tuple(rows), reference_progress=reference, required=True)


def _fitting(row: FreezingRow, wanted: str) -> FreezingRow | None:
    """Return what is left of a row for a configuration's name, ``None`` for nothing."""
    place = f"{row.gpus}x{row.gpu_type}"
    if wanted == place:
        return row
    match = re.fullmatch(re.escape(place) + r", (\d{1,10}) layers? frozen", wanted)
    if match is None or int(match[1]) not in row.depths:
        return None
    at = row.depths.index(int(match[1]))
    penalty = row.penalty_millionths[at : at + 1]
    return replace(
        row,
        depths=(row.depths[at],),
        effective_progress=(row.effective_progress[at],),
        penalty_millionths=penalty,
    )


def _adopt(instance: FreezingInstance, plan: Mapping[str, Any]) -> Iterator[FreezingJob]:
    for job in instance.jobs:
        placed = plan["configuration"].get(job.id)
        now = None if not placed else _configuration(placed)
        if now != job.current:
            yield replace(job, current=now)


def _configuration(placed: Mapping[str, Any]) -> FreezingConfiguration:
    nodes = tuple(placed["nodes"]) if "nodes" in placed else UNSET
    return FreezingConfiguration(placed["gpu_type"], placed["gpus"], placed.get("depth", 0), nodes)


def _keep(old: FreezingInstance, new: FreezingInstance) -> bool:
    """Return whether GPU types and nodes are the same: all that jobs refer to."""
    same_nodes = (old.gpus_per_node, old.nodes) == (new.gpus_per_node, new.nodes)
    numbered = bool(new.gpus_per_node)
    return same_nodes and (old.gpus == new.gpus if numbered else old.gpus.keys() == new.gpus.keys())


EDITS = Edits(
    job_type=FreezingJob,
    capacities=_capacities,
    change_capacity=_change_capacity,
    pin=_pin,
    change_budgets=_change_budgets,
    rules=JobRules(
        check=check_job,
        keep=_keep,
        between=check_current_nodes,
        concerns=lambda job: job.current is not None and job.current.nodes is not UNSET,
        tenants=check_quotas,
    ),
    adopt=_adopt,
    named_by=_named_by,
)

"""What makes a layer-freezing instance valid: every rule, each problem with its JSON path.

Menus hold most of an instance, so they are judged as arrays; only one that fails is gone through entry by
entry, to say where.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import partial
from itertools import pairwise

from msgspec import UNSET

from apportion.core.errors import Problem, did_you_mean
from apportion.instances.fields import LARGEST_COUNT, Rule, check_distinct
from apportion.instances.freezing.job import FreezingJob, FreezingRow
from apportion.instances.freezing.nodes import FreezingRound, node_counts, nodes_of
from apportion.instances.tenants.rules import check_tenants

__all__ = ["LARGEST_POWER", "PENALTY", "check_current_nodes", "check_job", "check_quotas", "rules_of"]

PENALTY = "frozen_penalty"
"""The capacity of the penalty cap, as it is named in multipliers; no GPU type may be called so."""

LARGEST_POWER = 4.0
_WIDEST = 1e9
"""Largest ratio of an effective progress to the job's reference, and its inverse the smallest."""
_MOST_NODES = 1_000_000
"""Nodes of one GPU type."""


def rules_of(instance: FreezingRound) -> Iterator[Rule]:
    """Yield what every instance keeps."""
    yield partial(_check_types, instance)
    yield partial(_check_nodes, instance)
    yield lambda problems: check_distinct("$.jobs", [job.id for job in instance.jobs], "job id", problems)
    yield partial(check_current_nodes, instance)
    yield partial(check_quotas, instance)
    for index, job in enumerate(instance.jobs):
        yield partial(check_job, f"$.jobs[{index}]", job, instance)


def _check_types(instance: FreezingRound, problems: list[Problem]) -> None:
    """Note what is wrong with GPU types and with the power of the objective."""
    if instance.power == 0:
        problems.append(Problem("$.power", "must be from -4 to 4 and not 0, not 0"))
    if PENALTY in instance.gpus:
        problems.append(Problem(f"$.gpus.{PENALTY}", "is the name of the penalty cap; choose another"))
    for name in instance.gpus_per_node:
        if name not in instance.gpus:
            said = f"is not one of the instance's GPU types{did_you_mean(name, instance.gpus)}"
            problems.append(Problem(f"$.gpus_per_node.{name}", said))


def check_quotas(
    instance: FreezingRound, problems: list[Problem], touched: Container[str] | None = None
) -> None:
    """Note what is wrong with tenants, and with what belongs to the tenants of all jobs or those touched."""
    capacities = dict(instance.gpus)
    if instance.penalty_cap_millionths is not None:
        capacities[PENALTY] = instance.penalty_cap_millionths
    check_tenants(instance, capacities, problems, touched=touched)


def _check_nodes(instance: FreezingRound, problems: list[Problem]) -> None:
    counts = {}
    for name, size in instance.gpus_per_node.items():
        whole, rest = node_counts(instance.gpus.get(name, 0), size)
        counts[name] = whole + (rest > 0)
        if counts[name] > _MOST_NODES:
            text = f"makes {counts[name]} nodes, more than {_MOST_NODES}; leave it out"
            problems.append(Problem(f"$.gpus_per_node.{name}", text))
    if instance.nodes is UNSET:
        return
    for name, listed in instance.nodes.items():
        path = f"$.nodes.{name}"
        if name not in counts:
            problems.append(Problem(path, "needs the GPU type and its size of a node in gpus_per_node"))
        elif len(listed) != counts[name]:
            text = f"{instance.gpus[name]} GPUs, {instance.gpus_per_node[name]} to a node"
            problems.append(Problem(path, f"must name {counts[name]} nodes ({text}), not {len(listed)}"))
        else:
            check_distinct(path, listed, "node", problems)


def check_current_nodes(instance: FreezingRound, problems: list[Problem]) -> None:
    """Note every node that a job is said to run on and that there is not."""
    known: dict[str, set[str]] = {}
    for index, job in enumerate(instance.jobs):
        if job.current is None or job.current.nodes is UNSET:
            continue
        path, gpu_type = f"$.jobs[{index}].current.nodes", job.current.gpu_type
        if gpu_type not in known:
            nodes = nodes_of(instance, gpu_type)
            known[gpu_type] = set() if nodes is None else set(nodes.names)
        for place, node in enumerate(job.current.nodes):
            if node not in known[gpu_type]:
                problems.append(Problem(f"{path}[{place}]", f"{node!r} is no node of {gpu_type}"))
        check_distinct(path, job.current.nodes, "node", problems)


def check_job(path: str, job: FreezingJob, instance: FreezingRound, problems: list[Problem]) -> None:
    """Note what is wrong with one job of an instance."""
    if job.current is not None:
        _check_type(f"{path}.current", job.current.gpu_type, instance.gpus, problems)
    if _is_sound(job, instance.gpus):
        return
    before = len(problems)
    for index, row in enumerate(job.menu):
        _check_row(f"{path}.menu[{index}]", row, job.layers, instance.gpus, problems)
    if len(problems) == before:
        places = [f"{row.gpus}x{row.gpu_type}" for row in job.menu]
        check_distinct(f"{path}.menu", places, "place", problems)
        _check_reference(path, job, problems)


def _check_type(path: str, name: str, gpus: Mapping[str, int], problems: list[Problem]) -> None:
    if name not in gpus:
        said = f"{name!r} is not one of the instance's GPU types{did_you_mean(name, gpus)}"
        problems.append(Problem(f"{path}.gpu_type", said))


def _check_row(
    path: str, row: FreezingRow, layers: int, gpus: Mapping[str, int], problems: list[Problem]
) -> None:
    _check_type(path, row.gpu_type, gpus, problems)
    depths = row.depths
    if len(row.effective_progress) != len(depths) or len(row.penalty_millionths) not in (0, len(depths)):
        problems.append(Problem(path, f"must give one value for each of its {len(depths)} depths"))
    for index, (before, depth) in enumerate(pairwise((-1, *depths))):
        if depth <= before:
            problems.append(Problem(f"{path}.depths[{index}]", f"{depth} does not exceed {before}"))
        if depth > layers:
            said = f"{depth} exceeds the job's {layers} layers"
            problems.append(Problem(f"{path}.depths[{index}]", said))


def _check_reference(path: str, job: FreezingJob, problems: list[Problem]) -> None:
    """Keep every ratio within nine orders of magnitude, so that no power leaves the range of a double."""
    positive = [value for row in job.menu for value in row.effective_progress if value > 0]
    if not positive:
        return
    reference = min(positive) if job.reference_progress is None else job.reference_progress
    if max(positive) > _WIDEST * reference or min(positive) * _WIDEST < reference:
        said = "and every positive effective progress must lie within a factor of 1e9"
        problems.append(Problem(f"{path}.reference_progress", said))


def _is_sound(job: FreezingJob, gpus: Mapping[str, int]) -> bool:
    """Return whether the menu and the reference keep every rule, judged as arrays."""
    import numpy as np  # only freezing instances need it

    try:
        menu = job.menu_arrays
    except ValueError:
        return False  # columns differ in length
    starts = np.zeros(menu.depth.size + 1, dtype=np.bool_)
    starts[np.cumsum(menu.sizes) - menu.sizes] = True
    rising = (np.diff(menu.depth) > 0) | starts[1:-1]
    places = menu.type_index * (LARGEST_COUNT + 1) + menu.gpus
    sound = (
        all(name in gpus for name in menu.types)
        and rising.all()
        and menu.depth.max(initial=0) <= job.layers
        and np.unique(places).size == places.size
    )
    if not sound or menu.least is None:
        return bool(sound)
    reference = menu.least if job.reference_progress is None else job.reference_progress
    return bool(menu.progress.max() <= _WIDEST * reference and menu.least * _WIDEST >= reference)

"""What makes a layer-freezing instance valid: every rule, each problem with its JSON path.

Menus hold most of an instance, so they are judged as arrays; only one that fails is gone through entry by
entry, to say where.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from msgspec import UNSET

from apportion.core.errors import Problem, did_you_mean
from apportion.instances.fields import (
    LARGEST_CAPACITY,
    LARGEST_COUNT,
    LARGEST_NUMBER,
    SMALLEST_POSITIVE,
    check_amount,
    check_count,
    check_distinct,
    check_header,
    check_name,
    check_number,
)
from apportion.instances.freezing.job import MILLION, FreezingConfiguration, FreezingJob, FreezingRow
from apportion.instances.freezing.nodes import FreezingRound, node_counts, nodes_of
from apportion.instances.tenants.rules import check_tenants

__all__ = ["LARGEST_POWER", "PENALTY", "check_current_nodes", "check_job", "check_quotas", "problems_of"]

PENALTY = "frozen_penalty"
"""The capacity of the penalty cap, as it is named in multipliers; no GPU type may be called so."""

LARGEST_POWER = 4.0
_WIDEST = 1e9
"""Largest ratio of an effective progress to the job's reference, and its inverse the smallest."""
_MOST_NODES = 1_000_000
"""Nodes of one GPU type."""


def problems_of(instance: FreezingRound) -> list[Problem]:
    """Return everything that is wrong with an instance, empty if nothing is."""
    problems: list[Problem] = []
    check_header(instance, problems)
    if check_amount("$.round_s", instance.round_s, problems) and instance.round_s <= 0:
        problems.append(Problem("$.round_s", "must be positive"))
    if check_number("$.power", instance.power, problems) and not 0 < abs(instance.power) <= LARGEST_POWER:
        problems.append(Problem("$.power", f"must be from -4 to 4 and not 0, not {instance.power:g}"))
    check_number("$.queue_penalty", instance.queue_penalty, problems)
    if instance.penalty_cap_millionths is not None:
        check_count(
            "$.penalty_cap_millionths", instance.penalty_cap_millionths, problems, high=LARGEST_CAPACITY
        )
    if not isinstance(instance.gpus, dict) or not isinstance(instance.gpus_per_node, dict):
        return [*problems, Problem("$.gpus", "gpus and gpus_per_node must be objects by GPU type")]
    for name, capacity in instance.gpus.items():
        if check_name("$.gpus", name, problems) and name == PENALTY:
            problems.append(Problem(f"$.gpus.{name}", "is the name of the penalty cap; choose another"))
        check_count(f"$.gpus.{name}", capacity, problems, high=LARGEST_CAPACITY)
    for name, size in instance.gpus_per_node.items():
        if name not in instance.gpus:
            problems.append(
                Problem(
                    f"$.gpus_per_node.{name}",
                    f"is not one of the instance's GPU types{did_you_mean(name, instance.gpus)}",
                )
            )
        check_count(f"$.gpus_per_node.{name}", size, problems, low=1)
    if not problems:
        _check_nodes(instance, problems)
    if not isinstance(instance.jobs, tuple | list):
        return [*problems, Problem("$.jobs", "must be a list of jobs")]
    for index, job in enumerate(instance.jobs):
        if isinstance(job, FreezingJob):
            check_job(f"$.jobs[{index}]", job, instance.gpus, problems)
        else:
            problems.append(Problem(f"$.jobs[{index}]", f"must be a FreezingJob, not {type(job).__name__}"))
    ids = (job.id for job in instance.jobs if isinstance(job, FreezingJob))
    check_distinct("$.jobs", ids, "job id", problems)
    if not problems:
        check_current_nodes(instance, problems)
    check_quotas(instance, problems)
    return problems


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
        whole, rest = node_counts(instance.gpus[name], size)
        counts[name] = whole + (rest > 0)
        if counts[name] > _MOST_NODES:
            text = f"makes {counts[name]} nodes, more than {_MOST_NODES}; leave it out"
            problems.append(Problem(f"$.gpus_per_node.{name}", text))
    if instance.nodes is UNSET:
        return
    if not isinstance(instance.nodes, dict):
        problems.append(Problem("$.nodes", "must be an object by GPU type"))
        return
    for name, listed in instance.nodes.items():
        path = f"$.nodes.{name}"
        if name not in counts:
            problems.append(Problem(path, "needs the GPU type and its size of a node in gpus_per_node"))
        elif not isinstance(listed, tuple | list):
            problems.append(Problem(path, "must be a list of node names"))
        elif len(listed) != counts[name]:
            text = f"{instance.gpus[name]} GPUs, {instance.gpus_per_node[name]} to a node"
            problems.append(Problem(path, f"must name {counts[name]} nodes ({text}), not {len(listed)}"))
        else:
            for index, node in enumerate(listed):
                check_name(f"{path}[{index}]", node, problems)
            check_distinct(path, listed, "node", problems)


def check_current_nodes(instance: FreezingRound, problems: list[Problem]) -> None:
    """Note every node that a job is said to run on and that there is not."""
    known: dict[str, set[str]] = {}
    for index, job in enumerate(instance.jobs):
        if job.current is None or job.current.nodes is UNSET:
            continue
        path, gpu_type = f"$.jobs[{index}].current.nodes", job.current.gpu_type
        if not isinstance(job.current.nodes, tuple | list):
            problems.append(Problem(path, "must be a list of node names"))
            continue
        if gpu_type not in known:
            nodes = nodes_of(instance, gpu_type)
            known[gpu_type] = set() if nodes is None else set(nodes.names)
        for place, node in enumerate(job.current.nodes):
            if check_name(f"{path}[{place}]", node, problems) and node not in known[gpu_type]:
                problems.append(Problem(f"{path}[{place}]", f"{node!r} is no node of {gpu_type}"))
        check_distinct(path, job.current.nodes, "node", problems)


def check_job(path: str, job: FreezingJob, gpus: Mapping[str, int], problems: list[Problem]) -> None:
    """Note what is wrong with one job where there are these GPU types."""
    check_name(f"{path}.id", job.id, problems)
    layers_ok = check_count(f"{path}.layers", job.layers, problems, low=1)
    check_count(f"{path}.restarts", job.restarts, problems)
    for field in ("age_s", "restart_s", "rebuild_s", "weight"):
        check_amount(f"{path}.{field}", getattr(job, field), problems)
    for field in ("budget_frozen_s", "remaining_work"):
        if getattr(job, field) is not None:
            check_amount(f"{path}.{field}", getattr(job, field), problems)
    if job.max_depth is not None:
        check_count(f"{path}.max_depth", job.max_depth, problems)
    if not isinstance(job.required, bool):
        problems.append(Problem(f"{path}.required", "must be true or false"))
    layers = job.layers if layers_ok else None
    if job.current is not None:
        if isinstance(job.current, FreezingConfiguration):
            _check_place(f"{path}.current", job.current, gpus, problems)
            check_count(f"{path}.current.depth", job.current.depth, problems)
        else:
            problems.append(Problem(f"{path}.current", "must be a FreezingConfiguration"))
    if not isinstance(job.menu, tuple | list):
        problems.append(Problem(f"{path}.menu", "must be a list of rows"))
        return
    if layers is not None and _is_sound(job, layers, gpus):
        return
    before = len(problems)
    for index, row in enumerate(job.menu):
        if isinstance(row, FreezingRow):
            _check_row(f"{path}.menu[{index}]", row, layers, gpus, problems)
        else:
            problems.append(Problem(f"{path}.menu[{index}]", "must be a FreezingRow"))
    if len(problems) == before:
        places = [f"{row.gpus}x{row.gpu_type}" for row in job.menu]
        check_distinct(f"{path}.menu", places, "place", problems)
        _check_reference(path, job, problems)


def _check_place(
    path: str, place: FreezingConfiguration | FreezingRow, gpus: Mapping[str, int], problems: list[Problem]
) -> None:
    if check_name(f"{path}.gpu_type", place.gpu_type, problems) and place.gpu_type not in gpus:
        meant = did_you_mean(place.gpu_type, gpus)
        problems.append(
            Problem(f"{path}.gpu_type", f"{place.gpu_type!r} is not one of the instance's GPU types{meant}")
        )
    check_count(f"{path}.gpus", place.gpus, problems, low=1)


def _check_row(
    path: str, row: FreezingRow, layers: int | None, gpus: Mapping[str, int], problems: list[Problem]
) -> None:
    _check_place(path, row, gpus, problems)
    columns: tuple[Any, ...] = (row.depths, row.effective_progress, row.penalty_millionths)
    if not all(isinstance(column, tuple | list) for column in columns):
        problems.append(Problem(path, "depths, effective_progress and penalty_millionths must be lists"))
        return
    if len(row.effective_progress) != len(row.depths) or len(row.penalty_millionths) not in (
        0,
        len(row.depths),
    ):
        problems.append(Problem(path, f"must give one value for each of its {len(row.depths)} depths"))
    last = -1
    for index, depth in enumerate(row.depths):
        where = f"{path}.depths[{index}]"
        if not check_count(where, depth, problems):
            continue
        if depth <= last:
            problems.append(Problem(where, f"{depth} does not exceed {last}"))
        if layers is not None and depth > layers:
            problems.append(Problem(where, f"{depth} exceeds the job's {layers} layers"))
        last = depth
    for index, progress in enumerate(row.effective_progress):
        check_amount(f"{path}.effective_progress[{index}]", progress, problems)
    for index, penalty in enumerate(row.penalty_millionths):
        check_count(f"{path}.penalty_millionths[{index}]", penalty, problems, high=MILLION)


def _check_reference(path: str, job: FreezingJob, problems: list[Problem]) -> None:
    """Keep every ratio within nine orders of magnitude, so that no power leaves the range of a double."""
    given = job.reference_progress
    where = f"{path}.reference_progress"
    if given is not None:
        if not check_amount(where, given, problems):
            return
        if given <= 0:
            problems.append(Problem(where, "must be positive"))
            return
    positive = [value for row in job.menu for value in row.effective_progress if value > 0]
    if not positive:
        return
    reference = min(positive) if given is None else given
    if max(positive) > _WIDEST * reference or min(positive) * _WIDEST < reference:
        problems.append(
            Problem(where, "and every positive effective progress must lie within a factor of 1e9")
        )


def _is_sound(job: FreezingJob, layers: int, gpus: Mapping[str, int]) -> bool:
    """Return whether the menu and the reference keep every rule, judged as arrays."""
    import numpy as np  # only freezing instances need it

    if not set(map(type, job.menu)) <= {FreezingRow}:
        return False
    try:
        menu = job.menu_arrays
        if not all(name in gpus for name in menu.types):
            return False
    except (TypeError, ValueError, OverflowError):
        return False
    starts = np.zeros(menu.depth.size + 1, dtype=np.bool_)
    starts[np.cumsum(menu.sizes) - menu.sizes] = True
    rising = (np.diff(menu.depth) > 0) | starts[1:-1]
    positive = menu.progress[menu.progress > 0]
    places = menu.type_index * (LARGEST_COUNT + 1) + menu.gpus
    sound = (
        rising.all()
        and _within(menu.depth, 0, layers)
        and _within(menu.gpus, 1, LARGEST_COUNT)
        and _within(menu.progress, 0.0, LARGEST_NUMBER)
        and _within(positive, SMALLEST_POSITIVE, LARGEST_NUMBER)
        and (menu.penalty is None or _within(menu.penalty, 0, MILLION))
        and np.unique(places).size == places.size
    )
    if not sound:
        return False
    given = job.reference_progress
    if given is not None:
        problems: list[Problem] = []
        if not check_amount("", given, problems) or given <= 0:
            return False
    if menu.least is None:
        return True
    reference = menu.least if given is None else given
    return bool(positive.max() <= _WIDEST * reference and menu.least * _WIDEST >= reference)


def _within(values: Any, low: float, high: float) -> bool:
    """Return whether all values lie between; NaN does not."""
    return not values.size or bool(values.min() >= low and values.max() <= high)

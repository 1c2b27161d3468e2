"""The layer-freezing instance: every job picks GPU type, GPU count and frozen depth for one round."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from apportion.errors import InvalidInstance, Problem
from apportion.instances.fields import (
    LARGEST_CAPACITY,
    Amount,
    Capacity,
    Count,
    Name,
    Number,
    check_amount,
    check_count,
    check_distinct,
    check_header,
    check_name,
    check_number,
    settle_numbers,
)

__all__ = [
    "PENALTY",
    "FreezingConfiguration",
    "FreezingInstance",
    "FreezingJob",
    "FreezingRow",
]

PENALTY = "frozen_penalty"
"""The capacity of the penalty cap, as it is named in multipliers; no GPU type may be called so."""

_MILLION = 1_000_000
_LARGEST_POWER = 4.0
_WIDEST = 1e9
"""Largest ratio of an effective progress to the job's reference, and its inverse the smallest."""

Millionths = Annotated[int, Meta(ge=0, le=_MILLION)]
Power = Annotated[float, Meta(ge=-_LARGEST_POWER, le=_LARGEST_POWER)]


class FreezingConfiguration(Struct, frozen=True, forbid_unknown_fields=True):
    """What a job runs on, and how deep it is frozen.

    Attributes
    ----------
    gpu_type
        One of the instance's GPU types.
    gpus
        How many, at least 1.
    depth
        Frozen layers, from the first one on.
    """

    gpu_type: Name
    gpus: Count
    depth: Count = 0


class FreezingRow(Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a job's menu on one number of GPUs: one entry a depth.

    Attributes
    ----------
    gpu_type
        One of the instance's GPU types.
    gpus
        How many, at least 1.
    depths
        Frozen layers, strictly rising, at most all of the job's. Depths whose batch does not fit into memory
        do not stand here.
    effective_progress
        Per depth: throughput x statistical efficiency x (1 - frozen penalty), samples per second.
    penalty_millionths
        Per depth: frozen penalty in millionths; empty for none.
    """

    gpu_type: Name
    gpus: Count
    depths: tuple[Count, ...]
    effective_progress: tuple[Amount, ...]
    penalty_millionths: tuple[Millionths, ...] = ()


class FreezingJob(Struct, frozen=True, forbid_unknown_fields=True):
    """A job, its menu and its state.

    Attributes
    ----------
    id
        Unique name.
    layers
        Number of layers, at least 1; the frozen fraction is depth / layers.
    menu
        One row per GPU type and count, each once.
    current
        What it runs on now; absent for a job that does not run.
    age_s
        Seconds since the job came, T.
    restarts
        How often it has been restarted, N.
    restart_s
        Seconds lost when GPU type or count change, S.
    rebuild_s
        Seconds lost when only the depth changes.
    weight
        Weight in the objective.
    reference_progress
        Effective progress that counts as 1, above 0; by default the least positive one of the menu.
    budget_frozen_s
        What is left of the accuracy budget: frozen fraction times seconds; absent for no budget.
    max_depth
        Deepest admissible depth this round, by the eligibility gate; absent for no gate.
    remaining_work
        What is left to learn, samples at the reference; told, not used by the objective.
    required
        Whether the job must get GPUs.
    """

    id: Name
    layers: Count
    menu: tuple[FreezingRow, ...]
    current: FreezingConfiguration | None = None
    age_s: Amount = 0.0
    restarts: Count = 0
    restart_s: Amount = 0.0
    rebuild_s: Amount = 0.0
    weight: Amount = 1.0
    reference_progress: Amount | None = None
    budget_frozen_s: Amount | None = None
    max_depth: Count | None = None
    remaining_work: Amount | None = None
    required: bool = False


class FreezingInstance(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="freezing"):
    """One round of a cluster whose jobs are elastic in GPUs and layers; every rule is checked when made.

    Attributes
    ----------
    schema_version
        ``"1"``.
    gpus
        How many GPUs there are of each type.
    round_s
        Length of the round, seconds, above 0.
    jobs
        The jobs.
    power
        p of the objective, from -4 to 4 but not 0; above 0 it is maximised, below 0 minimised.
    queue_penalty
        lambda: added to the objective for every job that gets nothing. Minimised, a positive one keeps jobs
        from waiting; maximised, a negative one does.
    gpus_per_node
        Size of a node per GPU type: more GPUs than that are whole nodes. Types that are not named are free.
    penalty_cap_millionths
        Most frozen penalty of all jobs together, in millionths; absent for no cap.
    name
        A name for reports.

    Raises
    ------
    InvalidInstance
        If any rule is broken; all problems are listed with their JSON paths.
    """

    schema_version: Literal["1"]
    gpus: dict[Name, Capacity]
    round_s: Amount
    jobs: tuple[FreezingJob, ...]
    power: Power = -0.5
    queue_penalty: Number = 1.1
    gpus_per_node: dict[Name, Count] = {}
    penalty_cap_millionths: Capacity | None = None
    name: str = ""

    def __post_init__(self) -> None:
        problems = _problems(self)
        if problems:
            raise InvalidInstance(problems)
        settle_numbers(self, ("round_s", "power", "queue_penalty"))
        for job in self.jobs:
            settle_numbers(job, ("age_s", "restart_s", "rebuild_s", "weight"))
            settle_numbers(job, ("reference_progress", "budget_frozen_s", "remaining_work"))
            for row in job.menu:
                settle_numbers(row, ("effective_progress",))


def _problems(instance: FreezingInstance) -> list[Problem]:
    problems: list[Problem] = []
    check_header(instance, problems)
    if check_amount("$.round_s", instance.round_s, problems) and instance.round_s <= 0:
        problems.append(Problem("$.round_s", "must be positive"))
    if check_number("$.power", instance.power, problems) and not 0 < abs(instance.power) <= _LARGEST_POWER:
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
            problems.append(Problem(f"$.gpus_per_node.{name}", "is not one of the instance's GPU types"))
        check_count(f"$.gpus_per_node.{name}", size, problems, low=1)
    if not isinstance(instance.jobs, tuple | list):
        return [*problems, Problem("$.jobs", "must be a list of jobs")]
    for index, job in enumerate(instance.jobs):
        if isinstance(job, FreezingJob):
            _check_job(f"$.jobs[{index}]", job, instance.gpus, problems)
        else:
            problems.append(Problem(f"$.jobs[{index}]", f"must be a FreezingJob, not {type(job).__name__}"))
    ids = (job.id for job in instance.jobs if isinstance(job, FreezingJob))
    check_distinct("$.jobs", ids, "job id", problems)
    return problems


def _check_job(path: str, job: FreezingJob, gpus: dict[str, int], problems: list[Problem]) -> None:
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
    path: str, place: FreezingConfiguration | FreezingRow, gpus: dict[str, int], problems: list[Problem]
) -> None:
    if check_name(f"{path}.gpu_type", place.gpu_type, problems) and place.gpu_type not in gpus:
        problems.append(
            Problem(f"{path}.gpu_type", f"{place.gpu_type!r} is not one of the instance's GPU types")
        )
    check_count(f"{path}.gpus", place.gpus, problems, low=1)


def _check_row(
    path: str, row: FreezingRow, layers: int | None, gpus: dict[str, int], problems: list[Problem]
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
        check_count(f"{path}.penalty_millionths[{index}]", penalty, problems, high=_MILLION)


def _check_reference(path: str, job: FreezingJob, problems: list[Problem]) -> None:
    """Keep every ratio within nine orders of magnitude, so that no power leaves the range of a double."""
    told = job.reference_progress
    where = f"{path}.reference_progress"
    if told is not None:
        if not check_amount(where, told, problems):
            return
        if told <= 0:
            problems.append(Problem(where, "must be positive"))
            return
    positive = [value for row in job.menu for value in row.effective_progress if value > 0]
    if not positive:
        return
    reference = min(positive) if told is None else told
    if max(positive) > _WIDEST * reference or min(positive) * _WIDEST < reference:
        problems.append(
            Problem(where, "and every positive effective progress must lie within a factor of 1e9")
        )

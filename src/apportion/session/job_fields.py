"""The names of a job's fields, of every kind, by which type checkers know a misspelt one."""

from __future__ import annotations

from typing import Any, TypedDict

__all__ = ["JobFields", "NewJobFields"]


class JobFields(TypedDict, total=False):
    """Every field of a job of any kind but its id, as `apportion.Session.update_job` takes them.

    Values are as they stand in an instance; `apportion.Session.apply` checks them and the kind.
    """

    min_nodes: int
    max_nodes: int
    scaling: Any
    rescale_up_s: float
    rescale_down_s: float
    current_nodes: Any
    pinned_count: int | None
    forbidden_counts: Any
    options: Any
    current: Any
    pinned: str | None
    forbidden: Any
    on: Any
    layers: int
    menu: Any
    age_s: float
    restarts: int
    restart_s: float
    rebuild_s: float
    reference_progress: float | None
    budget_frozen_s: float | None
    max_depth: int | None
    remaining_work: float | None
    weight: float
    required: bool
    tenant: str
    preemptible: bool
    stop_cost: float
    submitted_s: float
    priority: int
    finish: Any
    best_rate: float


class NewJobFields(JobFields, total=False):
    """Every field of a job of any kind, as `apportion.Session.add_job` takes them."""

    id: str

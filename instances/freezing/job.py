"""A job of a layer-freezing round: its menu of GPU types, counts and depths, and its state."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from apportion.instances.fields import Amount, AtLeastOne, Count, Name, PositiveAmount
from apportion.instances.tenants.schema import TenantedJob

if TYPE_CHECKING:
    from apportion.instances.freezing.menu_arrays import MenuArrays

__all__ = ["MILLION", "FreezingConfiguration", "FreezingJob", "FreezingRow"]

MILLION = 1_000_000

Millionths = Annotated[int, Meta(ge=0, le=MILLION)]


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
    nodes
        The nodes it runs on, one for up to a node's GPUs; absent where it does not matter which.
    """

    gpu_type: Name
    gpus: AtLeastOne
    depth: Count = 0
    nodes: tuple[Name, ...] | UnsetType = UNSET


class FreezingRow(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
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
    gpus: AtLeastOne
    depths: tuple[Count, ...]
    effective_progress: tuple[Amount, ...]
    penalty_millionths: tuple[Millionths, ...] = ()


class FreezingJob(TenantedJob, frozen=True, forbid_unknown_fields=True, dict=True):
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
    tenant, preemptible, running_s, stop_cost, submitted_s, priority, finish, best_rate
        What belongs to its tenant; see `apportion.instances.tenants.schema.TenantedJob`.
    """

    id: Name
    layers: AtLeastOne
    menu: tuple[FreezingRow, ...]
    current: FreezingConfiguration | None = None
    age_s: Amount = 0.0
    restarts: Count = 0
    restart_s: Amount = 0.0
    rebuild_s: Amount = 0.0
    weight: Amount = 1.0
    reference_progress: PositiveAmount | None = None
    budget_frozen_s: Amount | None = None
    max_depth: Count | None = None
    remaining_work: Amount | None = None
    required: bool = False

    @cached_property
    def menu_arrays(self) -> MenuArrays:
        """The menu as arrays, formed once per job object; no part of what makes two jobs equal."""
        from apportion.instances.freezing.menu_arrays import MenuArrays  # loads numpy

        return MenuArrays(self.menu)

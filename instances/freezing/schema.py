"""The layer-freezing instance: every job picks GPU type, GPU count and frozen depth for one round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from apportion.instances.fields import AtLeastOne, Capacity, Name, Number, PositiveAmount, refuse
from apportion.instances.freezing.job import FreezingConfiguration, FreezingJob, FreezingRow
from apportion.instances.freezing.rules import LARGEST_POWER, PENALTY, rules_of
from apportion.instances.tenants.schema import Tenanted

__all__ = [
    "PENALTY",
    "FreezingConfiguration",
    "FreezingInstance",
    "FreezingJob",
    "FreezingRow",
]

Power = Annotated[float, Meta(ge=-LARGEST_POWER, le=LARGEST_POWER)]


class FreezingInstance(Tenanted, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="freezing"):
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
        Size of a node per GPU type: a job's GPUs lie on one node or fill whole nodes, and plans say which.
        GPUs beyond the last whole node are one smaller node. Types that are not named are free.
    penalty_cap_millionths
        Most frozen penalty of all jobs together, in millionths; absent for no cap.
    name
        A name for reports.
    nodes
        Names of the nodes per GPU type, a smaller one last; numbers from ``"0"`` where absent.
    tenants, fairness
        Whose jobs they are and what is shared out fairly; see `apportion.instances.tenants.schema.Tenanted`.

    Raises
    ------
    InvalidInstance
        If any rule is broken; all problems are listed with their JSON paths.
    """

    schema_version: Literal["1"]
    gpus: dict[Name, Capacity]
    round_s: PositiveAmount
    jobs: tuple[FreezingJob, ...]
    power: Power = -0.5
    queue_penalty: Number = 1.1
    gpus_per_node: dict[Name, AtLeastOne] = field(default_factory=dict)
    penalty_cap_millionths: Capacity | None = None
    name: str = ""
    nodes: dict[Name, tuple[Name, ...]] | UnsetType = UNSET

    if TYPE_CHECKING:

        @property
        def _planned(self) -> Mapping[str, Mapping[str, Any]]: ...

    def __repr__(self) -> str:
        gpus = ", ".join(f"{count} {name}" for name, count in self.gpus.items())
        size = f"{len(self.jobs)} jobs on {gpus}"
        return f"<FreezingInstance {self.name!r}: {size}, rounds of {self.round_s:g} s>"

    def __post_init__(self) -> None:
        refuse(self, rules_of(self))

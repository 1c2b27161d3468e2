"""The fields of a round of layer freezing, as its rules and its nodes read them before it is complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import UnsetType

from apportion.instances.freezing.job import FreezingJob
from apportion.instances.tenants.schema import Fairness, Tenant

__all__ = ["FreezingRound"]


class FreezingRound(Protocol):
    """A `FreezingInstance`, whose docstring says what its fields mean; it imports its rules, not they it."""

    @property
    def gpus(self) -> Mapping[str, int]:
        """GPUs by type."""
        ...

    @property
    def gpus_per_node(self) -> Mapping[str, int]:
        """Size of a node by GPU type."""
        ...

    @property
    def nodes(self) -> Mapping[str, Sequence[str]] | UnsetType:
        """Names of the nodes by GPU type."""
        ...

    @property
    def jobs(self) -> Sequence[FreezingJob]:
        """The jobs."""
        ...

    @property
    def round_s(self) -> float:
        """Length of the round in seconds."""
        ...

    @property
    def power(self) -> float:
        """The exponent of the objective."""
        ...

    @property
    def queue_penalty(self) -> float:
        """What a job that gets nothing adds to the objective."""
        ...

    @property
    def penalty_cap_millionths(self) -> int | None:
        """Most frozen penalty of all jobs together."""
        ...

    @property
    def tenants(self) -> Sequence[Tenant] | UnsetType:
        """The tenants, where there are any."""
        ...

    @property
    def fairness(self) -> Fairness | UnsetType:
        """What is shared out fairly, where anything is."""
        ...

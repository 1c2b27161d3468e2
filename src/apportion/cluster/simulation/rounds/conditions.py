"""What a simulation of a cluster is given beside policy and machines: the jobs, and how rounds go by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.belief import Belief
from apportion.cluster.policies.rounds.claims import Claims
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView
from apportion.cluster.simulation.rounds.job_states import (
    CoLocation,
    DistributedNeighbours,
    GroundTruth,
    JobStates,
)
from apportion.core.errors import InvalidOption

__all__ = ["Beliefs", "Observe", "Present", "RoundRules", "SimulatedJobs"]

Present = Callable[[float], NDArray[np.bool_]]
"""bool [nodes]: which machines are there at a time; the others' GPUs are gone and their jobs pre-empted."""

Beliefs = Callable[[int, JobStates], Belief]
"""What the scheduler believes of a job now, given its number and what can be observed of it."""

Observe = Callable[[ClusterView, ClusterPlan], None]
"""Called with what the policy saw, and what it answered."""


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedJobs:
    """The jobs of a simulation, numbered in the workload's order.

    Attributes
    ----------
    ground_truth
        What the jobs really do.
    submitted_s, requested_gpus
        float64 and int64 [jobs].
    beliefs
        What the scheduler believes.
    claims
        Whose the jobs are and what they claim; policies see it.
    """

    ground_truth: GroundTruth
    submitted_s: NDArray[np.float64]
    requested_gpus: NDArray[np.int64]
    beliefs: Beliefs
    claims: Claims | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundRules:
    """How long the rounds of a simulation are, what changes cost, and when it ends.

    Attributes
    ----------
    round_s
        Seconds of a round.
    restart_s
        Standstill after a (re)start, for all or float64 [jobs].
    rebuild_s
        Standstill after a change of depth alone.
    interference
        Share of its rate that a distributed job loses beside another one, 0 to 1; or what jobs lose by whom
        they run beside.
    limit_s
        Stop at this time; what is not complete by then stays so.
    present
        Which machines are there, asked once a round; ``None``: all of them, always.

    Raises
    ------
    InvalidOption
        If a number is out of its range.
    """

    round_s: float = 60.0
    restart_s: float | NDArray[np.float64] = 30.0
    rebuild_s: float = 0.0
    interference: float | CoLocation = 0.0
    limit_s: float | None = None
    present: Present | None = None

    def __post_init__(self) -> None:
        if not 0 < self.round_s < 1e9:
            raise InvalidOption(f"round_s must be positive seconds, not {self.round_s}")
        if not callable(self.interference) and not 0 <= self.interference < 1:
            raise InvalidOption(f"interference must be from 0 to below 1, not {self.interference}")

    @property
    def co_location(self) -> CoLocation | None:
        """What jobs lose by whom they run beside, ``None`` if nothing."""
        if callable(self.interference):
            return self.interference
        return DistributedNeighbours(self.interference) if self.interference else None

"""Idle nodes of another machine as one more GPU type of a cluster: they come and go by a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.training.application import Application
from apportion.cluster.policies.rounds.cluster_view import Nodes
from apportion.cluster.simulation.idle_trace import IdleTrace
from apportion.core.errors import InvalidOption

__all__ = ["GapNodes"]


@dataclass(frozen=True, slots=True, eq=False)
class GapNodes:
    """The nodes of a trace beside a cluster's own.

    Attributes
    ----------
    trace
        When which node is idle; it starts anew when it is over.
    gpus
        GPUs of every node.
    pool
        Name of their GPU type in the cluster: another one than the same GPUs that stay.
    measured_as
        Name of their GPU type in the profiles.

    Raises
    ------
    InvalidOption
        If a node has no GPU.
    """

    trace: IdleTrace
    gpus: int
    pool: str
    measured_as: str

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise InvalidOption(f"gap nodes need at least one GPU each, not {self.gpus}")

    def joined(self, own: Nodes) -> Nodes:
        """Return the cluster's own nodes and after them all of the trace."""
        count = len(self.trace.names)
        return Nodes(
            np.concatenate((own.gpus, np.full(count, self.gpus))),
            np.concatenate((own.kind, np.full(count, len(own.types)))),
            (*own.types, self.pool),
        )

    def present(self, own: Nodes) -> Callable[[float], NDArray[np.bool_]]:
        """Return which nodes of the joined cluster are there at a time; its own always are."""
        trace, count = self.trace, len(self.trace.names)
        over_s = float(trace.event_s[-1])

        def there(now_s: float) -> NDArray[np.bool_]:
            at = now_s % over_s
            idle = trace.node[(trace.start_s <= at) & (at < trace.end_s)]
            return np.concatenate(
                (np.ones(own.gpus.size, dtype=np.bool_), np.bincount(idle, minlength=count) > 0)
            )

        return there

    def measured(self, profiles: Mapping[str, Application]) -> dict[str, Application]:
        """Return the profiles with the pool's GPUs added to those applications that were measured on them."""
        return {
            name: replace(
                application,
                step_times={**application.step_times, self.pool: application.step_times[self.measured_as]},
            )
            if self.measured_as in application.step_times
            else application
            for name, application in profiles.items()
        }

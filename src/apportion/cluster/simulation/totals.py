"""What a replay adds up as it goes: constant memory, however long it runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Series", "Step", "Totals"]


@dataclass(frozen=True, slots=True)
class Step:
    """One decision instant, as the log and the series see it.

    Attributes
    ----------
    time_s, lasted_s
        Now, and the seconds since the step before.
    left, joined
        Nodes that left and that became idle.
    preempted
        Jobs that lost a node.
    finished
        Jobs seen to be done.
    jobs, running
        Jobs admitted, and those with nodes, from now on.
    idle, used
        Idle nodes, and those that a job holds, from now on.
    rate
        Samples per second from now on.
    output
        Samples made since the step before, losses taken off.
    preemption_loss, rescale_loss
        Samples charged for pre-emption now, and for the rescaling decided now (charged at the next step).
    rescaled
        Running jobs resized now.
    """

    time_s: float
    lasted_s: float
    left: int
    joined: int
    preempted: int
    finished: int
    jobs: int
    running: int
    idle: int
    used: int
    rate: float
    output: float
    preemption_loss: float
    rescale_loss: float
    rescaled: int


@dataclass(slots=True)
class Totals:
    """Sums over the steps of a replay.

    Attributes
    ----------
    output
        Samples made, losses and the excess of finished jobs taken off.
    preemption_loss, rescale_loss, excess
        Samples lost to pre-emption and to rescaling, and made by jobs after their end until that was seen.
    idle_node_s, used_node_s
        Node-seconds idle, and held by jobs.
    elapsed_s
        Seconds replayed.
    events, decisions, preemptions, rescales, finished
        Counts: trace rows, policy calls, jobs hit by departures, running jobs resized, jobs done.
    """

    output: float = 0.0
    preemption_loss: float = 0.0
    rescale_loss: float = 0.0
    excess: float = 0.0
    idle_node_s: float = 0.0
    used_node_s: float = 0.0
    elapsed_s: float = 0.0
    events: int = 0
    decisions: int = 0
    preemptions: int = 0
    rescales: int = 0
    finished: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the sums by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, sums: dict[str, Any]) -> Totals:
        """Return the sums that `as_dict` gave."""
        return cls(**{field.name: sums[field.name] for field in fields(cls)})


class Series:
    """Time averages of a few quantities in at most `bins` equal bins; bins double in width when they run out.

    Parameters
    ----------
    start_s
        Where the first bin begins.
    names
        The quantities.
    width_s
        Width of a bin at the beginning, seconds.
    bins
        Most bins, an even number.
    """

    __slots__ = ("_bins", "_sums", "names", "start_s", "width_s")

    def __init__(
        self, start_s: float, names: tuple[str, ...], width_s: float = 60.0, bins: int = 512
    ) -> None:
        self.start_s, self.names, self.width_s, self._bins = start_s, names, width_s, bins
        self._sums = np.zeros((len(names) + 1, bins))

    def add(self, begin_s: float, end_s: float, values: tuple[float, ...]) -> None:
        """Book quantities that held from `begin_s` to `end_s`."""
        while end_s > self.start_s + self.width_s * self._bins:
            halved = self._sums.reshape(self._sums.shape[0], -1, 2).sum(axis=2)
            self._sums = np.hstack((halved, np.zeros_like(halved)))
            self.width_s *= 2
        column = np.array((1.0, *values))
        while begin_s < end_s:
            place = min(int((begin_s - self.start_s) / self.width_s), self._bins - 1)
            until = min(end_s, self.start_s + (place + 1) * self.width_s)
            if until <= begin_s:  # rounding at a bin's edge
                until = end_s
            self._sums[:, place] += column * (until - begin_s)
            begin_s = until

    def averages(self) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
        """Return the begin of every bin used, in seconds since the start, and the averages by name."""
        lasted = self._sums[0]
        used = int(np.flatnonzero(lasted > 0).max(initial=-1)) + 1
        lasted = np.maximum(lasted[:used], 1e-9)
        begins = np.arange(used, dtype=np.float64) * np.float64(self.width_s)
        table: NDArray[np.float64] = self._sums[1:, :used] / lasted
        return begins, dict(zip(self.names, table, strict=True))

    def state(self) -> dict[str, Any]:
        """Return the state as JSON-ready numbers, which `restore` takes back."""
        return {"width_s": self.width_s, "sums": self._sums.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from an earlier state."""
        self.width_s, self._sums = state["width_s"], np.array(state["sums"], dtype=np.float64)

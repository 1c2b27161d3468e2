"""Averages of simulated or recorded figures that only tests look at."""

from __future__ import annotations

import numpy as np

from apportion.cluster.simulation.idle_trace import NodeChanges


def mean_idle(changes: NodeChanges) -> float:
    """Return the time average of the number of idle nodes."""
    lasting = np.diff(changes.time_s, append=changes.end_s)
    return float(changes.idle_counts() @ lasting / (changes.end_s - changes.time_s[0]))

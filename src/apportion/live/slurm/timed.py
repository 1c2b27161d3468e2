"""A cluster whose answers are timed, and whose last list of idle nodes is remembered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from apportion.live.cluster import Cluster, ClusterSeen
from apportion.live.errors import ClusterUnreachable
from apportion.live.offers import Share

__all__ = ["TimedCluster"]


class TimedCluster:
    """Passes everything on to a cluster.

    Parameters
    ----------
    cluster
        The scheduler.
    told
        Called with what was asked (``look``, ``take`` or ``release``), the seconds until the answer, and
        whether there was one.

    Attributes
    ----------
    idle
        Idle nodes at the last look.
    """

    def __init__(self, cluster: Cluster, told: Callable[[str, float, bool], None]) -> None:
        self._cluster, self._told = cluster, told
        self.idle: tuple[str, ...] = ()

    def look(self) -> ClusterSeen:
        """Look, timed."""
        with self._timed("look"):
            seen = self._cluster.look()
        self.idle = seen.idle
        return seen

    def take(self, node: str, pilot: str, token: str, share: Share | None = None) -> str:
        """Take a node or a part of it, timed."""
        with self._timed("take"):
            return self._cluster.take(node, pilot, token, share)

    def release(self, handle: str) -> None:
        """End a pilot, timed."""
        with self._timed("release"):
            self._cluster.release(handle)

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began_s, answered = time.perf_counter(), True
        try:
            yield
        except ClusterUnreachable:
            answered = False
            raise
        finally:
            self._told(what, time.perf_counter() - began_s, answered)

"""What is kept of every step beside the state: the journal with its accounts, and Prometheus's file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.live.cluster import Cluster
from apportion.live.record.journal import Journal
from apportion.live.record.ledger import Ledger
from apportion.live.slurm.timed import TimedCluster

if TYPE_CHECKING:
    from apportion.live.controller.controller import Controller, Stepped
    from apportion.live.controller.metrics import HarvestMetrics

__all__ = ["Keeping"]


class Keeping:
    """Looks on at every step; nothing of the controller depends on it.

    Parameters
    ----------
    folder
        The state folder, with its lock held.
    cluster
        The scheduler; `cluster` of this object is to be used in its place.
    journal_bytes, journal_files
        Of the journal.
    account_s
        How often an account is closed.
    metrics
        Prometheus's file, ``None`` for none.
    then
        Called after every step.
    """

    def __init__(
        self,
        folder: Path,
        cluster: Cluster,
        journal_bytes: int,
        journal_files: int,
        account_s: float,
        metrics: HarvestMetrics | None,
        then: Callable[[Controller, Stepped], None],
    ) -> None:
        self.journal, self.ledger = Journal(folder, journal_bytes, journal_files), Ledger()
        self.cluster = TimedCluster(cluster, self._answered)
        self._account_s, self._metrics, self._then = account_s, metrics, then
        self._due_s: float | None = None
        self._decided_s: float | None = None
        self._last: Controller | None = None

    def __call__(self, controller: Controller, stepped: Stepped) -> None:
        """Keep a step."""
        now_s = controller.clock()
        self._last = controller
        self.ledger.step(controller.state, self.cluster.idle, now_s)
        self.journal.write(stepped.events)
        if self._metrics is not None:
            kinds = [str(event["event"]) for event in stepped.events]
            decided_s, self._decided_s = self._decided_s, controller.core.memory.decided_s
            decided = self._decided_s is not None and self._decided_s != decided_s
            self._metrics.stepped(kinds, decided, stepped.trouble is not None)
        if self._due_s is None or now_s >= self._due_s:
            self._due_s = now_s + self._account_s
            self._close(controller, now_s)
        self._then(controller, stepped)

    def close(self) -> None:
        """Close the account and the journal."""
        if self._last is not None:
            self._close(self._last, self._last.clock())
        self.journal.close()

    def _answered(self, asked: str, seconds: float, answered: bool) -> None:
        if self._metrics is not None:
            self._metrics.answered(asked, seconds, answered)

    def _close(self, controller: Controller, now_s: float) -> None:
        account = self.ledger.close()
        if account.seconds > 0:
            self.journal.write([account.event(now_s)])
        if self._metrics is not None:
            with contextlib.suppress(OSError):  # no reason to leave the nodes
                self._metrics.write(controller.state, self.ledger.nodes, account)

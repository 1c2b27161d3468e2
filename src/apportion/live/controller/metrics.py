"""What Prometheus is told of a controller, as a text file for the node exporter's textfile collector."""

from __future__ import annotations

import time
from collections import Counter as Counts
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from apportion.core.files import write_whole
from apportion.live.record.journal import Account
from apportion.live.record.state import State

__all__ = ["HarvestMetrics"]

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)


class HarvestMetrics:
    """Counters of one controller.

    Parameters
    ----------
    path
        The file, ``*.prom`` in the folder that the node exporter reads.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._registry = registry = CollectorRegistry()
        name = "apportion_harvest_"

        def gauge(what: str, help_text: str, labels: tuple[str, ...] = ()) -> Gauge:
            return Gauge(f"{name}{what}", help_text, labels, registry=registry)

        def counter(what: str, help_text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"{name}{what}", help_text, labels, registry=registry)

        self._nodes = gauge("nodes", "Nodes: idle and free, held, used by ranks, out of reach.", ("state",))
        self._jobs = gauge("jobs", "Jobs on record.", ("state",))
        self._trouble = gauge("trouble", "Whether something keeps new work from being begun.")
        self._stepped = gauge("step_timestamp_seconds", "When the controller last took a step.")
        self._node_s = counter("node_seconds_total", "Node seconds by state.", ("state",))
        self._samples = counter("samples_total", "Samples trained.")
        self._undone = counter("undone_samples_total", "Samples lost: no checkpoint held them.")
        self._events = counter("events_total", "Events of the journal.", ("event",))
        self._decisions = counter("decisions_total", "Decisions of the policy.")
        self._slurm = Histogram(
            f"{name}slurm_seconds",
            "Seconds until Slurm answered.",
            ("asked",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._failures = counter("slurm_failures_total", "Questions Slurm did not answer.", ("asked",))

    def answered(self, asked: str, seconds: float, answered: bool) -> None:
        """Count a question to Slurm."""
        self._slurm.labels(asked).observe(seconds)
        if not answered:
            self._failures.labels(asked).inc()

    def stepped(self, kinds: list[str], decided: bool, trouble: bool) -> None:
        """Count a step: the kinds of its events, whether it held a decision."""
        for kind, count in Counts(kinds).items():
            self._events.labels(kind).inc(count)
        self._decisions.inc(decided)
        self._trouble.set(trouble)
        self._stepped.set(time.time())

    def write(self, state: State, nodes: dict[str, int], account: Account) -> None:
        """Add an account that was closed, and write the file, whole.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        for name, count in nodes.items():
            self._nodes.labels(name).set(count)
        states = Counts(job.state.value for job in state.jobs.values())
        for name in ("queued", "running", "stopping", "done", "failed", "cancelled"):
            self._jobs.labels(name).set(states[name])
        spent = {"idle": account.idle, "held": account.held, "lost": account.lost}
        for name, node_s in {**spent, "used": sum(account.used.values())}.items():
            self._node_s.labels(name).inc(node_s)
        self._samples.inc(sum(account.samples.values()))
        self._undone.inc(sum(account.undone.values()))
        write_whole(self._path, generate_latest(self._registry))

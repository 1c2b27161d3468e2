"""What a controller shows of itself: a live view on a terminal, and counters for Prometheus.

Prometheus is told by a text file for the node exporter's textfile collector.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from apportion.core.files import write_whole
from apportion.live.record.journal import Account
from apportion.live.record.state import State

if TYPE_CHECKING:
    import prometheus_client as prometheus

    from apportion.live.controller.controller import Controller, Event, Stepped

__all__ = ["HarvestMetrics", "LiveView", "in_words"]

_LINES = 8
_SILENT = frozenset({"exited"})
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)


def in_words(event: Event) -> str:
    """Return an event of the journal as one line."""
    words = [f"{key} {_short(value)}" for key, value in event.items() if key not in ("time_s", "event")]
    return f"{str(event['event']).replace('_', ' ')}: {', '.join(words)}"


def _short(value: object) -> str:
    if isinstance(value, list):
        inner = [
            f"{item['job']} {item['held']}->{item['gets']}" if isinstance(item, dict) else str(item)
            for item in value
        ]
        return " ".join(inner[:12]) + (" ..." if len(inner) > 12 else "")
    return str(value)[:160]


class LiveView:
    """A table of jobs, a line of nodes, and the last events; rich is loaded when it is entered."""

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=_LINES)
        self._live: Any = None

    def __enter__(self) -> LiveView:
        from rich.live import Live

        self._live = Live(auto_refresh=False, screen=False)
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, controller: Controller, stepped: Stepped) -> None:
        """Show a step."""
        self._last.extend(in_words(event) for event in stepped.events if event["event"] not in _SILENT)
        self._live.update(self._page(controller, stepped), refresh=True)

    def _page(self, controller: Controller, stepped: Stepped) -> Any:
        from rich.console import Group
        from rich.markup import escape
        from rich.table import Table

        state = controller.state
        table = Table(box=None, pad_edge=False)
        for title in ("job", "name", "state", "nodes", "samples", "goal", "samples/s", "message"):
            table.add_column(title, justify="right" if title in ("nodes", "samples", "goal") else "left")
        shown = [job for job in state.jobs.values() if not job.ended][:30]
        for job in shown:
            count = sum(rank.live for rank in state.ranks_of(job))
            rate = f"{job.curve[count].rate:.6g}" if count in job.curve else ""
            goal = "" if job.spec.samples is None else str(job.spec.samples)
            cells = (
                job.id,
                job.spec.name,
                job.state.value,
                str(count),
                str(job.samples),
                goal,
                rate,
                job.message,
            )
            table.add_row(*(escape(cell[:60]) for cell in cells))
        held = sum(pilot.live for pilot in state.pilots.values())
        over = sum(job.ended for job in state.jobs.values())
        head = f"{held} nodes held, {len(shown)} jobs shown, {over} ended; ctrl-C drains"
        lines = [head, *([f"TROUBLE: {stepped.trouble}"] if stepped.trouble else [])]
        return Group(*map(escape, lines), table, *map(escape, self._last))


class HarvestMetrics:
    """Counters of one controller.

    Parameters
    ----------
    path
        The file, ``*.prom`` in the folder that the node exporter reads.
    """

    def __init__(self, path: Path) -> None:
        import prometheus_client as prometheus

        self._path = path
        self._registry = registry = prometheus.CollectorRegistry()
        name = "apportion_harvest_"

        def gauge(what: str, help_text: str, labels: tuple[str, ...] = ()) -> prometheus.Gauge:
            return prometheus.Gauge(f"{name}{what}", help_text, labels, registry=registry)

        def counter(what: str, help_text: str, labels: tuple[str, ...] = ()) -> prometheus.Counter:
            return prometheus.Counter(f"{name}{what}", help_text, labels, registry=registry)

        self._nodes = gauge("nodes", "Nodes: idle and free, held, used by ranks, out of reach.", ("state",))
        self._jobs = gauge("jobs", "Jobs on record.", ("state",))
        self._trouble = gauge("trouble", "Whether something keeps new work from being begun.")
        self._stepped = gauge("step_timestamp_seconds", "When the controller last took a step.")
        self._node_s = counter("node_seconds_total", "Node seconds by state.", ("state",))
        self._samples = counter("samples_total", "Samples trained.")
        self._undone = counter("undone_samples_total", "Samples lost: no checkpoint held them.")
        self._events = counter("events_total", "Events of the journal.", ("event",))
        self._decisions = counter("decisions_total", "Decisions of the policy.")
        self._slurm = prometheus.Histogram(
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
        for kind, count in Counter(kinds).items():
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
        from prometheus_client import generate_latest

        for name, count in nodes.items():
            self._nodes.labels(name).set(count)
        states = Counter(job.state.value for job in state.jobs.values())
        for name in ("queued", "running", "stopping", "done", "failed", "cancelled"):
            self._jobs.labels(name).set(states[name])
        spent = {"idle": account.idle, "held": account.held, "lost": account.lost}
        for name, node_s in {**spent, "used": sum(account.used.values())}.items():
            self._node_s.labels(name).inc(node_s)
        self._samples.inc(sum(account.samples.values()))
        self._undone.inc(sum(account.undone.values()))
        write_whole(self._path, generate_latest(self._registry))

"""The live view: what the controller does, on a terminal."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apportion.live.controller.controller import Controller, Event, Stepped

__all__ = ["LiveView", "in_words"]

_LINES = 8
_SILENT = frozenset({"exited"})


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

"""What Prometheus is told of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from apportion.record import Decided
    from apportion.service.pool import Pool

__all__ = ["Metrics"]

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
_GAPS = (1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 1)


class Metrics:
    """Counters of one service.

    Attributes
    ----------
    decisions, seconds, gap
        Decisions by policy, termination and status; seconds that callers waited; gaps of plans with a bound.
    refused, late, killed
        Requests refused, by why; decisions past their deadline; workers killed, by why.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.decisions = Counter(
            "apportion_decisions_total",
            "Decisions answered.",
            ("policy", "termination", "status"),
            registry=registry,
        )
        self.seconds = Histogram(
            "apportion_decision_seconds",
            "Seconds from asked to answered.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.gap = Histogram("apportion_gap", "Relative gap of plans.", buckets=_GAPS, registry=registry)
        self.refused = Counter("apportion_refused_total", "Requests refused.", ("why",), registry=registry)
        self.late = Counter("apportion_late_total", "Decisions past their deadline.", registry=registry)
        self.killed = Gauge("apportion_workers_killed", "Workers killed.", ("why",), registry=registry)
        self.busy = Gauge("apportion_workers_busy", "Workers at work.", registry=registry)
        self.waiting = Gauge("apportion_waiting", "Requests that wait for a worker.", registry=registry)

    def decided(self, decided: Decided, termination: str, gap: float | None) -> None:
        """Count a decision."""
        self.decisions.labels(decided.policy, termination, decided.status).inc()
        self.seconds.observe(decided.seconds)
        if gap is not None:
            self.gap.observe(gap)

    def page(self, pool: Pool) -> bytes:
        """Return everything in Prometheus's text format."""
        self.busy.set(pool.busy)
        self.waiting.set(pool.waiting)
        for why, count in pool.killed.items():
            self.killed.labels(why).set(count)
        return generate_latest(self._registry)

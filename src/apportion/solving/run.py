"""The state of one solve call: what is known so far, and how much time is left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.protocol import AssignmentFormulation, KnapsackFormulation
from apportion.instances.kinds import Kind
from apportion.options import SolveOptions
from apportion.report import Report
from apportion.solution import Solution
from apportion.solving.structure import StructuredModel, repaired, structured

__all__ = ["Run"]


@dataclass(slots=True)
class Run:
    """The state of one solve call: what is known so far and when it began."""

    instance: Any
    kind: Kind
    options: SolveOptions
    structure: KnapsackFormulation | AssignmentFormulation
    began: float
    incumbent: NDArray[Any] | None = None
    multipliers: NDArray[np.float64] | None = None
    plan: Any = None
    placed: tuple[NDArray[Any], Any] | None = None
    report: Report | None = None
    restricted: bool = False
    times: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def model(self) -> StructuredModel:
        """The structured model: the menus or the assignment."""
        model: StructuredModel = structured(self.structure)
        return model

    def lap(self, phase: str) -> None:
        """Book the time since the last lap under a phase, on top of what stands there."""
        since = time.perf_counter() - self.began - sum(self.times.values())
        self.times[phase] = self.times.get(phase, 0.0) + since

    def remaining(self) -> SolveOptions:
        """Return the options with the time that is left of the limit."""
        if self.options.time_limit is None:
            return self.options
        left = self.options.time_limit - (time.perf_counter() - self.began)
        return replace(self.options, time_limit=max(left, 1e-3))

    def take_warm_start(self, given: Any) -> None:
        """Carry an earlier plan over to this instance, as far as it fits."""
        if given is None:
            return
        earlier, prices = _earlier(given)
        rows = None if earlier is None else self.structure.choice(earlier)
        if rows is None:
            self.notes.append("the warm start is no plan of this kind of instance")
            return
        self.incumbent = repaired(self.model, rows)
        if self.incumbent is None:
            self.notes.append("the warm start could not be repaired into this instance")
        known = [prices.get(name) for name in self.model.capacity_names]
        if prices and all(isinstance(price, int | float) for price in known):
            self.multipliers = np.array(known, dtype=np.float64)


def _earlier(given: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the plan and the multipliers of an earlier `Solution`, stored document or plan."""
    if isinstance(given, Solution):
        return given.plan, given.certificate.multipliers or {}
    if isinstance(given, Mapping) and "plan" in given:
        certificate = given.get("certificate")
        prices = certificate.get("multipliers") if isinstance(certificate, Mapping) else None
        return given["plan"], prices if isinstance(prices, Mapping) else {}
    return given, {}

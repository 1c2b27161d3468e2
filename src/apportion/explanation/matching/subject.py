"""A matching explained: its own solvers know more than its menus say, so variants of it stay matchings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from apportion.explanation.by_menus import explain_by_menus
from apportion.explanation.matching.makespan import explain_makespan
from apportion.explanation.matching.matching_menus import MatchingMenus
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation
from apportion.explanation.subject import Subject
from apportion.formulations.protocol import KnapsackFormulation
from apportion.instances import edits
from apportion.instances.matching.schedule import schedule
from apportion.solution import Solution

__all__ = ["MatchingSubject", "explain_matching"]


class MatchingSubject(Subject):
    """A matching; see `Subject`. A makespan has no menus."""

    @cached_property
    def menus(self) -> KnapsackFormulation:
        """One option per machine of every job."""
        return super().menus if self.instance.objective == "makespan" else MatchingMenus(self.instance)

    def prices(self, menus: KnapsackFormulation, multipliers: Mapping[str, float]) -> NDArray[np.float64]:
        """Return the price of every machine: that of its pool."""
        return cast(MatchingMenus, menus).prices(multipliers)

    def shares(self, plan: Any) -> dict[str, tuple[str | None, float]]:
        """Return the pool of every job and its part of the objective; of a makespan, when the job ends."""
        instance = self.instance
        if instance.divisible:
            return {job.id: _shared(job, plan["fractions"][job.id]) for job in instance.jobs}
        if instance.objective == "makespan":
            placed = schedule(instance, plan)
            return {job.id: (placed[job.id].pool, placed[job.id].end) for job in instance.jobs}
        chosen = plan["assignment"]
        return {
            job.id: (None, 0.0)
            if (pool := chosen.get(job.id)) is None
            else (pool, float(getattr(job.on[pool], instance.field)))
            for job in instance.jobs
        }

    def held(self, menus: KnapsackFormulation, job: int, row: int) -> Any:
        """Return the matching with a job held to the pool of an entry, or left out (row -1)."""
        pool = "-" if row < 0 else cast(MatchingMenus, menus).pool_of(row)
        return edits.pin(self.instance, {menus.job_names()[job]: pool})

    def fewer(self, menus: KnapsackFormulation, capacity: int) -> Any:
        """Return the matching with one unit less room on every machine of a pool."""
        return edits.change_capacity(
            self.instance, f"{cast(MatchingMenus, menus).pools[capacity]}.capacity", -1
        )

    def start(self, solution: Solution, rows: NDArray[np.int64]) -> Any:
        """Return the solution itself: variants are matchings."""
        return solution


def _shared(job: Any, shares: Mapping[str, float]) -> tuple[str | None, float]:
    held = {pool: part for pool, part in shares.items() if part > 0}
    speed = sum(part / float(job.on[pool].time_s or 1.0) for pool, part in held.items())
    parts = " and ".join(f"{100 * part:.3g} % of {pool}" for pool, part in sorted(held.items()))
    return parts or None, 1.0 / speed if speed else 0.0


def explain_matching(
    subject: MatchingSubject,
    solution: Solution | None,
    job: str | None,
    option: str | None,
    resolver: Resolver,
    exact_jobs: int,
) -> Explanation:
    """Explain a matching: a makespan by solving again, costs and values by their menus."""
    explain = explain_makespan if subject.instance.objective == "makespan" else explain_by_menus
    return explain(subject, solution, job, option, resolver, exact_jobs)

"""MalleTrain: FreeTrain's decision for jobs whose scaling nobody knows, curves learnt on the way.

After MalleTrain (ICPE 2024, arXiv:2404.15668): jobs are profiled while they run, from the largest
affordable size downwards, idle nodes first. Here every steady stretch of a job's ordinary running is a
measurement too, so little is left to be profiled on purpose; what is, is paid for like any other rescaling.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.profiling import ProfilingAdvisor
from apportion.cluster.policies.completion import complete, count_menus, values_of
from apportion.cluster.policies.freetrain import best_counts
from apportion.cluster.policies.gap_filling_view import GapFillingView, Plan

__all__ = ["MalleTrain"]


class MalleTrain:
    """Profile, fit, decide; the rates in the view are not looked at.

    Parameters
    ----------
    horizon_s
        Forward-looking time T_fwd of the decision, seconds.
    at_once
        Most jobs that are profiled on purpose at a time; 0: learn only from ordinary running.
    relative
        Whether to maximise speed-ups on one node, the published variant for unlike jobs, not samples per
        second.
    measure_s
        How long a size is held to be measured, after the stall.
    advisor
        Measurements and curves; a fresh one by default.
    """

    def __init__(
        self,
        horizon_s: float = 120.0,
        at_once: int = 1,
        relative: bool = False,
        measure_s: float = 25.0,
        advisor: ProfilingAdvisor | None = None,
    ) -> None:
        self.horizon_s, self.at_once, self.measure_s, self.relative = horizon_s, at_once, measure_s, relative
        self.advisor = ProfilingAdvisor() if advisor is None else advisor
        self._before: dict[int, int] = {}

    def __call__(self, view: GapFillingView) -> Plan:
        """Return the plan for this instant."""
        for job, rate in zip(view.jobs.tolist(), view.measured.tolist(), strict=True):
            if rate == rate and job in self._before:
                self.advisor.observe(job, self._before[job], rate)
        self._before = {}
        self.advisor.forget(view.jobs)
        if not view.num_jobs or not view.nodes.size:
            return Plan(view.holder)
        held = view.held()
        reach = view.rates.shape[1] - 1
        fitted = np.array([self.advisor.predict(job, reach) for job in view.jobs.tolist()])
        if self.relative:
            fitted = fitted / np.maximum(fitted[:, 1:2], 1e-300)
        shown = replace(view, rates=fitted)
        values = values_of(shown, held, self.horizon_s)
        allowed, profiled = self._profile(shown, held)
        counts = best_counts(count_menus(shown, values, allowed), held)
        if counts is None:
            allowed = None
            counts = best_counts(count_menus(shown, values), held)
        if counts is None:
            return Plan(view.holder)
        self._before = dict(zip(view.jobs.tolist(), counts.tolist(), strict=True))
        plan = complete(shown, counts, held)
        if allowed is None or not profiled:
            return plan
        stall = max(
            float(view.up_s[job] if counts[job] > held[job] else view.down_s[job]) for job in profiled
        )
        return Plan(plan.holder, view.time_s + stall + self.measure_s)

    def _profile(
        self, view: GapFillingView, held: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_] | None, list[int]]:
        """Return which counts are left to choose from, the profiled jobs fixed, and who is profiled."""
        if not self.at_once:
            return None, []
        allowed: NDArray[np.bool_] | None = None
        profiled: list[int] = []
        free = int(view.nodes.size - held.sum())
        open_to = view.allowed(view.rates.shape[1])
        for job, number in enumerate(view.jobs.tolist()):
            low, high = int(view.min_nodes[job]), int(view.max_nodes[job])
            points = self.advisor.measured(number)
            affordable = min(int(held[job]) + max(free, 0), high)
            if points and (held[job] == 0 or held[job] < low):
                continue  # suspended: its turn comes when it runs again
            wanted = self.advisor.next_count(number, affordable if not points else int(held[job]))
            if wanted is None or wanted < low or wanted > affordable or not open_to[job, wanted]:
                continue
            if allowed is None:
                allowed = np.ones(view.rates.shape, dtype=bool)
            allowed[job] = False
            allowed[job, wanted] = True
            free -= max(wanted - int(held[job]), 0)
            profiled.append(job)
            if len(profiled) == self.at_once:
                break
        return allowed, profiled

    def state(self) -> dict[str, Any]:
        """Return what has been learnt, for a checkpoint."""
        return {"advisor": self.advisor.state(), "before": list(self._before.items())}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with what had been learnt."""
        self.advisor.restore(state["advisor"])
        self._before = {int(job): int(count) for job, count in state["before"]}

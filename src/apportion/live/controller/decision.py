"""A checked plan of who is to run where, and why, in the words of jobs and nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.live.controller.planned import Place, Planned
from apportion.live.record.jobs import Job
from apportion.live.record.state import Pilot
from apportion.policies.gap_filling_view import FREE, GapFillingView, Plan

__all__ = ["Decision"]


@dataclass(frozen=True, slots=True)
class Decision:
    """A checked plan, with what it was made from.

    Attributes
    ----------
    jobs
        The admitted jobs, positions as in the view.
    nodes
        Names of the view's nodes; one of which GPUs are taken appears once for every GPU.
    pilots
        Their pilots, ``None`` where none is held yet.
    counts, held
        int64 [jobs]: nodes every job gets, and held before.
    replaced
        Positions of nodes whose pilots are given back, for one with a larger share to take their place.
    """

    jobs: tuple[Job, ...]
    nodes: tuple[str, ...]
    pilots: tuple[Pilot | None, ...]
    view: GapFillingView
    plan: Plan
    counts: NDArray[np.int64]
    held: NDArray[np.int64]
    replaced: frozenset[int] = frozenset()

    @property
    def changes(self) -> bool:
        """Whether any node changes hands."""
        return bool(self.replaced) or not np.array_equal(self.plan.holder, self.view.holder)

    def planned(self) -> Planned:
        """Return the decision as the core takes it."""
        numbers = [
            None if holder == FREE else self.jobs[holder].number for holder in self.plan.holder.tolist()
        ]
        places = tuple(
            Place(node, None if pilot is None else pilot.pilot, number, place in self.replaced)
            for place, (node, pilot, number) in enumerate(zip(self.nodes, self.pilots, numbers, strict=True))
        )
        told = tuple(self.explain()) if self.changes else ()
        return Planned(places, self.plan.wake_s, self.changes, told)

    def explain(self) -> list[dict[str, object]]:
        """Return, for every admitted job, what it gets, and what is believed of it there."""
        rows = []
        for index, job in enumerate(self.jobs):
            count, held = int(self.counts[index]), int(self.held[index])
            rates = self.view.rates[index]
            points = sorted(job.curve)
            if count == held:
                why = "keeps its nodes" if count else "waits"
            elif not count:
                why = "its nodes are worth more to others"
            elif not points and job.spec.curve:
                why = "the best use of these nodes by the curve its user gave"
            elif not points:
                why = "nothing is measured yet: profiled from here downwards"
            elif count not in job.curve:
                why = f"measured on {points} nodes; this size is predicted, or to be measured"
            else:
                why = "the best use of these nodes by its measured curve"
            nodes = [self.nodes[place] for place in np.flatnonzero(self.plan.holder == index).tolist()]
            rows.append(
                {
                    "job": job.id,
                    "held": held,
                    "gets": count,
                    "nodes": nodes,
                    "rate": round(float(rates[count]), 3),
                    "rate_before": round(float(rates[held]), 3),
                    "why": why,
                }
            )
        return rows

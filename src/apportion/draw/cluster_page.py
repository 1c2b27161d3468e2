"""The report of simulations of a cluster: one self-contained HTML page, policies side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from apportion.cluster.simulation.rounds.accounts import ClusterSummary, FairnessSummary
from apportion.cluster.simulation.rounds.simulator import ClusterRun
from apportion.draw.report_page import COLOURS, Line, lines, whole_page

__all__ = ["Simulated", "cluster_page", "comparison"]

_LEAD = (
    "JCT is completion less submission; rho, the finish-time ratio, is JCT over the time in isolation "
    "(above 1: worse than a fair part of the cluster); Jain's index of 1 is all alike."
)


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """One policy's simulation.

    Attributes
    ----------
    run
        The course of every job.
    summary, fairness
        Its figures.
    drawing
        How the cluster was shared, as SVG; ``None`` where nobody asked for a picture.
    """

    run: ClusterRun
    summary: ClusterSummary
    fairness: FairnessSummary
    drawing: str | None


def comparison(done: Sequence[Simulated]) -> list[tuple[str, ...]]:
    """Return a row per policy below a row of headings: what one compares first."""
    rows: list[tuple[str, ...]] = [
        ("policy", "jobs", "mean JCT h", "median h", "p99 h", "makespan h", "restarts", "worst rho", "Jain")
    ]
    for one in done:
        summary, fairness = one.summary, one.fairness
        hours = (summary.avg_jct_s, summary.p50_jct_s, summary.p99_jct_s, summary.makespan_s)
        rows.append(
            (
                summary.policy,
                f"{summary.jobs_done}/{summary.jobs}",
                *("none" if value is None else f"{value / 3600:.3f}" for value in hours),
                f"{summary.restarts:,}",
                *(
                    "none" if value is None else f"{value:.2f}"
                    for value in (fairness.worst_finish_time_ratio, fairness.jain_jobs)
                ),
            )
        )
    return rows


def cluster_page(done: Sequence[Simulated], cluster: str, made_with: str) -> str:
    """Return the page.

    Parameters
    ----------
    done
        One simulation per policy, of the same workload.
    cluster
        The machines in words.
    made_with
        Versions, for whoever wants to make it again.
    """
    first = done[0].summary
    title = f"{first.jobs:,} jobs on {cluster}"
    head, *rows = comparison(done)
    table = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(row[k])}</td>' for row in rows)}</tr>"
        for k, name in enumerate(head)
    )
    return whole_page(
        title,
        [
            f"<h1>{escape(title)}</h1>",
            f'<p class="lead">{_LEAD}</p>',
            f'<div class="scroll"><table>{table}</table></div>',
            lines(_completions(done), "Jobs done over time", "jobs"),
            lines(
                _spread(done),
                "How long jobs took",
                "share of the jobs, %",
                axis="hours from submission to completion",
            ),
            *(f'<figure class="scroll">{one.drawing}</figure>' for one in done if one.drawing is not None),
            f'<p class="note">Made with {escape(made_with)}.</p>',
        ],
    )


def _completions(done: Sequence[Simulated]) -> list[Line]:
    curves = []
    for k, one in enumerate(done):
        hours = np.sort(one.run.completed_s[~np.isnan(one.run.completed_s)]) / 3600
        counts = np.arange(hours.size + 1, dtype=np.float64)
        curves.append(
            Line(one.summary.policy, np.concatenate(([0.0], hours)), counts, COLOURS[k % len(COLOURS)])
        )
    return curves


def _spread(done: Sequence[Simulated]) -> list[Line]:
    curves = []
    for k, one in enumerate(done):
        jct = one.run.completed_s - one.run.submitted_s
        hours = np.sort(jct[~np.isnan(jct)]) / 3600
        share = np.arange(hours.size + 1) / max(one.summary.jobs, 1) * 100
        curves.append(
            Line(one.summary.policy, np.concatenate(([0.0], hours)), share, COLOURS[k % len(COLOURS)])
        )
    return curves

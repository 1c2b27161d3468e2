"""GPUs and frozen depth over time, for the longest job of every application that can be frozen."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from apportion.cluster.estimation.training.freezing_profile import LEVELS
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView
from apportion.draw.report_page import nice_ticks
from apportion.draw.svg import FAINT, IDLE, Svg, color
from paper_repro.icefrog.cases import Case, prepared, run_case
from paper_repro.icefrog.chart_parts import across
from paper_repro.icefrog.freezing import freezing_of

__all__ = ["course_chart"]

_LEFT, _WIDTH, _RIGHT, _TOP, _PANEL, _GAP = 70.0, 760.0, 60.0, 84.0, 96.0, 62.0


class _Course:
    """What every job was given, decision by decision."""

    def __init__(self) -> None:
        self.steps: dict[int, list[tuple[float, int, int]]] = {}

    def __call__(self, view: ClusterView, plan: ClusterPlan) -> None:
        for position, job in enumerate(view.jobs.tolist()):
            depth = 0 if plan.depth is None else int(plan.depth[position])
            caption = (view.time_s, len(plan.nodes[position]), depth)
            known = self.steps.setdefault(job, [])
            if not known or known[-1][1:] != caption[1:]:
                known.append(caption)


def course_chart(data: Path, case: Case) -> str:
    """Simulate a case and return the drawing as SVG."""
    course = _Course()
    result = run_case(data, case, course)
    jobs = prepared(data, case).jobs
    chosen = [
        max(own, key=lambda job: result.jct_s[job])
        for name in freezing_of(case.stand_in)
        if (own := [job for job, one in enumerate(jobs) if one.application == name])
    ]
    svg = Svg(_LEFT + _WIDTH + _RIGHT)
    title = "GPUs and frozen depth over a job's life"
    svg.text(24, 30, title, size=17, bold=True)
    caption = f"{case.workload}, {case.gpus} GPUs, theta {case.theta:g}: the longest job of every application"
    svg.text(24, 50, caption, size=12, fill=FAINT)
    for x, fill, name in ((580.0, color(5), "GPUs (left)"), (700.0, color(6), "frozen share (right)")):
        svg.rect(x, 42, 14, 8, fill)
        svg.text(x + 20, 50, name, size=12, fill=FAINT)
    y = _TOP
    for job in chosen:
        _panel(svg, y, jobs[job].name, course.steps[job], float(result.jct_s[job]), jobs[job].submitted_s)
        y += _PANEL + _GAP
    return svg.finish(y - 12, title, caption)


def _panel(
    svg: Svg,
    top: float,
    name: str,
    steps: list[tuple[float, int, int]],
    jct_s: float,
    submitted_s: float,
) -> None:
    bottom, right = top + _PANEL, _LEFT + _WIDTH
    svg.text(_LEFT, top - 10, name, size=13, bold=True)
    ends = [*(step[0] - submitted_s for step in steps[1:]), jct_s]
    starts = [step[0] - submitted_s for step in steps]
    gpus = np.array([step[1] for step in steps])
    most = 1 << int(np.ceil(np.log2(max(2, int(gpus.max())))))

    def x(seconds: float) -> float:
        return _LEFT + _WIDTH * min(seconds / jct_s, 1.0)

    ticks = [tick for tick in nice_ticks(jct_s / 3600, 6) if tick <= jct_s / 3600]
    across(svg, lambda value: x(value * 3600), [(tick, f"{tick:g} h") for tick in ticks], top, bottom)
    for start, end, count in zip(starts, ends, gpus.tolist(), strict=True):
        height = _PANEL * count / most
        svg.rect(x(start), bottom - height, x(end) - x(start), height, color(5))
    svg.rect(_LEFT, bottom, _WIDTH, 1, IDLE)
    for share in (0, 1):
        svg.text(_LEFT - 8, bottom - share * _PANEL + 4, str(share * most), size=11, anchor="end", fill=FAINT)
        svg.text(right + 8, bottom - share * _PANEL + 4, f"{share * 100} %", size=11, fill=FAINT)
    line: list[tuple[float, float]] = []
    for start, end, (_, _, depth) in zip(starts, ends, steps, strict=True):
        height = bottom - _PANEL * depth / LEVELS
        line += [(x(start), height), (x(end), height)]
    svg.line(line, color(6), 2.0, 1.0)

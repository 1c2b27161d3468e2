"""Distributions of completion times: the share of jobs complete within a time."""

from __future__ import annotations

import math

import numpy as np

from apportion.draw.svg import FAINT, OTHERS, Svg, color
from paper_repro.icefrog.cases import Case
from paper_repro.icefrog.chart_parts import across, hours, upward
from paper_repro.icefrog.experiments import FREEZING
from paper_repro.icefrog.figures import Study

__all__ = ["completion_chart"]

_LEFT, _TOP, _WIDTH, _HEIGHT, _RIGHT = 64.0, 76.0, 640.0, 360.0, 250.0
_LOW_S, _HIGH_S = 60.0, 100 * 3600.0


def completion_chart(study: Study, gpus: int) -> str:
    """Return the drawing as SVG."""
    named = {
        "optimus": (Case("", "optimus", gpus), OTHERS, False),
        "tiresias": (Case("", "tiresias", gpus), "#59636e", True),
        "pollux": (Case("", "pollux", gpus), color(1), False),
        "sia": (Case("", "sia", gpus), color(6), False),
    }
    fills = (color(0), color(2), color(4))
    for (name, case), fill in zip(list(FREEZING.items())[:3], fills, strict=True):
        named[name] = (case if gpus == case.gpus else _on(case, gpus), fill, False)
    svg = Svg(_LEFT + _WIDTH + _RIGHT)
    svg.text(24, 30, f"Completion times on {gpus} GPUs", size=17, bold=True)
    count = len(study.workloads)
    caption = f"share of {160 * count} jobs of {count} workloads complete within; averages on the right"
    svg.text(24, 50, caption, size=12, fill=FAINT)
    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH

    def x(seconds: float) -> float:
        share = math.log(max(seconds, _LOW_S) / _LOW_S) / math.log(_HIGH_S / _LOW_S)
        return _LEFT + _WIDTH * min(share, 1.0)

    def y(share: float) -> float:
        return bottom - _HEIGHT * share

    ticks = [60.0, 300.0, 1200.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 36 * 3600.0, 100 * 3600.0]
    across(svg, x, [(tick, hours(tick)) for tick in ticks], _TOP, bottom)
    upward(svg, y, [(share / 4, f"{25 * share} %") for share in range(5)], _LEFT, right)
    rows = []
    for name, (case, fill, dashed) in named.items():
        times = study.completion_s(case)
        rows.append((float(times.mean()), name, fill))
        shares = (np.arange(times.size) + 1) / times.size
        some = np.unique(np.linspace(0, times.size - 1, 240).astype(int))
        points = [(x(float(times[k])), y(float(shares[k]))) for k in some]
        svg.line(points, fill, 2.0, 0.95, dashed=dashed)
    for number, (average, name, fill) in enumerate(sorted(rows)):
        line = _TOP + 14 + 26 * number
        svg.rect(right + 16, line - 6, 16, 4, fill)
        svg.text(right + 38, line, name, size=12)
        svg.text(right + 38, line + 12, f"{average:.0f} s", size=10, fill=FAINT)
    return svg.finish(bottom + 34, f"Completion times on {gpus} GPUs", caption)


def _on(case: Case, gpus: int) -> Case:
    from msgspec.structs import replace

    return replace(case, gpus=gpus)

"""The makespans as a drawing: one row a scenario, one mark a policy, its 95 % interval as a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.draw.svg import FAINT, IDLE, INK, OTHERS, Svg, color

__all__ = ["Result", "chart", "interval"]

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW, _HEAD = 1000.0, 220.0, 40.0, 150.0, 40.0, 26.0


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """One scenario: makespans relative to the first policy's, float64 [seeds, policies]."""

    source: str
    name: str
    jobs: int
    relative: NDArray[np.float64]
    hours: NDArray[np.float64]


def interval(result: Result) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means and half-widths of the 95 % intervals over seeds, by policy."""
    seeds = result.relative.shape[0]
    half = (
        1.96 * result.relative.std(axis=0, ddof=1) / np.sqrt(seeds) if seeds > 1 else 0.0 * result.relative[0]
    )
    return result.relative.mean(axis=0), half


def _fill(number: int) -> str:
    """Return the colour of a policy: grey for the first, which looks at no architecture."""
    return color(number - 1) if number else OTHERS


def chart(results: Sequence[Result], policies: Sequence[str]) -> str:
    """Return the drawing as SVG."""
    svg = Svg(_WIDTH)
    reach = max(1.2, float(max((interval(r)[0] + interval(r)[1]).max() for r in results)))
    scale = (_WIDTH - _LEFT - _RIGHT) / reach
    title = "Makespan relative to first come, first served"
    svg.text(24, 32, title, size=17, bold=True)
    for number, policy in enumerate(policies[1:]):
        x, line = 24.0 + (number % 4) * 240, 58.0 + 22 * (number // 4)
        svg.rect(x, line - 9, 10, 10, _fill(number))
        svg.text(x + 16, line, policy, size=12)
    source = ""
    y: float = _TOP
    bottom = _TOP + sum(_ROW for _ in results) + _HEAD * len({result.source for result in results})
    for tick in np.arange(0.0, reach + 1e-9, 0.2):
        x = _LEFT + tick * scale
        wide = 2.0 if abs(tick - 1.0) < 1e-9 else 1.0
        svg.rect(x - wide / 2, _TOP - 8, wide, bottom - _TOP + 8, INK if wide > 1 else IDLE)
        svg.text(x, _TOP - 14, f"{tick:.1f}", size=11, anchor="middle", fill=FAINT)
    for result in results:
        if result.source != source:
            source = result.source
            svg.text(24, y + 16, source, size=13, bold=True)
            y += _HEAD
        svg.text(_LEFT - 12, y + 22, f"{result.name}, {result.jobs} jobs", size=12, anchor="end")
        mean, half = interval(result)
        for number in range(len(policies) - 1):
            k = number + 1
            at = y + 3 + number * (_ROW - 8) / (len(policies) - 2)
            low = max(float(mean[k] - half[k]), 0.0)
            svg.rect(_LEFT + low * scale, at - 0.75, (mean[k] + half[k] - low) * scale, 1.5, _fill(number))
            svg.open_group(f"{policies[k]}: {mean[k]:.3f} ± {half[k]:.3f}")
            svg.rect(_LEFT + mean[k] * scale - 3.5, at - 2.5, 7, 5, _fill(number))
            svg.close_group()
        y += _ROW
    caption = f"{len(results)} scenarios, {len(policies)} policies; means over seeds with 95 % intervals"
    return svg.finish(bottom + 16, title, caption)

"""A placement drawn: every place above the nodes with its nodes, what every job has of them, who moved.

A node is a bar of one resource, the one that is fullest in all. Up to 24 places of 16 nodes are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apportion.draw.svg import FAINT, IDLE, INK, OTHERS, Svg, clipped, ink_on, neighbourly
from apportion.instances.placement import PlacementInstance
from apportion.instances.placement.placed import Placed

__all__ = ["placement_svg"]

_WIDTH, _MARGIN, _ACROSS, _GAP = 1000.0, 24.0, 4, 16.0
_PLACES, _NODES, _ROW, _NAME = 24, 16, 22.0, 46.0
_Part = tuple[str, int, bool]
"""A job on a node, how much it has there, and whether it came there."""


def placement_svg(instance: PlacementInstance, plan: Mapping[str, Any], *_: object) -> str:
    """Return the drawing of a feasible plan; prices and bound are not drawn."""
    placed = Placed.of(instance, plan)
    site = placed.site
    resource = _fullest(placed)
    parts = {node: _parts(placed, node, resource) for node in site.nodes}
    jobs = [job.id for job in instance.jobs]
    bars = [[jobs.index(job) for job, _, _ in row] for row in parts.values()]
    fills = dict(zip(jobs, neighbourly(len(jobs), bars), strict=True))
    level = site.branches[0][-1] if site.branches[0] else None
    places = list(site.places[level]) if level is not None else ["nodes"]
    of = site.place[level] if level is not None else np.zeros(len(site.nodes), dtype=np.int64)
    svg = Svg(_WIDTH)
    title = instance.name or "Placement"
    facts = _facts(placed, resource)
    svg.text(_MARGIN, 40, clipped(title, 940, 20), size=20, bold=True)
    svg.text(_MARGIN, 64, facts, size=13, fill=FAINT)
    width = (_WIDTH - 2 * _MARGIN - (_ACROSS - 1) * _GAP) / _ACROSS
    bottom = 84.0
    for first in range(0, min(len(places), _PLACES), _ACROSS):
        top, lowest = bottom, bottom
        for at in range(first, min(first + _ACROSS, len(places), _PLACES)):
            members = [node for node, place in zip(site.nodes, of.tolist(), strict=True) if place == at]
            x = _MARGIN + (at - first) * (width + _GAP)
            svg.text(x, top + 14, clipped(places[at], width, 13), bold=True)
            y = top + 22
            for node in members[:_NODES]:
                _node(svg, (x, y, width), placed, node, resource, parts[node], fills)
                y += _ROW
            if len(members) > _NODES:
                svg.text(x, y + 14, f"and {len(members) - _NODES} more nodes", fill=FAINT)
                y += _ROW
            lowest = max(lowest, y)
        bottom = lowest + _GAP
    if len(places) > _PLACES:
        svg.text(_MARGIN, bottom + 6, f"and {len(places) - _PLACES} more places", fill=FAINT)
        bottom += 22
    bottom = _legend(svg, bottom + 8, placed, fills)
    return svg.finish(bottom + 12, title, f"The nodes of every place and the jobs on them. {facts}.")


def _fullest(placed: Placed) -> str:
    """Return the resource of which most is used in all; the first one where nothing is."""
    site = placed.site
    total = {name: int(site.amounts(name).sum()) for name in site.resources}
    names = [name for name in site.resources if total[name]] or ["pods"]
    return max(names, key=lambda name: placed.load(site.nodes, name) / max(total.get(name, 1), 1))


def _parts(placed: Placed, node: str, resource: str) -> list[_Part]:
    found: list[_Part] = []
    for (job, pods), on in placed.after.items():
        if number := on.get(node, 0):
            much = number * placed.amount((job, pods), resource)
            came = number > placed.before.get((job, pods), {}).get(node, 0)
            found.append((job, much, came))
    return found


def _facts(placed: Placed, resource: str) -> str:
    moved = sum(placed.moved.values())
    stopped = f", {len(placed.stopped)} stopped" if placed.stopped else ""
    running = f"{len(placed.got)} of {len(placed.instance.jobs)} jobs run"
    return f"{running}{stopped}, {moved} pods moved or stopped; bars: {resource}, framed where a job came"


def _node(
    svg: Svg,
    where: tuple[float, float, float],
    placed: Placed,
    node: str,
    resource: str,
    parts: Sequence[_Part],
    fills: Mapping[str, str],
) -> None:
    """Draw one node."""
    x, y, width = where
    at = placed.site.number[node]
    size, free = int(placed.site.amounts(resource)[at]), int(placed.site.free(resource)[at])
    said = ", ".join(f"{job} {much}" for job, much, _ in parts) or "nothing"
    svg.open_group(f"{node}: {said} of {size} {resource}")
    svg.text(x, y + 15, clipped(node, _NAME - 6, 12), size=12)
    step = (width - _NAME) / max(size, 1)
    begin = x + _NAME
    svg.rect(begin, y + 2, step * size, _ROW - 5, IDLE)
    if size > free:
        svg.rect(begin, y + 2, step * (size - free), _ROW - 5, OTHERS, hatched=True)
        begin += step * (size - free)
    for job, much, came in parts:
        wide = max(step * much, 3.0)
        svg.rect(begin, y + 2, wide, _ROW - 5, fills[job], stroke=INK if came else None)
        if wide > 30:
            svg.text(begin + 4, y + 15, clipped(job, wide - 6, 11), size=11, fill=ink_on(fills[job]))
        begin += wide
    svg.close_group()


def _legend(svg: Svg, top: float, placed: Placed, fills: Mapping[str, str]) -> float:
    """Say whose colours the bars have, who was stopped and who waits; at most 24 jobs."""
    for number, job in enumerate([job for job in fills if job in placed.got][:24]):
        x = _MARGIN + number % 6 * 158.0
        svg.rect(x, top + number // 6 * 20, 13, 13, fills[job])
        svg.text(x + 19, top + number // 6 * 20 + 11, clipped(job, 132, 12), size=12)
    top += (min(len(placed.got), 24) + 5) // 6 * 20 + 6
    waiting = [job.id for job in placed.instance.jobs if job.id not in placed.got and job.current is None]
    for said, names in (("stopped", sorted(placed.stopped)), ("waiting", waiting)):
        if names:
            more = f" and {len(names) - 12} more" if len(names) > 12 else ""
            text = f"{said}: {', '.join(names[:12])}{more}"
            svg.text(_MARGIN, top + 10, clipped(text, _WIDTH - 2 * _MARGIN, 13))
            top += 20
    return top

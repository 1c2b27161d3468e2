"""A gap-filling plan as a drawing: the nodes by job before and after, and every change by job.

Two strips hold all idle nodes in the order of the jobs, one before and one after, joined by bands. Below, one
row per job shows the nodes it keeps, gains and gives up. Up to 40 jobs are drawn one by one; of more, the
40 with most nodes, and the others together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apportion.draw.svg import FAINT, IDLE, OTHERS, Svg, clipped, color, ink_on, neighbourly, text_width
from apportion.instances.gap_filling import GapFillingInstance

__all__ = ["allocation_svg"]

_WIDTH, _MARGIN = 1000.0, 24.0
_STRIP_X, _STRIP_WIDTH, _STRIP_HEIGHT, _BETWEEN = 92.0, 884.0, 34.0, 40.0
_ROWS, _ROW_HEIGHT = 40, 20.0
_BAR_X, _BAR_WIDTH, _LARGEST_UNIT, _SMALLEST_UNIT = 250.0, 560.0, 16.0, 5.0
_TICK = 7.0
"""Marks between nodes reach this far into a strip, so that words stay readable between them."""
_TOOLTIP_NODES = 40


@dataclass(frozen=True, slots=True)
class _Share:
    """What one job, or a group of them, holds before and after."""

    label: str
    fill: str
    kept: int
    gained: int
    lost: int
    tooltip: str

    @property
    def before(self) -> int:
        return self.kept + self.lost

    @property
    def after(self) -> int:
        return self.kept + self.gained

    @property
    def change(self) -> str:
        moved = self.after - self.before
        return f"{moved:+,}".replace("-", "\N{MINUS SIGN}") if moved else "±0"


def allocation_svg(instance: GapFillingInstance, plan: Mapping[str, Any], *_: object) -> str:
    """Return the drawing of a feasible plan.

    Parameters
    ----------
    instance
        The instance.
    plan
        ``{"allocation": {job: [node, ...]}}``. Prices and bound are not drawn.
    """
    shares, others = _shares(instance, plan["allocation"])
    facts = _facts(instance, plan["allocation"])
    svg = Svg(_WIDTH)
    svg.text(_MARGIN, 40, clipped(instance.name or "Gap filling", 940, 20), size=20, bold=True)
    svg.text(_MARGIN, 64, facts, size=13, fill=FAINT)
    bottom = _strips(svg, 84, len(instance.nodes), [*shares, *others])
    bottom = _legend(svg, bottom + 30)
    bottom = _rows(svg, bottom + 34, shares)
    for group in others:
        bottom = _group_row(svg, bottom, group)
    return svg.finish(
        bottom + 16, instance.name or "Gap filling", f"Nodes by job, before and after. {facts}."
    )


def _shares(
    instance: GapFillingInstance, allocation: Mapping[str, Sequence[str]]
) -> tuple[list[_Share], list[_Share]]:
    """Return the jobs drawn one by one, in the instance's order, and the group of the others, if any."""
    size = {job.id: len(allocation.get(job.id, ())) + len(job.current_nodes) for job in instance.jobs}
    largest = sorted(size, key=lambda name: -size[name])[:_ROWS]
    alone = set(largest)
    jobs = [job for job in instance.jobs if job.id in alone]
    strips = (
        [place for place, job in enumerate(jobs) if job.current_nodes],
        [place for place, job in enumerate(jobs) if allocation.get(job.id)],
    )
    fills = neighbourly(len(jobs), strips)
    shares: list[_Share] = []
    rest: list[tuple[int, int, int]] = []
    for job in instance.jobs:
        now = allocation.get(job.id, ())
        before, given = set(job.current_nodes), set(now)
        kept, gained, lost = len(before & given), len(given - before), len(before - given)
        if job.id not in alone:
            rest.append((kept, gained, lost))
            continue
        tooltip = "\n".join(
            [
                f"{job.id}: {len(before)} before, {len(given)} after",
                *_named("keeps", [node for node in now if node in before]),
                *_named("gains", [node for node in now if node not in before]),
                *_named("gives up", [node for node in job.current_nodes if node not in given]),
            ]
        )
        shares.append(_Share(job.id, fills[len(shares)], kept, gained, lost, tooltip))
    if not rest:
        return shares, []
    kept, gained, lost = (sum(part) for part in zip(*rest, strict=True))
    grow, shrink = sum(g > x for _, g, x in rest), sum(g < x for _, g, x in rest)
    label = f"{len(rest):,} other jobs"
    detail = f"{label}: {grow:,} grow, {shrink:,} shrink, {len(rest) - grow - shrink:,} stay as large"
    return shares, [_Share(label, OTHERS, kept, gained, lost, detail)]


def _named(what: str, nodes: Sequence[str]) -> list[str]:
    if not nodes:
        return []
    more = f" and {len(nodes) - _TOOLTIP_NODES} more" if len(nodes) > _TOOLTIP_NODES else ""
    return [f"{what} {' '.join(nodes[:_TOOLTIP_NODES])}{more}"]


def _facts(instance: GapFillingInstance, allocation: Mapping[str, Sequence[str]]) -> str:
    before = sum(len(job.current_nodes) for job in instance.jobs)
    after = sum(map(len, allocation.values()))
    changes = [len(allocation.get(job.id, ())) - len(job.current_nodes) for job in instance.jobs]
    grow, shrink = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    stay = len(changes) - grow - shrink
    return (
        f"{len(instance.nodes):,} idle nodes: {before:,} used before, {after:,} after; "
        f"{len(instance.jobs):,} jobs: {grow:,} grow, {shrink:,} shrink, {stay:,} stay as large"
    )


def _strips(svg: Svg, top: float, num_nodes: int, shares: Sequence[_Share]) -> float:
    """Draw the two strips and the bands between them; return where they end."""
    step = _STRIP_WIDTH / max(num_nodes, 1)
    lower = top + _STRIP_HEIGHT + _BETWEEN
    first, second = 0, 0
    for share in shares:
        x, z = _STRIP_X + first * step, _STRIP_X + second * step
        edges = [
            (x, top + _STRIP_HEIGHT),
            (x + share.before * step, top + _STRIP_HEIGHT),
            (z + share.after * step, lower),
            (z, lower),
        ]
        if share.before or share.after:
            svg.polygon(edges, share.fill, 0.25)
        first, second = first + share.before, second + share.after
    for name, y, counts, used in (
        ("before", top, [share.before for share in shares], first),
        ("after", lower, [share.after for share in shares], second),
    ):
        svg.text(_STRIP_X - 12, y + _STRIP_HEIGHT / 2 + 5, name, anchor="end", bold=True)
        x = _STRIP_X
        for share, count in zip(shares, counts, strict=True):
            x = _band(svg, x, y, count, step, share)
        idle = _Share("idle", IDLE, 0, 0, 0, f"{num_nodes - used:,} nodes stay idle")
        _band(svg, x, y, num_nodes - used, step, idle)
    return lower + _STRIP_HEIGHT


def _band(svg: Svg, x: float, y: float, count: int, step: float, share: _Share) -> float:
    """Draw the nodes of one job in a strip, labelled as far as there is room; return where they end."""
    if count <= 0:
        return x
    width = count * step
    svg.open_group(share.tooltip)
    svg.rect(x, y, width, _STRIP_HEIGHT, share.fill)
    if step >= _SMALLEST_UNIT:
        svg.separators(x, y, _TICK, step, count - 1)
        svg.separators(x, y + _STRIP_HEIGHT - _TICK, _TICK, step, count - 1)
    if width >= 2.5:
        svg.rect(x, y, 1, _STRIP_HEIGHT, "#ffffff")
    for label in (f"{share.label} {count:,}", f"{count:,}"):
        if text_width(label, 12) + 8 <= width:
            middle = y + _STRIP_HEIGHT / 2 + 4
            svg.text(x + width / 2, middle, label, size=12, anchor="middle", fill=ink_on(share.fill))
            break
    svg.close_group()
    return x + width


def _legend(svg: Svg, y: float) -> float:
    x = _STRIP_X
    sample = color(0)
    for label, fill, stroke, hatched in (
        ("kept", sample, None, False),
        ("gained", sample, None, True),
        ("given up", "#ffffff", sample, False),
        ("idle", IDLE, None, False),
    ):
        svg.rect(x, y - 11, 13, 13, fill, stroke=stroke, hatched=hatched)
        svg.text(x + 20, y, label, size=12, fill=FAINT)
        x += 40 + text_width(label, 12)
    return y


def _rows(svg: Svg, top: float, shares: Sequence[_Share]) -> float:
    if not shares:
        return top
    svg.text(_BAR_X - 12, top, "job", anchor="end", size=12, fill=FAINT)
    svg.text(_BAR_X, top, "nodes", size=12, fill=FAINT)
    svg.text(920, top, "before → after", anchor="end", size=12, fill=FAINT)
    svg.text(_WIDTH - _MARGIN, top, "change", anchor="end", size=12, fill=FAINT)
    longest = max(share.kept + share.gained + share.lost for share in shares)
    unit = min(_LARGEST_UNIT, _BAR_WIDTH / max(longest, 1))
    y = top + 10
    for share in shares:
        svg.open_group(share.tooltip)
        svg.text(_BAR_X - 12, y + 14, clipped(share.label, _BAR_X - 12 - _MARGIN, 13), anchor="end")
        for start, count, style in _parts(share):
            _blocks(svg, _BAR_X + start * unit, y + 3, count, unit, share.fill, style)
        _counts(svg, y + 14, share)
        svg.close_group()
        y += _ROW_HEIGHT
    return y


def _parts(share: _Share) -> Iterator[tuple[int, int, str]]:
    yield 0, share.kept, "kept"
    yield share.kept, share.gained, "gained"
    yield share.kept + share.gained, share.lost, "lost"


def _blocks(svg: Svg, x: float, y: float, count: int, unit: float, fill: str, style: str) -> None:
    if count <= 0:
        return
    height = _ROW_HEIGHT - 6
    if style == "lost":
        svg.rect(x + 0.5, y + 0.5, count * unit - 1.5, height - 1, "#ffffff", stroke=fill)
    else:
        svg.rect(x, y, count * unit - 0.5, height, fill, hatched=style == "gained")
        if unit >= _SMALLEST_UNIT:
            svg.separators(x - 0.5, y, height, unit, count - 1)


def _counts(svg: Svg, y: float, share: _Share) -> None:
    svg.text(920, y, f"{share.before:,} → {share.after:,}", anchor="end")
    changed = share.before != share.after
    svg.text(
        _WIDTH - _MARGIN, y, share.change, anchor="end", bold=changed, fill="#1f2328" if changed else FAINT
    )


def _group_row(svg: Svg, y: float, group: _Share) -> float:
    svg.open_group(group.tooltip)
    svg.rect(_MARGIN, y + 4, _WIDTH - 2 * _MARGIN, 1, IDLE)
    svg.rect(_MARGIN, y + 14, 13, 13, group.fill)
    svg.text(_MARGIN + 22, y + 25, group.tooltip)
    _counts(svg, y + 25, group)
    svg.close_group()
    return y + 32

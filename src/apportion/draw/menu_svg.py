"""A plan of any kind whose options use capacities, drawn: how full each is, and the option of every job.

One bar per capacity, at most 24 (the fullest of more); below, one row per job with its chosen option, up to
40 jobs (those with the largest share of a capacity of more).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apportion.draw.svg import FAINT, IDLE, OTHERS, Svg, clipped, neighbourly
from apportion.instances.kinds import kind_of
from apportion.instances.options import JobOption, plan_options
from apportion.instances.tenants.check import shared_capacities

__all__ = ["menu_svg"]

_WIDTH, _MARGIN = 1000.0, 24.0
_POOLS, _BAR_X, _BAR_WIDTH, _BAR_HEIGHT, _POOL_HEIGHT = 24, 200.0, 560.0, 20.0, 28.0
_ROWS, _ROW_HEIGHT = 40, 20.0


def menu_svg(instance: Any, plan: Mapping[str, Any], *_: object) -> str:
    """Return the drawing of a feasible plan.

    Parameters
    ----------
    instance
        The instance.
    plan
        Its plan, as it stands in JSON. Prices and bound are not drawn.
    """
    kind = kind_of(instance)
    assert kind.option_set is not None
    capacities = shared_capacities(kind, instance)
    chosen = plan_options(kind.option_set, instance, plan)
    alone = _largest(capacities, chosen)
    drawn = [one for one in chosen if one.runs and one.job in alone]
    bars = [[place for place, one in enumerate(drawn) if one.uses.get(name)] for name in capacities]
    colours = neighbourly(len(drawn), bars)
    fills = {one.job: fill for one, fill in zip(drawn, colours, strict=True)}
    sense = "maximized" if kind.maximizes(instance) else "minimized"
    facts = _facts(chosen, sense, len(capacities))
    svg = Svg(_WIDTH)
    title = instance.name or kind.name.replace("_", " ").capitalize()
    svg.text(_MARGIN, 40, clipped(title, 940, 20), size=20, bold=True)
    svg.text(_MARGIN, 64, facts, size=13, fill=FAINT)
    bottom = _pools(svg, 96, capacities, chosen, fills)
    bottom = _rows(svg, bottom + 30, [one for one in chosen if one.job in alone], fills)
    if len(chosen) > len(alone):
        rest = [one for one in chosen if one.job not in alone]
        placed = sum(one.runs for one in rest)
        svg.rect(_MARGIN, bottom + 4, _WIDTH - 2 * _MARGIN, 1, IDLE)
        svg.rect(_MARGIN, bottom + 14, 13, 13, OTHERS)
        svg.text(
            _MARGIN + 22,
            bottom + 25,
            f"{len(rest):,} other jobs: {placed:,} chosen, {len(rest) - placed:,} left out",
        )
        bottom += 32
    return svg.finish(bottom + 16, title, f"Use of every capacity and the option of every job. {facts}.")


def _largest(capacities: Mapping[str, int], chosen: Sequence[JobOption]) -> set[str]:
    """Return the ids of the jobs drawn one by one."""

    def share(one: JobOption) -> float:
        uses = one.uses.items() if one.runs else ()
        return max((use / max(capacities[name], 1) for name, use in uses), default=-1.0)

    return {one.job for one in sorted(chosen, key=lambda one: -share(one))[:_ROWS]}


def _facts(chosen: Sequence[JobOption], sense: str, capacities: int) -> str:
    placed = [one for one in chosen if one.runs]
    changed = sum(one.before is not None and one.name != one.before for one in chosen)
    moved = f"; {changed:,} changed" if any(one.before is not None for one in chosen) else ""
    value = sum(one.value for one in placed)
    return (
        f"{len(placed):,} of {len(chosen):,} jobs chosen, value {value:,.6g} ({sense}), "
        f"{capacities:,} capacities{moved}"
    )


def _pools(
    svg: Svg,
    top: float,
    capacities: Mapping[str, int],
    chosen: Sequence[JobOption],
    fills: Mapping[str, str],
) -> float:
    """Draw one bar per capacity, its use stacked by job; return where they end."""
    used = dict.fromkeys(capacities, 0)
    for one in chosen:
        for name, use in one.uses.items():
            used[name] += use
    share = {name: used[name] / max(capacity, 1) for name, capacity in capacities.items()}
    fullest = set(sorted(share, key=lambda name: -share[name])[:_POOLS])
    y = top
    for name, capacity in capacities.items():
        if name not in fullest:
            continue
        svg.open_group(f"{name}: {used[name]:,} of {capacity:,} used")
        svg.text(_BAR_X - 12, y + 15, clipped(name, _BAR_X - 12 - _MARGIN, 13), anchor="end")
        svg.rect(_BAR_X, y, _BAR_WIDTH, _BAR_HEIGHT, IDLE)
        _stack(svg, y, name, _BAR_WIDTH / max(capacity, used[name], 1), chosen, fills)
        label = f"{used[name]:,} of {capacity:,} ({share[name]:.0%})"
        svg.text(_BAR_X + _BAR_WIDTH + 12, y + 15, label)
        svg.close_group()
        y += _POOL_HEIGHT
    if len(share) > _POOLS:
        svg.text(_BAR_X, y + 12, f"and {len(share) - _POOLS:,} capacities that are less full", fill=FAINT)
        y += _POOL_HEIGHT
    return y


def _stack(
    svg: Svg, y: float, pool: str, scale: float, chosen: Sequence[JobOption], fills: Mapping[str, str]
) -> None:
    x, rest = _BAR_X, 0
    for one in chosen:
        use = one.uses.get(pool, 0)
        if one.job not in fills:
            rest += use
        elif use:
            svg.rect(x, y, use * scale, _BAR_HEIGHT, fills[one.job])
            if use * scale >= 2.5:
                svg.rect(x, y, 1, _BAR_HEIGHT, "#ffffff")
            x += use * scale
    if rest:
        svg.rect(x, y, rest * scale, _BAR_HEIGHT, OTHERS)


def _rows(svg: Svg, top: float, shown: Sequence[JobOption], fills: Mapping[str, str]) -> float:
    if not shown:
        return top
    columns = (
        ("job", _MARGIN + 22, "start"),
        ("option", 300.0, "start"),
        ("value", 560.0, "end"),
        ("uses", 590.0, "start"),
    )
    for label, x, anchor in columns:
        svg.text(x, top, label, size=12, anchor=anchor, fill=FAINT)
    y = top + 10
    for one in shown:
        svg.rect(
            _MARGIN,
            y + 4,
            13,
            13,
            fills[one.job] if one.runs else "#ffffff",
            stroke=None if one.runs else OTHERS,
        )
        svg.text(_MARGIN + 22, y + 15, clipped(one.job, 240, 13))
        now = one.name or "left out"
        moved = one.before is not None and one.before != one.name
        label = f"{one.before} → {now}" if moved else now
        svg.text(300, y + 15, clipped(label, 180, 13), bold=moved, fill="#1f2328" if one.runs else FAINT)
        if one.runs:
            svg.text(560, y + 15, f"{one.value:.6g}", anchor="end")
            uses = ", ".join(f"{use:,} {name}" for name, use in one.uses.items() if use)
            svg.text(590, y + 15, clipped(uses, _WIDTH - _MARGIN - 590, 13))
        y += _ROW_HEIGHT
    return y

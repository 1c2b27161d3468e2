"""A multiple-choice knapsack plan as a drawing: what each capacity is used for, and each job's option.

One bar per capacity, at most 24 (the fullest of more); below, one row per job with its chosen option, up to
40 jobs (those with the largest share of a capacity of more).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apportion.draw.svg import FAINT, IDLE, OTHERS, Svg, clipped, neighbourly
from apportion.instances.multiple_choice_knapsack import (
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)

__all__ = ["menu_svg"]

_WIDTH, _MARGIN = 1000.0, 24.0
_POOLS, _BAR_X, _BAR_WIDTH, _BAR_HEIGHT, _POOL_HEIGHT = 24, 200.0, 560.0, 20.0, 28.0
_ROWS, _ROW_HEIGHT = 40, 20.0


def menu_svg(instance: MultipleChoiceKnapsackInstance, plan: Mapping[str, Any], *_: object) -> str:
    """Return the drawing of a feasible plan.

    Parameters
    ----------
    instance
        The instance.
    plan
        ``{"choice": {job: option}}``. Prices and bound are not drawn.
    """
    choice = plan["choice"]
    chosen = [
        (job, next((option for option in job.options if option.id == choice.get(job.id)), None))
        for job in instance.jobs
    ]
    alone = _largest(instance, chosen)
    drawn = [(job, option) for job, option in chosen if option and job.id in alone]
    bars = [
        [place for place, (_, option) in enumerate(drawn) if option.uses.get(name)]
        for name in instance.capacities
    ]
    colours = neighbourly(len(drawn), bars)
    fills = {job.id: fill for (job, _), fill in zip(drawn, colours, strict=True)}
    facts = _facts(instance, chosen)
    svg = Svg(_WIDTH)
    title = instance.name or "Multiple-choice knapsack"
    svg.text(_MARGIN, 40, clipped(title, 940, 20), size=20, bold=True)
    svg.text(_MARGIN, 64, facts, size=13, fill=FAINT)
    bottom = _pools(svg, 96, instance, chosen, fills)
    bottom = _rows(svg, bottom + 30, [(job, option) for job, option in chosen if job.id in alone], fills)
    if len(chosen) > len(alone):
        rest = [option for job, option in chosen if job.id not in alone]
        placed = sum(option is not None for option in rest)
        svg.rect(_MARGIN, bottom + 4, _WIDTH - 2 * _MARGIN, 1, IDLE)
        svg.rect(_MARGIN, bottom + 14, 13, 13, OTHERS)
        svg.text(
            _MARGIN + 22,
            bottom + 25,
            f"{len(rest):,} other jobs: {placed:,} chosen, {len(rest) - placed:,} left out",
        )
        bottom += 32
    return svg.finish(bottom + 16, title, f"Use of every capacity and the option of every job. {facts}.")


def _largest(
    instance: MultipleChoiceKnapsackInstance, chosen: Sequence[tuple[KnapsackJob, KnapsackOption | None]]
) -> set[str]:
    """Return the ids of the jobs drawn one by one."""

    def share(option: KnapsackOption | None) -> float:
        uses = {} if option is None else option.uses
        return max((use / max(instance.capacities[name], 1) for name, use in uses.items()), default=-1.0)

    ranked = sorted(chosen, key=lambda pair: -share(pair[1]))
    return {job.id for job, _ in ranked[:_ROWS]}


def _facts(
    instance: MultipleChoiceKnapsackInstance, chosen: Sequence[tuple[KnapsackJob, KnapsackOption | None]]
) -> str:
    placed = [(job, option) for job, option in chosen if option is not None]
    changed = sum(
        job.current is not None and (None if option is None else option.id) != job.current
        for job, option in chosen
    )
    moved = f"; {changed:,} changed" if any(job.current is not None for job in instance.jobs) else ""
    value = sum(option.value for _, option in placed)
    return (
        f"{len(placed):,} of {len(chosen):,} jobs chosen, value {value:,.6g} ({instance.sense}d), "
        f"{len(instance.capacities):,} capacities{moved}"
    )


def _pools(
    svg: Svg,
    top: float,
    instance: MultipleChoiceKnapsackInstance,
    chosen: Sequence[tuple[KnapsackJob, KnapsackOption | None]],
    fills: Mapping[str, str],
) -> float:
    """Draw one bar per capacity, its use stacked by job; return where they end."""
    used = dict.fromkeys(instance.capacities, 0)
    for _, option in chosen:
        for name, use in ({} if option is None else option.uses).items():
            used[name] += use
    share = {name: used[name] / max(capacity, 1) for name, capacity in instance.capacities.items()}
    fullest = set(sorted(share, key=lambda name: -share[name])[:_POOLS])
    y = top
    for name, capacity in instance.capacities.items():
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
    svg: Svg,
    y: float,
    pool: str,
    scale: float,
    chosen: Sequence[tuple[KnapsackJob, KnapsackOption | None]],
    fills: Mapping[str, str],
) -> None:
    x, rest = _BAR_X, 0
    for job, option in chosen:
        use = 0 if option is None else option.uses.get(pool, 0)
        if job.id not in fills:
            rest += use
        elif use:
            svg.rect(x, y, use * scale, _BAR_HEIGHT, fills[job.id])
            if use * scale >= 2.5:
                svg.rect(x, y, 1, _BAR_HEIGHT, "#ffffff")
            x += use * scale
    if rest:
        svg.rect(x, y, rest * scale, _BAR_HEIGHT, OTHERS)


def _rows(
    svg: Svg,
    top: float,
    shown: Sequence[tuple[KnapsackJob, KnapsackOption | None]],
    fills: Mapping[str, str],
) -> float:
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
    for job, option in shown:
        svg.rect(
            _MARGIN, y + 4, 13, 13, fills[job.id] if option else "#ffffff", stroke=None if option else OTHERS
        )
        svg.text(_MARGIN + 22, y + 15, clipped(job.id, 240, 13))
        now = "left out" if option is None else option.id
        moved = job.current is not None and job.current != (None if option is None else option.id)
        label = f"{job.current} → {now}" if moved else now
        svg.text(
            300, y + 15, clipped(label, 180, 13), bold=moved, fill=FAINT if option is None else "#1f2328"
        )
        if option is not None:
            svg.text(560, y + 15, f"{option.value:.6g}", anchor="end")
            uses = ", ".join(f"{use:,} {name}" for name, use in option.uses.items() if use)
            svg.text(590, y + 15, clipped(uses, _WIDTH - _MARGIN - 590, 13))
        y += _ROW_HEIGHT
    return y

"""A plan of jobs that belong to tenants, as a drawing: who uses how much of what, over what is guaranteed.

One row per tenant without children and capacity, at most 60; its jobs one after another, hatched where they
lie beyond the guarantee, which is outlined.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.instances.kinds import kind_of
from apportion.instances.tenants.meaning import ledger_of, positions, shared_capacities
from apportion.plotting.palette import FAINT, IDLE, INK, color, ink_on
from apportion.plotting.svg import Svg, clipped

__all__ = ["tenants_svg"]

_WIDTH, _MARGIN, _BAR_X, _BAR_WIDTH = 1000.0, 24.0, 230.0, 640.0
_ROW, _BAR, _ROWS = 34.0, 22.0, 60


def tenants_svg(instance: Any, plan: Mapping[str, Any], *_: object) -> str:
    """Return the drawing of a feasible plan of an instance with tenants; prices and bound are not drawn."""
    kind = kind_of(instance)
    ledger = ledger_of(kind, instance)
    places = positions(kind, instance, plan, ledger)
    capacities = shared_capacities(kind, instance)
    leaves = ledger.tree.leaves
    svg, y = Svg(_WIDTH), 40.0
    svg.text(_MARGIN, y, clipped(instance.name or kind.name, 940, 20), size=20, bold=True)
    y += 24
    key = "each bar: a tenant's jobs; outline: what it is guaranteed; hatched: borrowed"
    svg.text(_MARGIN, y, key, size=13, fill=FAINT)
    drawn, told = 0, list[str]()
    for capacity, total in capacities.items():
        guaranteed = ledger.tree.guarantees(capacity)
        y += 40
        svg.text(_MARGIN, y, f"{clipped(capacity, 300, 15)}: {total} in all", size=15, bold=True)
        step = _BAR_WIDTH / max(1, total)
        for number, leaf in enumerate(leaves):
            if drawn >= _ROWS:
                break
            drawn, y = drawn + 1, y + (12 if number == 0 else _ROW)
            svg.text(_BAR_X - 12, y + 16, clipped(leaf, 180, 13), anchor="end")
            svg.rect(_BAR_X, y, _BAR_WIDTH, _BAR, IDLE)
            used = 0
            for job in sorted(ledger.members(leaf)):
                place = places.get(job)
                use = 0 if place is None else ledger.offers[job][place].uses.get(capacity, 0)
                if use:
                    _segment(svg, (y, step), (used, use, guaranteed[leaf]), color(number), f"{job}: {use}")
                    used += use
            svg.rect(_BAR_X, y - 2, guaranteed[leaf] * step, _BAR + 4, "none", stroke=INK)
            beyond = f", {used - guaranteed[leaf]} borrowed" if used > guaranteed[leaf] else ""
            svg.text(_BAR_X + _BAR_WIDTH + 10, y + 16, f"{used} of {guaranteed[leaf]}{beyond}", size=12)
            told.append(f"{leaf} uses {used} {capacity}, {guaranteed[leaf]} guaranteed")
        y += _BAR
    return svg.finish(y + 30, instance.name or kind.name, "; ".join(told))


def _segment(svg: Svg, at: tuple[float, float], amounts: tuple[int, int, int], fill: str, text: str) -> None:
    """Paint one job: the part within the guarantee plain, the part beyond it hatched."""
    (y, step), (used, use, guaranteed) = at, amounts
    within = max(0, min(use, guaranteed - used))
    x = _BAR_X + used * step
    svg.open_group(text)
    svg.rect(x, y, within * step, _BAR, fill)
    svg.rect(x + within * step, y, (use - within) * step, _BAR, fill, hatched=True)
    svg.line([(x, y), (x, y + _BAR)], "#ffffff", 1.5, 1.0)
    if use * step > 50 and within == use:
        svg.text(x + 6, y + 15, clipped(text, use * step - 10, 11), size=11, fill=ink_on(fill))
    svg.close_group()

"""Behind whom, and where: one line an instance, for our solver beside every single one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.reporting.duels import Duel, duels
from benchmarks.reporting.records import groups_of
from benchmarks.suite.solvers import OURS

__all__ = ["behind"]


def behind(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for every instance on which a solver beat ours, and how many duels that is of how many."""
    fought, lost = 0, 0
    for group in groups_of(rows):
        own = [duel for other in group.records if other != OURS for duel in duels([group], other)]
        worse = [duel for duel in own if duel.result == "lost"]
        fought, lost = fought + len(own), lost + len(worse)
        if worse:
            yield f"{group.set_name}/{group.instance} behind {', '.join(map(_told, worse))}"
    if fought:
        yield f"{OURS} is behind in {lost} of {fought} duels"


def _told(duel: Duel) -> str:
    ours, other = duel.ours, duel.other
    text = f"{other.solver} by {duel.reason}"
    if duel.reason == "quality" and ours.gap is not None and other.gap is not None:
        return f"{text} ({100 * ours.gap:.3f} % against {100 * other.gap:.3f} % from the best)"
    if duel.reason == "time" and duel.ratio is not None:
        return f"{text} ({1 / duel.ratio:.2f} times as long)"
    return text

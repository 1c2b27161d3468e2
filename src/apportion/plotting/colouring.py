"""Colours for jobs that stand side by side: no two neighbours look alike, however many jobs there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from apportion.plotting.palette import COLORS, color

__all__ = ["neighbourly"]


def neighbourly(jobs: int, rows: Iterable[Sequence[int]]) -> list[str]:
    """Return a fill per job, by its number.

    A job keeps the colour of its place in the list unless a job beside it has that colour already; then it
    takes the next one that no neighbour has.

    Parameters
    ----------
    jobs
        How many jobs there are.
    rows
        The jobs of each bar, by number, in the order in which they are drawn.
    """
    beside: list[set[int]] = [set() for _ in range(jobs)]
    for row in rows:
        for one, other in pairwise(row):
            if one != other:
                beside[one].add(other)
                beside[other].add(one)
    fills: list[str] = []
    for job in range(jobs):
        taken = {fills[other] for other in beside[job] if other < job}
        order = [color(job + step) for step in range(len(COLORS))]
        fills.append(next((fill for fill in order if fill not in taken), order[0]))
    return fills

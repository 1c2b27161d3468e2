"""What the jobs of a plan ask of the alike machines of one pool: some at once, of each a part of its room."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MachinePacking"]


@dataclass(frozen=True, slots=True)
class MachinePacking:
    """Jobs to be put on the machines of a pool.

    Attributes
    ----------
    count
        How many machines there are.
    capacity
        The room on each of them.
    jobs
        What the jobs are called: their positions in the menus.
    gpus, uses
        How many machines each job holds, and what it takes of each of them.
    """

    count: int
    capacity: int
    jobs: tuple[int, ...]
    gpus: tuple[int, ...]
    uses: tuple[int, ...]

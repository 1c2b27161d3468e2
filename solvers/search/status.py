"""Why a slice of a search returned: the same for every tree, and in its compiled part."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Status"]


class Status(IntEnum):
    """Why a slice of a search returned.

    Attributes
    ----------
    EXHAUSTED
        Nothing is left to try.
    OUT_OF_NODES
        The nodes that were asked for are looked at.
    FOUND
        The tree is at what it looks for; run again, it searches on.
    OUT_OF_WORK
        The work that was asked for is done, in trees whose nodes take long.
    """

    EXHAUSTED = 0
    OUT_OF_NODES = 1
    FOUND = 2
    OUT_OF_WORK = 3

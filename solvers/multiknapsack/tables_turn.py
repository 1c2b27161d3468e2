"""When tables over the open capacities have their turn in a search, and what they show."""

from __future__ import annotations

from apportion.solvers.clock import Clock

from .incumbent import BestChoice
from .nested_tables import NestedTables, nested_tables
from .option_table import OptionTable

__all__ = ["TablesTurn"]

_AFTER = 0.05
"""Seconds after which it is looked at whether tables decide the menus,"""
_SHARE = 0.25
"""and the share of their seconds after which they do."""


class TablesTurn:
    """The one turn of `NestedTables` in a search.

    Parameters
    ----------
    best
        The incumbent, which a better choice replaces.
    clock
        Charged for every entry.

    Attributes
    ----------
    entries
        Entries that were looked at.
    """

    def __init__(self, best: BestChoice, clock: Clock) -> None:
        self._best, self._clock = best, clock
        self._tables: NestedTables | None = None
        self._is_open = True
        self.entries = 0

    def is_due(self, menus: OptionTable, elapsed: float) -> bool:
        """Return whether tables can be filled in time, and so many seconds of the search are enough for that.

        The menus of the first call after some seconds are those that the tables decide.
        """
        if not self._is_open or elapsed < _AFTER:
            return False
        if self._tables is None:
            self._tables = nested_tables(menus)
            self._is_open = self._tables is not None
        if self._tables is None or elapsed < _SHARE * self._tables.seconds:
            return False
        left, work = self._clock.remaining, self._clock.work_left
        timely = left is None or self._tables.seconds < left
        self._is_open = timely and (work is None or self._tables.entries <= work)
        return self._is_open

    def fill(self) -> bool:
        """Fill the tables; return whether nothing is better than the incumbent then."""
        tables, best = self._tables, self._best
        assert tables is not None
        self._is_open, self._tables = False, None
        filled, choice = tables.best(self._clock.late)
        self.entries = tables.entries
        self._clock.charge(tables.entries, tables.seconds)
        if not filled:
            return False
        if choice is None:
            return True
        rows = tables.menus.rows[choice]
        best.take(rows)
        return best.fits(rows)  # not where a capacity's row was rounded

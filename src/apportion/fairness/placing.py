"""Whether the choices of a question can be placed, and what all later questions learn where one cannot.

A capacity that no plan exceeds holds whatever the question is, so one that was found for a level tightens
those of all others; a question that such capacities refute is refuted for every plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.placed_tenants import PlacedTenantedMenus
from apportion.formulations.tenants import TenantedMenus
from apportion.solving.placement import PlacedStructure
from apportion.solving.structure import PlanOrPoint

__all__ = ["Placing", "Verdict"]

_LEAST_S = 1e-3
"""What is left of a limit that is used up."""

Verdict = Literal["placed", "cut", "unknown"]
"""Placed; shown to lie nowhere, and cut off from now on; or neither was shown."""


class Placing:
    """The menus of an instance with tenants, tightened while choices turn out to lie nowhere.

    Parameters
    ----------
    menus
        The formulation, without any floor.
    seconds
        What is left for the search of one placement; ``None`` for no limit.

    Attributes
    ----------
    menus
        The formulation with what was cut off so far.
    gave_up
        Whether some choice was neither placed nor shown to lie nowhere.
    """

    def __init__(self, menus: TenantedMenus, seconds: Callable[[], float | None]) -> None:
        self.menus = menus
        self.gave_up = False
        self._seconds = seconds

    def plan(self, choice: NDArray[np.int64]) -> PlanOrPoint | None:
        """Return the plan of a choice, placed."""
        if isinstance(self.menus, PlacedTenantedMenus):
            return PlacedStructure(self.menus).plan(choice, self._seconds())
        return self.menus.plan(choice)

    def late(self) -> bool:
        """Return whether the time for levels is up."""
        left = self._seconds()
        return left is not None and left <= _LEAST_S

    def of(self, choice: NDArray[np.int64]) -> Verdict:
        """Place a choice, one row per job, -1 for nothing at all."""
        if not isinstance(self.menus, PlacedTenantedMenus):
            return "placed"
        structure = PlacedStructure(self.menus)
        found = structure.packed(choice, self._seconds())
        if all(placed.nodes is not None for placed in found.values()):
            return "placed"
        tighter = structure.without(choice, found, proven=True)
        if tighter is None:
            self.gave_up = True
            return "unknown"
        assert isinstance(tighter.formulation, PlacedTenantedMenus)
        self.menus = tighter.formulation
        return "cut"

"""The limits of tenants beside a knapsack whose choices must also be placed, on nodes or on machines.

What cannot be placed comes back as a capacity that no plan exceeds, as in `apportion.solving.placement`; such
capacities stand behind those of the tenants, and stay valid under every floor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.protocol import Packing, PlacedFormulation, Plan
from apportion.formulations.tenants import TenantedMenus
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["PlacedTenantedMenus"]


class _Cut(NamedTuple):
    """One more capacity: its name, what every row of the inner menus takes of it, and how much there is."""

    name: str
    use: NDArray[np.int64]
    room: int


class PlacedTenantedMenus(TenantedMenus):
    """`TenantedMenus` of a formulation whose choices must be placed; a `PlacedFormulation` itself.

    Attributes
    ----------
    uncut
        The menus without what was learnt of places.
    weighed
        Capacities that a certificate can name.
    excluded
        Capacities that follow from no closed form, behind them.
    """

    _inner: PlacedFormulation

    def __init__(self, inner: PlacedFormulation, instance: Any) -> None:
        super().__init__(inner, instance)
        self.uncut = self.model
        self.weighed: tuple[_Cut, ...] = ()
        self.excluded: tuple[_Cut, ...] = ()

    def under(self, instance: Any, model: MultipleChoiceKnapsack | None = None) -> PlacedTenantedMenus:
        """Return the same with floors under tenants; see `TenantedMenus.under`."""
        found = cast(PlacedTenantedMenus, super().under(instance, self.uncut if model is None else model))
        found.uncut = found.model
        return found.cut_by(self.weighed, self.excluded)

    def packings(self, choice: NDArray[np.int64]) -> Mapping[str, Packing]:
        """Return what a choice asks of the nodes, by the name of their type."""
        return self._inner.packings(self.inward(choice))

    def plan_on(self, choice: NDArray[np.int64], placed: Mapping[str, Sequence[Sequence[int]]]) -> Plan:
        """Return the plan of a choice on given nodes."""
        return self._inner.plan_on(self.inward(choice), placed)

    def bounded(self, gpu_type: str, weights: tuple[int, ...]) -> PlacedTenantedMenus:
        """Return the same with the capacity of node weights."""
        cut = _last(self._inner.bounded(gpu_type, weights).model)
        return self.cut_by((*self.weighed, cut), self.excluded)

    def excluding(self, gpu_type: str, choice: NDArray[np.int64]) -> PlacedTenantedMenus:
        """Return the same without what was shown not to lie on the nodes."""
        cut = _last(self._inner.excluding(gpu_type, self.inward(choice)).model)
        return self.cut_by(
            self.weighed, (*self.excluded, cut._replace(name=f"excluded choice {len(self.excluded)}"))
        )

    def provable(self) -> PlacedTenantedMenus:
        """Return the same with those capacities only that a certificate can name."""
        return self.cut_by(self.weighed, ()) if self.excluded else self

    def cut_by(self, weighed: tuple[_Cut, ...], excluded: tuple[_Cut, ...]) -> PlacedTenantedMenus:
        """Return the same with these further capacities and no others."""
        found, model, cuts = copy(self), self.uncut, (*weighed, *excluded)
        found.weighed, found.excluded = weighed, excluded
        columns = [np.where(self._row >= 0, cut.use[self._row], 0) for cut in cuts if cut.use.size]
        found.model = (
            model.under(
                np.column_stack([model.uses, *columns]),
                np.concatenate((model.capacities, np.array([cut.room for cut in cuts], dtype=np.int64))),
                (*model.capacity_names, *(cut.name for cut in cuts)),
            )
            if columns
            else model
        )
        return found


def _last(model: MultipleChoiceKnapsack) -> _Cut:
    """Return the last capacity of menus, the one that was added to those of the formulation."""
    return _Cut(model.capacity_names[-1], model.uses[:, -1], int(model.capacities[-1]))

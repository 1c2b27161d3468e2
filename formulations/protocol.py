"""What every formulation offers: a model, and the way between its points and the instance's plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.linear import LinearModel
from apportion.models.lowering import Lowered, LoweredAssignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack, Present
from apportion.models.packing import FormulatedPacking, MachinePacking, NodePacking
from apportion.models.pods import PodMenus, PodPacking

__all__ = [
    "AssignmentFormulation",
    "Formulation",
    "KnapsackFormulation",
    "LinearFormulation",
    "NearPlacingFormulation",
    "Packing",
    "PlacedFormulation",
    "Plan",
]

Packing = NodePacking | MachinePacking | PodPacking | FormulatedPacking
"""What is asked of the nodes of one type or of one bundle, or of the machines of one pool."""

Plan = dict[str, Any]
"""A plan as it stands in JSON, for instance ``{"allocation": {"j0": ["n0"]}}``."""


class KnapsackFormulation(Protocol):
    """A formulation as a multiple-choice knapsack: the exact solvers take it as it is."""

    @property
    def model(self) -> MultipleChoiceKnapsack:
        """The menus."""
        ...

    @property
    def value_error(self) -> float:
        """A bound on how much rounding in the compiled values can move a sum of chosen ones."""
        ...

    def exact_values(self) -> list[Fraction]:
        """Return what every option is worth by the instance's own definition, before any rounding."""
        ...

    def plan(self, choice: NDArray[np.int64]) -> Plan | NDArray[np.int64]:
        """Return the plan of a choice; of bare menus, which have no names, the choice itself."""
        ...

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the choice of a plan as far as it fits (-1 where not); ``None`` if it is no plan."""
        ...

    def present(self) -> Present | None:
        """Return what every job has now; ``None`` where no job has anything that it may keep."""
        ...

    def lowered(self) -> Lowered:
        """Return the linear model, with the instance's own names."""
        ...

    def job_names(self) -> Sequence[str]:
        """Return the jobs' names, in the order of the menus."""
        ...

    def option_name(self, row: int) -> str:
        """Return the name of an option within its job."""
        ...

    def demand(self) -> MultipleChoiceKnapsack:
        """Return what the jobs need at least, whatever the capacities are.

        It is feasible exactly where `model` is, and stays so under any other capacities: its menus are
        not cut to them. Its values mean nothing.
        """
        ...


class PlacedFormulation(KnapsackFormulation, Protocol):
    """A knapsack that says what is chosen, not where it lies: a relaxation, tightened while one is solved.

    Every tightened model keeps the options of the first, so that a choice means the same in all of them.
    """

    def packings(self, choice: NDArray[np.int64]) -> Mapping[str, Packing]:
        """Return what a choice asks of the nodes, by the name of their type; empty where nothing has any."""
        ...

    def plan_on(self, choice: NDArray[np.int64], placed: Mapping[str, Sequence[Sequence[int]]]) -> Plan:
        """Return the plan of a choice on given nodes."""
        ...

    def bounded(self, gpu_type: str, weights: tuple[int, ...]) -> PlacedFormulation:
        """Return the same with the capacity of node weights."""
        ...

    def excluding(self, gpu_type: str, choice: NDArray[np.int64]) -> PlacedFormulation:
        """Return the same without what was shown not to lie on the nodes."""
        ...

    def provable(self) -> PlacedFormulation:
        """Return the same with those capacities only that a certificate can name."""
        ...


class NearPlacingFormulation(PlacedFormulation, Protocol):
    """A placed formulation that finds choices close by that lie on the nodes."""

    def placed_near(self, choice: NDArray[np.int64], late: Callable[[], bool]) -> NDArray[np.int64] | None:
        """Return a choice close by that can be placed; ``None`` if none was found.

        Parameters
        ----------
        choice
            Keeps all capacities of the first model.
        late
            Whether who has nothing any more is to be left without.
        """
        ...

    def pod_menus(self) -> PodMenus | None:
        """Return the options as pods on nodes; ``None`` where anything else limits them."""
        ...

    def lying(self, choice: NDArray[np.int64]) -> Mapping[int, tuple[int, ...]]:
        """Return by option, of a choice that was placed, the nodes of its pods, as in `pod_menus`."""
        ...

    def weighted(
        self, weights: NDArray[np.float64], prices: NDArray[np.float64]
    ) -> tuple[NearPlacingFormulation, NDArray[np.float64]]:
        """Return the same under weights of pods, and the multipliers of that bound.

        Parameters
        ----------
        weights, prices
            What pods of every kind and the further limits of `pod_menus` are worth.
        """
        ...

    def placed_on(self, rows: NDArray[np.int64], nodes: Sequence[Sequence[int]]) -> NDArray[np.int64] | None:
        """Return a choice whose pods are on given nodes, -1 for none, and the rest filled up."""
        ...

    def moves_few(self, choice: NDArray[np.int64], placed: Mapping[str, Sequence[Sequence[int]]]) -> bool:
        """Return whether a choice, placed as `plan_on` is given it, moves no more pods than may be."""
        ...

    @property
    def narrows(self) -> bool:
        """Whether `packings` have less than the nodes: what does not fit there may fit all the same."""
        ...

    @property
    def keeps(self) -> Callable[[NDArray[np.int64], Sequence[Sequence[int]]], bool] | None:
        """Whether options, -1 for none, and nodes keep what `pod_menus` leaves out; ``None``: nothing."""
        ...


class AssignmentFormulation(Protocol):
    """A formulation as an assignment: our own matching solvers take it as it is."""

    @property
    def model(self) -> Assignment:
        """The model."""
        ...

    @property
    def value_error(self) -> float:
        """A bound on how much rounding in the compiled values can move a sum of chosen ones."""
        ...

    @property
    def relaxes(self) -> bool:
        """Whether a feasible point may have no plan, so that the model is a relaxation only."""
        ...

    def plan(self, point: NDArray[Any]) -> Plan | NDArray[Any]:
        """Return the plan of a point; of a bare assignment, which has no names, the point itself."""
        ...

    def choice(self, plan: Any) -> NDArray[Any] | None:
        """Return the point of a plan as far as it fits; ``None`` if it is no plan."""
        ...

    def lowered(self) -> LoweredAssignment:
        """Return the linear model, with the instance's own names."""
        ...


class LinearFormulation(Protocol):
    """A formulation as a mixed-integer linear model, for the general solvers."""

    @property
    def model(self) -> LinearModel:
        """The model."""
        ...

    @property
    def exact(self) -> bool:
        """Whether its optimum is the instance's; a restriction proves no bound for the instance."""
        ...

    def plan(self, point: NDArray[np.float64]) -> Plan:
        """Return the plan of a point."""
        ...

    def point(self, plan: Any) -> NDArray[np.float64] | None:
        """Return the point of a feasible plan, or ``None`` if it cannot be carried over."""
        ...


Formulation = KnapsackFormulation | AssignmentFormulation | LinearFormulation
"""Whichever of them an entry of the registry produces."""

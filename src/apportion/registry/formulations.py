"""The table of formulations by kind of instance, each loaded when it is first used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from apportion.choices import one_of
from apportion.references import loaded

if TYPE_CHECKING:
    from apportion.formulations.protocol import Formulation

__all__ = ["FORMULATIONS", "FormulationEntry", "formulation"]


@dataclass(frozen=True, slots=True)
class FormulationEntry:
    """One way to say what an instance means.

    Attributes
    ----------
    name
        What callers say: ``by_count``.
    produces
        ``"knapsack"``, ``"assignment"`` or ``"linear"``.
    build
        ``"module:class"``, called with the instance and `arguments`.
    arguments
        Keyword arguments of the variant.
    description
        One line for people.
    on_nodes
        Whether a choice must also be placed, on nodes or machines: it then builds a `PlacedFormulation`.
    levels
        Of a linear one that knows tenants, the menus in which their levels are asked.
    where_relaxed
        The formulation that takes its place for an instance of which its model is a relaxation only.
    """

    name: str
    produces: Literal["knapsack", "assignment", "linear"]
    build: str
    arguments: tuple[tuple[str, Any], ...] = ()
    description: str = ""
    on_nodes: bool = False
    where_relaxed: str | None = None
    levels: FormulationEntry | None = None

    def compile(self, instance: Any) -> Formulation:
        """Return the formulation of an instance, one of the protocol that `produces` says."""
        compiled: Formulation = loaded(self.build)(instance, **dict(self.arguments))
        return compiled


FORMULATIONS: Mapping[str, Mapping[str, FormulationEntry]] = MappingProxyType(
    {
        "gap_filling": MappingProxyType(
            {
                entry.name: entry
                for entry in (
                    FormulationEntry(
                        "by_count",
                        "knapsack",
                        "apportion.formulations.gap_filling.by_count:GapFillingByCount",
                        description="a node count per job: a multiple-choice knapsack",
                    ),
                    FormulationEntry(
                        "by_node",
                        "linear",
                        "apportion.formulations.gap_filling.by_node:GapFillingByNode",
                        description="the published MILP, its big-M corrected",
                    ),
                    FormulationEntry(
                        "by_node_published",
                        "linear",
                        "apportion.formulations.gap_filling.by_node:GapFillingByNode",
                        (("published_big_m", True),),
                        description="the published MILP with its published big-M",
                    ),
                )
            }
        ),
        "multiple_choice_knapsack": MappingProxyType(
            {
                "menus": FormulationEntry(
                    "menus",
                    "knapsack",
                    "apportion.formulations.multiple_choice:MenuFormulation",
                    description="the menus as they are",
                )
            }
        ),
        "matching": MappingProxyType(
            {
                "by_machine": FormulationEntry(
                    "by_machine",
                    "assignment",
                    "apportion.formulations.matching.by_machine:MatchingByMachine",
                    description="one machine per job: R||Cmax, generalised assignment, shares of time",
                    where_relaxed="by_unit",
                ),
                "by_unit": FormulationEntry(
                    "by_unit",
                    "linear",
                    "apportion.formulations.matching.by_unit:MatchingByUnit",
                    description="every machine of a pool: gangs beside jobs of other uses, cost or value",
                ),
                "by_pool": FormulationEntry(
                    "by_pool",
                    "knapsack",
                    "apportion.formulations.matching.by_pool:MatchingByPool",
                    description="pools in sum, choices placed on their machines: cost or value, with tenants",
                    on_nodes=True,
                ),
                "by_load": FormulationEntry(
                    "by_load",
                    "linear",
                    "apportion.formulations.matching.by_load:MatchingByLoad",
                    description="every machine and every limit of tenants: a makespan with tenants",
                    levels=FormulationEntry(
                        "by_pool",
                        "knapsack",
                        "apportion.formulations.matching.by_pool:MatchingByPool",
                        (("timed", True),),
                        on_nodes=True,
                    ),
                ),
            }
        ),
        "freezing": MappingProxyType(
            {
                entry.name: entry
                for entry in (
                    FormulationEntry(
                        "by_configuration",
                        "knapsack",
                        "apportion.formulations.freezing.on_nodes:FreezingOnNodes",
                        description="GPUs per job, its best depth on them; all depths under a penalty cap",
                        on_nodes=True,
                    ),
                    FormulationEntry(
                        "all_depths",
                        "knapsack",
                        "apportion.formulations.freezing.on_nodes:FreezingOnNodes",
                        (("separate_depth", False),),
                        description="GPUs and depth per job, no depth dropped",
                        on_nodes=True,
                    ),
                )
            }
        ),
    }
)


def formulation(kind: str, name: str | None) -> FormulationEntry:
    """Return a formulation of a kind by name, its first one by default.

    Raises
    ------
    InvalidOption
        If the kind has none of that name.
    """
    table = FORMULATIONS[kind]
    if name is None:
        return next(iter(table.values()))
    key = str(name).replace("-", "_")
    one_of("formulation", key, table)
    return table[key]

"""The tables of backends and formulations, and loading them when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Literal

from apportion.errors import BackendUnavailable, InvalidOption
from apportion.outcome import Outcome
from apportion.solvers.general.guard import check_engines

__all__ = ["BACKENDS", "FORMULATIONS", "Backend", "FormulationEntry", "backend", "formulation"]

SolveFunction = Callable[..., Outcome]


@dataclass(frozen=True, slots=True)
class Backend:
    """One way to answer a model.

    Attributes
    ----------
    name
        What callers say: ``highs``.
    accepts
        ``"knapsack"`` (a `MultipleChoiceKnapsack`, choices), ``"assignment"`` (an `Assignment`, its points)
        or ``"linear"`` (a `LinearModel`, points).
    solve
        ``"module:function"``, imported on first use, or the function itself:
        ``solve(model, options, start) -> Outcome``.
    packages
        Distributions it needs.
    description
        One line for people.
    general
        Whether it is a general solver that may overrun its limit and is then run in a child process.
    extra
        Further positional arguments of the function.
    """

    name: str
    accepts: Literal["knapsack", "assignment", "linear"]
    solve: str | SolveFunction
    packages: tuple[str, ...] = ()
    description: str = ""
    general: bool = False
    extra: tuple[Any, ...] = ()

    def versions(self) -> dict[str, str | None]:
        """Return the version of each package it needs, ``None`` if not installed; imports nothing."""
        return {package: _version(package) for package in self.packages}

    def load(self) -> SolveFunction:
        """Return the solve function.

        Raises
        ------
        BackendUnavailable
            If a package it needs is missing or cannot be imported.
        """
        if callable(self.solve):
            return self.solve
        module, function = self.solve.split(":")
        try:
            self._demand_packages()
            loaded: SolveFunction = getattr(import_module(module), function)
        except ImportError as error:
            raise BackendUnavailable(f"backend {self.name!r} cannot be imported: {error}") from error
        return loaded

    def _demand_packages(self) -> None:
        missing = [name for name in self.packages if name not in sys.modules and find_spec(name) is None]
        if missing:
            told = f"backend {self.name!r} needs {', '.join(missing)}; install it or choose another"
            raise BackendUnavailable(told)
        for name in self.packages:
            check_engines(name)


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
    """

    name: str
    produces: Literal["knapsack", "assignment", "linear"]
    build: str
    arguments: tuple[tuple[str, Any], ...] = ()
    description: str = ""

    def compile(self, instance: Any) -> Any:
        """Return the formulation of an instance."""
        module, name = self.build.split(":")
        return getattr(import_module(module), name)(instance, **dict(self.arguments))


BACKENDS: Mapping[str, Backend] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Backend(
                "exact",
                "knapsack",
                "apportion.solvers.exact:solve",
                ("numpy",),
                "our knapsack engines: one capacity exactly, several by multipliers, repair and search",
            ),
            Backend(
                "dense-dp",
                "knapsack",
                "apportion.solvers.knapsack.dense_dp:solve",
                ("numpy",),
                "plain dynamic programming over one whole capacity; the reference",
            ),
            Backend(
                "highs",
                "linear",
                "apportion.solvers.general.highs:solve",
                ("highspy",),
                "HiGHS, MILP",
                general=True,
            ),
            Backend(
                "cp-sat",
                "linear",
                "apportion.solvers.general.cp_sat:solve",
                ("ortools",),
                "OR-Tools CP-SAT",
                general=True,
            ),
            Backend(
                "scip",
                "linear",
                "apportion.solvers.general.scip:solve",
                ("ortools",),
                "SCIP through MathOpt",
                general=True,
            ),
        )
    }
)

_EXACT_FOR_ASSIGNMENT = Backend(
    "exact",
    "assignment",
    "apportion.solvers.assignment.engine:solve",
    ("numpy", "scipy"),
    "our matching engines: shortest paths, Lagrangian bounds with repair and search, portfolio on the rest",
)

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
                )
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
                    ),
                    FormulationEntry(
                        "all_depths",
                        "knapsack",
                        "apportion.formulations.freezing.on_nodes:FreezingOnNodes",
                        (("separate_depth", False),),
                        description="GPUs and depth per job, no depth dropped",
                    ),
                )
            }
        ),
    }
)


def backend(name: str, produces: str = "knapsack") -> Backend:
    """Return the backend of that name; ``pyomo:NAME`` names any solver Pyomo knows.

    Parameters
    ----------
    name
        What callers say.
    produces
        What the formulation produces: ``exact`` is another engine for every structure.

    Raises
    ------
    BackendUnavailable
        If there is none.
    """
    if name.startswith("pyomo:"):
        return _pyomo(name.removeprefix("pyomo:"))
    if name == "exact" and produces == "assignment":
        return _EXACT_FOR_ASSIGNMENT
    if name not in BACKENDS:
        raise BackendUnavailable(
            f"there is no backend {name!r}; choose auto, {', '.join(BACKENDS)} or pyomo:SOLVER"
        )
    return BACKENDS[name]


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
    key = name.replace("-", "_")
    if key not in table:
        raise InvalidOption(f"formulation must be one of {', '.join(table)} for {kind}, not {name!r}")
    return table[key]


def _pyomo(solver: str) -> Backend:
    if not solver:
        raise BackendUnavailable("name the solver, for instance pyomo:appsi_highs")

    if find_spec("pyomo") is None:
        raise BackendUnavailable("backend 'pyomo' needs pyomo; install it or choose another")
    return Backend(
        f"pyomo:{solver}",
        "linear",
        "apportion.solvers.general.pyomo_bridge:solve",
        ("pyomo",),
        f"Pyomo's {solver}",
        general=True,
        extra=(solver,),
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

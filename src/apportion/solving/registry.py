"""The tables of backends and formulations; what an entry names is imported when it is first used.

A backend's entry says how it is called, by one type of call per type of model, with which versions it is here
or why it is not, and which defects of its versions are known: what was reported, where, and what is done
about it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from apportion.core.errors import BackendUnavailable, did_you_mean, one_of
from apportion.core.extension_points import loaded
from apportion.solvers.general.guard import check_engines, known_defects

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.core.options import SolveOptions, Start
    from apportion.core.outcome import Outcome
    from apportion.formulations.protocol import Formulation
    from apportion.models.assignment import Assignment
    from apportion.models.linear import LinearModel
    from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = [
    "BACKENDS",
    "FAIR_SOLVER",
    "FORMULATIONS",
    "AssignmentSolver",
    "Backend",
    "FormulationEntry",
    "KnapsackSolver",
    "LinearSolver",
    "Solver",
    "backend",
    "backends",
    "compiled_parts",
    "formulation",
    "version_of",
]

FAIR_SOLVER = "apportion.fairness.fair_solve:solved_fairly"
"""What answers an instance whose tenants are due shares; it asks this room for every answer it needs."""


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
        Of one that knows tenants itself, the menus in which their levels are asked.
    explained
        The menus by which a kind is explained whose first formulation this is; itself where there are none.
    where_relaxed
        The formulation that takes its place for an instance of which its model is a relaxation only.
    where_large
        ``"module:function"`` that says of an instance whether another formulation takes its place, and which;
        the first that says so counts.
    left_open
        The same of another one that may close what this one leaves open.
    tried_first
        The same of another one that may decide it in little time.
    makes_in
        ``"module:function"`` that says how many seconds the making of its model takes, where these are many.
    """

    name: str
    produces: Literal["knapsack", "assignment", "linear"]
    build: str
    arguments: tuple[tuple[str, Any], ...] = ()
    description: str = ""
    on_nodes: bool = False
    where_relaxed: str | None = None
    where_large: tuple[tuple[str, str], ...] = ()
    left_open: tuple[str, str] | None = None
    tried_first: tuple[str, str] | None = None
    makes_in: str | None = None
    levels: FormulationEntry | None = None
    explained: FormulationEntry | None = None

    def compile(self, instance: Any) -> Formulation:
        """Return the formulation of an instance, one of the protocol that `produces` says."""
        compiled: Formulation = loaded(self.build)(instance, **dict(self.arguments))
        return compiled


_PLACEMENT_MENUS = FormulationEntry(
    "menus", "knapsack", "apportion.formulations.placement:PlacementMenus", on_nodes=True
)
_ALL_DEPTHS = FormulationEntry(
    "all_depths",
    "knapsack",
    "apportion.formulations.freezing.on_nodes:FreezingOnNodes",
    (("separate_depth", False),),
    description="GPUs and depth per job, no depth dropped",
    on_nodes=True,
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
        "placement": MappingProxyType(
            {
                entry.name: replace(entry, levels=_PLACEMENT_MENUS, explained=_PLACEMENT_MENUS)
                for entry in (
                    FormulationEntry(
                        "by_shape",
                        "knapsack",
                        "apportion.formulations.placement:PlacementByShape",
                        description="placed shapes, of jobs with very many their pods; a row per rule",
                        where_large=(
                            ("apportion.instances.placement.bundles:takes_bundles", "by_bundle"),
                            ("apportion.instances.placement.kind:has_many_shapes", "by_option"),
                        ),
                        tried_first=("apportion.instances.placement.kind:takes_options", "by_option"),
                        makes_in="apportion.instances.placement.kind:seconds_of_shapes",
                    ),
                    FormulationEntry(
                        "by_bundle",
                        "knapsack",
                        "apportion.formulations.placement_bundles:PlacementByBundle",
                        description="how many pods lie in a bundle of alike nodes, then on which of these",
                        on_nodes=True,
                        left_open=("apportion.instances.placement.bundles:leaves_shapes", "by_shape"),
                        tried_first=(
                            "apportion.instances.placement.kind:needs_no_bundles",
                            "by_option",
                        ),
                    ),
                    FormulationEntry(
                        "by_pod",
                        "knapsack",
                        "apportion.formulations.placement:PlacementByShape",
                        (("most_shapes", 0),),
                        description="every pod by itself, alike ones by number and node; a row per rule",
                    ),
                )
            }
            | {
                "by_option": FormulationEntry(
                    "by_option",
                    "knapsack",
                    "apportion.formulations.placement:PlacementByOption",
                    description="options under what all nodes have together, then their pods job by job",
                    on_nodes=True,
                    explained=_PLACEMENT_MENUS,
                ),
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
                    explained=FormulationEntry(
                        "menus", "knapsack", "apportion.formulations.matching.menus:MatchingMenus"
                    ),
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
                        explained=_ALL_DEPTHS,  # a depth that cannot be optimal may be asked about
                    ),
                    _ALL_DEPTHS,
                )
            }
        ),
    }
)


_OF_OPTIONS: Mapping[str, FormulationEntry] = MappingProxyType(
    {
        "options": FormulationEntry(
            "options",
            "knapsack",
            "apportion.formulations.multiple_choice:OptionMenus",
            description="the options of a kind, one by one",
        )
    }
)
"""Of a kind that brings no formulation."""


def formulation(kind: str, name: str | None) -> FormulationEntry:
    """Return a formulation of a kind by name, its first one by default.

    Raises
    ------
    InvalidOption
        If the kind has none of that name.
    """
    table = FORMULATIONS.get(kind, _OF_OPTIONS)
    if name is None:
        return next(iter(table.values()))
    key = str(name).replace("-", "_")
    one_of("formulation", key, table)
    return table[key]


class KnapsackSolver(Protocol):
    """Answers a `MultipleChoiceKnapsack` with a choice."""

    def __call__(self, model: MultipleChoiceKnapsack, options: SolveOptions, start: Start, /) -> Outcome:
        """Solve a knapsack; `options.time_limit` is what is left for this call."""
        ...


class AssignmentSolver(Protocol):
    """Answers an `Assignment` with a choice of entries, or with shares where it is divisible."""

    def __call__(self, model: Assignment, options: SolveOptions, start: Start, /) -> Outcome:
        """Solve an assignment; `options.time_limit` is what is left for this call."""
        ...


class LinearSolver(Protocol):
    """Answers a `LinearModel` with float64 column values; of a start it knows the point alone."""

    def __call__(
        self, model: LinearModel, options: SolveOptions, start: NDArray[np.float64] | None, /
    ) -> Outcome:
        """Solve a linear model; `options.time_limit` is what is left for this call."""
        ...


Solver = KnapsackSolver | AssignmentSolver | LinearSolver
"""Whichever of them a backend's ``accepts`` says."""


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
        ``"module:function"``, imported on first use, or the function itself, called as
        `apportion.solving.registry` says: ``solve(model, options, start) -> Outcome``. A knapsack's or an
        assignment's start is a `Start`, a linear model's its column values or ``None``.
    packages
        Distributions it needs.
    description
        One line for people.
    general
        Whether it is a general solver that may overrun its limit and is then run in a child process.
    extra
        Further positional arguments of the function, which is then given as text.
    own_prices
        Whether the multipliers beside its bound are optimised: those of an earlier round then add nothing.
    """

    name: str
    accepts: Literal["knapsack", "assignment", "linear"]
    solve: str | Solver
    packages: tuple[str, ...] = ()
    description: str = ""
    general: bool = False
    extra: tuple[str, ...] = ()
    own_prices: bool = False

    def versions(self) -> dict[str, str | None]:
        """Return the version of each package it needs, ``None`` if not installed; imports nothing."""
        return {package: version_of(package) for package in self.packages}

    def load(self) -> Solver:
        """Return the solve function, which takes a model of the type in `accepts`.

        Raises
        ------
        BackendUnavailable
            If a package it needs is missing or cannot be imported.
        """
        if callable(self.solve):
            return self.solve
        try:
            self._demand_packages()
            found = loaded(self.solve)
        except ImportError as error:
            raise BackendUnavailable(f"backend {self.name!r} cannot be imported: {error}") from error
        if not self.extra:
            solver: Solver = found
            return solver

        def with_extra(
            model: LinearModel, options: SolveOptions, start: NDArray[np.float64] | None
        ) -> Outcome:
            outcome: Outcome = found(model, options, start, *self.extra)
            return outcome

        return with_extra

    def _demand_packages(self) -> None:
        missing = [name for name in self.packages if name not in sys.modules and find_spec(name) is None]
        if missing:
            needed = ", ".join(missing)
            raise BackendUnavailable(f"backend {self.name!r} needs {needed}; install it or choose another")
        for name in self.packages:
            check_engines(name)


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
                own_prices=True,
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
    "apportion.solvers.matching:solve",
    ("numpy", "scipy"),
    "our matching engines: shortest paths, Lagrangian bounds, a compiled tree of knapsacks, list schedules",
    own_prices=True,
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
    if not isinstance(name, str):
        raise BackendUnavailable(f"a backend is a name or a Backend, not {name!r}")
    if name.startswith("pyomo:"):
        return _pyomo(name.removeprefix("pyomo:"))
    if name == "exact" and produces == "assignment":
        return _EXACT_FOR_ASSIGNMENT
    if name not in BACKENDS:
        meant = did_you_mean(name, ("auto", *BACKENDS))
        raise BackendUnavailable(
            f"there is no backend {name!r}; choose auto, {', '.join(BACKENDS)} or pyomo:SOLVER{meant}"
        )
    return BACKENDS[name]


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


def version_of(package: str) -> str | None:
    """Return the version of an installed distribution, ``None`` if it is not installed; imports nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def backends() -> list[dict[str, Any]]:
    """Return one row per backend, ``pyomo:NAME`` for every solver Pyomo knows.

    Returns
    -------
    list of dict
        ``name``, ``available``, ``why`` (``None`` if available), ``accepts`` (``"knapsack"`` or
        ``"linear"``), ``packages`` (version by name, ``None`` where missing), ``description``
        and ``defects`` (known ones of the installed versions).
    """
    rows = [
        _row(entry.name, entry.accepts, entry.versions(), entry.description) for entry in BACKENDS.values()
    ]
    pyomo = {"pyomo": version_of("pyomo")}
    rows.append(_row("pyomo:NAME", "linear", pyomo, "any solver Pyomo knows, for instance pyomo:appsi_highs"))
    return rows


def compiled_parts() -> str:
    """Return one sentence on the compiled parts of our own engines: which are in use, or why not."""
    from apportion.solvers.compiled import NAMES, SWITCH, load, switched_off

    if switched_off():
        return f"compiled parts of exact: switched off by {SWITCH}"
    missing = [name for name in NAMES if load(name) is None]
    if not missing:
        return f"compiled parts of exact: all {len(NAMES)} in use"
    why = "not built, or from another source, so that slower roads are taken"
    return f"compiled parts of exact: not in use: {', '.join(missing)}: {why}"


def _row(name: str, accepts: str, packages: dict[str, str | None], description: str) -> dict[str, Any]:
    missing = [package for package, found in packages.items() if found is None]
    return {
        "name": name,
        "available": not missing,
        "why": f"{', '.join(missing)} not installed" if missing else None,
        "accepts": accepts,
        "packages": packages,
        "description": description,
        "defects": [
            defect for package, found in packages.items() for defect in known_defects(name, package, found)
        ],
    }

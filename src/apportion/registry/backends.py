"""The table of backends, each loaded when it is first used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from apportion.choices import did_you_mean
from apportion.errors import BackendUnavailable
from apportion.references import loaded
from apportion.solvers.general.guard import check_engines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.models.linear import LinearModel
    from apportion.options import SolveOptions
    from apportion.outcome import Outcome
    from apportion.registry.calls import Solver

__all__ = ["BACKENDS", "Backend", "backend", "version_of"]


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
        `apportion.registry.calls` says: ``solve(model, options, start) -> Outcome``. A knapsack's or an
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

"""The table of solvers: our own backends and the peers, what families each takes and up to what size."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from benchmarks.suite.cell import SolverSpec

__all__ = ["OURS", "SOLVERS"]

OURS = "apportion"
"""The solver that everything is compared with: `apportion.solve` as a user calls it."""

_MENUS = ("gap_filling", "mckp", "mmkp", "tied", "sparse", "sia", "knapsack", "freezing")
_MATCHING = ("linear_assignment", "generalised_assignment", "unrelated_machines")
_SHARES = ("gavel",)
_WHOLE = (*_MENUS, *_MATCHING)
_ALL = (*_WHOLE, *_SHARES)

_PLAIN = {"mckp": 10_000, "gap_filling": 4608, "sia": 16, "freezing": 400}
"""Modelling layers in Python need minutes and gigabytes above these sizes."""
_SMALL = {"mckp": 10_000, "gap_filling": 1000, "sia": 8, "freezing": 200}


def _ours(
    name: str,
    families: tuple[str, ...],
    backend: str,
    packages: tuple[str, ...] = (),
    largest: Mapping[str, int] | None = None,
    formulation: str | None = None,
) -> SolverSpec:
    return SolverSpec(
        name=f"apportion:{name}",
        families=families,
        backend=backend,
        packages=packages,
        largest=largest or {},
        formulation=formulation,
    )


def _peer(
    name: str,
    families: tuple[str, ...],
    reference: str,
    packages: tuple[str, ...] = (),
    largest: Mapping[str, int] | None = None,
) -> SolverSpec:
    peer = f"benchmarks.peers.{reference}"
    return SolverSpec(name=name, families=families, peer=peer, packages=packages, largest=largest or {})


_TABLE = (
    SolverSpec(name=OURS, families=(*_ALL, "placement", "gangs", "tenants")),
    _ours("highs", (*_ALL, "placement"), "highs", ("highspy",), {"mckp": 100_000, "freezing": 400}),
    _ours("cp-sat", (*_WHOLE, "placement"), "cp-sat", ("ortools",), _PLAIN),
    _ours("scip", _ALL, "scip", ("ortools",), _PLAIN),
    _ours("pyomo", _ALL, "pyomo:appsi_highs", ("pyomo", "highspy"), _SMALL),
    _ours("by_node", ("gap_filling",), "highs", ("highspy",), {"gap_filling": 500}, "by_node"),
    _ours("all_depths", ("freezing",), "highs", ("highspy",), formulation="all_depths"),
    _ours("all_depths+cp-sat", ("freezing",), "cp-sat", ("ortools",), formulation="all_depths"),
    _peer("linopy+highs", _ALL, "linopy_highs:solve", ("linopy", "highspy"), _PLAIN),
    _peer("cvxpy+highs", _ALL, "cvxpy_peer:solve_highs", ("cvxpy", "highspy"), _PLAIN),
    _peer("cvxpy+scip", _ALL, "cvxpy_peer:solve_scip", ("cvxpy", "pyscipopt"), _PLAIN),
    _peer("cvxpy+glpk", _ALL, "cvxpy_peer:solve_glpk", ("cvxpy", "cvxopt"), _PLAIN),
    _peer("cvxpy+cbc", _ALL, "cvxpy_peer:solve_cbc", ("cvxpy", "cylp"), _PLAIN),
    _peer("pyomo+highs", _ALL, "pyomo_highs:solve", ("pyomo", "highspy"), _SMALL),
    _peer("python-mip+cbc", _ALL, "python_mip:solve", ("mip",), _SMALL),
    _peer(
        "bftrainer-literal+cbc", ("gap_filling",), "bftrainer_literal:solve", ("mip",), {"gap_filling": 200}
    ),
    _peer("scipy-milp", _ALL, "scipy_milp:solve", ("scipy",), _PLAIN),
    _peer("hyperqueue-milp", ("sparse",), "hyperqueue_milp:solve", ("scipy",)),
    _peer("scipy-matching", ("linear_assignment",), "scipy_matching:solve", ("scipy",)),
    _peer("leximin-milps+highs", ("tenants",), "leximin_milps:solve", ("highspy", "scipy")),
    _peer("gavel-bisection", _SHARES, "gavel_bisection:solve"),
    _peer("ortools-cp-sat", _WHOLE, "or_tools_cp_sat:solve", ("ortools",), _PLAIN),
    _peer("ortools-mathopt+scip", _ALL, "or_tools_mathopt:solve", ("ortools",), _SMALL),
    _peer("ortools-knapsack", ("knapsack",), "or_tools_knapsack:solve", ("ortools",)),
    _peer("pyjobshop", ("unrelated_machines", "gangs"), "pyjobshop_peer:solve", ("pyjobshop", "ortools")),
    _peer("pop", (*_MENUS, *_SHARES), "pop:solve", ("scipy",), _PLAIN),
)

SOLVERS: Mapping[str, SolverSpec] = MappingProxyType({spec.name: spec for spec in _TABLE})

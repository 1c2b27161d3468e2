"""The table of solvers: our own backends and the peers, what families each takes and up to what size."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from benchmarks.suite.cell import SolverSpec

__all__ = ["OURS", "SOLVERS"]

OURS = "apportion"
"""The solver that everything is compared with: `apportion.solve` as a user calls it."""

_MENUS = ("gap_filling", "mckp", "mmkp", "sia", "knapsack", "freezing")
_MATCHING = ("linear_assignment", "generalised_assignment", "unrelated_machines")
_SHARES = ("gavel",)
_ALL = (*_MENUS, *_MATCHING, *_SHARES)


_PLAIN = {"mckp": 10_000, "gap_filling": 4608, "sia": 16, "freezing": 400}
"""Modelling layers in Python need minutes and gigabytes above these sizes."""
_SMALL = {"mckp": 10_000, "gap_filling": 1000, "sia": 8, "freezing": 200}

SOLVERS: Mapping[str, SolverSpec] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            SolverSpec(name=OURS, families=(*_ALL, "gangs")),
            SolverSpec(
                name="apportion:highs",
                families=_ALL,
                backend="highs",
                packages=("highspy",),
                largest={"mckp": 100_000, "freezing": 400},
            ),
            SolverSpec(
                name="apportion:cp-sat",
                families=(*_MENUS, *_MATCHING),
                backend="cp-sat",
                packages=("ortools",),
                largest=_PLAIN,
            ),
            SolverSpec(
                name="apportion:scip", families=_ALL, backend="scip", packages=("ortools",), largest=_PLAIN
            ),
            SolverSpec(
                name="apportion:pyomo",
                families=_ALL,
                backend="pyomo:appsi_highs",
                packages=("pyomo", "highspy"),
                largest=_SMALL,
            ),
            SolverSpec(
                name="apportion:by_node",
                families=("gap_filling",),
                backend="highs",
                formulation="by_node",
                packages=("highspy",),
                largest={"gap_filling": 500},
            ),
            *(
                SolverSpec(
                    name=f"apportion:all_depths{suffix}",
                    families=("freezing",),
                    backend=backend,
                    formulation="all_depths",
                    packages=(package,),
                )
                for suffix, backend, package in (("", "highs", "highspy"), ("+cp-sat", "cp-sat", "ortools"))
            ),
            SolverSpec(name="apportion:dense-dp", families=("gap_filling",), backend="dense-dp"),
            SolverSpec(
                name="linopy+highs",
                families=_ALL,
                peer="linopy_highs:solve",
                packages=("linopy", "highspy"),
                largest=_PLAIN,
            ),
            SolverSpec(
                name="cvxpy+highs",
                families=_ALL,
                peer="cvxpy_peer:solve_highs",
                packages=("cvxpy", "highspy"),
                largest=_PLAIN,
            ),
            SolverSpec(
                name="cvxpy+scip",
                families=_ALL,
                peer="cvxpy_peer:solve_scip",
                packages=("cvxpy", "pyscipopt"),
                largest=_PLAIN,
            ),
            SolverSpec(
                name="cvxpy+glpk",
                families=_ALL,
                peer="cvxpy_peer:solve_glpk",
                packages=("cvxpy", "cvxopt"),
                largest=_PLAIN,
            ),
            SolverSpec(
                name="cvxpy+cbc",
                families=_ALL,
                peer="cvxpy_peer:solve_cbc",
                packages=("cvxpy", "cylp"),
                largest=_PLAIN,
            ),
            SolverSpec(
                name="pyomo+highs",
                families=_ALL,
                peer="pyomo_highs:solve",
                packages=("pyomo", "highspy"),
                largest=_SMALL,
            ),
            SolverSpec(
                name="python-mip+cbc",
                families=_ALL,
                peer="python_mip:solve",
                packages=("mip",),
                largest=_SMALL,
            ),
            SolverSpec(
                name="bftrainer-literal+cbc",
                families=("gap_filling",),
                peer="bftrainer_literal:solve",
                packages=("mip",),
                largest={"gap_filling": 200},
            ),
            SolverSpec(
                name="scipy-milp", families=_ALL, peer="scipy_milp:solve", packages=("scipy",), largest=_PLAIN
            ),
            SolverSpec(
                name="scipy-matching",
                families=("linear_assignment",),
                peer="scipy_matching:solve",
                packages=("scipy",),
            ),
            SolverSpec(name="gavel-bisection", families=_SHARES, peer="gavel_bisection:solve"),
            SolverSpec(
                name="ortools-cp-sat",
                families=(*_MENUS, *_MATCHING),
                peer="or_tools_cp_sat:solve",
                packages=("ortools",),
                largest=_PLAIN,
            ),
            SolverSpec(
                name="ortools-mathopt+scip",
                families=_ALL,
                peer="or_tools_mathopt:solve",
                packages=("ortools",),
                largest=_SMALL,
            ),
            SolverSpec(
                name="ortools-knapsack",
                families=("knapsack",),
                peer="or_tools_knapsack:solve",
                packages=("ortools",),
            ),
            SolverSpec(
                name="pyjobshop",
                families=("unrelated_machines", "gangs"),
                peer="pyjobshop_peer:solve",
                packages=("pyjobshop", "ortools"),
            ),
            SolverSpec(
                name="pop",
                families=(*_MENUS, *_SHARES),
                peer="pop:solve",
                packages=("scipy",),
                largest=_PLAIN,
            ),
        )
    }
)

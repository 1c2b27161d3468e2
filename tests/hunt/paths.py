"""The inner paths: thresholds forced down so that small instances take the roads of large ones.

A path names module constants and what they are set to while a case is answered, and a witness: a function
whose calls show that the road was really taken. A name that is gone from its module ends the hunt with an
error, so that paths follow the solvers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any

__all__ = ["PATHS", "Path", "Taken", "forced"]

_SUMS = ("menus", "multiple_choice_knapsack", "freezing")
_ONE = (*_SUMS, "gap_filling")
_ALL = (*_ONE, "matching", "assignment")
_SPARSE_ROWS: dict[str, float] = {
    "apportion.solvers.multiknapsack.option_table:_MANY_CAPACITIES": 0,
    "apportion.solvers.multiknapsack.option_table:_DENSITY": 1.0,
    "apportion.solvers.multiknapsack.linear_dual:_WORTH": 0,
    "apportion.solvers.multiknapsack.linear_dual:_FIRST": 0,
}
"""Menus of any size are searched as those of many capacities, of which an option uses few."""
_NAMED = ("multiple_choice_knapsack", "gap_filling", "matching", "freezing")


@dataclass(frozen=True, slots=True)
class Path:
    """One road to an answer.

    Attributes
    ----------
    name
        What it is called on the command line.
    kinds
        Kinds of cases it makes sense for.
    constants
        ``"module:NAME"`` and the value it is set to.
    options
        Keyword arguments of `apportion.solve` that belong to the path.
    complete
        Whether an answer without any limit must be a proof on this path.
    witness
        ``"module:function"`` whose calls are counted; ``None`` where the options alone decide the road.
    wants
        ``one`` or ``several`` capacities, those of ``places``, ``makespan`` or ``sum``, ``nodes``: what
        instances take this road.
    tolerance
        Relative error up to which a claim of optimality passes: that of a general solver, 1e-9 of our own.
    """

    name: str
    kinds: tuple[str, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True
    witness: str | None = None
    wants: str | None = None
    tolerance: float = 1e-9

    def described(self) -> str:
        """Return the path as text: its kinds, the constants it forces, its options, and its witness."""
        lines = [f"{self.name}: {', '.join(self.kinds)}"]
        lines += [f"    {place} = {value!r}" for place, value in self.constants.items()]
        lines += [f"    {name}={value!r}" for name, value in self.options.items()]
        lines += [f"    taken where {self.witness} is called"] if self.witness else []
        return "\n".join(lines)


def _table(*paths: Path) -> Mapping[str, Path]:
    return MappingProxyType({path.name: path for path in paths})


PATHS = _table(
    Path("plain", (*_ALL, "tenants")),
    # what is said beside the plan
    Path("explained", _NAMED, options={"explain": True}),
    Path("what-if", _NAMED),
    # one capacity
    Path(
        "few-jobs-first",
        _ONE,
        {
            "apportion.solvers.knapsack.one_capacity:_WORTH_A_TRY": 0,
            "apportion.solvers.knapsack.one_capacity:_TRIED_OPTIONS": 4,
            "apportion.solvers.knapsack.one_capacity:_TRIED_CORE": 2.0,
            "apportion.solvers.knapsack.menu_blocks:_SAMPLED": 3,
        },
        witness="apportion.solvers.knapsack.one_capacity:sampled_losses",
        wants="one",
    ),
    Path(
        "sampled-dual",
        _ONE,
        {
            "apportion.solvers.knapsack.dual:_SAMPLE_FROM": 0,
            "apportion.solvers.knapsack.dual:_SAMPLE_OPTIONS": 3,
        },
        witness="apportion.solvers.knapsack.dual:_sampled_bracket",
        wants="one",
    ),
    Path(
        "narrow-core",
        _ONE,
        {"apportion.solvers.knapsack.one_capacity:_CAPS": (1, 2, 1 << 12)},
        witness="apportion.solvers.knapsack.one_capacity:search",
        wants="one",
    ),
    Path(
        "truncated-core",
        _ONE,
        {"apportion.solvers.knapsack.one_capacity:_CAPS": (1, 2, 3)},
        complete=False,
        witness="apportion.solvers.knapsack.one_capacity:search",
        wants="one",
    ),
    Path(
        "core-too-large",
        _ONE,
        {"apportion.solvers.knapsack.one_capacity:_MOST_ENTRIES": 1},
        complete=False,
        witness="apportion.solvers.knapsack.one_capacity:closes",
        wants="one",
    ),
    Path(
        "sparse-states",
        _ONE,
        {
            "apportion.solvers.knapsack.core_dp:_DENSE_SPREAD": 0,
            "apportion.solvers.knapsack.core_dp:_WINDOW": 1,
        },
        witness="apportion.solvers.knapsack.one_capacity:search",
        wants="one",
    ),
    Path(
        "dense-states",
        _ONE,
        {"apportion.solvers.knapsack.core_dp:_DENSE_SPREAD": 1 << 16},
        witness="apportion.solvers.knapsack.one_capacity:search",
        wants="one",
    ),
    Path(
        "short-history",
        _ONE,
        {"apportion.solvers.knapsack.core_dp:_HISTORY_BYTES": 64},
        complete=False,
        witness="apportion.solvers.knapsack.one_capacity:search",
        wants="one",
    ),
    Path(
        "small-chunks",
        _ONE,
        {
            "apportion.solvers.knapsack.menu_blocks:_CHUNK": 3,
            "apportion.solvers.knapsack.one_capacity:_JOBS_AT_A_TIME": 1,
        },
        wants="one",
    ),
    # several capacities
    Path(
        "no-exact-search",
        _SUMS,
        {
            "apportion.solvers.multiknapsack.proving:_MOST_OPTIONS": 0,
            "apportion.solvers.multiknapsack.anytime:_MIP_OPTIONS": 0,
        },
        complete=False,
        witness="apportion.solvers.multiknapsack.beam:search",
        wants="several",
    ),
    Path(
        "core-by-highs",
        _SUMS,
        {
            "apportion.solvers.multiknapsack.proving:_MOST_OPTIONS": 0,
            "apportion.solvers.multiknapsack.anytime:_MIP_AFTER": 0.0,
        },
        complete=False,
        witness="apportion.solvers.multiknapsack.anytime:solve_core",
        wants="several",
    ),
    Path(
        "counts",
        _SUMS,
        {
            "apportion.solvers.multiknapsack.proving:_MOST_OPTIONS": 0,
            "apportion.solvers.multiknapsack.nested_tables:_MOST_JOBS": 0,
            "apportion.solvers.multiknapsack.anytime:_AFTER": 0.0,
            "apportion.solvers.multiknapsack.relaxation_tree:_JOBS_PER_VALUE": 0.01,
            "apportion.solvers.multiknapsack.relaxation_tree:_LEAF": 4,
        },
        complete=False,
        witness="apportion.solvers.multiknapsack.relaxation_tree:bound_at",
        wants="several",
    ),
    Path(
        "sparse",
        _SUMS,
        {**_SPARSE_ROWS, "apportion.solvers.multiknapsack.option_table:_CELLS": 0},
        complete=False,
        witness="apportion.solvers.multiknapsack.option_table:_misfits_of_sparse",
        wants="several",
    ),
    Path(
        "short-beam",
        _SUMS,
        {
            "apportion.solvers.multiknapsack.proving:_MOST_OPTIONS": 0,
            "apportion.solvers.multiknapsack.anytime:_MIP_OPTIONS": 0,
            "apportion.solvers.multiknapsack.beam:_FIRST_WIDTH": 1,
            "apportion.solvers.multiknapsack.beam:_PART": 1,
            "apportion.solvers.multiknapsack.beam:_SHORTEST": 1,
            "apportion.solvers.multiknapsack.beam:_TAILS": 3,
        },
        complete=False,
        witness="apportion.solvers.multiknapsack.beam:search",
        wants="several",
    ),
    Path(
        "no-dominance",
        _SUMS,
        {
            "apportion.solvers.multiknapsack.anytime:_LARGEST_PAIRWISE": 0,
            "apportion.solvers.multiknapsack.proving:_MOST_OPTIONS": 0,
        },
        complete=False,
        witness="apportion.solvers.multiknapsack.anytime:without_dominated",
        wants="several",
    ),
    Path(
        "growing-cores",
        _SUMS,
        _SPARSE_ROWS,
        complete=False,
        witness="apportion.solvers.multiknapsack.expanding_core:solve_core",
        wants="several",
    ),
    Path(
        "short-of-time",
        _SUMS,
        {
            **_SPARSE_ROWS,
            "apportion.solvers.multiknapsack.several_capacities:_SHORT_PER_USE": 1e9,
            "apportion.solvers.multiknapsack.several_capacities:_ALIKE_OPEN": 1e9,
            "apportion.solvers.multiknapsack.local_search:_READ": 0,
            "apportion.solvers.multiknapsack.local_search:_LONG_LIST": 0,
            "apportion.solvers.multiknapsack.local_search:_FAR": -1.0,
            "apportion.solvers.multiknapsack.ruin_recreate:_SAMPLED": 2,
        },
        complete=False,
        witness="apportion.solvers.multiknapsack.local_search:_by_loss",
        wants="several",
    ),
    Path(
        "narrowed",
        _SUMS,
        {
            **_SPARSE_ROWS,
            "apportion.solvers.multiknapsack.linear_dual:_MANY_JOBS": 0,
            "apportion.solvers.multiknapsack.linear_dual:_SAMPLED": 2,
        },
        complete=False,
        witness="apportion.solvers.multiknapsack.linear_dual:narrowed",
        wants="several",
    ),
    Path(
        "sets-of-options",
        ("menus", "multiple_choice_knapsack"),
        {
            **_SPARSE_ROWS,
            "apportion.solvers.multiknapsack.alike_jobs:_MOST_ALIKE": 1.0,
            "apportion.solvers.multiknapsack.place_patterns:_SAMPLED": 1,
            "apportion.solvers.multiknapsack.place_patterns:_STRIDES": (2, 1),
            "apportion.solvers.multiknapsack.sparse_menus:_FEW_SETS": -1.0,
        },
        complete=False,
        witness="apportion.solvers.multiknapsack.place_patterns:_summed",
        wants="places",
    ),
    Path(
        "alike-jobs",
        _SUMS,
        {**_SPARSE_ROWS, "apportion.solvers.multiknapsack.alike_jobs:_MOST_ALIKE": 1.0},
        complete=False,
        witness="apportion.solvers.multiknapsack.linear_dual:_relaxed",
        wants="several",
    ),
    Path(
        "large-dual",
        _SUMS,
        {"apportion.solvers.multiknapsack.dual:_LARGE": 0},
        witness="apportion.solvers.multiknapsack.several_capacities:solve_large",
        wants="several",
    ),
    # matching
    Path(
        "pools-in-sum",
        ("matching",),
        {"apportion.formulations.matching.by_machine:_LARGEST_EXPANSION": 0},
        complete=False,
        wants="sum",
    ),
    Path(
        "flow",
        ("matching", "assignment"),
        {
            "apportion.solvers.assignment.linear_assignment:_WORTH_A_FLOW": 0,
            "apportion.solvers.assignment.linear_assignment:_ALIKE": 0,
        },
        witness="apportion.solvers.assignment.linear_assignment:flow_slots",
        wants="sum",
    ),
    Path(
        "no-local-search",
        ("matching", "assignment"),
        {
            "apportion.solvers.generalised_assignment.least_cost:_SEARCHABLE": -1,
            "apportion.solvers.generalised_assignment.least_cost:_QUICK": -1,
            "apportion.solvers.generalised_assignment.by_tree:_PAIRS": -1,
        },
        witness="apportion.solvers.generalised_assignment.least_cost:branch_and_bound",
        wants="sum",
    ),
    Path(
        "no-feasibility-search",
        ("matching", "assignment"),
        {"apportion.solvers.generalised_assignment.least_cost:_LARGEST": -1},
        wants="sum",
    ),
    Path(
        "near-entries",
        ("matching", "assignment"),
        {
            "apportion.solvers.assignment.relaxation:_MANY": -1,
            "apportion.solvers.assignment.relaxation:_NEAR": 1,
            "apportion.solvers.assignment.relaxation:_MORE": 1,
            "apportion.solvers.generalised_assignment.least_cost:_MANY": -1,
        },
        witness="apportion.solvers.assignment.relaxation:good_prices",
        wants="sum",
    ),
    Path(
        "no-compiled-tree",
        ("matching", "assignment"),
        {
            "apportion.solvers.generalised_assignment.by_tree:_PAIRS": -1,
            "apportion.solvers.makespan.by_tree:_PAIRS": -1,
        },
        options={"time_limit": 1.0},
        complete=False,
    ),
    # freezing
    Path("all-depths", ("freezing",), options={"formulation": "all_depths"}),
    Path(
        "nodes-by-cp-sat",
        ("freezing",),
        {"apportion.solvers.packing.few_moves:_FEW": -1},
        witness="apportion.solvers.packing.few_moves:fewest_moves_by_cp_sat",
        wants="nodes",
    ),
    Path(
        "no-weights-lp", ("freezing",), {"apportion.solvers.packing.few_moves:_LARGEST_LP": 0}, wants="nodes"
    ),
    # general solvers, here in this process
    Path("by-node", ("gap_filling",), options={"formulation": "by_node"}, complete=False, tolerance=2e-6),
    Path("highs", _ALL, options={"backend": "highs"}, complete=False, tolerance=2e-6),
    Path("cp-sat", _ALL, options={"backend": "cp-sat"}, complete=False, tolerance=2e-6),
    Path("scip", _ALL, options={"backend": "scip"}, complete=False, tolerance=2e-6),
)
"""Every path by name."""


@dataclass(slots=True)
class Taken:
    """Whether the witness of a path was called."""

    reached: bool = False


@contextmanager
def forced(path: Path) -> Iterator[Taken]:
    """Set a path's constants, watch its witness, and undo both.

    Raises
    ------
    LookupError
        If a constant or the witness is gone.
    """
    taken = Taken(reached=path.witness is None)
    before: list[tuple[Any, str, Any]] = []
    try:
        for place, value in path.constants.items():
            module, name = _found(path, place)
            before.append((module, name, getattr(module, name)))
            setattr(module, name, value)
        if path.witness is not None:
            module, name = _found(path, path.witness)
            function = getattr(module, name)
            before.append((module, name, function))

            def watched(*given: Any, **named: Any) -> Any:
                taken.reached = True
                return function(*given, **named)

            setattr(module, name, watched)
        yield taken
    finally:
        for module, name, value in reversed(before):
            setattr(module, name, value)


def _found(path: Path, place: str) -> tuple[Any, str]:
    module_name, name = place.split(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError:
        raise LookupError(f"path {path.name!r}: no module {module_name}; edit tests/hunt/paths.py") from None
    if not hasattr(module, name):
        raise LookupError(f"path {path.name!r}: {place} is gone; edit tests/hunt/paths.py")
    return module, name

"""The registry: which cells a run has. Everything it is made of is declared in `sets` and `solvers`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.suite.cell import Cell, InstanceSpec, SolverSpec
from benchmarks.suite.published import PUBLISHED, published
from benchmarks.suite.sets import FAMILIES, GENERATED
from benchmarks.suite.solvers import OURS, SOLVERS

__all__ = ["Selection", "UnknownPattern", "cells_of", "missing_data"]

_FULL_LIMIT_S, _QUICK_LIMIT_S = 60.0, 2.0
_GROWTH = (OURS, "apportion:highs")


class UnknownPattern(Exception):
    """A pattern matches nothing in the registry; the message says what there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What of the registry is run.

    Attributes
    ----------
    quick
        The quick suite instead of the full one.
    only
        Patterns as of a shell. One names a family, a set, an instance (``set/name``) or a solver; a cell is
        taken if one of the patterns for instances matches (or there is none), and one for solvers.
    data
        Folder of published instances, ``None`` for none.
    limit_s, seeds, threads
        Instead of the declared ones; `seeds` is how many instances per point of a grid.
    memory_mib
        Limit per cell.
    """

    quick: bool = False
    only: tuple[str, ...] = ()
    data: Path | None = None
    limit_s: float | None = None
    seeds: int | None = None
    threads: int = 1
    memory_mib: int | None = None


def cells_of(selection: Selection) -> list[Cell]:
    """Return the cells of a selection, in a fixed order, each once.

    Raises
    ------
    UnknownPattern
        If a pattern of `only` matches no instance and no solver.
    """
    declared = list(_declared(selection))
    for_instances, for_solvers = _sorted_patterns(selection.only, declared)
    cells = []
    for spec, limit_s, all_solvers in declared:
        if for_instances and not any(_matches(spec, pattern) for pattern in for_instances):
            continue
        for solver in SOLVERS.values():
            if spec.family not in solver.families or _too_large(solver, spec):
                continue
            if for_solvers and not any(fnmatchcase(solver.name, pattern) for pattern in for_solvers):
                continue
            if not all_solvers and solver.name not in _GROWTH:
                continue
            cells.append(
                Cell(
                    instance=spec,
                    solver=solver,
                    limit_s=limit_s if selection.limit_s is None else selection.limit_s,
                    threads=selection.threads,
                    memory_mib=selection.memory_mib,
                    data=None if selection.data is None else str(selection.data),
                )
            )
    return cells


def missing_data(selection: Selection) -> list[str]:
    """Return the published sets that are not run, for want of a folder or of their files."""
    if selection.data is None:
        return list(PUBLISHED)
    found = {spec.set_name for spec in published(selection.data, quick=True)}
    return [name for name in PUBLISHED if name not in found]


def _declared(selection: Selection) -> Iterable[tuple[InstanceSpec, float, bool]]:
    """Yield every instance with its limit, and whether all solvers run on it."""
    for group in GENERATED:
        if not selection.quick:
            for spec in group.instances(None, selection.seeds):
                yield spec, group.limit_s, True
            continue
        everyone = {spec.name for spec in group.instances(group.quick, selection.seeds or 1)}
        for spec in group.instances(max(group.quick, group.quick_ours), selection.seeds or 1):
            yield spec, group.quick_limit_s, spec.name in everyone
    if selection.data is not None:
        for spec in published(selection.data, selection.quick):
            yield spec, _QUICK_LIMIT_S if selection.quick else _FULL_LIMIT_S, not selection.quick


def _sorted_patterns(
    only: Sequence[str], declared: Sequence[tuple[InstanceSpec, float, bool]]
) -> tuple[list[str], list[str]]:
    for_instances, for_solvers = [], []
    for pattern in only:
        fits = any(fnmatchcase(name, pattern) for name in SOLVERS)
        if fits:
            for_solvers.append(pattern)
        if any(_matches(spec, pattern) for spec, _, _ in declared):
            for_instances.append(pattern)
        elif not fits:
            sets = ", ".join(dict.fromkeys(spec.set_name for spec, _, _ in declared))
            raise UnknownPattern(
                f"{pattern!r} matches no family ({', '.join(FAMILIES)}), no set ({sets}), no instance and no "
                f"solver ({', '.join(SOLVERS)})"
            )
    return for_instances, for_solvers


def _matches(spec: InstanceSpec, pattern: str) -> bool:
    names = (spec.family, spec.set_name, f"{spec.set_name}/{spec.name}")
    return any(fnmatchcase(name, pattern) for name in names)


def _too_large(solver: SolverSpec, spec: InstanceSpec) -> bool:
    limit = solver.largest.get(spec.family)
    return limit is not None and spec.size is not None and spec.size > limit

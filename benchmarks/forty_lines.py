"""The exact search beside a plain depth-first search in forty lines of C, HiGHS and CP-SAT, in one run.

    python -m benchmarks.forty_lines [--data FOLDER] [--limit S] [--seeds N] [--repeats N] [--no-general]

Rows are the suite's ``half-menus`` (optional menus of correlated values, capacities at half the mean use)
and, with a data folder, OR-Library's 5.100-00 to -03. All figures are processor time, for ours and the forty
lines the least of some calls: the forty lines alone, whose prices and arrays are given to them
(`benchmarks.peers.forty_lines`); of our own engine the slices of the tree alone, the engine from the menus to
the proof, and the whole call of `apportion.solve`; the general solvers once, within as much processor time.
The table has the median of every size. The exit code is 1 if two proven optima differ.
"""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click

from apportion.cli.running import in_one_line
from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.multiknapsack.several_capacities import solve as engine
from apportion.solvers.search.depth_first import DepthFirst
from benchmarks.engine_ablation import Part, taken_away
from benchmarks.peers.forty_lines import NoCompiler, Prepared, compiled
from benchmarks.peers.task import Task
from benchmarks.peers.within_cpu import GENERAL, within_cpu
from benchmarks.solved import solved
from benchmarks.suite.cell import InstanceSpec
from benchmarks.suite.machine import load
from benchmarks.suite.making import make
from benchmarks.suite.published import published
from benchmarks.suite.sets import GENERATED
from benchmarks.timing import best_of, provenance

__all__ = ["Measured", "Row", "disagreeing", "main", "measure", "table"]

_LIBRARY = ("5.100-00", "5.100-01", "5.100-02", "5.100-03")
_ONCE_ABOVE_S = 0.5
"""Calls that take longer are not repeated."""
_LOOKS_BELOW_S = 0.02
"""Our own limits are the processor's too, but for shorter calls: there its clock would be a part of them."""
_by_processor = partial(taken_away, Part("", {"apportion.solvers.clock:perf_counter": time.process_time}))


@dataclass(frozen=True, slots=True)
class Measured:
    """One way to answer: processor seconds, value, whether proven, and nodes where they are counted."""

    cpu_s: float
    value: float | None
    proven: bool
    nodes: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One instance; columns by their names."""

    size: str
    name: str
    columns: dict[str, Measured] = field(default_factory=dict)


def specs(data: Path | None, seeds: int) -> Iterator[tuple[str, InstanceSpec]]:
    """Yield the size and the recipe of every row."""
    for group in GENERATED:
        if group.name == "half-menus":
            for spec in group.instances(None, seeds):
                yield spec.name.rsplit("-", 1)[0].replace("-", " x "), spec
    if data is not None:
        for spec in published(data, quick=False):
            if spec.set_name == "orlib-knapsack" and spec.name in _LIBRARY:
                yield spec.name, spec


def measure(
    model: MultipleChoiceKnapsack, library: ctypes.CDLL | None, limit_s: float, repeats: int
) -> dict[str, Measured]:
    """Return the columns of the forty lines, where they are compiled, and of our own engine."""
    columns: dict[str, Measured] = {}
    if library is not None:
        ready = Prepared(model)
        found = ready.search(library, limit_s)
        again = repeats - 1 if found.cpu_s < _ONCE_ABOVE_S else 0
        least = min([found.cpu_s, *(ready.search(library, limit_s).cpu_s for _ in range(again))])
        if found.value is not None and (
            not model.fits(found.rows) or model.objective(found.rows) != found.value
        ):
            raise AssertionError("the forty lines found a choice that is none")
        columns["forty lines"] = Measured(least, found.value, found.proven, found.nodes)
    options = SolveOptions(time_limit=limit_s)
    with _by_processor():
        first_s, _ = best_of(1, lambda: engine(model, options))
    with _by_processor() if first_s > _LOOKS_BELOW_S else nullcontext():
        took, own = _least(repeats, lambda: engine(model, options))
        whole_s, whole = _least(repeats, lambda: solved(model, time_limit=limit_s))
    with _by_processor():
        trees = [_tree(model, options) for _ in range(repeats if took < _ONCE_ABOVE_S else 1)]
    proven = own.termination is Termination.OPTIMAL
    columns["tree"] = Measured(min(trees)[0], own.objective, proven, min(trees)[1])
    columns["engine"] = Measured(took, own.objective, proven)
    proven = whole.termination is Termination.OPTIMAL
    columns["solve"] = Measured(whole_s, whole.objective, proven)
    return columns


def _least(repeats: int, call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least processor seconds of some calls, of one where it is long, and what the first found."""
    took, found = best_of(1, call)
    more = repeats - 1 if took < _ONCE_ABOVE_S else 0
    return min([took, *(best_of(1, call)[0] for _ in range(more))]), found


def _tree(model: MultipleChoiceKnapsack, options: SolveOptions) -> tuple[float, int]:
    """Return the processor seconds of the slices of the tree in one call of the engine, and their nodes."""
    spent, nodes, run = 0.0, 0, DepthFirst.run

    def timed(tree: DepthFirst, most: int) -> Any:
        nonlocal spent, nodes
        before, began = tree.nodes, time.process_time()
        try:
            return run(tree, most)
        finally:
            spent += time.process_time() - began
            nodes += tree.nodes - before

    with taken_away(Part("", {"apportion.solvers.search.depth_first:DepthFirst.run": timed})):
        engine(model, options)
    return spent, nodes


def disagreeing(row: Row) -> str | None:
    """Say which proven optima differ, or which plan is better than one; ``None``: all agree."""
    proven = {name: one.value for name, one in row.columns.items() if one.proven}
    values = [one.value for one in row.columns.values() if one.value is not None]
    if len({None if value is None else round(value, 6) for value in proven.values()}) > 1 or (
        proven and values and max(values) > max(value or 0.0 for value in proven.values()) + 1e-6
    ):
        told = ", ".join(
            f"{name} {one.value}{' proven' if one.proven else ''}" for name, one in row.columns.items()
        )
        return f"{row.name}: {told}"
    return None


def table(rows: list[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table: the medians of every size."""
    names = list(dict.fromkeys(name for row in rows for name in row.columns))
    yield f"| instance | {' | '.join(f'{name}, ms' for name in names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for size in dict.fromkeys(row.size for row in rows):
        own = [row.columns for row in rows if row.size == size]
        yield f"| {size} | {' | '.join(_told([one[name] for one in own if name in one]) for name in names)} |"


def _told(found: list[Measured]) -> str:
    """Return the median of some calls, in milliseconds, with nodes and with what is not proven."""
    if not found:
        return "-"
    shown = float(f"{1e3 * median(one.cpu_s for one in found):.3g}")
    text = f"{shown:,.10g}"
    nodes = [one.nodes for one in found if one.nodes is not None]
    text += f" ({median(nodes):,.0f})" if nodes else ""
    proven = sum(one.proven for one in found)
    if proven == len(found):
        return text
    return f"{text}, {proven} of {len(found)} proven" if len(found) > 1 else f"no proof in {text}"


@click.command(
    help="The exact search beside forty lines of C.", context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--limit", "limit_s", type=click.FloatRange(min=0.01), default=10.0, show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--repeats", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--general/--no-general", default=True, help="With HiGHS and CP-SAT, or without.")
@click.option("--only", default="*", metavar="PATTERN", help="Instances by name.")
def main(data: Path | None, limit_s: float, seeds: int, repeats: int, general: bool, only: str) -> None:
    """Print a line for every instance, then the table."""
    click.echo(f"{provenance('scipy', 'highspy', 'ortools')}; {limit_s:g} CPU s at most, load {load()}")
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory() as folder:
        library, why = None, ""
        try:
            library = compiled(Path(folder))
        except NoCompiler as error:
            why = str(error)
        for size, spec in specs(data, seeds):
            if not fnmatchcase(spec.name, only):
                continue
            model = Task(make(spec.maker, dict(spec.arguments), None if data is None else str(data))).model
            assert isinstance(model, MultipleChoiceKnapsack)
            row = Row(size, spec.name, measure(model, library, limit_s, repeats))
            if general:
                for name in GENERAL:
                    ended = within_cpu(name, spec, None if data is None else str(data), limit_s)
                    row.columns[name] = Measured(ended.cpu_s, ended.value, ended.proven)
            rows.append(row)
            click.echo(
                f"{row.name:<14}" + ", ".join(f"{n}: {_told([one])}" for n, one in row.columns.items())
            )
            if (told := disagreeing(row)) is not None:
                wrong += 1
                click.echo(f"DIFFERS: {told}")
    for line in table(rows):
        click.echo(line)
    if library is None:
        click.echo(f"the forty lines are left out of {len(rows)} of {len(rows)} rows: {why}")
    missing = len(_LIBRARY) - sum(row.name in _LIBRARY for row in rows)
    if missing:
        why = "name their folder with --data" if only == "*" else "not chosen"
        click.echo(f"{missing} rows of OR-Library are left out: {why}")
    click.echo(f"{len(rows)} rows, {wrong} with proven optima that differ; load {load()}")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    program = "python -m benchmarks.forty_lines"
    with in_one_line(program):
        main(prog_name=program, standalone_mode=False)

"""What each part of the engines around the exact search is worth: whole calls with one of them taken away.

    python -m benchmarks.engine_ablation [--only PATTERN] [--seconds S] [--instances N] [--constants MODULE]

Each engine has a few instances of its own, proven in milliseconds or cut off after so many CPU seconds
(gangs: after one deterministic second of each turn of CP-SAT). For every part: how many were proven, nodes,
CPU seconds, and the mean distance from the best plan and from the best bound that any row found.

With a module its numeric constants are doubled, halved, and multiplied and divided by eight instead, one by
one: what is told is where that changes more than three runs of the same differ by.
"""

from __future__ import annotations

import argparse
import ast
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import apportion
from apportion.core.outcome import Termination
from apportion.instances.matching.generator import generate_cluster, generate_unrelated
from benchmarks.suite.making import make
from benchmarks.timing import provenance


@dataclass(frozen=True, slots=True)
class Part:
    """A part that can be taken away.

    Attributes
    ----------
    name
        What it is.
    without
        What stands in for it, by ``module:name`` or ``module:class.name``.
    """

    name: str
    without: Mapping[str, Any]


def _no_pass(*_: Any) -> SimpleNamespace:
    """Stand in for a beam pass: it finds nothing."""
    return SimpleNamespace(expanded=0, choice=None, complete=False)


def _one_temperature(menus: Any, start: Any, late: Any = lambda: False) -> Any:
    """Stand in for the search for the temperature at which choices freeze."""
    from apportion.solvers.multiknapsack.entropic_dual import entropic_dual

    return entropic_dual(menus, start, 1e-3 * float(np.ptp(menus.values)), late)


def _never(*_: Any) -> bool:
    return False


def _nothing(*_: Any) -> None:
    return None


def _not_ended(*_: Any) -> Termination:
    return Termination.SOLUTION_LIMIT


NOTHING = Part("nothing", {})
_ROOM = "apportion.solvers.multiknapsack"
_ONE = "apportion.solvers.knapsack.one_capacity"


def _one() -> Iterator[Any]:
    """Yield menus of one capacity: all laws, few jobs, many, and long menus; events of gap filling."""
    for seed in range(2):
        for law in ("uncorrelated", "weakly_correlated", "strongly_correlated", "subset_sum"):
            for jobs in (300, 10_000):
                yield make("menus", {"seed": seed, "law": law, "jobs": jobs, "arrays": True}, None)
            yield make("menus", {"seed": seed, "law": law, "jobs": 100, "options": 100, "arrays": True}, None)
        yield make("uniform_menus", {"seed": seed, "jobs": 100_000}, None)
        yield make("event", {"seed": seed, "jobs": 40, "nodes": 300}, None)


def _no_step(*_: Any) -> tuple[float, float]:
    """Stand in for what any better choice is better by."""
    return 0.0, 0.0


def _all_kept(group: Any, gain: Any, deviation: Any, keep: Any) -> Any:
    """Stand in for what drops the dominated options of a core."""
    return keep


def _several() -> Iterator[Any]:
    """Yield menus with several capacities: two kinds that the exact search proves, two that it does not."""
    for seed in range(2):
        yield make("half_menus", {"seed": seed, "jobs": 30, "options": 4, "capacities": 5}, None)
        yield make("knapsack", {"seed": seed, "items": 100, "capacities": 5}, None)
        yield make("half_menus", {"seed": seed, "jobs": 60, "options": 10, "capacities": 10}, None)
        yield make("sia", {"seed": seed, "scale": 1}, None)


def _tied() -> Iterator[Any]:
    """Yield rounds of jobs whose values are a handful of numbers, and classes of jobs alike."""
    for seed in range(3):
        for goals in (1, 2):
            yield make("ready_jobs", {"seed": seed, "jobs": 1000 * 5 ** (seed % 2), "goals": goals}, None)
        yield make("alike_jobs", {"seed": seed, "classes": 12, "jobs": 80}, None)


def _sparse() -> Iterator[Any]:
    """Yield menus of many capacities of which an option uses few: racks, periods, nodes counted by racks."""
    for seed in range(2):
        yield make("racks", {"seed": seed, "jobs": 60, "racks": 20}, None)
        yield make("racks", {"seed": seed, "jobs": 200, "racks": 60}, None)
        yield make("racks", {"seed": seed, "jobs": 40, "racks": 6}, None)
        yield make("periods", {"seed": seed, "jobs": 40, "periods": 24}, None)
        yield make("periods", {"seed": seed, "jobs": 120, "periods": 96}, None)
        yield make("tasks", {"seed": seed, "shapes": 60, "each": 2, "workers": 20}, None)
        yield make("tasks", {"seed": seed, "shapes": 60, "each": 16, "workers": 100}, None)
        yield make("blocks", {"seed": seed, "jobs": 120, "racks": 6, "fragments": bool(seed)}, None)


def _unmet() -> Iterator[Any]:
    """Yield menus whose capacities no sum of uses meets: even uses, machines of 8 GPUs, uses nearly alike."""
    from apportion.models import MultipleChoiceKnapsack

    def menus(values: Any, uses: Any, options: int, capacities: Any) -> Any:
        offsets = np.arange(0, len(values) + 1, options)
        return MultipleChoiceKnapsack.from_arrays(values, uses, offsets, capacities, required=False)

    for seed in range(2):
        rng = np.random.default_rng(seed)
        even = 2 * rng.integers(1, 60, (120, 3))
        odd = even.sum(axis=0) // 6 | 1
        yield menus(even.sum(axis=1).astype(float), even, 3, odd)
        gpus, memory = 8 * rng.integers(1, 5, 160), rng.integers(10, 200, 160)
        values = np.round(20 * gpus**0.8 + memory / 2 + rng.integers(0, 20, 160))
        yield menus(values, np.stack((gpus, memory), axis=1), 4, [325, 4000])
        alike = rng.integers(98, 103, (60, 3))
        yield menus(np.round(alike.mean(axis=1) + rng.integers(0, 5, 60)), alike, 1, [1050] * 3)


def _placements() -> Iterator[Any]:
    """Yield menus on many nodes, alike or partly in use, of jobs of which some run."""
    for seed in range(2):
        yield make("placement_menus", {"seed": seed, "jobs": 100, "nodes": 96}, None)
        yield make("placement_menus", {"seed": seed, "jobs": 80, "nodes": 96, "fragmented": True}, None)
        yield make("placement_menus", {"seed": seed, "jobs": 120, "nodes": 96, "running": 0.6}, None)


def _as_found(packing: Any, nodes: Any, seconds: Any) -> Any:
    """Stand in for what lets more pods stay where they are."""
    return list(nodes)


def _as_it_is(plan: Any, *_: Any) -> Any:
    """Stand in for what places some choosers of a plan anew."""
    return plan


def _costs() -> Iterator[Any]:
    """Yield generalised assignments of three types."""
    for law, machines, jobs in (("c", 10, 100), ("d", 5, 50), ("d", 20, 200), ("e", 10, 60)):
        yield make(
            "generalised_assignment", {"seed": 0, "jobs": jobs, "machines": machines, "law": law}, None
        )


def _single() -> Iterator[Any]:
    """Yield makespans on single machines, the last of more than 2,500 entries and long times."""
    yield generate_unrelated(0, 50, 10)
    yield generate_unrelated(0, 100, 10)
    yield generate_unrelated(1, 300, 20, high=1000)


def _gangs() -> Iterator[Any]:
    """Yield 24 gang jobs on two and on three pools."""
    for seed in range(2):
        yield generate_cluster(seed, 24, {"a": 8, "b": 8}, wide=0.6)
        yield generate_cluster(seed, 24, {"k80": 8, "p100": 8, "v100": 4}, wide=0.3 + 0.3 * seed)


ENGINES: Mapping[str, tuple[Callable[[], Iterator[Any]], tuple[Part, ...]]] = {
    "one capacity": (
        _one,
        (
            NOTHING,
            Part("a few jobs first", {f"{_ONE}:PhasedSolve._try_a_few_jobs": _nothing}),
            Part("the grid of values", {f"{_ONE}:improvement_step": _no_step}),
            Part(
                "dominated options left out", {"apportion.solvers.knapsack.reduction:_undominated": _all_kept}
            ),
        ),
    ),
    "several capacities": (
        _several,
        (
            NOTHING,
            Part("the exact search", {"apportion.solvers.multiknapsack.anytime:provable": _never}),
            Part("beams", {"apportion.solvers.multiknapsack.beam:search": _no_pass}),
            Part(
                "the last jobs matched (meet)", {"apportion.solvers.multiknapsack.beam:list_tails": _nothing}
            ),
            Part(
                "the freezing temperature (tilt)",
                {"apportion.solvers.multiknapsack.beam:freezing_temperature": _one_temperature},
            ),
            Part(
                "HiGHS on cores (core_mip)",
                {"apportion.solvers.multiknapsack.anytime:Search._mip_is_due": _never},
            ),
            Part("tables", {f"{_ROOM}.anytime:nested_tables": _nothing}),
            Part("a branch on counts", {f"{_ROOM}.anytime:count_tree": _nothing}),
        ),
    ),
    "tied values": (
        _tied,
        (
            NOTHING,
            Part("the exact search", {f"{_ROOM}.anytime:provable": _never}),
            Part("beams", {f"{_ROOM}.beam:search": _no_pass}),
            Part("HiGHS on cores", {f"{_ROOM}.anytime:Search._mip_is_due": _never}),
            Part("tables", {f"{_ROOM}.anytime:nested_tables": _nothing}),
            Part("a branch on counts", {f"{_ROOM}.anytime:count_tree": _nothing}),
        ),
    ),
    "many sparse capacities": (
        _sparse,
        (
            NOTHING,
            Part("rows that follow", {f"{_ROOM}.several_capacities:filled_by_few": _never}),
            Part("local search", {f"{_ROOM}.sparse_menus:LocalSearch.run": _nothing}),
            Part("places filled anew", {f"{_ROOM}.ruin_recreate:RuinRecreate._recreated": _nothing}),
            Part("sets of options for places", {f"{_ROOM}.place_patterns:PlacePatterns.run": _nothing}),
            Part("growing cores", {f"{_ROOM}.sparse_menus:SparseSearch._cores": _nothing}),
            Part("the exact search on cores", {f"{_ROOM}.sparse_menus:SparseSearch._by_tree": _nothing}),
            Part("relaxations by HiGHS", {f"{_ROOM}.dual:relaxed": _nothing}),
        ),
    ),
    "capacities that no sum meets": (
        _unmet,
        (
            NOTHING,
            Part("the exact search", {"apportion.solvers.multiknapsack.anytime:provable": _never}),
            Part(
                "HiGHS on cores (core_mip)",
                {"apportion.solvers.multiknapsack.anytime:Search._mip_is_due": _never},
            ),
        ),
    ),
    "placements": (
        _placements,
        (
            NOTHING,
            Part("patterns", {"apportion.solvers.packing.patterns:relaxed": _nothing}),
            Part("choosers placed anew", {"apportion.solvers.packing.patterns:_improved": _as_it_is}),
            Part("other nodes to stay", {"apportion.solvers.packing.patterns:most_staying": _as_found}),
        ),
    ),
    "generalised assignment": (
        _costs,
        (
            NOTHING,
            Part(
                "trees over few machines",
                {"apportion.solvers.generalised_assignment.by_tree:TreeSearch._improve": _nothing},
            ),
        ),
    ),
    "single machines": (
        _single,
        (
            NOTHING,
            Part(
                "descent before the tree",
                {"apportion.solvers.makespan.least_makespan:Descent._improve": _nothing},
            ),
            Part(
                "trees over few machines",
                {"apportion.solvers.makespan.by_tree:MakespanSearch._improve": _nothing},
            ),
        ),
    ),
    "gangs": (
        _gangs,
        (
            NOTHING,
            Part("local search", {"apportion.solvers.makespan.list_search:ListSearch.run": _nothing}),
            Part(
                "the chain of those alone",
                {
                    "apportion.solvers.makespan.gang_sets:alone": lambda gpus, _: np.zeros(
                        gpus.size, dtype=np.bool_
                    )
                },
            ),
            Part("pools one by one", {"apportion.solvers.makespan.by_pools:_Search._by_sets": _not_ended}),
        ),
    ),
}


@contextmanager
def taken_away(part: Part) -> Iterator[None]:
    """Put the stand-ins of a part in its place, and undo it."""
    before: list[tuple[Any, str, Any]] = []
    try:
        for place, stand_in in part.without.items():
            module, path = place.split(":")
            *owners, name = path.split(".")
            owner: Any = import_module(module)
            for step in owners:
                owner = getattr(owner, step)
            before.append((owner, name, getattr(owner, name)))
            setattr(owner, name, stand_in)
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


def solved(subject: Any, seconds: float) -> Any:
    """Return the solution within so many CPU seconds, or where that is 0 within the work of a call."""
    if seconds > 0:
        return apportion.solve(subject, time_limit=seconds)
    return apportion.solve(subject, deterministic=True)


def measured(engine: str, seconds: float, most: int | None) -> None:
    """Print the table of one engine, over its first instances."""
    instances, parts = ENGINES[engine]
    subjects = list(islice(instances(), most))
    solved(subjects[0], seconds)  # imports
    rows = {}
    for part in parts:
        with taken_away(part):
            began = time.process_time()
            found = [solved(subject, seconds) for subject in subjects]
            rows[part.name] = found, time.process_time() - began
    told = np.array(
        [[(one.objective, one.bound) for one in found] for found, _ in rows.values()], dtype=float
    )
    sign = np.array([1.0 if one.bound >= one.objective else -1.0 for one in rows["nothing"][0]])
    best = np.nanmax(told[:, :, 0] * sign, axis=0) * sign
    tightest = (told[:, :, 1] * sign).min(axis=0) * sign
    print(f"{engine}, without:")
    for place, (name, (found, took)) in enumerate(rows.items()):
        ended = [one for one in found if one.termination is Termination.OPTIMAL]
        proven, by_solver = len(ended), sum(one.evidence == "by_solver" for one in ended)
        plan = 100 * np.nan_to_num(np.abs(told[place, :, 0] / best - 1), nan=1.0).mean()
        bound = 100 * np.abs(told[place, :, 1] / tightest - 1).mean()
        nodes = sum(int(one.outcome.counters.get("nodes", 0)) for one in found)
        print(
            f"  {name:<34} proven {proven} of {len(found)} ({by_solver} by HiGHS)  {nodes:>12,} nodes  "
            f"{took:>7.2f} CPU s  "
            f"plans {plan:.3f} %  bounds {bound:.3f} % off",
            flush=True,
        )


_FACTORS = (2.0, 0.5, 8.0, 0.125)
_CPU, _NEAR = 1.2, 1e-4
"""Ratio of CPU seconds, and relative difference of plans and gaps, that count as the same."""


def constants(module: str) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the numbers that a module sets once."""
    loaded = import_module(module)
    for node in ast.parse(Path(str(loaded.__file__)).read_text()).body:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            for one in target.elts if isinstance(target, ast.Tuple) else (target,):
                value = getattr(loaded, one.id) if isinstance(one, ast.Name) else None
                if isinstance(value, int | float) and not isinstance(value, bool) and value:
                    yield one.id, value  # type: ignore[union-attr]


def varied(engine: str, module: str, seconds: float, most: int | None) -> None:
    """Print what other values of the constants of a module change in the rows of one engine."""
    subjects = list(islice(ENGINES[engine][0](), most))

    def run() -> tuple[float, list[tuple[float, float, float]]]:
        began = time.process_time()
        found = [solved(subject, seconds) for subject in subjects]
        ends = [one.termination is Termination.OPTIMAL for one in found]
        rows = [
            (-float(end), -abs(one.objective or np.inf), one.gap or 0.0)
            for end, one in zip(ends, found, strict=True)
        ]
        return time.process_time() - began, rows

    run()  # imports
    base = [run() for _ in range(3)]
    slowest, worst = max(took for took, _ in base), np.max([rows for _, rows in base], axis=0)
    for name, value in constants(module):
        told = []
        for factor in _FACTORS:
            try:
                with taken_away(Part("", {f"{module}:{name}": type(value)(value * factor)})):
                    took, rows = run()
            except ValueError as error:  # a least number above the greatest, for instance
                told.append(f"x {factor:g}: {error}")
                continue
            behind = np.array(rows) - worst > _NEAR * np.maximum(1.0, np.abs(worst))
            if behind.any() or took > _CPU * slowest:
                told.append(f"x {factor:g}: {int(behind.any(axis=1).sum())} rows, {took / slowest:.2f} CPU")
        print(f"  {name} = {value:g}: {'; '.join(told) or 'nothing'}", flush=True)


def main() -> None:
    """Print a table for each engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*", metavar="PATTERN")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--instances", type=int, metavar="N", help="the first N of every engine")
    parser.add_argument("--constants", metavar="MODULE", help="its numbers instead of parts")
    given = parser.parse_args()
    print(provenance("highspy", "ortools"), f"{given.seconds} CPU s each")
    by_processor = Part("", {"apportion.solvers.clock:perf_counter": time.process_time})
    for engine in ENGINES:
        if fnmatchcase(engine, given.only):
            timed = engine != "gangs"
            with taken_away(by_processor if timed else NOTHING):
                limits = given.seconds if timed else 0.0, given.instances
                if given.constants is None:
                    measured(engine, *limits)
                else:
                    varied(engine, given.constants, *limits)


if __name__ == "__main__":
    main()

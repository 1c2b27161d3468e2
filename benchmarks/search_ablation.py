"""What each ingredient of the exact search is worth: nodes and CPU seconds with one of them taken away.

    python -m benchmarks.search_ablation [--seeds N] [--nodes MOST] [--assignment SECONDS]

Instances are those of the suite's sets ``half-menus`` (the two largest) and ``chu-beasley`` (100 items),
with 5 and with 10 capacities. The search begins at the incumbent of repair, without a beam pass. Sums stand
for all instances; one that is not proven within the nodes counts with all of them, and as not proven.

With ``--assignment`` generalised assignments of type D (costs that fall as uses rise) are searched instead,
each for so many CPU seconds: how far the plan is above the bound in the end, with and without the trees over
a few machines that look for better plans between the decisions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

from apportion.core.options import SolveOptions
from apportion.core.outcome import relative_gap
from apportion.models import MultipleChoiceKnapsack
from apportion.models.exact_sums import grid
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack import dual, repair
from apportion.solvers.multiknapsack.anytime import without_dominated
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, build
from apportion.solvers.multiknapsack.proving import Proving
from apportion.solvers.search.menu_search import Settings
from benchmarks.anticorrelated_costs import searched_for
from benchmarks.suite.making import make
from benchmarks.timing import provenance

SETTINGS = {
    "all ingredients": Settings(),
    "one vector": Settings(drawn=0, fitted=0, later=0),
    "no drawn vectors": Settings(drawn=0),
    "no fitted vectors": Settings(fitted=0, later=0),
    "no later vectors": Settings(later=0),
    "no order": Settings(ordering=False),
}


def instances(seeds: int) -> Iterator[MultipleChoiceKnapsack]:
    """Yield the instances of the table."""
    for seed in range(seeds):
        yield make("half_menus", {"seed": seed, "jobs": 30, "options": 4, "capacities": 5}, None)
        yield make("half_menus", {"seed": seed, "jobs": 50, "options": 10, "capacities": 3}, None)
        yield make("knapsack", {"seed": seed, "items": 100, "capacities": 5}, None)
        yield make("knapsack", {"seed": seed, "items": 100, "capacities": 10}, None)


def searched(
    model: MultipleChoiceKnapsack,
    settings: Settings,
    most: int,
    *,
    dominance: bool = True,
    first: bool = True,
) -> tuple[int, float, bool]:
    """Return the nodes, the CPU seconds and whether the optimum was proven."""
    clock = Clock(SolveOptions(work_limit=most))
    best = ChoiceIncumbent(model, SolveOptions(), clock)
    menus = build(model)
    assert menus is not None
    if dominance:
        menus = without_dominated(menus)
    weights = dual.solve_dual(menus, gap=1e-8).multipliers
    best.step = grid(model.values)
    if first:
        choice = repair.choice(model, menus.expand(weights, model.num_capacities))
        assert choice is not None
        best.take(choice)
    began = time.process_time()
    proving = Proving(menus, weights, best, clock, 0, settings)
    proven = proving.run(float("inf"))
    return proving.nodes, time.process_time() - began, proven


def assignments(seeds: int, seconds: float) -> None:
    """Print one line for each size, with and without looking for better plans between decisions."""
    for machines, jobs in ((20, 100), (20, 200)):
        for name, improving in (("all ingredients", True), ("decisions alone", False)):
            gaps = [_gap_left(seed, machines, jobs, improving, seconds) for seed in range(seeds)]
            text = ", ".join(f"{100 * gap:.3f} %" for gap in gaps)
            print(f"{machines:>3} x {jobs:<4} {name:<30} above the bound: {text}", flush=True)


def _gap_left(seed: int, machines: int, jobs: int, improving: bool, seconds: float) -> float:
    value, found = searched_for(seconds, "d", machines, jobs, seed, improving=improving)
    assert found.bound is not None
    return relative_gap(value, found.bound)


def main() -> None:
    """Print one line for each set of ingredients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=300_000_000)
    parser.add_argument("--assignment", type=float, metavar="SECONDS")
    given = parser.parse_args()
    if given.assignment is not None:
        print(provenance(), f"{given.assignment} CPU seconds each")
        assignments(given.seeds, given.assignment)
        return
    models = list(instances(given.seeds))
    print(provenance(), f"{len(models)} instances, at most {given.nodes:,} nodes each")
    rows = [(name, settings, {}) for name, settings in SETTINGS.items()]
    rows.append(("no dominance in menus", Settings(), {"dominance": False}))
    rows.append(("no first incumbent", Settings(), {"first": False}))
    for name, settings, without in rows:
        found = [searched(model, settings, given.nodes, **without) for model in models]
        nodes, seconds, proven = (np.array(column) for column in zip(*found, strict=True))
        print(
            f"{name:<24} {int(nodes.sum()):>14,} nodes  {seconds.sum():>8.2f} CPU s  "
            f"largest {seconds.max():>7.2f}  proven {int(proven.sum())} of {len(models)}",
            flush=True,
        )


if __name__ == "__main__":
    main()

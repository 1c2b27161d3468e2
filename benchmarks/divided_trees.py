"""What threads bring where jobs go to machines: all work, and that of the longest thread of every round.

    python -m benchmarks.divided_trees [--threads 1 2 4] [--data FOLDER] [--seeds N]

Generalised assignments of the types D and E, makespans on unrelated machines (with ``--data`` three of the
published files too), whole calls without a limit. Work is counted in cells of tables, of which a slice has
some millions: the work of one thread over the longest of several is how many times sooner the answer would be
there if every thread had a core, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apportion
from apportion.solvers.search.assignment_tree import AssignmentTree
from apportion.solvers.search.depth_first import Status
from apportion.solvers.search.slices import Crew
from benchmarks.suite.making import make
from benchmarks.timing import provenance

SIZES = (("d", 5, 100), ("d", 10, 100), ("d", 5, 200), ("e", 10, 100), ("e", 10, 200))
FILES = ("fr0061", "fr0401", "fr0801")
SCHEDULES = (
    {"jobs": 100, "machines": 10, "correlated": "jobs"},
    {"jobs": 100, "machines": 10, "correlated": "machines"},
    {"jobs": 200, "machines": 10},
    {"jobs": 500, "machines": 20},
)


def instances(seeds: int, data: str | None) -> Iterator[tuple[str, Any]]:
    """Yield names and instances."""
    for law, machines, jobs in SIZES:
        for seed in range(seeds):
            arguments = {"seed": seed, "jobs": jobs, "machines": machines, "law": law}
            yield f"{law} {machines} x {jobs} s{seed}", make("generalised_assignment", arguments, None)
    for name in FILES if data else ():
        yield name, apportion.read(Path(str(data)) / f"or/rcmax/{name}.txt", format="rcmax")
    for arguments in SCHEDULES:
        for seed in range(seeds):
            name = f"{arguments['jobs']} on {arguments['machines']} {arguments.get('correlated', '')} s{seed}"
            yield name, make("unrelated", {**arguments, "seed": seed}, None)


class Counted:
    """The work of all threads, and how much of it was done beside the longest of its round."""

    def __init__(self) -> None:
        self.slices, self.beside = list[int](), 0

    def tree(self, run: Callable[..., Status]) -> Callable[..., Status]:
        """Return `AssignmentTree.run` that keeps the work of every slice."""

        def counted(tree: AssignmentTree, *arguments: int) -> Status:
            before = tree.work
            status = run(tree, *arguments)
            self.slices.append(tree.work - before)
            return status

        return counted

    def crew(self, run: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        """Return `Crew.run` that adds up what was done beside the longest slice."""

        def counted(crew: Crew, calls: Sequence[Callable[[], Any]]) -> list[Any]:
            before = len(self.slices)
            answers = run(crew, calls)
            shared = self.slices[before:]
            self.beside += sum(shared) - max(shared, default=0)
            return answers

        return counted


def main() -> None:
    """Print a line for every instance and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--data")
    given = parser.parse_args()
    print(provenance(), "work in millions of cells")
    for name, instance in instances(given.seeds, given.data):
        for threads in given.threads:
            count, began = Counted(), time.process_time()
            with (
                patch.object(AssignmentTree, "run", count.tree(AssignmentTree.run)),
                patch.object(Crew, "run", count.crew(Crew.run)),
            ):
                solution = apportion.solve(instance, time_limit=None, threads=threads)
            work, nodes = sum(count.slices), int(solution.outcome.counters["nodes"])
            print(
                f"{name:<24} {threads} thread(s) {solution.termination:<8} {solution.objective:>8.0f} "
                f"{nodes:>7} nodes {time.process_time() - began:6.2f} CPU s "
                f"work {work / 1e6:7.0f} longest {(work - count.beside) / 1e6:7.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""Generalised assignments whose costs fall as uses rise (types D and E): how near plans come to the best.

    python -m benchmarks.anticorrelated_costs [--laws de] [--seeds N] [--seconds S] [--best-known S]

Type D: a_ij uniform in 1..100, c_ij = 111 - a_ij + e, e uniform in -10..10. Type E: a = 1 - 10 ln u and
c = 1000/a - 10 u, rounded. Capacities are 0.8 of the mean load. The seconds are CPU seconds of the search by
the compiled tree; compiling and the linear relaxation, some hundredths, come before. Every plan is compared
with our own bound; with ``--best-known`` also with the best plan and the best bound of runs of so many CPU
seconds each: our own search with another seed, HiGHS and CP-SAT. Nothing of them is stored.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

from apportion.core.outcome import relative_gap
from apportion.models.assignment import Assignment
from apportion.solvers.generalised_assignment.by_tree import Searched, TreeSearch
from apportion.solvers.generalised_assignment.least_cost import greedy_and_prices
from apportion.solving.call import kind_of_any
from apportion.solving.pipeline import compiled
from apportion.solving.registry import formulation
from benchmarks.peers.within_cpu import GENERAL, within_cpu
from benchmarks.suite.cell import InstanceSpec
from benchmarks.suite.making import make
from benchmarks.timing import provenance

__all__ = ["searched_for"]

_MAKER = "generalised_assignment"
SIZES = tuple((machines, jobs) for machines in (5, 10, 20) for jobs in (100, 200))


def searched_for(
    seconds: float,
    law: str,
    machines: int,
    jobs: int,
    seed: int,
    *,
    improving: bool = True,
    search_seed: int = 0,
) -> tuple[float, Searched]:
    """Return the objective and how the search ended after so many CPU seconds at most."""
    instance = make(_MAKER, _arguments(law, machines, jobs, seed), None)
    model = compiled(instance, formulation(kind_of_any(instance).name, None)).model
    assert isinstance(model, Assignment)
    choice, pooled = greedy_and_prices(model)
    assert choice is not None and pooled is not None
    began = time.process_time()
    found = TreeSearch(model, pooled[model.pool], improving).run(
        choice, 0.0, None, search_seed, lambda: time.process_time() - began > seconds, lambda *_: None
    )
    assert found.choice is not None and found.bound is not None
    return model.objective(found.choice), found


def _arguments(law: str, machines: int, jobs: int, seed: int) -> dict[str, Any]:
    return {"seed": seed, "jobs": jobs, "machines": machines, "law": law}


@dataclass(frozen=True, slots=True)
class BestKnown:
    """The least cost of some long runs, whose it is, and the best bound of our own."""

    value: float
    by: str
    bound: float


def best_known(seconds: float, law: str, machines: int, jobs: int, seed: int) -> BestKnown:
    """Return the best of runs of so many CPU seconds each; of equal ones the first, our own."""
    value, found = searched_for(seconds, law, machines, jobs, seed, search_seed=1)
    assert found.bound is not None
    values = {"our own search": value}
    arguments = tuple(_arguments(law, machines, jobs, seed).items())
    spec = InstanceSpec(
        family=_MAKER, set_name="", name=f"{law}-{machines}-{jobs}", maker=_MAKER, arguments=arguments
    )
    for name in GENERAL:
        ended = within_cpu(name, spec, None, seconds)
        if ended.value is not None:
            values[name] = ended.value
    by = min(values, key=lambda name: values[name])
    return BestKnown(values[by], by, found.bound)


def main() -> None:
    """Print a line for every law, size and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--laws", default="de")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--only", metavar="MACHINESxJOBS")
    parser.add_argument("--best-known", type=float, metavar="SECONDS")
    given = parser.parse_args()
    print(provenance("highspy", "ortools"), f"{given.seconds} CPU seconds each")
    for law in given.laws:
        for machines, jobs in SIZES:
            if given.only not in (None, f"{machines}x{jobs}"):
                continue
            for seed in range(given.seeds):
                began = time.process_time()
                value, found = searched_for(given.seconds, law, machines, jobs, seed)
                assert found.bound is not None
                gap = "proven" if found.closed else f"{100 * relative_gap(value, found.bound):.3f} %"
                took = time.process_time() - began
                size = f"{law.upper()} {machines} x {jobs}, seed {seed}"
                line = f"{size:<22} {value:>8.0f} {found.bound:>8.0f} {gap:>9} {took:6.1f} CPU s"
                if given.best_known is not None and not found.closed:
                    known = best_known(given.best_known, law, machines, jobs, seed)
                    least = min(value, known.value)
                    bound = max(found.bound, known.bound)
                    line += (
                        f"; best known {least:.0f} ({known.by if least < value else 'this plan'}): "
                        f"{100 * relative_gap(value, least):.3f} % above; "
                        f"best bound {bound:.0f}: {100 * relative_gap(value, bound):.3f} % above"
                    )
                print(line, flush=True)


if __name__ == "__main__":
    main()

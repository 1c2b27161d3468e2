"""What proofs cost: writing one beside the call it is about, checking it beside the same call, and its size.

Random instances by family, in seconds of processor time, which a busy machine stretches least: every instance
is solved without a proof, then with one, whose check is repeated by itself; what is left is the writing, and
all first tries that the checker refused. A claim is *optimal* or *infeasible* of our own engines; whether all
of them are proved stands in the table too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

import apportion
from apportion.proofs.certificate import encode
from benchmarks.suite.making import MAKERS
from benchmarks.timing import provenance

FAMILIES: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "gap filling": ("event", {"jobs": 10, "nodes": 40}),
        "menus, one capacity": ("menus", {"law": "weakly_correlated", "jobs": 50}),
        "menus, three capacities": ("half_menus", {"jobs": 12, "options": 5, "capacities": 3}),
        "0-1 knapsack, five capacities": ("knapsack", {"items": 30, "capacities": 5}),
        "Sia's round": ("sia", {"scale": 1}),
        "freezing": ("freezing", {"jobs": 20}),
        "generalised assignment": ("generalised_assignment", {"jobs": 20, "machines": 4}),
        "unrelated machines": ("unrelated", {"jobs": 12, "machines": 3}),
    }
)
_CLAIMS = ("optimal", "infeasible")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one proof took.

    Attributes
    ----------
    proved
        Whether a proof was written that the checker accepts.
    solving_s, writing_s, verifying_s
        Of the call without a proof, of the writer, of the checker: seconds of processor time.
    size
        Bytes of the written file, 0 without a proof.
    """

    proved: bool
    solving_s: float
    writing_s: float
    verifying_s: float
    size: int


def costs(family: str, instances: int, limit_s: float) -> Iterator[Cost]:
    """Yield what the claims of a family cost; calls that end without a claim are passed over."""
    maker, arguments = FAMILIES[family]
    apportion.solve(
        MAKERS[maker](seed=0, **arguments), proof=True, time_limit=limit_s
    )  # imports are no cost of a proof
    for seed in range(instances):
        instance = MAKERS[maker](seed=seed, **arguments)
        solving, solution = _timed(lambda: apportion.solve(instance, time_limit=limit_s))  # noqa: B023
        if solution.termination.value not in _CLAIMS:
            continue
        both, solution = _timed(lambda: apportion.solve(instance, proof=True, time_limit=limit_s))  # noqa: B023
        proof = solution.proof
        if proof is None:
            yield Cost(False, solving, 0.0, 0.0, 0)
            continue
        verifying, _ = _timed(lambda: apportion.verify(instance, proof))  # noqa: B023
        yield Cost(True, solving, both - solving - verifying, verifying, len(encode(proof)))


def _timed(asked: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of processor time that a call takes, and what it returns."""
    began = time.process_time()
    found = asked()
    return time.process_time() - began, found


def main() -> None:
    """Print a line a family."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proof_cost", description=__doc__)
    parser.add_argument("--instances", type=int, default=50, help="of every family")
    parser.add_argument("--limit-s", type=float, default=10.0, help="of a solve")
    parser.add_argument("--family", choices=[*FAMILIES], action="append", help="only this one; repeatable")
    given = parser.parse_args()
    print(f"{'family':30} claims proved  writing/call  checking/call   bytes (95 %)  CPU s")
    for family in given.family or FAMILIES:
        began = time.process_time()
        found = list(costs(family, given.instances, given.limit_s))
        shown = [one for one in found if one.proved]
        if not shown:
            print(f"{family:30} {len(found):6} {0:6}")
            continue
        writing = np.median([one.writing_s / one.solving_s for one in shown])
        checking = np.median([one.verifying_s / one.solving_s for one in shown])
        size = np.quantile([one.size for one in shown], 0.95)
        spent = time.process_time() - began
        ratios = f"{writing:13.2f} {checking:15.2f}"
        print(f"{family:30} {len(found):6} {len(shown):6} {ratios} {size:13.0f} {spent:6.1f}")
    print(f"{given.instances} seeds from 0, {given.limit_s:g} s a solve; medians. {provenance()}")


if __name__ == "__main__":
    main()

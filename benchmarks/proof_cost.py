"""What proofs cost: writing one beside the call it is about, checking it beside the same call, and its size.

Random instances by family, in seconds of processor time, which a busy machine stretches least: every instance
is solved without a proof, then with one. Of what the proof adds to the call, the last check is set apart;
everything else is the writing, with all first tries that the checker refused. The proof is then checked from
its bytes. Every time is the least of some rounds. A claim is *optimal* or *infeasible* of our own engines;
whether all of them are proved stands in the table too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import numpy as np

import apportion
from apportion.proofs.certificate import encode
from apportion.solving import evidence
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
    writing_s: float = 0.0
    verifying_s: float = 0.0
    size: int = 0


def costs(family: str, instances: int, limit_s: float, rounds: int) -> Iterator[Cost]:
    """Yield what the claims of a family cost; calls that end without a claim are passed over."""
    maker, arguments = FAMILIES[family]
    apportion.solve(
        MAKERS[maker](seed=0, **arguments), proof=True, time_limit=limit_s
    )  # imports are no cost of a proof
    for seed in range(instances):
        instance = MAKERS[maker](seed=seed, **arguments)
        some = [_cost(instance, limit_s) for _ in range(rounds)]
        told = [one for one in some if one is not None]
        if told:
            least = [
                min(getattr(one, name) for one in told) for name in ("solving_s", "writing_s", "verifying_s")
            ]
            yield Cost(all(one.proved for one in told), *least, told[0].size)


def _cost(instance: Any, limit_s: float) -> Cost | None:
    """Return what the claim about one instance costs, ``None`` where there is none."""
    solving, solution = _timed(lambda: apportion.solve(instance, time_limit=limit_s))
    if solution.termination.value not in _CLAIMS:
        return None
    proving, checks = [], []
    with (
        patch.object(evidence, "with_proof", _noting(evidence.with_proof, proving)),
        patch.object(evidence, "accepted", _noting(evidence.accepted, checks)),
    ):
        proof = apportion.solve(instance, proof=True, time_limit=limit_s).proof
    if proof is None:
        return Cost(False, solving)
    written = encode(proof)
    verifying, verdict = _timed(lambda: apportion.verify(instance, written))
    return Cost(verdict.proved, solving, sum(proving) - checks[-1], verifying, len(written))


def _noting(asked: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    """Return a function that does the same and notes the seconds of processor time that it took."""

    def noted(*given: Any) -> Any:
        spent, found = _timed(lambda: asked(*given))
        seconds.append(spent)
        return found

    return noted


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
    parser.add_argument("--rounds", type=int, default=3, help="of which the least times are taken")
    parser.add_argument("--family", choices=[*FAMILIES], action="append", help="only this one; repeatable")
    given = parser.parse_args()
    print(f"{'family':30} claims proved  writing/call  checking/call   bytes (95 %)  CPU s")
    for family in given.family or FAMILIES:
        began = time.process_time()
        found = list(costs(family, given.instances, given.limit_s, given.rounds))
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
    what = f"{given.instances} seeds from 0, {given.limit_s:g} s a solve, least of {given.rounds}; medians."
    print(f"{what} {provenance()}")


if __name__ == "__main__":
    main()

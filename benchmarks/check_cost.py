"""How long `apportion check` takes beside `solve`: every example that ships, in seconds of processor time.

    python -m benchmarks.check_cost [--rounds 5]

An instance is solved without a proof, and its stored result is checked: every claim of it, without a proof
and with one, where its claim has one. Reading files is in neither; children are counted, to a hundredth of a
second. Every time is the least of some rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import apportion
from apportion.io import stored
from apportion.proofs.certificate import encode
from benchmarks.timing import provenance

_EXAMPLES = Path(__file__).parents[1] / "examples"


class Cost(NamedTuple):
    """What one example took, in seconds: its solve, its check, and its check with a proof, if it has one."""

    name: str
    solving_s: float
    checking_s: float
    proved_s: float | None


def costs(limit_s: float, rounds: int) -> Iterator[Cost]:
    """Yield what every example costs."""
    for path in sorted((*_EXAMPLES.glob("*.json"), _EXAMPLES / "freezing_fitted" / "round.json")):
        instance = apportion.read(path)
        apportion.solve(instance, time_limit=limit_s, proof=True)  # imports are no cost of a call
        solving, solution = _least(rounds, lambda one: apportion.solve(one, time_limit=limit_s), path)
        told = json.loads(stored.encode(stored.document(solution)))
        checking, found = _least(rounds, lambda one, told=told: stored.verify(one, told), path)
        proved = apportion.solve(instance, time_limit=limit_s, proof=True)
        name, with_proof = str(path.relative_to(_EXAMPLES)), None
        if proved.proof is not None:
            document = json.loads(stored.encode(stored.document(proved, proof_name="its.proof")))
            data = encode(proved.proof)
            with_proof, found = _least(
                rounds, lambda one, told=document, data=data: stored.verify(one, told, data), path
            )
        if not found.ok:
            raise RuntimeError(f"{name}: its result is refused")
        yield Cost(name, solving, checking, with_proof)


def _least(rounds: int, asked: Callable[[Any], Any], path: Path) -> tuple[float, Any]:
    """Return the least seconds of calls, each on an instance just read, and what the last one returned."""
    times = []
    for _ in range(rounds):
        instance = apportion.read(path)
        began = _spent_s()
        answer = asked(instance)
        times.append(_spent_s() - began)
    return min(times), answer


def _spent_s() -> float:
    """Return the processor time of this process and of its children that have ended."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def main() -> None:
    """Print a line an example, and the medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit-s", type=float, default=10.0, help="of a solve")
    given = parser.parse_args()
    print(f"{'example':32} {'solve ms':>9} {'check/solve':>12} {'with proof':>11}")
    found = []
    for one in costs(given.limit_s, given.rounds):
        found.append(one)
        proved = "-" if one.proved_s is None else f"{one.proved_s / one.solving_s:.2f}"
        ratio = one.checking_s / one.solving_s
        print(f"{one.name:32} {one.solving_s * 1e3:9.1f} {ratio:12.2f} {proved:>11}", flush=True)
    plain = np.median([one.checking_s / one.solving_s for one in found])
    walked = np.median([one.proved_s / one.solving_s for one in found if one.proved_s is not None])
    print(f"{'median':32} {'':9} {plain:12.2f} {walked:11.2f}")
    print(f"least of {given.rounds}. {provenance()}")


if __name__ == "__main__":
    main()

"""What share of our engines' claims carries a proof: random small instances by kind, and the quick suite.

    python -m tests.proofs.claims --instances 20000 --seed 1
    python -m tests.proofs.claims --suite

A claim is *optimal* or *infeasible* of one of our own engines that ended within the limit. Its proof is
written, read back from its bytes and walked; the same proof is then offered under two claims that are false
(infeasible, where there is a plan; a bound that the plan beats by a millionth), which must not pass. Claims
without a proof are listed by reason.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random
from types import MappingProxyType
from typing import Any

import apportion
from apportion.core.solution import Solution
from apportion.instances.tenants.ledger import under_floors
from apportion.proofs import Claim
from apportion.proofs.certificate import encode
from apportion.solving.call import kind_of_any
from tests.hunt import draw_freezing, draw_gap_filling, draw_knapsack, draw_matching, draw_tenants
from tests.hunt.case import ASSIGNMENT, INSTANCE, MENUS, Case, subject_of

__all__ = ["KINDS", "Tally", "asked"]

Draw = Callable[[Random, str | None], dict[str, Any]]


def _gangs(document: Mapping[str, Any]) -> bool:
    return any(entry.get("gpus", 1) > 1 for job in document["jobs"] for entry in job["on"].values())


@dataclass(frozen=True, slots=True)
class Drawn:
    """How instances of one kind are drawn: what takes which path, drawn again until it is of the kind."""

    subject: str
    draw: Draw
    wants: str | None = None
    fits: Callable[[Mapping[str, Any]], bool] = lambda _: True

    def case(self, rng: Random) -> Any:
        """Return what is solved."""
        while True:
            document = self.draw(rng, self.wants)
            if self.fits(document):
                try:
                    return subject_of(Case(self.subject, document))
                except apportion.InvalidInstance:  # hostile numbers may be out of range
                    continue


KINDS: Mapping[str, Drawn] = MappingProxyType(
    {
        "menus, one capacity": Drawn(MENUS, draw_knapsack.arrays, "one"),
        "menus, several capacities": Drawn(MENUS, draw_knapsack.arrays, "several"),
        "menus with names": Drawn(INSTANCE, draw_knapsack.instance),
        "gap filling": Drawn(INSTANCE, draw_gap_filling.instance),
        "freezing": Drawn(INSTANCE, draw_freezing.instance, fits=lambda one: "gpus_per_node" not in one),
        "freezing on nodes": Drawn(
            INSTANCE, draw_freezing.instance, "nodes", lambda one: "gpus_per_node" in one
        ),
        "generalised assignment": Drawn(INSTANCE, draw_matching.instance, "sum", lambda one: not _gangs(one)),
        "makespan": Drawn(INSTANCE, draw_matching.instance, "makespan", lambda one: not _gangs(one)),
        "gangs": Drawn(
            INSTANCE, draw_matching.instance, fits=lambda one: _gangs(one) and not one["divisible"]
        ),
        "shares of machines": Drawn(INSTANCE, draw_matching.instance, fits=lambda one: one["divisible"]),
        "bare assignment": Drawn(ASSIGNMENT, draw_matching.arrays),
        "tenants": Drawn(INSTANCE, draw_tenants.instance),
        "makespan with tenants": Drawn(
            INSTANCE, draw_tenants.instance, fits=lambda one: one.get("objective") == "makespan"
        ),
    }
)
"""What is drawn, by kind; most numbers are hostile, see `tests.hunt`."""


@dataclass(slots=True)
class Tally:
    """What became of the claims of one kind."""

    asked: int = 0
    claims: int = 0
    proved: int = 0
    general: int = 0
    offered: int = 0
    accepted: int = 0
    seconds: float = 0.0
    sizes: list[int] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Take in the counts of another share of the same kind."""
        for name in (
            "asked",
            "claims",
            "proved",
            "general",
            "offered",
            "accepted",
            "seconds",
            "sizes",
            "ratios",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reasons.update(other.reasons)
        self.first = {**other.first, **self.first}

    def line(self, kind: str) -> str:
        """Return a line of the table."""
        size = sorted(self.sizes)[len(self.sizes) * 95 // 100] if self.sizes else 0
        ratio = sorted(self.ratios)[len(self.ratios) // 2] if self.ratios else 0.0
        counts = f"{self.asked:7} {self.claims:7} {self.proved:7} {self.general:8}"
        false = f"{self.offered:8} {self.accepted:8}"
        return f"{kind:28} {counts} {false} {size:8} {ratio:11.2f} {self.seconds:8.1f}"


_COLUMNS = {"asked": 7, "claims": 7, "proved": 7, "general": 8, "offered": 8, "accepted": 8, "95 % B": 8}
HEADER = (
    f"{'kind':28} "
    + " ".join(f"{name:>{width}}" for name, width in _COLUMNS.items())
    + "  check/solve  CPU s"
)


def asked(instance: Any, tally: Tally, name: str, limit_s: float = 10.0) -> None:
    """Solve an instance with a proof and count what its claim carries."""
    tally.asked += 1
    try:
        solution = apportion.solve(instance, proof=True, time_limit=limit_s)
    except apportion.ApportionError as error:
        tally.reasons[f"error: {str(error)[:60]}"] += 1
        return
    if solution.termination.value not in ("optimal", "infeasible"):
        return
    if solution.evidence == "by_solver":
        tally.general += 1
        return
    if solution.floors is not None:  # the claim is about the plans that keep the shares found first
        instance = under_floors(instance, solution.floors)
    tally.claims += 1
    written = None if solution.proof is None else encode(solution.proof)
    if written is None or not apportion.verify(instance, written).proved:
        note = next((note for note in solution.notes if "proof" in note), "refused when read back")
        reason = f"{solution.evidence}, {solution.termination.value}: {re.sub(r'[0-9.]+', 'N', note)}"
        tally.reasons[reason] += 1
        tally.first.setdefault(reason, name)
        return
    tally.proved += 1
    tally.sizes.append(len(written))
    times = solution.times
    tally.ratios.append(times["verify"] / (times["total"] - times["verify"] - times["proof"]))
    assert solution.proof is not None
    for claim in _false(instance, solution):
        tally.offered += 1
        if apportion.verify(instance, replace(solution.proof, claim=claim)).proved:
            tally.accepted += 1
            tally.reasons[f"accepted a false claim: {name}"] += 1


def _false(instance: Any, solution: Solution[Any]) -> Iterator[Claim]:
    """Yield claims that the plan refutes."""
    if solution.plan is None:
        return
    yield Claim("infeasible")
    kind = kind_of_any(instance)
    objective = kind.exact_objective(instance, solution.plan)
    step = abs(objective) / 10**6
    stronger = objective - step if kind.maximizes(instance) else objective + step
    if step and Fraction(float(stronger)) != objective:
        yield Claim("no_better_plan", float(stronger))


def _share(kind: str, seed: int, first: int, last: int) -> Tally:
    tally, began = Tally(), time.process_time()
    for number in range(first, last):
        name = f"{kind} {seed}/{number}"
        try:
            asked(KINDS[kind].case(Random(name)), tally, name)
        except Exception as error:
            raise AssertionError(f"{name} ended in {type(error).__name__}: {error}") from error
    tally.seconds = time.process_time() - began
    return tally


def _suite(limit_s: float) -> Iterator[tuple[str, Tally]]:
    """Yield what became of the claims on the instances of the quick suite, by family."""
    from benchmarks.suite.making import make
    from benchmarks.suite.registry import Selection, cells_of

    tallies: dict[str, Tally] = {}
    for cell in cells_of(Selection(quick=True, only=("apportion",))):
        spec = cell.instance
        if (
            any(name == "arrays" for name, _ in spec.arguments)
            and dict(spec.arguments).get("jobs", 0) > 10**5
        ):
            continue
        tally, began = tallies.setdefault(spec.family, Tally()), time.process_time()
        asked(make(spec.maker, dict(spec.arguments), None), tally, f"{spec.set_name}/{spec.name}", limit_s)
        tally.seconds += time.process_time() - began
    yield from tallies.items()


def main() -> int:
    """Print a line a kind; the exit code is 1 where a claim has no proof or a false one was accepted."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.claims", description=__doc__)
    parser.add_argument("--instances", type=int, default=200, help="of every kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this kind (repeatable)")
    parser.add_argument("--one", type=int, help="only the instance of this number")
    parser.add_argument("--suite", action="store_true", help="the instances of the quick suite instead")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    print(HEADER)
    found: dict[str, Tally] = {}
    if given.suite:
        for family, tally in _suite(10.0):
            found[family] = tally
            print(tally.line(family), flush=True)
    else:
        step = max(1, -(-given.instances // (4 * given.processes)))
        for kind in given.kind or KINDS:
            tally = found.setdefault(kind, Tally())
            if given.one is not None:
                tally.add(_share(kind, given.seed, given.one, given.one + 1))
            elif given.processes == 1:
                tally.add(_share(kind, given.seed, 0, given.instances))
            else:
                with ProcessPoolExecutor(given.processes) as pool:
                    firsts = range(0, given.instances, step)
                    shares = [
                        pool.submit(_share, kind, given.seed, first, min(first + step, given.instances))
                        for first in firsts
                    ]
                    for share in shares:
                        tally.add(share.result())
            print(tally.line(kind), flush=True)
    for kind, tally in found.items():
        for reason, count in tally.reasons.most_common():
            print(f"{kind}: {count} x {reason}; first {tally.first.get(reason, '')}")
    wrong = sum(tally.claims - tally.proved + tally.accepted for tally in found.values())
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

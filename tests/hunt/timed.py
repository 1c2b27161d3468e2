"""Calls under limits of milliseconds: what their word claims is held against every choice there is.

    python -m tests.hunt.timed --count 100000 --seed 1 [--kind K] [--backend B]

A limit may end a search anywhere, and what it leaves must be true: ``infeasible`` only where there is no
plan, ``optimal`` only of the best one under the shares that are due, a bound that no plan beats, a plan that
keeps every rule. Drawn are the kinds of `tests.proofs.claims`, bare assignments whose jobs need not run,
menus with 20 to 200 capacities of which an option uses few, and tenants with guarantees at every depth. The
exit code is 1 where a word is false.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from random import Random
from types import MappingProxyType
from typing import Any

import apportion
from tests.forgeries.forging import drawn_case
from tests.forgeries.judging import Judge
from tests.hunt import draw_matching, truth_tenants
from tests.hunt.case import ASSIGNMENT, INSTANCE, MENUS, Case
from tests.hunt.rounds import drawn_round
from tests.hunt.truth import worth_of
from tests.proofs.claims import KINDS, Drawn

__all__ = ["TIMED", "asked", "wrong_words"]

BACKENDS = ("auto", "auto", "exact", "highs", "cp-sat", "scip")
_LIMITS_S = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05)
_NEAR = Fraction(21, 10**7)
"""Relative difference that counts as none: general solvers say optimal within a millionth."""


def sparse(rng: Random, _: str | None = None) -> dict[str, Any]:
    """Draw menus with many capacities of which every option uses one to three."""
    columns, offsets = rng.randint(20, 200), [0]
    values: list[float] = []
    uses: list[list[int]] = []
    for _job in range(rng.randint(2, 6)):
        for _option in range(rng.randint(1, 3)):
            use = [0] * columns
            for column in rng.sample(range(min(columns, rng.choice((4, 200)))), rng.randint(1, 3)):
                use[column] = rng.randint(1, 9)
            uses.append(use)
            values.append(rng.choice((float(rng.randint(0, 20)), rng.random() * 10)))
        offsets.append(len(values))
    return {
        "values": values,
        "uses": uses,
        "offsets": offsets,
        "capacities": [rng.randint(2, 15) for _ in range(columns)],
        "required": [rng.random() < 0.3 for _ in offsets[1:]],
        "sense": rng.choice(("maximize", "maximize", "minimize")),
    }


TIMED: Mapping[str, Drawn] = MappingProxyType(
    {
        **KINDS,
        "jobs that need not run": Drawn(
            ASSIGNMENT, draw_matching.arrays, fits=lambda one: not all(one["required"])
        ),
        "sparse capacities": Drawn(MENUS, sparse),
        "guarantees at every depth": Drawn(INSTANCE, lambda rng, _: drawn_round(rng)),
    }
)


def wrong_words(case: Case, solution: Any, judge: Judge) -> Iterator[str]:
    """Yield what is false of a solution."""
    said = solution.termination.value
    truth = judge.optimum(solution.floors)
    if said in ("infeasible", "infeasible_or_unbounded") and truth.best is not None:
        yield f"infeasible, but a plan has {float(truth.best)!r}: {solution.notes}"
    if said == "unbounded":
        yield said
    sign = 1 if truth.maximize else -1
    if solution.plan is not None:
        worth = worth_of(case, solution.plan)
        if worth is None:
            yield "the plan breaks a rule"
        elif truth.best is None:
            yield "a plan where there is none"
        else:
            most = _NEAR * abs(truth.best)
            if abs(Fraction(solution.objective) - worth) > _NEAR * abs(worth):
                yield f"objective {solution.objective!r}, the plan is worth {float(worth)!r}"
            if said == "optimal" and sign * (truth.best - worth) > most:
                yield f"optimal with {float(worth)!r}, a plan has {float(truth.best)!r}"
    elif said == "optimal":
        yield "optimal without a plan"
    for name in ("bound", "verified_bound"):
        bound = getattr(solution.certificate, name)
        if bound is not None and truth.best is not None and sign * (truth.best - Fraction(bound)) > 0:
            beyond = sign * (truth.best - Fraction(bound))
            if beyond > _NEAR * abs(truth.best):
                yield f"{name} {bound!r}, a plan has {float(truth.best)!r}"
    if judge.tenanted and said == "optimal" and solution.plan is not None:
        yield from truth_tenants.misshared(case.document, solution, tolerance=2e-6)


def asked(kind: str, seed: int, number: int, backend: str | None, counted: Counter[str]) -> Iterator[str]:
    """Draw an instance and ask it under several limits and backends; yield what is false."""
    rng = Random(f"timed {kind} {seed} {number}")
    case, subject = drawn_case(TIMED[kind], rng)
    judge = Judge(case)
    for limit in rng.sample(_LIMITS_S, 4):
        options: dict[str, Any] = {"time_limit": limit, "backend": backend or rng.choice(BACKENDS)}
        try:
            solution = apportion.solve(subject, **options)
        except (apportion.BackendUnavailable, apportion.InvalidOption):
            continue  # the backend does not take such instances
        counted[solution.termination.value] += 1
        for wrong in wrong_words(case, solution, judge):
            yield f"{kind} {seed}/{number} {options}: {wrong}"


def main() -> int:
    """Ask in turns over the kinds until there were so many calls; print counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.hunt.timed", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many calls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=list(TIMED), help="only this kind (repeatable)")
    parser.add_argument("--backend", choices=sorted(set(BACKENDS)), help="only this backend")
    parser.add_argument("--one", type=int, help="only the instance of this number")
    given = parser.parse_args()
    number, false = 0 if given.one is None else given.one, 0
    counted: Counter[str] = Counter()
    while True:
        for kind in given.kind or TIMED:
            for wrong in asked(kind, given.seed, number, given.backend, counted):
                false += 1
                print(wrong, flush=True)
        number += 1
        if given.one is not None or counted.total() >= given.count:
            break
    print(", ".join(f"{count} {said}" for said, count in sorted(counted.items())))
    print(f"{counted.total()} calls, {false} false words")
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())

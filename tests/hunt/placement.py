"""Tiny placements beside the enumeration of all plans: rules, goals in strict order, bounds, stored results.

    python -m tests.hunt.placement --count 100000 --seed 1 [--backend B]

Every pair of rules comes in turn. The answer must have the best values of all plans in strict order, every
bound must be the value it reaches, the stored result must pass `check`; the package's checker must say of
every tenth round's plans what the plain reading says. The exit code is 1 where one differs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from fractions import Fraction
from random import Random
from typing import Any
from unittest.mock import patch

import apportion
from apportion.instances.kinds import kind_of
from apportion.instances.options import goal_values
from apportion.instances.placement import bundles
from apportion.instances.placement import kind as placement_kind
from apportion.io.stored import document, verify
from tests.hunt import truth_placement as truth
from tests.hunt.draw_placement import RULES, instance

__all__ = ["drawn", "wrong"]

_FIRST_BUNDLES, _FIRST_OPTIONS = "bundles, then shapes", "options, then shapes"
_PAIRS = tuple(itertools.combinations_with_replacement(RULES, 2))


def drawn(number: int, seed: int = 1) -> tuple[Random, dict[str, Any]]:
    """Return a round of a number, whose rules are the next pair."""
    rng = Random(f"placement {seed} {number}")
    pair = _PAIRS[number % len(_PAIRS)] if rng.random() < 0.9 else None
    return rng, instance(rng, pair, bundles=rng.random() < 0.25)


def wrong(rng: Random, told: dict[str, Any], backend: str = "auto", *, plans: bool = False) -> Iterator[str]:
    """Yield what is wrong with the answer to a round."""
    given: Any = apportion.read(told)
    way = rng.choice(("by_pod", "by_bundle", None, _FIRST_BUNDLES, _FIRST_OPTIONS))
    if way == _FIRST_OPTIONS:
        told = {**told, "rules": []}
        given = apportion.read(told)
    # as on many nodes: what bundles or options leave open is closed by placed shapes
    few = {"_MANY_PODS": 0, "_FEWER": 0} if way == _FIRST_BUNDLES else {}
    some = patch.object(placement_kind, "_SOME_SHAPES", 0) if way == _FIRST_OPTIONS else nullcontext()
    with some, patch.multiple(bundles, **few) if few else nullcontext():
        named = None if way in (_FIRST_BUNDLES, _FIRST_OPTIONS) else way
        solution: Any = apportion.solve(given, backend=backend, time_limit=60.0, formulation=named)
    expected = truth.best(told)
    if way == "by_bundle" and solution.termination == "node_limit":
        # bundles do not tell who moves: where that is limited, the best plan may not be found
        if not any(rule["rule"] == "max_moves" for rule in told["rules"]):
            yield "the best plan is not found"
        if expected is not None and Fraction(solution.certificate.bound or 0) < expected[0]:
            yield f"the bound {solution.certificate.bound} is below {expected[0]}"
        if solution.plan is not None and (wrongs := truth.broken(told, solution.plan)):
            yield f"the plan breaks {wrongs}"
    elif expected is None:
        if solution.termination != "infeasible":
            yield f"no plan keeps the rules, not {solution.termination}"
    elif solution.plan is None:
        yield f"{solution.termination} without a plan, there is one with {expected}"
    else:
        if wrongs := truth.broken(told, solution.plan):
            yield f"the plan breaks {wrongs}"
        own = truth.values(told, solution.plan)
        open_ = 1 + next(
            (at for at, goal in enumerate(solution.goals) if not goal.proven), len(solution.goals)
        )
        nearly = way == "by_bundle" and any("current" in job for job in told["jobs"])
        if nearly:  # of those who move it may be left open how few they could be
            own, expected = own[:open_], expected[:open_]
        if own != expected:
            yield f"values {own}, not {expected}"
        told_values = [Fraction(solution.objective), *(Fraction(goal.value) for goal in solution.goals)]
        if told_values[: len(own)] != own:
            yield f"says {told_values}, has {own}"
        if solution.termination != "optimal" or not (nearly or open_ > len(solution.goals)):
            yield f"ends {solution.termination} with {solution.goals}"
        stored = json.loads(json.dumps(document(solution)))
        if not verify(given, stored).ok:
            yield f"the stored result does not pass: {verify(given, stored)}"
    if plans:
        yield from _checked(rng, told, given)


def _checked(rng: Random, told: dict[str, Any], given: Any) -> Iterator[str]:
    """Yield where the package's checker does not say of a plan what the plain reading says."""
    kind = kind_of(given)
    assert kind.option_set is not None
    for plan in itertools.islice(truth.plans(told), 200):
        if rng.random() > 0.2:
            continue
        report = kind.check(given, plan)
        said, meant = {one.rule for one in report.violations}, set(truth.broken(told, plan))
        if said != meant:
            yield f"{plan} breaks {meant}, the checker says {said}"
        elif not meant:
            own = [Fraction(report.objective or 0), *goal_values(kind.option_set, given, plan).values()]
            if own != truth.values(told, plan):
                yield f"{plan} has {truth.values(told, plan)}, the checker says {own}"


def main() -> int:
    """Look at many rounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--verbose", action="store_true", help="print the rounds that differ")
    given = parser.parse_args()
    differ = plans = 0
    for number in range(given.first, given.first + given.count):
        rng, told = drawn(number, given.seed)
        found = list(wrong(rng, told, given.backend, plans=number % 10 == 0))
        plans += truth.best(told) is not None if number % 10 == 0 else 0
        if found:
            differ += 1
            print(number, *found, *([json.dumps(told)] if given.verbose else []), sep="\n  ")
    print(f"{given.count} rounds, {differ} differ")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Ask the package about a case, as often and in as many ways as the case says, and collect what is wrong."""

from __future__ import annotations

import random
from typing import Any

import apportion
from tests.hunt.case import INSTANCE, TENANTS, Case, subject_of
from tests.hunt.compare import Mismatch, differences, mismatches
from tests.hunt.explained import misexplained
from tests.hunt.paths import PATHS, forced
from tests.hunt.permute import permuted
from tests.hunt.truth import truth_of, truth_under
from tests.hunt.truth_tenants import misshared
from tests.hunt.what_if import miscompared

__all__ = ["Asked", "asked", "hard"]

_PATIENCE_S = 20.0
"""Limit of a call that is meant to have none: small instances are far below it."""


class Asked:
    """What became of a case.

    Attributes
    ----------
    wrong
        Everything that is wrong.
    termination
        How the call ended; ``refused`` where the package does not take the instance.
    reached
        Whether the path was really taken.
    """

    __slots__ = ("reached", "termination", "wrong")

    def __init__(self) -> None:
        self.wrong: list[Mismatch] = []
        self.termination = "refused"
        self.reached = False


def asked(case: Case) -> Asked:
    """Answer a case and compare the answer with the truth.

    An option of a call that does not fit a path or an instance is no mistake; any other exception is one.
    """
    result = Asked()
    path = PATHS[case.path]
    try:
        subject = subject_of(case)
    except apportion.InvalidInstance:
        return result
    truth = truth_of(case)
    options: dict[str, Any] = {"time_limit": _PATIENCE_S, **path.options, **case.options}
    again, shuffle = options.pop("again", False), options.pop("shuffle", None)
    explain, edits = options.pop("explain", False), options.pop("what_if", None)
    limited = options["time_limit"] < 1.0 or options.get("work_limit") is not None
    with forced(path) as taken:
        try:
            solution = apportion.solve(subject, **options)
            if case.kind == TENANTS and solution.floors is not None:
                truth = truth_under(case, solution.floors)
            result.wrong += mismatches(
                case,
                truth,
                solution,
                complete=path.complete and not limited and not hard(case) and not options.get("gap"),
                tolerance=path.tolerance,
            )
            if case.kind == TENANTS and solution.termination.value == "optimal" and not limited:
                told = misshared(case.document, solution, path.tolerance, options.get("gap", 0.0))
                result.wrong += [Mismatch("misshared", wrong) for wrong in told]
            if again:
                result.wrong += differences(solution, apportion.solve(subject, **options), "not_repeatable")
            if shuffle is not None and case.subject == INSTANCE:
                other = apportion.read(permuted(case.document, random.Random(shuffle)))
                result.wrong += differences(solution, apportion.solve(other, **options), "order_decides")
            if explain:
                result.wrong += misexplained(case, truth, apportion.explain(subject, solution))
            if edits is not None:
                result.wrong += miscompared(case, truth, solution, edits)
        except (apportion.InvalidOption, apportion.BackendUnavailable):
            return result
        except Exception as error:
            result.wrong.append(Mismatch("raised", f"{type(error).__name__}: {error}"))
            result.termination = "raised"
            return result
    result.termination = solution.termination.value
    result.reached = taken.reached
    return result


def hard(case: Case) -> bool:
    """Return whether a proof is more than is promised: schedules of pools and of gangs."""
    told = case.document
    if told.get("objective") != "makespan" or told.get("divisible"):
        return False
    return any(machine.get("count", 1) > 1 for machine in told["machines"])

"""A backend that tries every choice, so that a test of what stands on solvers does not depend on one."""

from __future__ import annotations

import apportion
from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models import MultipleChoiceKnapsack
from tests.oracles import enumerate_knapsack


def by_enumeration(model: MultipleChoiceKnapsack, options: SolveOptions, start: object) -> Outcome:
    best = enumerate_knapsack(model)
    if best is None:
        return Outcome(termination=Termination.INFEASIBLE, raw_status="tried all")
    value, choice = best
    return Outcome(
        termination=Termination.OPTIMAL,
        raw_status="tried all",
        point=choice,
        objective=value,
        bound=value,
        bound_source="enumeration",
    )


ENUMERATION = apportion.Backend("enumeration", "knapsack", by_enumeration)

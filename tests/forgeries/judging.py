"""Which claims of a document or a proof are false, by enumeration alone, whatever a checker says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from apportion.proofs import Claim
from tests.hunt import truth_tenants
from tests.hunt.case import TENANTS, Case
from tests.hunt.truth import Truth, truth_of, truth_under, worth_of

__all__ = ["Judge"]

_NEAR = Fraction(21, 10**10)
"""Relative difference that counts as none: a proof's bound beyond an optimum, a bound that meets it."""


@dataclass(frozen=True)
class _Shares:
    """What the enumeration of fair shares looks at, of a document."""

    plan: Any
    floors: Mapping[str, int]
    objective: float
    fair_bound: float | None
    levels: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class Judge:
    """What is true of a case."""

    case: Case
    _optima: dict[tuple[tuple[str, int], ...], Truth] = field(default_factory=dict)

    @cached_property
    def tenanted(self) -> bool:
        """Whether jobs belong to tenants."""
        return self.case.kind == TENANTS

    def optimum(self, floors: Mapping[str, int] | None) -> Truth:
        """Return the optimum of the plans that keep some shares."""
        key = tuple(sorted((floors or {}).items()))
        if key not in self._optima:
            self._optima[key] = truth_under(self.case, dict(key)) if key else truth_of(self.case)
        return self._optima[key]

    def proof_is_false(self, claim: Claim, floors: Mapping[str, int] | None = None) -> bool:
        """Return whether a claim of a proof is false."""
        truth = self.optimum(floors)
        if truth.best is None:
            return False
        return claim.bound is None or _beyond(truth, claim.bound)

    def false_claims(self, told: Mapping[str, Any]) -> Iterator[str]:
        """Yield the claims of a document that are false."""
        plan, floors = told["plan"], told.get("floors")
        worth = None if plan is None else worth_of(self.case, plan)
        if plan is not None and worth is None:
            yield "plan"
        if worth is not None and (told["objective"] is None or not _close(told["objective"], worth)):
            yield "objective"
        truth = self.optimum(floors)
        for name in ("bound", "verified_bound"):
            if told[name] is not None and truth.best is not None and _beyond(truth, told[name]):
                yield name
        said = told["termination"]
        if said == "optimal" and (worth is None or truth.best is None or not _close(worth, truth.best)):
            yield "termination"
        if said == "infeasible" and (plan is not None or truth.best is not None):
            yield "termination"
        if said == "unbounded":
            yield "termination"
        if floors is not None:
            yield from self._shares(told)

    def _shares(self, told: Mapping[str, Any]) -> Iterator[str]:
        if not self.tenanted or told["plan"] is None:
            return
        document, floors = self.case.document, told["floors"]
        due = truth_tenants.due_shares(document)
        if truth_tenants.best(document, due)[1] is None:
            return  # guarantees that cannot be kept together
        fairness = document.get("fairness")
        shares = _Shares(told["plan"], floors, told["objective"] or 0.0, told.get("fair_bound"))
        for wrong in truth_tenants.misshared(document, shares, gap=10.0**300):
            if "bound" not in wrong:
                yield "floors"
            elif shares.fair_bound is not None:
                yield "fair_bound"
        if fairness is None and any(floors.get(name, 0) != share for name, share in due.items()):
            yield "floors"


def _beyond(truth: Truth, bound: float) -> bool:
    """Return whether a plan is better than a bound."""
    assert truth.best is not None
    sign = 1 if truth.maximize else -1
    over = sign * (truth.best - Fraction(bound))
    return over > _NEAR * max(abs(truth.best), Fraction(1, 10**9))


def _close(number: float | Fraction, true: Fraction) -> bool:
    return abs(Fraction(number) - true) <= _NEAR * max(abs(true), abs(Fraction(number)))

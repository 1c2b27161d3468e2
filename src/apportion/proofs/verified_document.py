"""Look at the shape and every claim of a stored result, in exact arithmetic, without any solver."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from apportion.core.errors import InvalidInstance
from apportion.core.outcome import Report, Termination, absolute_gap, meets, relative_gap
from apportion.core.solution import JOBS_MOVED, JOBS_STOPPED
from apportion.instances.kinds import ProblemType, kind_of, kinds
from apportion.instances.options import goal_values
from apportion.instances.tenants.check import shared_capacities
from apportion.instances.tenants.ledger import shares_are_due, under_floors
from apportion.proofs.claims import CLAIMS, Bound, Facts, Line, Plan, Proved, Shares, Verdict, decided
from apportion.proofs.claims_of_fairness import shares_of

__all__ = ["FIELDS", "Verification", "is_number", "malformed", "verified"]


FIELDS = (
    "kind",
    "name",
    "backend",
    "termination",
    "solution",
    "objective",
    "bound",
    "gap",
    "reason",
    "verified_bound",
    "plan",
    "check",
    "certificate",
    "times",
    "versions",
    "seed",
    "notes",
)
_OPTIONAL = ("evidence", "proof", "levels", "floors", "fair_bound", "goals")
_EVIDENCE = (None, "by_multipliers", "by_proof", "by_search", "by_solver")
_GOAL = {"name", "sense", "value", "bound", "seconds"}
_LEVEL = {"name", "share", "weight", "bound", "evidence"}
_LARGEST = float.fromhex("0x1.fffffffffffffp+1023")


def malformed(record: Any) -> str | None:
    """Return what keeps a document from being a stored result; ``None`` if nothing does."""
    if not isinstance(record, Mapping):
        return "must be a JSON object"
    if {"schema_version", "jobs"} <= record.keys():
        return "is an instance, not a solution: `apportion check INSTANCE SOLUTION` takes the instance first"
    missing = [name for name in FIELDS if name not in record]
    unknown = [str(name) for name in record if name not in FIELDS + _OPTIONAL]
    if missing or unknown:
        return "; ".join(
            [f"lacks {name}" for name in missing] + [f"has the unknown field {name}" for name in unknown]
        )
    for name in ("objective", "bound", "gap", "verified_bound", "fair_bound"):
        if record.get(name) is not None and not is_number(record[name]):
            return f"{name} must be a finite number or null"
    certificate = record["certificate"]
    if not isinstance(certificate, Mapping) or set(certificate) != {"source", "multipliers", "digest"}:
        return "certificate must be an object of source, multipliers and digest"
    if not isinstance(certificate["source"], str | None) or not isinstance(certificate["digest"], str):
        return "certificate.source must be a string or null, and certificate.digest a string"
    multipliers = certificate["multipliers"]
    if multipliers is not None and not (
        isinstance(multipliers, Mapping) and all(is_number(price) for price in multipliers.values())
    ):
        return "certificate.multipliers must be null or an object of finite numbers"
    if record.get("evidence") not in _EVIDENCE:
        return f"evidence {record['evidence']!r} is unknown"
    if not isinstance(record.get("levels", []), list) or not isinstance(record.get("floors", {}), Mapping):
        return "levels must be a list and floors an object"
    if not all(map(_is_level, record.get("levels", []))):
        return "levels must be objects of name, share, weight, bound and evidence"
    if not isinstance(record.get("goals", []), list) or not all(map(_is_goal, record.get("goals", []))):
        return "goals must be a list of objects of name, sense, value, bound and seconds"
    if not isinstance(record.get("proof"), str | None):
        return "proof must be the name of a file or null"
    if record["termination"] not in tuple(Termination):
        return f"termination {record['termination']!r} is unknown"
    return None


def is_number(value: Any) -> bool:
    """Return whether a value is a number that doubles hold: no NaN, and no integer beyond them."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_level(level: Any) -> bool:
    return (
        isinstance(level, Mapping)
        and set(level) == _LEVEL
        and isinstance(level["name"], str)
        and all(is_number(level[name]) for name in ("share", "weight", "bound"))
        and level["evidence"] in (None, "by_search")
    )


def _is_goal(goal: Any) -> bool:
    return (
        isinstance(goal, Mapping)
        and set(goal) == _GOAL
        and isinstance(goal["name"], str)
        and goal["sense"] in ("maximize", "minimize")
        and type(goal["value"]) is int
        and (goal["bound"] is None or type(goal["bound"]) is int)
        and is_number(goal["seconds"])
    )


_TOLERANCE = Fraction(1, 10**9)
_SOURCES = frozenset({"dynamic_programming", "enumeration", "branch_and_bound", "solver"})
"""Whose word a bound can be, beside that of the multipliers, which is checked."""
_SAID = {Plan.ABSENT: "none", Plan.KEEPS_RULES: "feasible", Plan.BREAKS_RULES: "feasible"}


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of re-checking a stored solution.

    Attributes
    ----------
    claims
        Each claim with what became of it.
    """

    claims: tuple[Line, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is refused: every claim is derived, or marked as a solver's word."""
        return all(line.verdict is not Verdict.REFUSED for line in self.claims)

    @property
    def words(self) -> tuple[str, ...]:
        """The claims that are not verified: a solver's word."""
        return tuple(line.claim for line in self.claims if line.verdict is Verdict.WORD)

    @property
    def verified(self) -> bool:
        """Whether every claim is derived from the instance."""
        return self.ok and not self.words

    @property
    def checks(self) -> tuple[tuple[str, bool, str], ...]:
        """Each claim as (name, not refused, message)."""
        return tuple((line.claim, line.verdict is not Verdict.REFUSED, line.how) for line in self.claims)


def verified(
    instance: Any, record: Any, digest: Callable[[Any, Mapping[str, Any]], str], proof: bytes | None
) -> Verification:
    """Return what becomes of every claim of a result; see `apportion.io.stored.verify`."""
    wrong = malformed(record)
    if wrong is not None:
        return Verification((Line("document", Verdict.REFUSED, wrong),))
    found = [Line("document", Verdict.DERIVED, "all fields are present and of their type")]
    found += _identity(instance, kind_of(instance), record)
    try:
        # floors of a result where none are due are refused, and nothing else is about them
        guaranteed = under_floors(instance, record.get("floors")) if shares_are_due(instance) else instance
        found += _Claims(instance, guaranteed, record, proof).lines()
    except InvalidInstance as error:
        return Verification((*found, Line("floors", Verdict.REFUSED, str(error))))
    try:
        same = record["certificate"]["digest"] == digest(instance, record)
    except UnicodeEncodeError:
        return Verification((*found, Line("digest", Verdict.REFUSED, "the document holds half a character")))
    reason = "matches" if same else "the document or the instance was edited"
    return Verification((*found, _line("digest", same, reason)))


def _line(claim: str, holds: bool, how: str) -> Line:
    return Line(claim, Verdict.DERIVED if holds else Verdict.REFUSED, how)


def _identity(instance: Any, kind: ProblemType, record: Mapping[str, Any]) -> Iterator[Line]:
    same = record["kind"] == kind.name in kinds()
    yield _line("kind", same, f"is {record['kind']!r}, the instance is {kind.name!r}")
    same = record["name"] == instance.name
    yield _line("name", same, f"is {record['name']!r}, the instance is {instance.name!r}")


class _Claims:
    """The claims of one result, about an instance under the shares that the result says it keeps."""

    def __init__(self, given: Any, guaranteed: Any, record: Mapping[str, Any], proof: bytes | None) -> None:
        self._given, self._held, self._record, self._proof = given, guaranteed, record, proof
        self._kind = kind_of(given)
        self._limits: list[int | None] = []  # what a proof about objective and goals shows, in whole units
        self._sign = 1 if self._kind.maximizes(given) else -1
        plan = record["plan"]
        self._report: Report | None = None if plan is None else self._kind.check(guaranteed, plan)
        self._plan = (
            Plan.ABSENT
            if self._report is None
            else Plan.KEEPS_RULES
            if self._report.feasible
            else Plan.BREAKS_RULES
        )

    def lines(self) -> Iterator[Line]:
        """Yield every claim, in the order of the table."""
        record = self._record
        yield self._planned()
        objective = self._objective()
        if objective is not None:
            yield objective
        yield from self._checked()
        exact, multipliers = self._multipliers()
        yield multipliers
        proved, line = self._proved()
        bound, how = self._bound(exact, proved)
        yield Line("bound", _BOUNDS[bound], how)
        yield self._gap()
        yield from self._goals()
        shares, of_shares = shares_of(self._kind, self._given, record, self._shown_bound(exact, proved))
        yield from of_shares
        trusted = objective is not None and objective.verdict is Verdict.DERIVED
        # what is stored may be off by as much as a bound may
        value = self._report.objective if trusted and self._report is not None else None
        facts = self._facts(shares, bound, proved, exact, value)
        for main in decided(facts):
            yield self._said(main) if main.claim == "termination" else main
        if line is not None:
            claims = facts.termination in CLAIMS
            fits = facts.proof_shows or self._proof_is_near(proved) if claims else self._proof_bounds(proved)
            yield (
                line
                if line.verdict is Verdict.REFUSED or fits
                else Line("proof", Verdict.REFUSED, f"{line.how}; the result claims more or something else")
            )

    def _planned(self) -> Line:
        match self._plan:
            case Plan.ABSENT:
                absent = self._record["solution"] == "none" and self._record["objective"] is None
                reason = "no plan is claimed" if absent else "a solution is claimed without a plan"
                return _line("plan", absent, reason)
            case Plan.KEEPS_RULES:
                return Line("plan", Verdict.DERIVED, "keeps every rule")
            case Plan.BREAKS_RULES:
                broken = () if self._report is None else self._report.violations
                return Line("plan", Verdict.REFUSED, "; ".join(map(str, broken[:5])))

    def _objective(self) -> Line | None:
        report = self._report
        if report is None or not report.feasible:
            return None
        stored = self._record["objective"]
        if stored is None:
            return Line("objective", Verdict.REFUSED, "is absent although there is a plan")
        exact = self._kind.exact_objective(self._held, self._record["plan"])
        close = stored == report.objective or abs(Fraction(stored) - exact) <= _TOLERANCE * abs(exact)
        return _line("objective", close, f"stored {stored!r}, recomputed exactly {_decimal(exact)}")

    def _checked(self) -> Iterator[Line]:
        reason, report = self._record["check"], self._report
        if report is not None and report.feasible and self._record["objective"] is not None:
            same = reason == {"feasible": True, "objective": report.objective, "violations": []}
            yield _line(
                "check", same, "matches the recomputed check" if same else "differs from the recomputed check"
            )
        elif self._plan is Plan.ABSENT and reason is not None:
            withheld = isinstance(reason, Mapping) and reason.get("feasible") is False
            how = "is about a point that was withheld" if withheld else "is about a plan, and there is none"
            yield Line("check", Verdict.WORD if withheld else Verdict.REFUSED, how)

    def _multipliers(self) -> tuple[Fraction | None, Line]:
        """Return the bound that the multipliers show, and what becomes of the stored one."""
        stored, multipliers = self._record["verified_bound"], self._record["certificate"]["multipliers"]
        if stored is None or multipliers is None:
            none = stored is None and multipliers is None
            verdict = Verdict.NOTHING if none else Verdict.REFUSED
            return None, Line(
                "verified_bound",
                verdict,
                "none is claimed" if none else "needs multipliers, and they a bound",
            )
        try:
            exact = self._kind.exact_bound(self._held, multipliers)
        except ValueError as error:
            return None, Line("verified_bound", Verdict.REFUSED, str(error))
        if exact is None:
            reason = "no bound follows: a job has no admissible option"
            return None, Line("verified_bound", Verdict.REFUSED, reason)
        slack = self._sign * (Fraction(stored) - exact)
        if slack < 0:
            reason = f"{stored!r} is tighter than the exact {_decimal(exact)}"
            return None, Line("verified_bound", Verdict.REFUSED, reason)
        if slack > _TOLERANCE * abs(exact) and slack > Fraction(5e-324):
            reason = f"{stored!r} is looser than the exact {_decimal(exact)} by over 1e-9"
            return None, Line("verified_bound", Verdict.REFUSED, reason)
        return Fraction(stored), Line(
            "verified_bound", Verdict.DERIVED, f"{stored!r} follows from the multipliers"
        )

    def _proved(self) -> tuple[tuple[Proved, float | None], Line | None]:
        """Return what the proof shows, its bound, and what becomes of it as a proof."""
        if self._proof is None:
            return (Proved.NOT_GIVEN, None), None
        from apportion.proofs import verify as walk

        verdict = walk(self._held, self._proof)
        shown = (
            None if verdict.proved or "goals" not in self._record else self._proved_in_one_sum(self._proof)
        )
        if shown is not None:
            return shown
        if not verdict.proved or verdict.claim is None:
            return (Proved.NOTHING, None), Line("proof", Verdict.REFUSED, f"{verdict.status}: {verdict.why}")
        line = Line("proof", Verdict.DERIVED, f"proved that {verdict.claim}: {verdict.why}")
        if verdict.claim.bound is None:
            return (Proved.NO_PLAN, None), line
        return (Proved.NO_BETTER_PLAN, verdict.claim.bound), line

    def _proved_in_one_sum(self, proof: bytes) -> tuple[tuple[Proved, float | None], Line] | None:
        """Return what a proof about the one sum of objective and goals shows; ``None`` if it is none."""
        from apportion.proofs import verify as walk

        option_set, plan = self._kind.option_set, self._record["plan"]
        one = None if option_set is None else option_set.in_one_sum(self._held)
        if one is None or option_set is None or self._plan is not Plan.KEEPS_RULES:
            return None
        verdict = walk(one.instance, proof)
        if not verdict.proved or verdict.claim is None or verdict.claim.bound is None:
            return None
        objective = self._kind.exact_objective(self._held, plan)
        values = goal_values(option_set, self._held, plan)
        wanted = option_set.goals(self._held)
        gained = [values[name] if much else -values[name] for name, much in wanted.items()]
        units = int(self._sign * objective / one.unit)
        self._limits = one.limits(Fraction(verdict.claim.bound), [units, *gained])
        bound = float(self._sign * (self._limits[0] or 0) * one.unit)
        how = f"proved of objective and goals in one sum that {verdict.claim}: {verdict.why}"
        return (Proved.NO_BETTER_PLAN, bound), Line("proof", Verdict.DERIVED, how)

    def _goals(self) -> Iterator[Line]:
        """Yield what becomes of every goal after the objective."""
        stated, option_set = self._record.get("goals"), self._kind.option_set
        if option_set is None or (stated is None and not option_set.goals(self._given)):
            return
        asked = option_set.goals(self._given)
        wanted = {name: "maximize" if much else "minimize" for name, much in asked.items()}
        last = {JOBS_STOPPED: "minimize", JOBS_MOVED: "minimize"}
        said = {goal["name"]: goal["sense"] for goal in stated or ()}
        if stated is None:
            if self._plan is not Plan.ABSENT:
                yield Line("goals", Verdict.WORD, "what becomes of the goals is not told")
            return
        if list(said.items()) not in ([*wanted.items()], [*wanted.items(), *last.items()]) or len(said) < len(
            stated
        ):
            yield Line(
                "goals", Verdict.REFUSED, f"are not those of the instance: {', '.join(wanted) or 'none'}"
            )
            return
        if self._plan is not Plan.KEEPS_RULES:
            yield Line("goals", Verdict.REFUSED, "are told without a plan that keeps the rules")
            return
        values = dict.fromkeys(last, 0) | goal_values(option_set, self._held, self._record["plan"])
        for place, goal in enumerate(stated):
            yield self._goal(goal, values[goal["name"]], place + 1)

    def _goal(self, goal: Mapping[str, Any], value: int, place: int) -> Line:
        """Return what becomes of one goal: its value recomputed, its bound trivial, or shown by the proof."""
        name, bound = f"goal {goal['name']}", goal["bound"]
        sign = 1 if goal["sense"] == "maximize" else -1
        if goal["value"] != value:
            return Line(name, Verdict.REFUSED, f"stored {goal['value']}, recomputed {value}")
        if bound is None:
            return Line(name, Verdict.DERIVED, f"{value} recomputed; no bound is claimed")
        if sign * (value - bound) > 0:
            return Line(name, Verdict.REFUSED, f"the bound {bound} is beaten by the plan's {value}")
        if self._record["termination"] != Termination.OPTIMAL:
            return Line(name, Verdict.REFUSED, "a bound is claimed where the objective is open")
        limit = self._limits[place] if place < len(self._limits) else None
        if limit is not None and sign * (bound - sign * limit) >= 0:
            return Line(
                name, Verdict.DERIVED, f"{value}, and {sign * limit} is the best that the proof leaves"
            )
        if goal["name"] in (JOBS_STOPPED, JOBS_MOVED) and bound <= 0:
            return Line(name, Verdict.DERIVED, f"{value}, and there are none fewer than {bound}")
        return Line(name, Verdict.WORD, f"{value} recomputed; the bound {bound} is claimed by a search")

    def _bound(self, exact: Fraction | None, proved: tuple[Proved, float | None]) -> tuple[Bound, str]:
        """Return by what the stated bound is shown; `exact` is the bound that the multipliers show."""
        bound, objective = self._record["bound"], self._record["objective"]
        source, stored = self._record["certificate"]["source"], self._record["verified_bound"]
        if bound is None:
            # of an infeasible instance the source is what refuted every plan
            refuted = self._record["termination"] == Termination.INFEASIBLE
            reason = (
                "none is claimed"
                if source is None or refuted
                else f"{source!r} is its source, and there is none"
            )
            return (Bound.ABSENT if source is None or refuted else Bound.WRONG), reason
        if source != "multipliers" and source not in _SOURCES:
            return Bound.WRONG, f"is said to come from {source!r}, which is unknown"
        if objective is not None and self._sign * (objective - bound) > 0 and not meets(objective, bound):
            return Bound.WRONG, f"{bound!r} is beaten by the objective {objective!r}"
        if stored is not None and self._sign * (bound - stored) > 0:
            return Bound.WRONG, f"{bound!r} is worse than the verified bound {stored!r}"
        if bound == stored and exact is not None:
            return Bound.SHOWN, "is the verified bound"
        if source == "multipliers":
            return Bound.WRONG, "is said to follow from the multipliers, which do not show it"
        if exact is not None and meets(bound, stored):
            return Bound.SHOWN, f"claimed by {source}, and within 1e-9 of the verified bound"
        if self._proof_bounds(proved):
            return Bound.SHOWN, f"claimed by {source}, and the proof shows it"
        return Bound.SAID, f"claimed by {source}"

    def _proof_bounds(self, proved: tuple[Proved, float | None]) -> bool:
        """Return whether a proof shows the stated bound, or a tighter one."""
        shown, claimed = proved[1], self._record["bound"]
        if shown is None or claimed is None:
            return False
        return bool(self._sign * (shown - claimed) <= 0 or meets(claimed, shown))

    def _proof_is_near(self, proved: tuple[Proved, float | None]) -> bool:
        """Return whether a proof's bound is within 1e-18 of an objective nearer to 0 than a billionth.

        So far beyond it proofs are written there; that the objective is optimal they do not show.
        """
        shown, objective = proved[1], self._record["objective"]
        if shown is None or objective is None or self._plan is not Plan.KEEPS_RULES:
            return False
        return bool(abs(shown - objective) <= absolute_gap(objective, float(_TOLERANCE)))

    def _shown_bound(self, exact: Fraction | None, proved: tuple[Proved, float | None]) -> Fraction | None:
        """Return the tightest bound that is derived."""
        shown = [Fraction(one) for one in (exact, proved[1]) if one is not None]
        return min(shown, key=lambda one: self._sign * one, default=None)

    def _gap(self) -> Line:
        stored, expected = self._record["gap"], None
        if self._record["objective"] is not None and self._record["bound"] is not None:
            expected = relative_gap(self._record["objective"], self._record["bound"])
            expected = expected if math.isfinite(expected) else None
        return _line("gap", stored == expected, f"stored {stored!r}, recomputed {expected!r}")

    def _facts(
        self,
        shares: Shares,
        bound: Bound,
        proved: tuple[Proved, float | None],
        exact: Fraction | None,
        value: float | None,
    ) -> Facts:
        """Return what the verdict depends on; `value` is what the plan is worth, where that is as stored."""
        record = self._record
        termination, stated = Termination(record["termination"]), record["bound"]
        multipliers_show = proof_shows = False
        if value is not None and exact is not None:
            within = termination is Termination.GAP_REACHED and stated == record["verified_bound"]
            multipliers_show = within or meets(value, record["verified_bound"])
        if value is not None and proved[1] is not None:
            met = meets(value, proved[1])
            proof_shows = met if termination is Termination.OPTIMAL else self._proof_bounds(proved)
        if proved[0] is Proved.NO_PLAN:
            proof_shows = termination is Termination.INFEASIBLE and self._plan is Plan.ABSENT
        return Facts(
            termination=termination,
            evidence=record.get("evidence"),
            plan=self._plan,
            bound=bound,
            proved=proved[0],
            shares=shares,
            meets=value is not None and stated is not None and meets(value, stated),
            multipliers_show=multipliers_show,
            proof_shows=proof_shows,
            no_option=self._no_option(termination),
        )

    def _no_option(self, termination: Termination) -> bool:
        """Return whether a job has no admissible option, where that is asked."""
        if termination is not Termination.INFEASIBLE:
            return False
        try:
            free = dict.fromkeys(shared_capacities(self._kind, self._held), 0.0)
            return self._kind.exact_bound(self._held, free) is None
        except ValueError:
            return False

    def _said(self, ended: Line) -> Line:
        """Return what becomes of the termination, which must fit the word that stands for the plan."""
        optimal = self._record["termination"] == Termination.OPTIMAL and self._plan is not Plan.ABSENT
        state = "optimal" if optimal else _SAID[self._plan]
        if self._record["solution"] != state:
            reason = f"the solution is called {self._record['solution']!r}, which is {state!r}"
            return Line("termination", Verdict.REFUSED, reason)
        return ended


_BOUNDS = {
    Bound.ABSENT: Verdict.NOTHING,
    Bound.SHOWN: Verdict.DERIVED,
    Bound.SAID: Verdict.WORD,
    Bound.WRONG: Verdict.REFUSED,
}


def _decimal(exact: Fraction) -> str:
    try:
        return repr(float(exact))
    except OverflowError:
        return "a number beyond doubles"

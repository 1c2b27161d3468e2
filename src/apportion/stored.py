"""The stored solution: one JSON document that can be re-checked years later with no solver installed.

Its digest is a SHA-256 over the canonical instance and everything else in the document, so any edit shows;
its objective and verified bound are recomputed in rational arithmetic, so no digest has to be believed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from apportion.errors import InvalidInstance
from apportion.gap import absolute_gap, meets, relative_gap
from apportion.instances.kinds import Instance, Kind, kind_of, kinds
from apportion.instances.tenants.ledger import under_floors
from apportion.outcome import Termination
from apportion.report import Report
from apportion.solution import Solution

__all__ = ["Verification", "digest", "document", "encode", "verify"]

_TOLERANCE = 1e-9
_FIELDS = (
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
_OPTIONAL = ("evidence", "proof", "levels", "floors", "fair_bound")
_EVIDENCE = (None, "by_multipliers", "by_proof", "by_search", "by_solver")


def document(solution: Solution, read_seconds: float = 0.0, proof_name: str | None = None) -> dict[str, Any]:
    """Return a solution as the documented JSON object, its digest included; its proof is only named.

    A bare model has no canonical text; its document carries no digest.
    """
    from apportion.solving.subject import kind_of_any  # loads solvers, which checking must not

    kind = kind_of_any(solution.instance)
    certificate = solution.certificate
    record: dict[str, Any] = {
        "kind": kind.name,
        "name": "" if kind.bare else solution.instance.name,
        "backend": solution.backend,
        "termination": solution.termination.value,
        "solution": solution.solution,
        "objective": solution.objective,
        "bound": solution.bound,
        "gap": solution.gap,
        "reason": solution.reason,
        "verified_bound": certificate.verified_bound,
        "plan": solution.plan.tolist() if isinstance(solution.plan, np.ndarray) else solution.plan,
        "check": None if solution.report is None else solution.report.to_dict(),
        "certificate": {
            "source": certificate.source,
            "multipliers": None if certificate.multipliers is None else dict(certificate.multipliers),
            "digest": None,
        },
        "times": _times(solution.times, read_seconds),
        "versions": solution.versions,
        "seed": solution.seed,
        "notes": list(solution.notes),
        "evidence": solution.evidence,
        "proof": proof_name,
    }
    if solution.floors is not None:
        record["levels"] = [msgspec.to_builtins(level) for level in solution.levels]
        record["floors"] = dict(solution.floors)
        record["fair_bound"] = solution.fair_bound
    if not kind.bare:
        record["certificate"]["digest"] = digest(solution.instance, record)
    return record


def encode(record: Mapping[str, Any]) -> bytes:
    """Return a document as UTF-8 JSON, one line, keys in their documented order."""
    return msgspec.json.encode(record)


def digest(instance: Instance, record: Mapping[str, Any]) -> str:
    """Return the SHA-256, as hex, over the canonical instance and the document without its digest."""
    rest = {**record, "certificate": {**record["certificate"], "digest": None}}
    payload = msgspec.json.encode([instance, rest], order="deterministic")
    return hashlib.sha256(payload).hexdigest()


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of re-checking a stored solution.

    Attributes
    ----------
    checks
        Each check as (name, passed, message).
    """

    checks: tuple[tuple[str, bool, str], ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(passed for _, passed, _ in self.checks)


def verify(instance: Instance, record: Any, proof: bytes | None = None) -> Verification:
    """Re-check a stored solution against its instance, exactly, without any solver.

    Parameters
    ----------
    instance
        The instance the document claims to solve.
    record
        The document, as decoded from JSON.
    proof
        The bytes of the proof of its claim, to be walked as well.
    """
    malformed = _malformed(record)
    if malformed is not None:
        return Verification((("document", False, malformed),))
    kind = kind_of(instance)
    checks = [("document", True, "all fields are present and of their type")]
    checks.extend(_identity(instance, kind, record))
    given = instance
    try:
        instance = under_floors(instance, record.get("floors"))
        report = kind.check(instance, record["plan"]) if record["plan"] is not None else None
    except InvalidInstance as error:
        return Verification((*checks, ("floors", False, str(error))))
    if "floors" in record:
        checks.append(("floors", True, f"{len(record['floors'])} shares are kept, as the plan's check says"))
    checks.extend(_plan(instance, kind, record, report))
    checks.extend(_bounds(instance, kind, record))
    checks.append(_termination(record))
    checks.append(_evidence(record))
    if record.get("fair_bound") is not None:
        checks.append(_fair_bound(kind.maximizes(instance), record))
    if proof is not None:
        checks.append(_proof(instance, kind, record, proof))
    same = record["certificate"]["digest"] == digest(given, record)
    checks.append(("digest", same, "matches" if same else "the document or the instance was edited"))
    return Verification(tuple(checks))


def _times(times: Mapping[str, float], read_seconds: float) -> dict[str, float]:
    phases = {phase: times.get(phase, 0.0) for phase in ("compile", "start", "solve", "check")}
    return {"read": read_seconds, **phases, "total": times.get("total", 0.0) + read_seconds}


_Number = int | float


def _malformed(record: Any) -> str | None:
    if not isinstance(record, Mapping):
        return "must be a JSON object"
    missing = [name for name in _FIELDS if name not in record]
    unknown = [str(name) for name in record if name not in _FIELDS + _OPTIONAL]
    if missing or unknown:
        return "; ".join(
            [f"lacks {name}" for name in missing] + [f"has the unknown field {name}" for name in unknown]
        )
    for name in ("objective", "bound", "gap", "verified_bound"):
        if record[name] is not None and not _is_number(record[name]):
            return f"{name} must be a number or null"
    certificate = record["certificate"]
    if not isinstance(certificate, Mapping) or set(certificate) != {"source", "multipliers", "digest"}:
        return "certificate must be an object of source, multipliers and digest"
    multipliers = certificate["multipliers"]
    if multipliers is not None and not (
        isinstance(multipliers, Mapping) and all(_is_number(price) for price in multipliers.values())
    ):
        return "certificate.multipliers must be null or an object of numbers"
    if record.get("evidence") not in _EVIDENCE:
        return f"evidence {record['evidence']!r} is unknown"
    if not isinstance(record.get("levels", []), list) or not isinstance(record.get("floors", {}), Mapping):
        return "levels must be a list and floors an object"
    if record.get("fair_bound") is not None and not _is_number(record["fair_bound"]):
        return "fair_bound must be a number or null"
    if not isinstance(record.get("proof"), str | None):
        return "proof must be the name of a file or null"
    if record["termination"] not in list(Termination):
        return f"termination {record['termination']!r} is unknown"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, _Number) and not isinstance(value, bool)


def _identity(instance: Instance, kind: Kind, record: Mapping[str, Any]) -> Iterator[tuple[str, bool, str]]:
    same = record["kind"] == kind.name in kinds()
    yield "kind", same, f"is {record['kind']!r}, the instance is {kind.name!r}"
    yield "name", record["name"] == instance.name, f"is {record['name']!r}, the instance is {instance.name!r}"


def _plan(
    instance: Instance, kind: Kind, record: Mapping[str, Any], report: Report | None
) -> Iterator[tuple[str, bool, str]]:
    if report is None:
        absent = record["solution"] == "none" and record["objective"] is None
        yield "plan", absent, "no plan is claimed" if absent else "a solution is claimed without a plan"
        return
    detail = "keeps every rule" if report.feasible else "; ".join(map(str, report.violations[:5]))
    yield "plan", report.feasible, detail
    if not report.feasible:
        return
    exact = kind.exact_objective(instance, record["plan"])
    stored = record["objective"]
    if stored is None:
        yield "objective", False, "is absent although there is a plan"
        return
    close = stored == report.objective or abs(stored - exact) <= _TOLERANCE * abs(exact)
    yield "objective", close, f"stored {stored!r}, recomputed exactly {float(exact)!r}"
    same = record["check"] == {"feasible": True, "objective": report.objective, "violations": []}
    yield "check", same, "matches the recomputed check" if same else "differs from the recomputed check"


def _bounds(instance: Instance, kind: Kind, record: Mapping[str, Any]) -> Iterator[tuple[str, bool, str]]:
    verified, multipliers = record["verified_bound"], record["certificate"]["multipliers"]
    if verified is None or multipliers is None:
        both = verified is None and multipliers is None
        yield "verified_bound", both, "none is claimed" if both else "needs multipliers, and they a bound"
    else:
        yield _verified_bound(instance, kind, verified, multipliers)
    yield _claimed_bound(instance, kind, record)
    expected = None
    if record["objective"] is not None and record["bound"] is not None:
        expected = relative_gap(record["objective"], record["bound"])
    yield "gap", record["gap"] == expected, f"stored {record['gap']!r}, recomputed {expected!r}"


def _verified_bound(
    instance: Instance, kind: Kind, verified: float, multipliers: Mapping[str, float]
) -> tuple[str, bool, str]:
    try:
        exact = kind.exact_bound(instance, multipliers)
    except ValueError as error:
        return "verified_bound", False, str(error)
    if exact is None:
        return "verified_bound", False, "no bound follows: a job has no admissible option"
    slack = (verified - exact) if kind.maximizes(instance) else (exact - verified)
    if slack < 0:
        return "verified_bound", False, f"{verified!r} is tighter than the exact {float(exact)!r}"
    if slack > _TOLERANCE * abs(exact) and float(slack) > 5e-324:
        return "verified_bound", False, f"{verified!r} is looser than the exact {float(exact)!r} by over 1e-9"
    return "verified_bound", True, f"{verified!r} follows from the multipliers"


def _claimed_bound(instance: Instance, kind: Kind, record: Mapping[str, Any]) -> tuple[str, bool, str]:
    bound, objective, source = record["bound"], record["objective"], record["certificate"]["source"]
    if bound is None:
        refuted = record["termination"] == "infeasible"  # then the source is what refuted every plan
        return "bound", source is None or refuted, "none is claimed"
    if source == "multipliers" and bound != record["verified_bound"]:
        return "bound", False, "is said to follow from the multipliers but is not the verified bound"
    sign = 1 if kind.maximizes(instance) else -1
    if objective is not None and sign * (objective - bound) > 0 and not meets(objective, bound):
        return "bound", False, f"{bound!r} is beaten by the objective {objective!r}"
    verified = record["verified_bound"]
    if verified is not None and sign * (bound - verified) > 0:
        return "bound", False, f"{bound!r} is worse than the verified bound {verified!r}"
    return "bound", True, f"claimed by {source}" if source != "multipliers" else "is the verified bound"


def _termination(record: Mapping[str, Any]) -> tuple[str, bool, str]:
    optimal = record["termination"] == Termination.OPTIMAL
    objective, bound = record["objective"], record["bound"]
    if optimal and (objective is None or bound is None or not meets(objective, bound)):
        return "termination", False, "is optimal, but the bound leaves a gap"
    state = "none" if record["plan"] is None else "optimal" if optimal else "feasible"
    return (
        "termination",
        record["solution"] == state,
        f"{record['termination']}, solution {record['solution']}",
    )


def _evidence(record: Mapping[str, Any]) -> tuple[str, bool, str]:
    named = record.get("evidence")
    if named != "by_multipliers":
        return "evidence", True, f"the claim is said to stand {named}" if named else "nothing is claimed"
    shown = record["verified_bound"] is not None and record["verified_bound"] == record["bound"]
    if record["objective"] is not None and record["verified_bound"] is not None:
        shown = shown or meets(record["objective"], record["verified_bound"])
    return "evidence", shown, "the multipliers show it" if shown else "the multipliers do not show it"


def _fair_bound(maximizes: bool, record: Mapping[str, Any]) -> tuple[str, bool, str]:
    """Hold the bound over equally fair plans against the objective, which it may not refute."""
    bound, objective = record["fair_bound"], record["objective"]
    beaten = objective is not None and (objective > bound if maximizes else objective < bound)
    if beaten and not meets(objective, bound):
        return "fair_bound", False, "the plan, which is as fair, is beyond it"
    return "fair_bound", True, f"no plan as fair is said to be beyond {bound:.12g}"


def _proof(instance: Instance, kind: Kind, record: Mapping[str, Any], proof: bytes) -> tuple[str, bool, str]:
    from apportion.proofs import verify as walk

    verdict = walk(instance, proof)
    if not verdict.proved or verdict.claim is None:
        return "proof", False, f"{verdict.status}: {verdict.why}"
    bound, message = verdict.claim.bound, f"proved that {verdict.claim}: {verdict.why}"
    if bound is None:
        fits = record["termination"] == Termination.INFEASIBLE and record["plan"] is None
    elif record["termination"] == Termination.OPTIMAL:
        fits = record["objective"] is not None and meets(record["objective"], bound)
    else:
        sign = 1 if kind.maximizes(instance) else -1
        claimed = record["bound"]
        fits = claimed is not None and sign * (bound - claimed) <= absolute_gap(claimed, _TOLERANCE)
    return "proof", fits, message if fits else f"{message}; the result claims more or something else"

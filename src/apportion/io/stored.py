"""The stored solution: one JSON document that can be re-checked years later with no solver installed.

Its digest is a SHA-256 over the canonical instance and everything else in the document, so any edit shows;
its objective and verified bound are recomputed in rational arithmetic, so no digest has to be believed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from apportion.core.outcome import Termination
from apportion.core.solution import Solution
from apportion.instances.kinds import Instance
from apportion.proofs.verified_document import Verification, verified

__all__ = ["Verification", "digest", "document", "encode", "verify"]


def document(solution: Solution, read_seconds: float = 0.0, proof_name: str | None = None) -> dict[str, Any]:
    """Return a solution as the documented JSON object, its digest included; its proof is only named.

    A bare model has no canonical text; its document carries no digest.
    """
    from apportion.solving.call import kind_of_any  # loads solvers, which checking must not

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
    if solution.goals:
        shown = solution.termination is Termination.OPTIMAL  # bounds are among plans of the best objective
        goals = (goal if shown else replace(goal, bound=None) for goal in solution.goals)
        record["goals"] = [msgspec.to_builtins(goal) for goal in goals]
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

    Returns
    -------
    Verification
        Every claim with what became of it; ``ok`` if none is refused, ``verified`` if all are derived.
    """
    return verified(instance, record, digest, proof)


def _times(times: Mapping[str, float], read_seconds: float) -> dict[str, float]:
    phases = {phase: times.get(phase, 0.0) for phase in ("compile", "start", "solve", "check")}
    return {"read": read_seconds, **phases, "total": times.get("total", 0.0) + read_seconds}

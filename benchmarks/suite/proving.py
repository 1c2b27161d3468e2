"""How far the claim of an answer can be checked: its proof written and walked, both timed in CPU seconds."""

from __future__ import annotations

import time
from typing import Any

from apportion.core.solution import Solution
from apportion.proofs import verify
from apportion.proofs.certificate import encode
from apportion.solving.evidence import with_proof

__all__ = ["evidence_of"]


def evidence_of(solution: Solution, proof_s: float) -> dict[str, Any]:
    """Return the evidence of a claim, and of its proof bytes, states, seconds to find and to check it."""
    if solution.evidence is None:
        return {}
    before = time.process_time()
    proved = with_proof(solution, proof_s)
    found_s = time.process_time() - before
    row: dict[str, Any] = {"evidence": proved.evidence, "proof": None}
    if proved.proof is not None:
        before = time.process_time()
        verdict = verify(solution.instance, proved.proof)
        row["proof"] = {
            "bytes": len(encode(proved.proof)),
            "states": verdict.states,
            "found_s": found_s,
            "check_s": time.process_time() - before,
        }
    return row

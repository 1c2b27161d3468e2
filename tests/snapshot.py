"""What the package answers on drawn instances and on the examples, to be compared before and after a change.

    python -m tests.snapshot --count 500 --seed 1 --out before.jsonl     # in the checkout of before
    python -m tests.snapshot --count 500 --seed 1 --out after.jsonl      # in the one of after
    python -m tests.snapshot --compare before.jsonl after.jsonl

A line an instance: termination, objective, bound, the exact bound of its multipliers, the digest of the
proof's bytes, its verdict with the states that were walked, the digest of its statement, and every tenth time
that of its explanation. Two snapshots of one seed differ only where an answer has changed; exit code 1 then.
Makespans with gangs are left out: a clock may end their general solver.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import apportion
from apportion.instances.tenants.ledger import under_floors
from apportion.proofs.certificate import encode
from apportion.proofs.statement import statement_of
from apportion.solving.call import kind_of_any
from tests.proofs.claims import KINDS

__all__ = ["answers"]

_EXPLAINED = 10
"""Every so many instances are explained."""
_CLOCKED = "gangs"


def _digest(text: str | bytes) -> str:
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()[:16]


def answers(instance: Any, *, explained: bool) -> dict[str, Any]:
    """Return what is compared of one instance."""
    solution = apportion.solve(instance, time_limit=20.0, deterministic=True, proof=True)
    found: dict[str, Any] = {
        "termination": solution.termination.value,
        "objective": solution.objective,
        "bound": solution.bound,
        "evidence": solution.evidence,
    }
    held = under_floors(instance, solution.floors) if solution.floors else instance
    kind = kind_of_any(held)
    if solution.certificate and solution.certificate.multipliers and not kind.bare:
        found["exact_bound"] = str(kind.exact_bound(held, solution.certificate.multipliers))
    if solution.proof is not None:
        found["proof"] = _digest(encode(solution.proof))
        verdict = apportion.verify(held, solution.proof)
        found["verdict"] = [verdict.status, verdict.states]
    statement = statement_of(held, solution.plan)
    statement.pop("instance", None)
    found["statement"] = _digest(json.dumps(statement, sort_keys=True, default=str))
    if explained and solution.plan is not None:
        try:
            told = apportion.explain(instance, solution)
            found["explanation"] = _digest(json.dumps(told.to_dict(), sort_keys=True, default=str))
        except apportion.ApportionError as error:
            found["explanation"] = str(error)
    return found


def _drawn(count: int, seed: int) -> Iterator[tuple[str, Any]]:
    for path in sorted((Path(__file__).parents[1] / "examples").glob("*.json")):
        yield path.stem, apportion.read(path)
    for name, drawn in KINDS.items():
        for number in range(count):
            yield f"{name} {seed}:{number}", drawn.case(Random(f"{name} {seed} {number}"))


def _compare(before: Path, after: Path) -> int:
    """Print where two snapshots differ, and return how often."""
    known = {one["name"]: one for one in map(json.loads, before.read_text().splitlines())}
    fields: Counter[str] = Counter()
    differing = compared = 0
    for now in map(json.loads, after.read_text().splitlines()):
        earlier = known.pop(now["name"])
        compared += 1
        parts = [part for part in {**now, **earlier} if now.get(part) != earlier.get(part)]
        fields.update(parts)
        if parts:
            differing += 1
            print(now["name"], {part: (earlier.get(part), now.get(part)) for part in parts})
    print(f"{compared} compared, {differing} differ, {len(known)} are missing; {dict(fields)}")
    return differing + len(known)


def main() -> int:
    """Write a snapshot, or compare two."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", type=Path, nargs=2)
    asked = parser.parse_args()
    if asked.compare:
        return 1 if _compare(*asked.compare) else 0
    lines = []
    for number, (name, instance) in enumerate(_drawn(asked.count, asked.seed)):
        if _CLOCKED in name:
            continue
        lines.append(json.dumps({"name": name, **answers(instance, explained=number % _EXPLAINED == 0)}))
    asked.out.write_text("".join(line + "\n" for line in lines))
    print(f"{len(lines)} instances")
    return 0


if __name__ == "__main__":
    sys.exit(main())

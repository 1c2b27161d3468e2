"""Decisions put on record by tests, in this process or in one that is killed."""

from __future__ import annotations

import sys
from pathlib import Path

import apportion
from apportion.instances.gap_filling.generator import generate
from apportion.io import stored
from apportion.service.record import Decided, Record

START_S = 1_790_000_000.0


def instance_of(seed: int) -> apportion.GapFillingInstance:
    return generate(seed=seed, jobs=4, nodes=12)


def decided(session: str, revision: int, seed: int, *, proof: bool = False) -> Decided:
    solution = apportion.solve(instance_of(seed), proof=proof)
    from apportion.proofs.certificate import encode

    return Decided(
        session=session,
        revision=revision,
        result=stored.encode(stored.document(solution)),
        at_s=START_S + 60 * seed,
        seconds=0.25,
        asked_by="tests",
        policy="optimal",
        status="decided",
        options={"time_limit": 10.0},
        proof=encode(solution.proof) if solution.proof is not None else None,
    )


def decide(record: Record, seed: int, *, proof: bool = False) -> int:
    """Put the instance of a seed on record as a session of its own, and the decision about it."""
    name = f"s{seed}"
    with record.together():
        record.open_session(name, instance_of(seed), at_s=START_S + 60 * seed, asked_by="tests")
        return record.decide(decided(name, 0, seed, proof=proof))


def main() -> None:
    """Decide the same again and again, and print every number that is on record, until killed."""
    again = decided("again", 0, 0)
    with Record(Path(sys.argv[1])) as record:
        if not record.migrated_from:
            record.open_session("again", instance_of(0), at_s=START_S, asked_by="tests")
        while True:
            print(record.decide(again), flush=True)


if __name__ == "__main__":
    main()

"""Write the matching instances of this folder again: ``python examples/generate_matching.py [FOLDER]``."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from apportion.instances import MatchingInstance
from apportion.instances.matching.generator import generate_assignment, generate_cluster, generate_unrelated

POOLS = {"k80": 8, "p100": 8, "v100": 4}


def examples() -> dict[str, MatchingInstance]:
    """Return every example by file name."""
    return {
        "matching_unrelated.json": generate_unrelated(1, 20, 4),
        "matching_assignment.json": generate_assignment(1, 20, 4),
        "matching_gangs.json": generate_cluster(1, 30, POOLS),
        "matching_shares.json": generate_cluster(2, 30, POOLS, divisible=True),
    }


def render(instance: MatchingInstance) -> bytes:
    """Return an instance as JSON, defaults left out."""
    plain = msgspec.to_builtins(instance)
    for job in plain["jobs"]:
        job.pop("required") if job["required"] else None
        for entry in job["on"].values():
            for field, default in (
                ("time_s", None),
                ("cost", None),
                ("value", None),
                ("uses", 1),
                ("gpus", 1),
            ):
                if entry[field] == default:
                    del entry[field]
    jobs = ",\n".join("  " + msgspec.json.encode(job).decode() for job in plain.pop("jobs"))
    head = msgspec.json.encode(plain).decode()
    return f'{head[:-1]},"jobs":[\n{jobs}\n]}}\n'.encode()


def main() -> None:
    """Write them all."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, instance in examples().items():
        (folder / name).write_bytes(render(instance))


if __name__ == "__main__":
    main()

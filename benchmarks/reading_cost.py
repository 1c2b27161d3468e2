"""What reading and checking a large instance takes beside reading its text alone."""

from __future__ import annotations

import argparse
import csv
import io
import json

import numpy as np

import apportion
from benchmarks.timing import best_of, provenance


def table(rows: int) -> bytes:
    """Return a table of menus: four options a job, two capacities."""
    rng = np.random.default_rng(1)
    values, gpus, cpus = (rng.integers(1, most, rows).tolist() for most in (100, 9, 65))
    lines = [f"job{k // 4},o{k % 4},{values[k]},{gpus[k]},{cpus[k]}" for k in range(rows)]
    return "\n".join(["job,option,value,gpu,cpu", ",,,1000,5000", *lines, ""]).encode()


def document(jobs: int) -> bytes:
    """Return the same sort of menus as JSON, some 270 bytes a job."""
    menu = [{"id": f"o{k}", "value": k + 1.0, "uses": {"gpu": k + 1, "cpu": 4 * k + 4}} for k in range(4)]
    told = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize"}
    told |= {"capacities": {"gpu": 1000, "cpu": 4000}}
    return json.dumps({**told, "jobs": [{"id": f"job-{k}", "options": menu} for k in range(jobs)]}).encode()


def main() -> None:
    """Print CPU seconds for a table and for a document, and those of the standard library's own reader."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--jobs", type=int, default=115_000)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    menus, text = table(given.rows), document(given.jobs)
    for name, raw, alone in (
        (f"CSV of {given.rows:,} rows", menus, lambda: len(list(csv.reader(io.StringIO(menus.decode()))))),
        (f"JSON of {len(text) / 1e6:.0f} MB", text, lambda: len(json.loads(text))),
    ):
        ours, _ = best_of(
            given.turns, lambda raw=raw: len(apportion.read(raw, "csv" if raw is menus else None).jobs)
        )
        beside, _ = best_of(given.turns, alone)
        print(f"{name:<21} read and checked {ours:.2f} CPU s, text alone {beside:.2f}: {ours / beside:.1f}x")
    print(provenance("msgspec"))


if __name__ == "__main__":
    main()

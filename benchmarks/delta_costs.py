"""What a delta of nodes, machines, capacities or tenants costs, beside checking the whole instance again.

``python -m benchmarks.delta_costs [--rounds N]``: CPU milliseconds, median. Beside every delta stands what
msgspec's ``replace`` takes, which checks an instance as if it had been read.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

import apportion
from apportion.instances.gap_filling.generator import generate
from apportion.service.session import Session
from benchmarks.timing import provenance

__all__ = ["main"]


def matching(jobs: int, pools: int) -> apportion.MatchingInstance:
    """Return jobs that may go to six pools each."""
    machines = tuple(apportion.MatchingMachine(f"m{k}", 50, 10**6) for k in range(pools))

    def job(number: int) -> apportion.MatchingJob:
        on = {f"m{(number + k) % pools}": apportion.MatchingEntry(value=1.0 + k, uses=3) for k in range(6)}
        return apportion.MatchingJob(f"j{number}", on, required=False)

    return apportion.MatchingInstance("1", "value", machines, tuple(map(job, range(jobs))))


def menus_of_tenants(jobs: int, tenants: int) -> Any:
    """Return jobs with eight options each under one capacity, of tenants with guarantees."""
    options = [{"id": f"o{k}", "value": k + 1.0, "uses": {"gpu": k + 1}} for k in range(8)]
    quota = {"gpu": {"guarantee": jobs // tenants}}
    return apportion.read(
        {
            "schema_version": "1",
            "kind": "multiple_choice_knapsack",
            "sense": "maximize",
            "capacities": {"gpu": 2 * jobs},
            "tenants": [{"id": f"t{k}", "quotas": quota} for k in range(tenants)],
            "jobs": [
                {"id": f"j{k}", "options": options, "required": False, "tenant": f"t{k % tenants}"}
                for k in range(jobs)
            ],
        }
    )


def median(rounds: int, work: Callable[[int], Any]) -> float:
    """Return the median of CPU milliseconds of some work that is told its round; three more begin."""
    found = []
    for number in range(rounds + 3):
        began = time.process_time()
        work(number)
        found.append(1e3 * (time.process_time() - began))
    return float(np.median(found[3:]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(provenance())
    rng = np.random.default_rng(0)
    nodes = [f"n{k}" for k in range(5_000)]
    filled = msgspec.structs.replace(generate(jobs=500, nodes=5_000, seed=1))

    def idle(_: int) -> dict[str, Any]:
        return {"op": "set_nodes", "nodes": [node for node in nodes if rng.random() < 0.99]}

    cases: list[tuple[str, Any, dict[str, Callable[[int], dict[str, Any]]]]] = [
        (
            "gap filling, 20 jobs x 200 nodes",
            generate(jobs=20, nodes=200, seed=1),
            {"set_capacity": lambda k: {"op": "set_capacity", "name": "idle_nodes", "amount": 199 - k}},
        ),
        ("gap filling, 500 jobs x 5,000 nodes", filled, {"set_nodes, 1 % go": idle}),
        (
            "matching, 5,000 jobs to 6 of 20 pools",
            matching(5_000, 20),
            {
                "set_capacity": lambda k: {"op": "set_capacity", "name": "m3", "amount": 10**6 + k},
                "set_machine": lambda k: {
                    "op": "set_machine",
                    "machine": {"id": "m5", "count": 60 + k, "capacity": 10**6},
                },
                "remove_nodes, one machine": lambda _: {"op": "remove_nodes", "nodes": ["m4[0]"]},
            },
        ),
        (
            "menus, 10,000 jobs of 10 tenants",
            menus_of_tenants(10_000, 10),
            {
                "update_job": lambda k: {
                    "op": "update_job",
                    "job": {"id": f"j{k}", "tenant": f"t{(k + 1) % 10}"},
                },
                "set_capacity": lambda k: {"op": "set_capacity", "name": "gpu", "amount": 20_000 + k},
                "remove_job": lambda k: {"op": "remove_job", "id": f"j{100 + k}"},
            },
        ),
    ]
    for title, instance, deltas in cases:
        session = Session(instance)
        whole = median(rounds, lambda _, session=session: msgspec.structs.replace(session.instance))
        print(f"\n{title}: the whole instance checked {whole:.3f} ms")
        for name, delta in deltas.items():
            spent = median(rounds, lambda k, session=session, delta=delta: session.apply(delta(k)))
            print(f"  {name:26} {spent:9.3f} ms {whole / spent:8.0f} times less")


if __name__ == "__main__":
    main()

"""A caller beside Slurm: how many nodes every waiting job of a partition should ask for, as scontrol lines.

``python examples/callers/slurm.py PARTITION squeue.json sinfo.json``, where the files are what
``squeue --json`` and ``sinfo --json`` print (Slurm 21.08 to 24.11). Waiting jobs that may take several node
counts (``--nodes=2-8``) share the idle nodes; the lines it prints are for an administrator, or a shell, to
carry out. It changes nothing itself.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

import apportion
from apportion.live.slurm.text import idle, nodes_of_json

HORIZON_S, PARALLEL_LOSS = 3600.0, 0.9
"""How far ahead to look, and the exponent of throughput in nodes that is believed of every job."""


def number(value: Any) -> int:
    """Return a number of any release: plain, or ``{"set": true, "number": 5}``; 0 for none."""
    plain = value.get("number", 0) if isinstance(value, dict) else value
    return plain if isinstance(plain, int) else 0


def waiting(squeue: bytes, partition: str) -> list[dict[str, Any]]:
    """Return the pending jobs of a partition whose number of nodes is open."""
    found = []
    for job in msgspec.json.decode(squeue)["jobs"]:
        state = job.get("job_state")
        states = [state] if isinstance(state, str) else state
        least = max(1, number(job.get("node_count")))
        most = number(job.get("max_nodes"))
        if states == ["PENDING"] and partition in job.get("partition", "").split(",") and most > least:
            found.append({"id": str(number(job["job_id"])), "least": least, "most": most})
    return found


def instance_of(jobs: list[dict[str, Any]], nodes: tuple[str, ...]) -> Any:
    """Return the round: every job gets no node, or from its least to its most."""
    described = []
    for job in jobs:
        most = min(job["most"], max(job["least"], len(nodes)))
        counts = list(range(most + 1))
        described.append(
            {
                "id": job["id"],
                "min_nodes": job["least"],
                "max_nodes": most,
                "scaling": {"nodes": counts, "rate": [float(count) ** PARALLEL_LOSS for count in counts]},
                "rescale_up_s": 0.0,
                "rescale_down_s": 0.0,
            }
        )
    return apportion.read(
        {
            "kind": "gap_filling",
            "schema_version": "1",
            "horizon_s": HORIZON_S,
            "nodes": list(nodes),
            "jobs": described,
        }
    )


def main() -> None:
    """Print one scontrol line per waiting job that gets nodes."""
    partition, squeue, sinfo = sys.argv[1:4]
    nodes = idle(nodes_of_json(Path(sinfo).read_bytes(), partition))
    jobs = waiting(Path(squeue).read_bytes(), partition)
    if not jobs or not nodes:
        print(f"# {len(jobs)} jobs wait, {len(nodes)} nodes are idle: nothing to decide")
        return
    solution = apportion.solve(instance_of(jobs, nodes), time_limit=10.0)
    plan = solution.require()["allocation"]
    print(f"# {len(jobs)} jobs wait, {len(nodes)} nodes are idle: {solution.termination.value}")
    for job in jobs:
        if count := len(plan.get(job["id"], ())):
            print(f"scontrol update JobId={job['id']} NumNodes={count}")


if __name__ == "__main__":
    main()

"""The oracle: BFTrainer's accounting as plain loops over names, and a plain dynamic programme over counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

__all__ = ["best_counts", "plain_replay"]


def best_counts(
    values: NDArray[Any],
    low: NDArray[Any],
    high: NDArray[Any],
    nodes: int,
    allowed: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """Return node counts of greatest value by a table over capacities, job after job."""
    width = min(values.shape[1], nodes + 1)
    table = values[:, :width].astype(float).copy()
    count = np.arange(width)
    table[(count > 0) & ((count < low[:, None]) | (count > high[:, None]))] = -np.inf
    if allowed is not None:
        table[~allowed[:, :width]] = -np.inf
    best, taken = np.zeros(nodes + 1), []
    for row in table:
        window = sliding_window_view(np.concatenate((np.full(width - 1, -np.inf), best)), width)[:, ::-1]
        total = window + row
        taken.append(total.argmax(axis=1))
        best = total.max(axis=1)
    counts = np.zeros(len(taken), dtype=np.int64)
    left = nodes
    for job in range(len(taken) - 1, -1, -1):
        counts[job] = taken[job][left]
        left -= int(counts[job])
    return counts


def plain_replay(
    rows: Sequence[tuple[float, list[int], list[int]]],
    end_s: float,
    jobs: Sequence[dict[str, Any]],
    trainers: int,
    decide: Callable[[list[dict[str, Any]], list[int], dict[int, int | None]], dict[int, int | None]],
) -> dict[str, Any]:
    """Replay (time, nodes that left, nodes that joined) rows and return sums and completion times.

    `decide(jobs, idle, owner)` returns the new owner (a job's number or None) of every idle node.
    """

    def rate(job: dict[str, Any], count: int) -> float:
        return float(job["rates"][count]) if count >= job["min"] else 0.0

    owner: dict[int, int | None] = {}
    queue = list(range(len(jobs)))
    running: list[int] = []
    done = dict.fromkeys(queue, 0.0)
    speed = dict.fromkeys(queue, 0.0)
    charge = dict.fromkeys(queue, 0.0)
    completed: dict[int, float] = {}
    sums = {"output": 0.0, "preemption": 0.0, "rescale": 0.0, "excess": 0.0, "idle_node_s": 0.0}
    before, first = rows[0][0], True
    for now, left, joined in [*rows, (end_s, [], [])]:
        sums["idle_node_s"] += (now - before) * len(owner)
        made = {job: (now - before) * speed[job] - charge[job] for job in running}
        sums["rescale"] += sum(charge[job] for job in running)
        hit = {owner[node] for node in left if owner[node] is not None}
        for job in hit:
            assert job is not None
            made[job] -= jobs[job]["down"] * speed[job]
            sums["preemption"] += jobs[job]["down"] * speed[job]
        for node in left:
            del owner[node]
        for job in list(running):
            done[job] += made[job]
            sums["output"] += made[job]
            if done[job] >= jobs[job]["work"]:
                sums["output"] -= done[job] - jobs[job]["work"]
                sums["excess"] += done[job] - jobs[job]["work"]
                completed[job] = now
                running.remove(job)
                owner = {node: None if held == job else held for node, held in owner.items()}
        before = now
        for node in joined:
            owner[node] = None
        while queue and len(running) < trainers and jobs[queue[0]]["submitted"] <= now:
            running.append(queue.pop(0))
        if not running and not queue:
            break
        if now >= end_s:
            break
        held = {job: sum(1 for who in owner.values() if who == job) for job in running}
        charge = dict.fromkeys(running, 0.0)
        if not owner or not running:
            speed = dict.fromkeys(running, 0.0)
            continue
        owner = decide(
            [{**jobs[job], "number": job, "held": held[job]} for job in running], sorted(owner), owner
        )
        for job in running:
            count = sum(1 for who in owner.values() if who == job)
            stall = jobs[job]["up"] if count > held[job] else jobs[job]["down"] if count < held[job] else 0.0
            charge[job] = (
                jobs[job]["up"] * rate(jobs[job], count) if first else stall * rate(jobs[job], held[job])
            )
            speed[job] = rate(jobs[job], count)
        first = False
    return {**sums, "completed": completed, "ended": before}

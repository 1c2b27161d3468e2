"""The JSON of an instance edited: what explanations and what-if questions are about, without the package."""

from __future__ import annotations

import copy
from typing import Any

__all__ = ["held", "questioned", "with_more", "with_only", "without"]

Told = dict[str, Any]
_PENALTY = "frozen_penalty"


def with_more(told: Told, more: dict[str, int]) -> Told:
    """Return an instance with capacities larger or smaller, as explanations mean it.

    A node of gap filling that is taken away is one nobody holds, or its job pays for giving it up. What is
    more of a matching is machines of a makespan, and room on every machine of a pool otherwise.
    """
    edited = copy.deepcopy(told)
    for name, count in more.items():
        if told["kind"] == "multiple_choice_knapsack":
            edited["capacities"][name] += count
        elif told["kind"] == "freezing":
            _with_gpus(edited, name, count)
        elif told["kind"] == "matching":
            _change(edited, name.split("[")[0], count)
        elif count > 0:
            edited["nodes"] += [f"more-{k}" for k in range(count)]
        else:
            taken = {node for job in edited["jobs"] for node in job.get("current_nodes", ())}
            free = [node for node in edited["nodes"] if node not in taken] or edited["nodes"]
            edited["nodes"].remove(free[-1])
    return edited


def _with_gpus(edited: Told, name: str, count: int) -> None:
    if name == _PENALTY:
        edited["penalty_cap_millionths"] += count
    else:
        edited["gpus"][name] += count


def _with_room(edited: Told, name: str, count: int, of_capacity: bool) -> None:
    pool = next(machine for machine in edited["machines"] if machine["id"] == name)
    if pool.get("capacity") is not None and (of_capacity or edited["objective"] != "makespan"):
        pool["capacity"] += count
    else:
        _with_machines(edited, name, pool.get("count", 1) + count)


def _with_machines(edited: Told, name: str, count: int) -> None:
    for machine in edited["machines"]:
        if machine["id"] == name:
            machine["count"] = count
    edited["machines"] = [machine for machine in edited["machines"] if machine.get("count", 1) > 0]
    for job in edited["jobs"]:
        if name in job["on"] and job["on"][name].get("gpus", 1) > count:
            del job["on"][name]


def with_only(told: Told, capacities: tuple[str, ...]) -> Told:
    """Return an instance without any limit but those of some capacities."""
    edited = copy.deepcopy(told)
    if told["kind"] == "multiple_choice_knapsack":
        edited["capacities"] = {n: c if n in capacities else 10**18 for n, c in told["capacities"].items()}
    elif told["kind"] == "matching":
        named = {name.split("[")[0] for name in capacities}
        for machine in edited["machines"]:
            if machine["id"] not in named:
                machine["capacity"] = None
    elif told["kind"] == "freezing":
        for name in edited["gpus"]:
            if name not in capacities:
                edited["gpus"][name] = 100 * edited.get("gpus_per_node", {}).get(name, 1)
        if _PENALTY not in capacities:
            edited["penalty_cap_millionths"] = None
    elif not capacities:
        edited["nodes"] = [f"n{k}" for k in range(60)]
    return edited


def without(told: Told, jobs: tuple[str, ...]) -> Told:
    """Return an instance without some jobs."""
    edited = copy.deepcopy(told)
    edited["jobs"] = [job for job in edited["jobs"] if job["id"] not in jobs]
    return edited


def held(told: Told, name: str, option: str | None) -> Told:
    """Return an instance with one job held to an option, called as the package calls it; ``None`` is none."""
    edited = copy.deepcopy(told)
    job = next(one for one in edited["jobs"] if one["id"] == name)
    if told["kind"] == "gap_filling":
        job["pinned_count"] = 0 if option in (None, "-") else int(str(option))
    elif told["kind"] == "multiple_choice_knapsack":
        if option in (None, "-"):
            job.update(options=[], pinned=None, forbidden=[], required=False)
        else:
            job["pinned"] = option
    elif told["kind"] == "matching":
        pool = "-" if option is None else option.split("[")[0]
        job.update(on={pool: job["on"][pool]} if pool != "-" else {}, required=pool != "-")
    else:
        _hold_configuration(job, option)
    return edited


def _hold_configuration(job: Told, option: str | None) -> None:
    positive = [value for row in job["menu"] for value in row["effective_progress"] if value > 0]
    if job.get("reference_progress") is None and positive:
        job["reference_progress"] = min(positive)
    if option in (None, "-", "waiting"):
        job.update(menu=[], required=False)
        return
    place, _, depth = str(option).partition(", ")
    rows = [row for row in job["menu"] if f"{row['gpus']}x{row['gpu_type']}" == place]
    if depth:
        rows = [_at_depth(row, int(depth.split()[0])) for row in rows]
    job.update(menu=rows, required=True)


def _at_depth(row: Told, depth: int) -> Told:
    at = row["depths"].index(depth)
    lists = ("depths", "effective_progress", "penalty_millionths")
    return {key: [value[at]] if key in lists and value else value for key, value in row.items()}


def questioned(told: Told, edits: Told) -> Told:
    """Return an instance after the edits of a what-if question, in the order that it documents."""
    edited = copy.deepcopy(told)
    for job in edited["jobs"]:
        if job["id"] in edits.get("unpin", ()):
            job.update({"pinned_count" if told["kind"] == "gap_filling" else "pinned": None})
    edited = without(edited, tuple(edits.get("remove_jobs", ())))
    for node in edits.get("remove_nodes", ()):
        _take_node(edited, node)
    for name, count in edits.get("capacity", {}).items():
        _change(edited, name, count)
    for job in edited["jobs"]:
        job_budget = edits.get("budget", {}).get(job["id"])
        if job_budget is not None:
            job["budget_frozen_s"] += job_budget
    edited["jobs"] += copy.deepcopy(edits.get("add_jobs", []))
    for job_id, option in edits.get("pin", {}).items():
        edited = held(edited, job_id, option)
    return edited


def _change(edited: Told, name: str, count: int) -> None:
    if edited["kind"] == "multiple_choice_knapsack":
        edited["capacities"][name] += count
    elif edited["kind"] == "freezing":
        _with_gpus(edited, name, count)
    elif edited["kind"] == "matching":
        pool, _, what = name.partition(".")
        if what == "count":
            machine = next(machine for machine in edited["machines"] if machine["id"] == pool)
            _with_machines(edited, pool, machine.get("count", 1) + count)
        else:
            _with_room(edited, pool, count, what == "capacity")
    else:
        edited["nodes"] += [f"more-{k}" for k in range(count)]
        for _ in range(-count):
            taken = {node for job in edited["jobs"] for node in job.get("current_nodes", ())}
            free = [node for node in edited["nodes"] if node not in taken] or edited["nodes"]
            _take_node(edited, free[-1])


def _take_node(edited: Told, node: str) -> None:
    """Take a node of gap filling away, from whoever holds it; or a machine of a pool."""
    if edited["kind"] == "matching":
        pool, _, one = node.partition("[")
        machine = next(machine for machine in edited["machines"] if machine["id"] == pool)
        _with_machines(edited, pool, machine.get("count", 1) - 1 if one else 0)
        return
    edited["nodes"].remove(node)
    for job in edited["jobs"]:
        job["current_nodes"] = [name for name in job.get("current_nodes", ()) if name != node]

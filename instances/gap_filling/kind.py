"""Gap filling in the table of kinds: its options, limits and edits, as node counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import count, islice
from typing import Any

from msgspec.structs import replace

from apportion.core.errors import InvalidInstance, Problem, quoted_names
from apportion.core.extension_points import loaded
from apportion.instances.fields import check_distinct, remade
from apportion.instances.gap_filling import check
from apportion.instances.gap_filling.check import CAPACITY, exact_job_values, rate_at
from apportion.instances.gap_filling.schema import (
    GapFillingInstance,
    GapFillingJob,
    check_job,
    check_ownership,
    check_quotas,
    give_up_lost_nodes,
)
from apportion.instances.kind import Edits, JobRules, ProblemType, Wording
from apportion.instances.options import Option, OptionSet

__all__ = ["EDITS", "GAP_FILLING", "MOST_NEW_NODES", "OPTION_SET"]


def _options(instance: GapFillingInstance, job: GapFillingJob) -> Iterator[Option]:
    within = (0, *range(job.min_nodes, min(job.max_nodes, len(instance.nodes)) + 1))
    counts = [nodes for nodes in within if job.allows(nodes) and job.pinned_count in (None, nodes)]
    values = exact_job_values(job, Fraction(instance.horizon_s), counts)
    for nodes, value in zip(counts, values, strict=True):
        holds = nodes == len(job.current_nodes)
        uses = {CAPACITY: nodes} if nodes else {}
        yield Option(str(nodes), uses, value, rate_at(job.scaling, nodes), holds, idle=nodes == 0)


def _taken(instance: GapFillingInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    allocation = plan["allocation"]
    return {job.id: str(len(allocation.get(job.id, ()))) for job in instance.jobs}


def _stopped(job: GapFillingJob) -> bool:
    now = len(job.current_nodes)
    return job.pinned_count == 0 and job.min_nodes <= now <= job.max_nodes and job.allows(now)


_COLUMNS = "apportion.instances.gap_filling.option_columns:columns"

OPTION_SET = OptionSet(
    _options,
    _taken,
    stopped=_stopped,
    columns=lambda instance: loaded(_COLUMNS)(instance),
    extreme=lambda instance: loaded(_COLUMNS)(instance, extreme=True),
)


MOST_NEW_NODES = 1_000_000
"""Most nodes that one change of the capacity makes up."""


def _capacities(instance: GapFillingInstance) -> dict[str, int]:
    return {CAPACITY: len(instance.nodes)}


def _remove_nodes(instance: GapFillingInstance, nodes: Iterable[str]) -> GapFillingInstance:
    """Return the instance without some nodes; jobs that hold one lose it."""
    gone = set(nodes)
    missing = sorted(gone.difference(instance.nodes))
    if missing:
        raise InvalidInstance.at("$.nodes", f"there is no node {quoted_names(missing)}")
    return _set_nodes(instance, [node for node in instance.nodes if node not in gone])


def _set_nodes(instance: GapFillingInstance, nodes: Any) -> GapFillingInstance:
    """Return the instance with these idle nodes; jobs lose the nodes that are not among them."""
    if not isinstance(nodes, list | tuple) or not all(isinstance(node, str) for node in nodes):
        raise InvalidInstance.at("$.nodes", "must be a list of node names")
    idle = set(nodes)
    jobs = tuple(_with_nodes(job, idle) for job in instance.jobs)
    same = all(job is was for job, was in zip(jobs, instance.jobs, strict=True))
    return remade(instance, nodes=tuple(nodes), jobs=instance.jobs if same else jobs)


def _with_nodes(job: GapFillingJob, idle: set[str]) -> GapFillingJob:
    if idle.issuperset(job.current_nodes):
        return job
    return replace(job, current_nodes=tuple(node for node in job.current_nodes if node in idle))


def _change_capacity(instance: GapFillingInstance, _: str, present: int, delta: int) -> GapFillingInstance:
    """Return the instance with new nodes ``extra-1``, ``extra-2``, ..., or with fewer nodes.

    The nodes nobody holds go first, from the end of the node list, then held ones from its end.
    """
    if delta > MOST_NEW_NODES:
        raise InvalidInstance.at(
            "$.nodes", f"at most {MOST_NEW_NODES} nodes can be added at once, not {delta}"
        )
    if delta >= 0:
        taken = set(instance.nodes)
        fresh = (name for name in (f"extra-{i}" for i in count(1)) if name not in taken)
        return remade(instance, nodes=(*instance.nodes, *islice(fresh, delta)))
    held = {node for job in instance.jobs for node in job.current_nodes}
    first_to_go = [node for node in reversed(instance.nodes) if node not in held]
    first_to_go += [node for node in reversed(instance.nodes) if node in held]
    return _remove_nodes(instance, first_to_go[:-delta])


def _pin(instance: GapFillingInstance, choices: Mapping[str, int | str]) -> GapFillingInstance:
    return remade(
        instance,
        jobs=tuple(
            replace(job, pinned_count=_node_count(job, choices[job.id])) if job.id in choices else job
            for job in instance.jobs
        ),
    )


def _node_count(job: GapFillingJob, wanted: int | str) -> int:
    text = str(wanted)
    admissible = f"0 or {job.min_nodes} to {job.max_nodes} nodes"
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise InvalidInstance.at(
            "$.jobs", f"job {job.id!r} cannot be pinned to {wanted!r}; it takes {admissible}"
        )
    number = int(text)
    if number != 0 and not job.min_nodes <= number <= job.max_nodes:
        raise InvalidInstance.at(
            "$.jobs", f"job {job.id!r} cannot be pinned to {number}; it takes {admissible}"
        )
    return number


def _adopt(instance: GapFillingInstance, plan: Mapping[str, Any]) -> Iterator[GapFillingJob]:
    for job in instance.jobs:
        held = tuple(plan["allocation"].get(job.id, ()))
        if held != job.current_nodes:
            yield replace(job, current_nodes=held)


def _check_nodes(_: GapFillingInstance, new: GapFillingInstance, problems: list[Problem]) -> None:
    check_distinct("$.nodes", new.nodes, "node", problems)


EDITS = Edits(
    job_type=GapFillingJob,
    capacities=_capacities,
    change_capacity=_change_capacity,
    pin=_pin,
    pin_field="pinned_count",
    remove_nodes=_remove_nodes,
    rules=JobRules(
        check=check_job,
        keep=lambda old, new: old.nodes == new.nodes,
        between=check_ownership,
        lose=give_up_lost_nodes,
        concerns=lambda job: bool(job.current_nodes),
        around=_check_nodes,
        tenants=check_quotas,
    ),
    set_nodes=_set_nodes,
    adopt=_adopt,
    named_by=lambda instance, name: "set_nodes",
)


def _in_id_order(instance: GapFillingInstance) -> GapFillingInstance:
    """Sort the jobs; the order of nodes and of current nodes is the site's own, and means something."""
    return replace(instance, jobs=tuple(sorted(instance.jobs, key=lambda job: job.id)))


def _menu(job: GapFillingJob) -> Iterator[dict[str, Any]]:
    points = zip(job.scaling.nodes, job.scaling.rate, strict=True)
    return ({"nodes": nodes, "rate": rate} for nodes, rate in points if nodes)


GAP_FILLING = ProblemType(
    "gap_filling",
    GapFillingInstance,
    lambda _: True,
    check.check,
    check.exact_objective,
    in_id_order=_in_id_order,
    edits=EDITS,
    option_set=OPTION_SET,
    menu=_menu,
    menu_field="scaling",
    wording=Wording(units={"objective": " samples"}, counts_nodes=True),
)

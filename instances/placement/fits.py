"""How many pods of a job fit where, beside a plan and without anybody: why it waits, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from apportion.instances.placement.placed import Placed
from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementOption,
    PlacementPods,
)
from apportion.instances.placement.site import site_of

__all__ = ["remarks"]


def remarks(instance: PlacementInstance, job: PlacementJob, plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield where a job's pods are, or what of every option of it fits where."""
    placed = Placed(instance, site_of(instance), plan["placement"])
    got = placed.got.get(job.id)
    if got is None:
        if job.id in placed.stopped:
            yield "it runs now and is stopped"
        for option in job.options:
            for pods in option.pods:
                yield f"{option.id}: {_fits(placed, option, pods)}"
        return
    for pods in got.pods:
        on = placed.after.get((job.id, pods.name), {})
        nodes = [f"{node} x{count}" if count > 1 else node for node, count in on.items()]
        more = f" and {len(nodes) - 8} more" if len(nodes) > 8 else ""
        several = f"{pods.name} " if len(got.pods) > 1 else ""
        yield f"{several}on {', '.join(nodes[:8]) or 'no node'}{more}"
    moved = sum(number for of, number in placed.moved.items() if of[0] == job.id)
    if moved:
        yield f"{moved} of its pods move or stop"


def _fits(placed: Placed, option: PlacementOption, pods: PlacementPods) -> str:
    site = placed.site
    level = option.required if option.required is not UNSET else pods.required
    beside, alone = _rooms(placed, pods, beside=True), _rooms(placed, pods, beside=False)
    name = "pods" if pods.name == "pods" else f"pods {pods.name!r}"
    if level is UNSET:
        return (
            f"of {pods.count} {name} {min(int(beside.sum()), pods.count)} fit beside the others, "
            f"{min(int(alone.sum()), pods.count)} on empty nodes"
        )
    size = len(site.places[level])
    by_place = [np.bincount(site.place[level], weights=rooms, minlength=size) for rooms in (beside, alone)]
    best = int(np.argmax(by_place[0]))
    fit, most = (min(int(rooms.max(initial=0)), pods.count) for rooms in by_place)
    return (
        f"{pods.count} {name} must lie in one {level}: {fit} fit beside the others (in "
        f"{site.places[level][best]}), {most} in an empty one"
    )


def _rooms(placed: Placed, pods: PlacementPods, *, beside: bool) -> NDArray[np.int64]:
    """Return int64 [nodes]: how many such pods fit, beside those of the plan or alone."""
    site = placed.site
    free = {name: site.free(name) for name in site.limited}
    if beside:
        free = {
            name: left - np.array([placed.load([node], name) for node in site.nodes])
            for name, left in free.items()
        }
    return site.rooms(pods, free)

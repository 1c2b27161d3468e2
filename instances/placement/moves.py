"""From the present placement to a plan, step by step: no node is overfull on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from apportion.instances.placement.placed import Placed
from apportion.instances.placement.schema import PlacementInstance

__all__ = ["Step", "steps"]


class Step(NamedTuple):
    """One thing to do with alike pods of a job.

    Attributes
    ----------
    does
        ``"stop"``, ``"move"``, ``"pause"`` (stopped until its node is free: no node has room for it on the
        way) or ``"start"``.
    job, pods, number
        Which pods, how many.
    source, target
        From which node, to which; empty for none.
    """

    does: Literal["stop", "move", "pause", "start"]
    job: str
    pods: str
    number: int
    source: str
    target: str


def steps(instance: PlacementInstance, plan: Mapping[str, Any]) -> list[Step]:
    """Return the steps to a feasible plan: who is stopped, who moves in which order, who starts.

    A move waits until its target has room. Where moves wait for each other, one goes by a third node, or
    pauses where none has room.

    Examples
    --------
    >>> import apportion
    >>> job = {"options": [{"id": "run", "pods": [{"needs": {"gpu": 2}}]}]}
    >>> now = [{"option": "run", "on": {"pods": {node: 1}}} for node in ("n0", "n1")]
    >>> given = apportion.read({
    ...     "kind": "placement", "schema_version": "1", "levels": ["node"],
    ...     "nodes": [{"names": "n[0-2]", "capacity": {"gpu": 2}}],
    ...     "jobs": [{"id": "a", "current": now[0], **job}, {"id": "b", "current": now[1], **job}],
    ... })
    >>> for step in steps(given, {"placement": {"a": now[1], "b": now[0]}}):
    ...     print(step.does, step.job, step.source, "->", step.target)
    move a n0 -> n2
    move b n1 -> n0
    move a n2 -> n1
    """
    way = _Way(Placed.of(instance, plan))
    return [*way.stops(), *way.moves(), *way.starts()]


class _Going(NamedTuple):
    """Pods that leave a node: where to, empty for nowhere, and whether they were put aside already."""

    job: str
    pods: str
    number: int
    source: str
    target: str
    aside: bool = False


class _Way:
    def __init__(self, placed: Placed) -> None:
        self.placed, site = placed, placed.site
        free = {name: site.free(name).tolist() for name in site.limited}
        self.room = {node: {name: free[name][at] for name in free} for at, node in enumerate(site.nodes)}
        self.leaving, self.coming = list[_Going](), list[Step]()
        for job, pods in {**placed.before, **placed.after}:
            now, then = (where.get((job, pods), {}) for where in (placed.before, placed.after))
            for node, count in now.items():
                self._use(job, pods, node, count)
            into = {node: count - min(count, now.get(node, 0)) for node, count in then.items()}
            for node, count in now.items():
                self._leave(job, pods, node, count - min(count, then.get(node, 0)), into)
            self.coming += [Step("start", job, pods, n, "", node) for node, n in into.items() if n]

    def _leave(self, job: str, pods: str, node: str, count: int, into: dict[str, int]) -> None:
        """Note where the pods that leave a node go to: where pods of their name are to come, or nowhere."""
        for target in into:
            if moved := min(count, into[target]):
                into[target] -= moved
                count -= moved
                self.leaving.append(_Going(job, pods, moved, node, target))
        if count:
            self.leaving.append(_Going(job, pods, count, node, ""))

    def _use(self, job: str, pods: str, node: str, count: int) -> None:
        if node in self.room and (job, pods) in self.placed.pods:
            for resource in self.room[node]:
                self.room[node][resource] -= count * self.placed.amount((job, pods), resource)

    def _fits(self, one: _Going, node: str) -> bool:
        needs = (
            (self.placed.amount((one.job, one.pods), name), left) for name, left in self.room[node].items()
        )
        return all(one.number * need <= left for need, left in needs)

    def stops(self) -> Iterator[Step]:
        """Yield who is stopped; a pod whose node is gone has stopped by itself and starts elsewhere."""
        for one in self.leaving:
            if not one.target:
                self._use(one.job, one.pods, one.source, -one.number)
                yield Step("stop", one.job, one.pods, one.number, one.source, "")
            elif one.source not in self.room:
                self.coming.append(Step("start", one.job, one.pods, one.number, "", one.target))

    def moves(self) -> Iterator[Step]:
        """Yield who moves, as soon as there is room."""
        waiting = [one for one in self.leaving if one.target and one.source in self.room]
        while waiting:
            ready = next((one for one in waiting if self._fits(one, one.target)), None)
            one = waiting[0] if ready is None else ready
            waiting.remove(one)
            job, pods, count, source, target, aside = one
            self._use(job, pods, source, -count)
            others = () if aside else (node for node in self.room if node != source and self._fits(one, node))
            to = target if ready is not None else next(iter(others), None)
            if to is None:
                self.coming.append(Step("start", job, pods, count, "", target))
                yield Step("pause", job, pods, count, source, "")
                continue
            self._use(job, pods, to, count)
            if to != target:
                waiting.append(_Going(job, pods, count, to, target, True))
            yield Step("move", job, pods, count, source, to)

    def starts(self) -> Iterator[Step]:
        """Yield who starts."""
        yield from self.coming

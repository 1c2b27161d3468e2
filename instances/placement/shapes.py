"""Every way in which the pods of a job can lie, where there are few."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from apportion.instances.placement.program import Integers, Program, Shape
from apportion.instances.placement.schema import PlacementJob, PlacementOption, PlacementPods

__all__ = ["placed_shapes", "rooms_of"]

_TRIED = 20_000
"""Combinations of pods of several names that are looked at."""


def placed_shapes(
    made: Program,
    job: PlacementJob,
    options: Sequence[PlacementOption],
    classes: Mapping[str, Sequence[int]],
    most: int,
) -> list[tuple[PlacementOption, Shape]] | None:
    """Return every placed shape of a job's options, alone in the cluster; ``None`` if more than `most`."""
    found: list[tuple[PlacementOption, Shape]] = []
    for option in options:
        own = classes[option.id]
        if job.fixed:
            found += [(option, shape) for shape in _present_shape(made, job, option, own)]
            continue
        shapes = _of_option(made, option, own, most)
        if shapes is None or len(found) + len(shapes) > most:
            return None
        found += [(option, shape) for shape in shapes]
    return found


def _present_shape(
    made: Program, job: PlacementJob, option: PlacementOption, classes: Sequence[int]
) -> Iterator[Shape]:
    """Yield the present shape of a job that must keep it; nothing where it is none any more."""
    assert job.current is not None
    number, shape = made.site.number, list[tuple[int, int, int]]()
    names = {pods.name for pods in option.pods}
    if any(on for name, on in job.current.on.items() if name not in names and any(on.values())):
        return
    for of in classes:
        pods, rooms = made.classes[of].pods, rooms_of(made, of)
        on = {node: n for node, n in job.current.on.get(pods.name, {}).items() if n}
        if any(node not in number or count > rooms[number[node]] for node, count in on.items()):
            return
        own = tuple((of, number[node], count) for node, count in on.items())
        whole = pods.required is UNSET or len(_lies_in(made, pods.required, own)) <= 1
        if not (pods.fewest <= sum(on.values()) <= pods.count and whole and _is_sliced(made, pods, own)):
            return
        shape += own
    if option.required is UNSET or len(_lies_in(made, option.required, shape)) <= 1:
        yield tuple(shape)


def _lies_in(made: Program, level: str, shape: Iterable[tuple[int, int, int]]) -> set[int]:
    return {int(made.site.place[level][node]) for _, node, _ in shape}


def _of_option(
    made: Program, option: PlacementOption, classes: Sequence[int], most: int
) -> list[Shape] | None:
    site, level = made.site, option.required
    if len(classes) == 1 and (alone := _single_node_shapes(made, classes[0], level)) is not None:
        return alone if len(alone) <= most else None
    scopes: list[NDArray[np.bool_]] = [np.ones(len(site.nodes), dtype=np.bool_)]
    if level is not UNSET:
        scopes = [site.place[level] == place for place in range(len(site.places[level]))]
    found: dict[Shape, None] = {}
    tried = 0
    for scope in scopes:
        each: list[list[Shape]] = []
        for of in classes:
            if _has_many(made, of, scope, most):
                return None
            own = [shape for shape, _ in zip(_of_class(made, of, scope), range(most + 1), strict=False)]
            if len(own) > most:
                return None
            each.append(own)
        for parts in product(*each):
            tried += 1
            shape = tuple(chain.from_iterable(parts))
            if len(each) == 1 or _fits(made, shape):
                found[shape] = None
            if tried > _TRIED or len(found) > most:
                return None
    return list(found)


def _single_node_shapes(made: Program, of: int, level: str | UnsetType) -> list[Shape] | None:
    """Return the shapes of pods all of which are at one node: of one pod, or where places are one node each.

    ``None`` where pods may lie at several nodes, or some of them nowhere.
    """
    pods, site = made.classes[of].pods, made.site
    wanted = pods.required if level is UNSET else level
    single = wanted is not UNSET and len(site.places[str(wanted)]) == len(site.nodes)
    if pods.slices or not pods.count or pods.fewest != pods.count or not (pods.count == 1 or single):
        return None
    nodes = np.flatnonzero(rooms_of(made, of) >= pods.count).tolist()
    return [((of, node, pods.count),) for node in nodes]


def _fits(made: Program, shape: Shape) -> bool:
    """Return whether a shape fits on the nodes as they are."""
    for resource in made.site.limited:
        used: dict[int, int] = {}
        for of, node, count in shape:
            used[node] = used.get(node, 0) + count * made.classes[of].pods.takes(resource)
        if any(much > made.free[resource][node] for node, much in used.items()):
            return False
    return True


def _of_class(made: Program, of: int, scope: NDArray[np.bool_]) -> Iterator[Shape]:
    """Yield how the pods of one class can lie."""
    pods, site = made.classes[of].pods, made.site
    rooms = np.where(scope, rooms_of(made, of), 0)
    if pods.required is UNSET:
        yield from (shape for shape in _spreads(of, pods, rooms) if _is_sliced(made, pods, shape))
        return
    if pods.fewest == 0:
        yield ()
    places = site.place[pods.required]
    for place in np.unique(places[rooms > 0]).tolist():
        inside = np.where(places == place, rooms, 0)
        yield from (s for s in _spreads(of, pods, inside) if s and _is_sliced(made, pods, s))


def _has_many(made: Program, of: int, scope: NDArray[np.bool_], most: int) -> bool:
    """Return whether pods of a class, without slices or levels, can lie in more than so many ways."""
    pods = made.classes[of].pods
    if pods.slices or pods.required is not UNSET:
        return False
    ways = np.zeros(pods.count + 1, dtype=np.int64)  # by how many pods lie on the nodes so far
    ways[0] = 1
    for room in rooms_of(made, of)[scope].tolist():
        total = np.cumsum(ways)
        below = np.concatenate((np.zeros(room + 1, np.int64), total))
        ways = np.minimum(total - below[: ways.size], most + 1)
        if ways[pods.fewest :].sum() > most:
            return True
    return False


def _is_sliced(made: Program, pods: PlacementPods, shape: Shape) -> bool:
    """Return whether every place holds whole slices."""
    for level, size in pods.slices.items():
        place, each = made.site.place[level], dict[int, int]()
        for _, node, count in shape:
            each[int(place[node])] = each.get(int(place[node]), 0) + count
        if any(number % size for number in each.values()):
            return False
    return True


def _spreads(of: int, pods: PlacementPods, rooms: Integers) -> Iterator[Shape]:
    """Yield every way to put the least to the most of some pods at nodes with room."""
    at = np.flatnonzero(rooms).tolist()
    room = rooms[at].tolist()
    after = [*np.cumsum(room[::-1], dtype=np.int64)[::-1].tolist(), 0]

    def over(first: int, least: int, most: int) -> Iterator[Shape]:
        if least <= 0:
            yield ()
        for place in range(first, len(at) if most else first):
            if after[place] < least:
                return
            for count in range(min(most, room[place]), 0, -1):
                mine = (of, at[place], count)
                for others in over(place + 1, least - count, most - count):
                    yield mine, *others

    yield from over(0, pods.fewest, pods.count)


def rooms_of(made: Program, of: int) -> Integers:
    """Return int64 [nodes]: how many pods of a class fit at every node, alone in the cluster."""
    return made.site.rooms(made.classes[of].pods, made.free)

"""Pods that stay where they are now: beside enumeration, and never fewer than before."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import numpy as np
import pytest
from tests.budgets import examples

from apportion.models.pods import PodPacking, best_fit, keeps_rooms
from apportion.solvers.packing.pods import pack_pods
from apportion.solvers.packing.staying import most_staying


def drawn(rng: Random) -> PodPacking:
    """Return three or four jobs of one or two pods on three or four nodes, most being somewhere now."""
    nodes = rng.randint(3, 4)
    rooms = tuple((rng.randint(2, 5), rng.randint(3, 6)) for _ in range(nodes))
    place = np.array([at // 2 for at in range(nodes)])
    pods, now, places = [], [], []
    for _ in range(rng.randint(3, 4)):
        need = rng.randint(1, 3), rng.randint(0, 3)
        count = rng.choice((1, 1, 2))
        pods.append((need,) * count)
        now.append(tuple(rng.choice((-1, *range(nodes), *range(nodes))) for _ in range(count)))
        places.append(place if count > 1 and rng.random() < 0.6 else None)
    return PodPacking(rooms, tuple(range(len(pods))), tuple(pods), None, tuple(places), tuple(now))


def stay(packing: PodPacking, nodes: list[tuple[int, ...]]) -> int:
    """Return how many pods are on nodes where their job has one now."""
    pairs = zip(packing.now, nodes, strict=True)
    return sum((Counter(one for one in now if one >= 0) & Counter(own)).total() for now, own in pairs)


def test_most_pods_stay_that_enumeration_leaves() -> None:
    """All placements are kept or better, and nineteen in twenty are what enumeration finds."""
    rng, best, tried = Random(5), 0, 0
    while tried < examples(600):
        packing = drawn(rng)
        ways = product(*(product(range(len(packing.rooms)), repeat=len(own)) for own in packing.pods))
        fitting = [list(way) for way in ways if keeps_rooms(packing, way)]
        if not fitting:
            continue
        given = rng.choice(fitting)
        found = most_staying(packing, given, None)
        assert keeps_rooms(packing, found) and stay(packing, found) >= stay(packing, given)
        tried += 1
        best += stay(packing, found) == max(stay(packing, way) for way in fitting)
    assert best >= 0.95 * tried


def test_contents_of_places_change_places() -> None:
    """Two gangs that fill a rack each go back to their racks, and a pod beside one of them beside it."""
    rooms, place = ((2,),) * 4, np.array([0, 0, 1, 1])
    pods = (((2,), (2,)), ((1,), (1,)), ((1,),))
    packing = PodPacking(rooms, (0, 1, 2), pods, None, (place, place, None), ((0, 1), (2, 3), (3,)))
    assert best_fit(packing) is not None
    assert most_staying(packing, [(2, 3), (0, 1), (0,)], None) == [(0, 1), (2, 3), (3,)]


def test_the_fewest_pods_make_room() -> None:
    """For a pod of 4 one of 2 moves, not two of 1 and one of 2; and nobody if there is no time."""
    rooms = ((4,), (4,), (2,))
    pods = (((4,),), ((2,),), ((1,),), ((1,),), ((2,),))
    packing = PodPacking(rooms, tuple(range(5)), pods, None, (None,) * 5, ((-1,), (0,), (1,), (1,), (1,)))
    apart = [(1,), (0,), (2,), (2,), (0,)]
    assert keeps_rooms(packing, apart)
    found = most_staying(packing, apart, None)
    assert keeps_rooms(packing, found) and stay(packing, found) == 3 and found[1] == (2,)
    assert most_staying(packing, apart, 0.0) == apart
    assert pack_pods(packing, None).nodes is not None


@pytest.mark.parametrize("seed", range(3))
def test_what_runs_nowhere_is_left_as_it_is(seed: int) -> None:
    packing = PodPacking(((9,),) * 3, (0, 1), (((3,),), ((4,),)), now=((-1,), (-1,)))
    nodes = [(seed,), (2,)]
    assert most_staying(packing, nodes, None) == nodes

"""Packing onto the alike machines of a pool, against trying everything."""

from __future__ import annotations

import itertools
import random

import pytest

from apportion.models.packing import MachinePacking
from apportion.solvers.packing.machines import pack_machines


def fits(packing: MachinePacking, jobs: list[int]) -> bool:
    """Return whether some of the jobs fit, by every choice of machines."""
    ways = [list(itertools.combinations(range(packing.count), packing.gpus[job])) for job in jobs]
    for held in itertools.product(*ways):
        used = [0] * packing.count
        for job, machines in zip(jobs, held, strict=True):
            for machine in machines:
                used[machine] += packing.uses[job]
        if max(used) <= packing.capacity:
            return True
    return False


@pytest.mark.parametrize("seed", range(120))
def test_what_is_placed_fits_and_what_is_not_is_refuted(seed: int) -> None:
    rng = random.Random(seed)
    count, capacity, jobs = rng.randint(1, 3), rng.randint(1, 9), rng.randint(1, 5)
    packing = MachinePacking(
        count,
        capacity,
        tuple(range(10, 10 + jobs)),
        tuple(rng.randint(1, count) for _ in range(jobs)),
        tuple(rng.randint(0, capacity) for _ in range(jobs)),
    )
    found = pack_machines(packing)
    assert found.proven
    assert (found.nodes is not None) == fits(packing, list(range(jobs)))
    if found.nodes is not None:
        used = [0] * count
        for machines, gpus, use in zip(found.nodes, packing.gpus, packing.uses, strict=True):
            assert len(set(machines)) == gpus
            for machine in machines:
                used[machine] += use
        assert max(used) <= capacity
    elif found.weights is not None:
        (size,) = found.weights
        held = sum(gpus for gpus, use in zip(packing.gpus, packing.uses, strict=True) if use >= size)
        assert held > count * (capacity // size)
    else:
        assert found.core is not None
        assert not fits(packing, [job - 10 for job in found.core])


def test_fewer_jobs_are_named_where_they_do_not_fit_already() -> None:
    packing = MachinePacking(2, 10, (0, 1, 2, 3), (1, 1, 2, 1), (8, 4, 3, 1))
    found = pack_machines(packing)
    assert found.nodes is None and found.core == (0, 2)

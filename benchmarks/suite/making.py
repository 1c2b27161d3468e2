"""The makers: from a recipe to an instance, in the process that solves it. Every generator has a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

__all__ = ["MAKERS", "NoData", "make"]


class NoData(Exception):
    """A file of the data folder is asked for and is not there."""


def make(maker: str, arguments: Mapping[str, Any], data: str | None) -> Any:
    """Return the instance of a recipe.

    Raises
    ------
    NoData
        If it needs the data folder and there is none, or not this file.
    """
    if maker not in ("file", "summit", "gavel_table"):
        return MAKERS[maker](**arguments)
    if data is None:
        raise NoData("no data folder was given; name one with --data")
    try:
        return MAKERS[maker](Path(data), **arguments)
    except FileNotFoundError as error:
        raise NoData(f"not in the data folder: {Path(error.filename or '').name}") from None


def _event(seed: int, jobs: int, nodes: int) -> Any:
    """Make one event of gap filling: published curves, generated idle spells."""
    from apportion.instances.gap_filling.generator import generate

    return generate(seed=seed, jobs=jobs, nodes=nodes)


def _menus(
    seed: int, law: Any, jobs: int, options: int = 10, capacities: int = 1, arrays: bool = False
) -> Any:
    """Make menus after Pisinger's classes; as bare arrays where names would be most of the work."""
    from apportion.instances.multiple_choice_knapsack.generator import generate, to_instance
    from apportion.models import MultipleChoiceKnapsack

    menus = generate(seed, law, jobs, options, capacities)
    return MultipleChoiceKnapsack.from_arrays(*menus) if arrays else to_instance(menus, f"{law} {jobs}")


def _uniform_menus(seed: int, jobs: int, options: int = 8) -> Any:
    """Make bare menus of uniform values and uses, the capacity a quarter of the way up."""
    from apportion.models import MultipleChoiceKnapsack

    rng = np.random.default_rng(seed)
    uses = rng.integers(1, 1001, jobs * options)
    menus = uses.reshape(jobs, options)
    least, most = int(menus.min(axis=1).sum()), int(menus.max(axis=1).sum())
    values, offsets = rng.random(jobs * options) * 1000, np.arange(jobs + 1) * options
    return MultipleChoiceKnapsack.from_arrays(values, uses, offsets, [least + (most - least) // 4])


def _half_menus(seed: int, jobs: int, options: int, capacities: int) -> Any:
    """Make optional menus of correlated values, with capacities at half the mean use."""
    from apportion.models import MultipleChoiceKnapsack

    rng = np.random.default_rng(seed)
    uses = rng.integers(1, 101, (jobs * options, capacities))
    values = np.round(10.0 * uses.mean(axis=1) + rng.integers(1, 500, jobs * options))
    rooms = (uses.reshape(jobs, options, capacities).mean(axis=1).sum(axis=0) / 2).astype(np.int64)
    offsets = np.arange(jobs + 1) * options
    return MultipleChoiceKnapsack.from_arrays(values, uses, offsets, rooms, required=False)


def _ready_jobs(seed: int, jobs: int, goals: int) -> Any:
    """Make a workflow's ready jobs on 192 cores: priorities of 0, 1 and 5, then cores in use as one sum."""
    from apportion.models import MultipleChoiceKnapsack

    rng = np.random.default_rng(seed)
    cores = rng.choice([1, 1, 2, 4, 8, 16], jobs)
    memory = cores * rng.choice([1000, 2000, 4000, 8000], jobs) + rng.integers(0, 500, jobs)
    uses = np.stack((cores, memory, rng.integers(100, 20_000, jobs)), axis=1)
    priorities, rooms = rng.choice([0, 0, 0, 1, 5], jobs), [192, 700_000, 500_000]
    values = (priorities if goals == 1 else priorities * 193 + cores).astype(np.float64)
    return MultipleChoiceKnapsack.from_arrays(values, uses, np.arange(jobs + 1), rooms, required=False)


def _alike_jobs(seed: int, classes: int, jobs: int) -> Any:
    """Make so many jobs of every class with the same menu: four options worth 1 to 8, three capacities."""
    from apportion.models import MultipleChoiceKnapsack

    rng = np.random.default_rng(seed)
    values = np.sort(rng.integers(1, 9, (classes, 4)), axis=1).astype(np.float64)
    uses = np.sort(rng.integers(1, 17, (classes, 4, 3)), axis=1)
    value, use = np.repeat(values, jobs, axis=0).ravel(), np.repeat(uses, jobs, axis=0).reshape(-1, 3)
    rooms = (use.sum(axis=0) // 4 * 0.35).astype(np.int64)
    offsets = np.arange(classes * jobs + 1) * 4
    return MultipleChoiceKnapsack.from_arrays(value, use, offsets, rooms, required=False)


def _racks(seed: int, jobs: int, racks: int) -> Any:
    """Make jobs of 4, 8, 16 or 32 GPUs on one rack each; racks of 16 to 64 GPUs, some preferred by 5 %."""
    rng = np.random.default_rng(seed)
    rooms, sizes = rng.integers(16, 65, racks), np.array([4, 8, 16, 32])
    worth = (1.0 + 10.0 * rng.random((jobs, 1))) * sizes ** rng.uniform(0.5, 0.95, (jobs, 4))
    values = worth[:, :, None] * np.where(rng.random((jobs, 4, racks)) < 0.3, 1.05, 1.0)
    job, size, rack = np.nonzero(np.broadcast_to(rooms >= sizes[:, None], (jobs, 4, racks)))
    return _sparse(values[job, size, rack], job, rack[:, None], sizes[size], jobs, rooms)


def _pairs_of_racks(seed: int, jobs: int, racks: int) -> Any:
    """Make jobs of three sizes, each on two racks of its own; racks hold a quarter of what all would use."""
    rng = np.random.default_rng(seed)
    sizes = (rng.integers(1, 9, (jobs, 3)) * [1, 2, 3]).ravel()
    first = rng.integers(0, racks, 3 * jobs)
    places = np.column_stack((first, (first + rng.integers(1, racks, 3 * jobs)) % racks))
    values = rng.integers(5, 61, 3 * jobs) * np.tile([1.0, 2.0, 3.0], jobs)
    rooms = np.full(racks, int(sizes.sum()) * 2 // (3 * 4 * racks))
    return _sparse(values, np.repeat(np.arange(jobs), 3), places, sizes, jobs, rooms)


def _must_run(seed: int, jobs: int, capacities: int, room: float) -> Any:
    """Make jobs that must run in one of eight ways, each at a cost and with two or three capacities."""
    rng = np.random.default_rng(seed)
    options = 8 * jobs
    places = np.argsort(rng.random((options, capacities)), axis=1)[:, :3]
    places[rng.random(options) < 0.5, 2] = -1
    use = rng.integers(1, 20, places.shape)
    used = np.bincount(places[places >= 0], use[places >= 0], minlength=capacities)
    rooms = np.floor(room * used / 8).astype(np.int64)
    values = -rng.integers(1, 100, options).astype(float)
    return _sparse(values, np.repeat(np.arange(jobs), 8), places, use, jobs, rooms, required=True)


def _tasks(seed: int, shapes: int, each: int, workers: int) -> Any:
    """Make tasks of some shapes, so many of each, on workers of two kinds: cores and memory, all a worker's.

    A task is worth what it takes of all workers, and more on the first ones, as in HyperQueue.
    """
    rng = np.random.default_rng(seed)
    rooms = np.where(np.arange(workers)[:, None] % 2 == 0, [64, 459_000], [32, 920_000])
    needs = np.repeat(rng.integers([1, 20_000], [61, 391_000], (shapes, 2)), each, axis=0)
    job, worker = np.nonzero((needs[:, None] <= rooms).all(axis=2))
    parts = (needs / rooms.sum(axis=0)).sum(axis=1)[job]
    values = np.round(1e7 * parts * (1 - worker / workers))
    places = 2 * worker[:, None] + np.arange(2)
    return _sparse(values, job, places, needs[job], needs.shape[0], rooms.ravel())


def _periods(seed: int, jobs: int, periods: int) -> Any:
    """Make jobs with release, deadline and a choice of width and start; half of 64 GPUs are away a while."""
    rng = np.random.default_rng(seed)
    rooms = np.full(periods, 64)
    rooms[periods // 2 : periods // 2 + periods // 8] = 32
    values, job, spans, widths = list[float](), list[int](), list[range](), list[int]()
    for number in range(jobs):
        work, weight, release = rng.integers(8, 120), 0.5 + 2.0 * rng.random(), rng.integers(0, periods // 2)
        due = release + rng.integers(periods // 6, periods // 2)
        for gpus in (1, 2, 4, 8, 16):
            length = int(np.ceil(work / gpus**0.9))
            for start in range(release, periods - length + 1):
                late = max(0, start + length - due) / periods
                if (worth := weight * work * (1.0 - 2.0 * late)) > 0.0:
                    values.append(worth)
                    job.append(number)
                    spans.append(range(start, start + length))
                    widths.append(gpus)
    places = np.full((len(spans), max(map(len, spans))), -1)
    for row, span in enumerate(spans):
        places[row, : len(span)] = span
    return _sparse(np.array(values), np.array(job), places, np.array(widths), jobs, rooms)


def _moves(seed: int, blocks: int, gangs: int = 1) -> Any:
    """Make a cluster of blocks of eight nodes of 8 GPUs, 85 % in use, and gangs that want a block each.

    A running job may stay, move at a cost, which is more in another block, or be stopped.
    """
    rng = np.random.default_rng(seed)
    nodes, left = 8 * blocks, np.full(8 * blocks, 8)
    block, gains, places, widths = np.arange(nodes) // 8, list[Any](), list[Any](), list[int]()
    while left.sum() > 0.15 * 8 * nodes:
        gpus, now = int(rng.choice((1, 2, 4, 8), p=(0.4, 0.25, 0.2, 0.15))), int(rng.integers(nodes))
        if left[now] < gpus:
            continue
        left[now] -= gpus
        worth = gpus * int(rng.integers(5, 20)) * int(rng.choice((1, 2, 4)))
        cost, far = gpus * int(rng.integers(1, 5)), int(rng.integers(0, 3))
        gain = worth - cost - np.where(block == block[now], 0, far)
        gain[now] = worth
        places.append(np.flatnonzero(gain > 0))
        gains.append(gain[places[-1]])
        widths.append(gpus)
    sizes = [*map(len, places), *(gangs * [blocks])]
    table = np.full((sum(sizes), 8), -1)
    table[:, 0] = np.concatenate((*places, np.zeros(gangs * blocks, dtype=np.int64)))
    table[table.shape[0] - gangs * blocks :] = np.tile(np.arange(nodes).reshape(blocks, 8), (gangs, 1))
    values = np.concatenate((*gains, np.full(gangs * blocks, 10_000))).astype(np.float64)
    job, use = np.repeat(np.arange(len(sizes)), sizes), np.repeat([*widths, *(gangs * [8])], sizes)
    return _sparse(values, job, table, use, len(sizes), np.full(nodes, 8))


def _blocks(seed: int, jobs: int, racks: int, fragments: bool) -> Any:
    """Make jobs of 1 to 32 GPUs on racks of 16 nodes, which are counted: of every size l so many free blocks.

    A job of s GPUs takes s / l of the blocks of size l, which is exact where sizes divide one another; cores
    and memory are sums of the rack. With fragments a part of most nodes is in use. Some racks are preferred.
    """
    rng = np.random.default_rng(seed)
    shape, sizes = (racks, 16), 2 ** np.arange(6)
    free = rng.choice(9, shape, p=(0.2, 0.1, 0.12, 0.1, 0.12, 0.06, 0.06, 0.04, 0.2)) if fragments else None
    free = np.full(shape, 8) if free is None else free
    sums = np.minimum(96, 12 * free + rng.integers(-8, 9, (2, *shape)) * (free % 8 > 0)).clip(0).sum(axis=2)
    blocks = [(free // size).sum(axis=1) for size in (1, 2, 4, 8)]
    blocks += [(free == 8).reshape(racks, -1, width).all(axis=2).sum(axis=1) for width in (2, 4)]
    rooms = np.column_stack((*blocks, *sums))
    worth = (1.0 + 10.0 * rng.random((jobs, 1))) * sizes ** rng.uniform(0.5, 0.95, (jobs, 1))
    values = worth[:, :, None] * np.where(rng.random((jobs, 1, racks)) < 0.3, 1.05, 1.0)
    cores = rng.choice((4, 8, 12, 16), jobs, p=(0.3, 0.4, 0.2, 0.1))
    memory = rng.choice((4, 8, 12, 20), jobs, p=(0.3, 0.4, 0.2, 0.1))
    beside = np.stack((cores, memory), axis=1)[:, None] * sizes[:, None]
    beside = np.minimum(beside, 96 * np.maximum(1, sizes // 8)[:, None])  # of each node no more than it has
    taken = np.broadcast_to(sizes[:, None] // sizes, (jobs, 6, 6))
    uses = np.concatenate((taken, beside), axis=2)
    job, size, rack = np.nonzero((uses[:, :, None] <= rooms).all(axis=3))
    places = rack[:, None] * 8 + np.arange(8)
    return _sparse(values[job, size, rack], job, places, uses[job, size], jobs, rooms.ravel())


def _sparse(
    values: Any, job: Any, places: Any, use: Any, jobs: int, rooms: Any, *, required: bool = False
) -> Any:
    """Return menus whose options use places, int64 [options, most] or -1, as much of each or all."""
    from scipy.sparse import csr_array

    from apportion.models import MultipleChoiceKnapsack

    there = places >= 0
    use = np.broadcast_to(use.reshape(values.size, -1), places.shape)[there]
    begins = np.concatenate(([0], np.cumsum(there.sum(axis=1))))
    uses = csr_array((use, places[there], begins), shape=(values.size, rooms.size))
    offsets = np.concatenate(([0], np.cumsum(np.bincount(job, minlength=jobs))))
    return MultipleChoiceKnapsack.from_arrays(values, uses, offsets, rooms, required=required)


def _sia(seed: int, scale: int) -> Any:
    """Make one Sia-style round; the options of the large ones are left without names."""
    from apportion.instances.multiple_choice_knapsack.generator import (
        generate_sia,
        sia_option_ids,
        to_instance,
    )
    from apportion.models import MultipleChoiceKnapsack

    menus = generate_sia(seed, scale)
    if scale > 4:
        return MultipleChoiceKnapsack.from_arrays(*menus)
    return to_instance(menus, f"sia x{scale}", sia_option_ids(scale))


def _knapsack(seed: int, items: int, capacities: int, tightness: float = 0.5) -> Any:
    """Make a 0-1 knapsack after Chu and Beasley (J. Heuristics 4, 1998): values follow the mean weight."""
    from apportion.models import MultipleChoiceKnapsack

    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 1000, (items, capacities))
    values = np.round(weights.mean(axis=1) + 500 * rng.random(items))
    rooms = (weights.sum(axis=0) * tightness).astype(np.int64)
    return MultipleChoiceKnapsack.from_arrays(values, weights, np.arange(items + 1), rooms, required=False)


def _freezing(seed: int, jobs: int) -> Any:
    """Make a round of layer freezing on two GPU types, one GPU per job on average."""
    from apportion.instances.freezing.generator import generate

    return generate(seed, jobs, {"v100": max(jobs // 2 // 4 * 4, 8), "a100": max(jobs // 2 // 4 * 4, 8)})


def _freezing_on_nodes(seed: int, jobs: int) -> Any:
    """Make a round of layer freezing placed on nodes, of 50 jobs on one GPU type or more on three."""
    from apportion.instances.freezing.generator import generate

    gpus, per_node = ({"t4": 64}, 4) if jobs <= 50 else (_three_types(jobs), 8)
    return generate(seed, jobs, gpus, gpus_per_node=per_node, depths=10, counts=19)


def _three_types(jobs: int) -> dict[str, int]:
    return {"t4": jobs // 100 * 128, "v100": jobs // 100 * 64, "a100": jobs // 100 * 64}


def _placement(seed: int, jobs: int, racks: int, scattered: bool = False) -> Any:
    """Make a placement on racks of eight nodes, two fifths of whose jobs run already; or of single GPUs."""
    from apportion.instances.placement.generator import generate

    return generate(seed, jobs, racks, scattered=scattered)


def _placement_menus(seed: int, jobs: int, nodes: int, fragmented: bool = False, running: float = 0.0) -> Any:
    """Make menus on many nodes, alike or partly in use, for jobs of which a share runs."""
    from apportion.instances.placement.generator import generate_menus

    return generate_menus(seed, jobs, nodes, fragmented=fragmented, running=running)


def _linear_costs(seed: int, size: int, highest: int) -> Any:
    """Make a bare linear assignment with whole costs from 1 to the highest."""
    from apportion.models.assignment import Assignment

    costs = np.random.default_rng(size + seed).integers(1, highest + 1, (size, size)).astype(float)
    return Assignment.from_matrix("cost", costs, capacities=1)


def _transportation(seed: int, jobs: int, kinds: int = 20, machines: int = 50) -> Any:
    """Make jobs of a few kinds on machines with slots, as a bare assignment."""
    from apportion.models.assignment import Assignment

    rng = np.random.default_rng(jobs + seed)
    costs = rng.integers(1, 1_000, (kinds, machines))[rng.integers(0, kinds, jobs)] / 4
    return Assignment.from_matrix("cost", costs, capacities=jobs // machines + 2)


def _linear_assignment(seed: int, size: int) -> Any:
    """Make a linear assignment with whole costs from 1 to 100."""
    from apportion.instances.matching import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine

    costs = np.random.default_rng(seed).integers(1, 101, (size, size)).tolist()
    machines = tuple(MatchingMachine(id=f"m{i}", capacity=1) for i in range(size))
    jobs = tuple(
        MatchingJob(id=f"j{j}", on={f"m{i}": MatchingEntry(cost=float(c)) for i, c in enumerate(row)})
        for j, row in enumerate(costs)
    )
    return MatchingInstance("1", "cost", machines, jobs, name=f"linear {size}")


def _generalised_assignment(seed: int, jobs: int, machines: int, law: Any = "c") -> Any:
    from apportion.instances.matching.generator import generate_assignment

    return generate_assignment(seed, jobs, machines, law)


def _nearly_full(seed: int, jobs: int, machines: int) -> Any:
    """Make required jobs that each may go to ten of some machines, which are nearly full with all of them."""
    from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine

    rng = np.random.default_rng(seed)

    def job(name: str) -> MatchingJob:
        on = {
            f"m{m}": MatchingEntry(value=float(rng.integers(1, 1000)) / 10, uses=int(rng.integers(1, 9)))
            for m in rng.choice(machines, 10, replace=False).tolist()
        }
        return MatchingJob(id=name, on=on)

    having = tuple(MatchingMachine(id=f"m{m}", capacity=8) for m in range(machines))
    every = tuple(job(f"j{j}") for j in range(jobs))
    return MatchingInstance("1", "value", having, every, name=f"nearly full {jobs} x {machines}")


def _unrelated(seed: int, jobs: int, machines: int, correlated: Any = "no") -> Any:
    from apportion.instances.matching.generator import generate_unrelated

    return generate_unrelated(seed, jobs, machines, correlated=correlated)


def _gavel(seed: int, jobs: int) -> Any:
    """Make Gavel's minimum-makespan round: single-GPU jobs, a quarter as many GPUs, shares of time."""
    from apportion.instances.matching.generator import generate_cluster

    pools = dict.fromkeys(("k80", "p100", "v100"), max(jobs // 12, 1))
    return generate_cluster(seed, jobs, pools, wide=0.0, divisible=True)


def _gangs(seed: int, jobs: int) -> Any:
    """Make gangs of 2 to 8 GPUs beside single jobs on two pools."""
    from apportion.instances.matching.generator import generate_cluster

    return generate_cluster(seed, jobs, {"v100": 16, "a100": 8})


def _lenders(seed: int, jobs: int, nodes: int, tenants: int) -> Any:
    """Make an event of gap filling whose nodes tenants in two cohorts borrow, and lend in part."""
    from msgspec.structs import replace

    from apportion.instances.gap_filling.generator import generate
    from apportion.instances.tenants import Quota, Tenant

    event, rng = generate(seed, jobs, nodes), np.random.default_rng(seed)
    due = 4 * nodes // (5 * tenants)
    trees = [Tenant(cohort, quotas={"idle_nodes": Quota(nodes // 2)}) for cohort in "AB"]
    for place in range(tenants):
        quota = Quota(due, int(rng.integers(0, nodes // tenants + 1)), due // 2)
        trees.append(Tenant(f"t{place}", "AB"[place % 2], quotas={"idle_nodes": quota}))
    owners = [f"t{int(drawn) % tenants}" for drawn in rng.zipf(1.6, jobs)]
    mine = tuple(replace(job, tenant=owner) for job, owner in zip(event.jobs, owners, strict=True))
    return replace(event, jobs=mine, tenants=tuple(trees))


def _lent_flavors(seed: int, jobs: int, flavors: int, tenants: int) -> Any:
    """Make menus of GPUs of several flavors, of each of which every tenant has, borrows and lends a part."""
    from apportion.instances import KnapsackJob, KnapsackOption
    from apportion.instances.tenants import Quota

    rng, names = np.random.default_rng(seed), [f"gpu{k}" for k in range(flavors)]
    owned = rng.integers(8, 25, (tenants, flavors))
    lent, most = rng.integers(0, owned + 1), rng.integers(4, 41, owned.shape)
    quotas = [
        {
            name: Quota(int(own), int(borrowed) if borrows else None, int(lends))
            for name, own, borrowed, borrows, lends in zip(names, *rows, strict=True)
        }
        for rows in zip(owned, most, rng.random(owned.shape) < 0.5, lent, strict=True)
    ]
    menus = []
    for place in range(jobs):
        drawn = [(names[int(rng.integers(flavors))], 2 ** int(rng.integers(4))) for _ in range(4)]
        own = dict.fromkeys(drawn[: int(rng.integers(1, 5))])
        options = tuple(
            KnapsackOption(f"{count}x{name}", round(count**0.8 * rng.uniform(0.5, 2), 2), {name: count})
            for name, count in own
        )
        menus.append(
            KnapsackJob(f"j{place}", options, required=False, tenant=f"t{int(rng.integers(tenants))}")
        )
    return _of_tenants(dict(zip(names, owned.sum(axis=0).tolist(), strict=True)), menus, quotas)


def _shared_resources(seed: int, jobs: int, resources: int, tenants: int) -> Any:
    """Make menus of which every option uses most resources, and whose dominant shares are made equal."""
    from apportion.instances import KnapsackJob, KnapsackOption
    from apportion.instances.tenants import Fairness, Quota

    rng, names = np.random.default_rng(seed), [f"r{k}" for k in range(resources)]
    capacities = {name: int(rng.integers(3, 8)) * jobs for name in names}
    menus = []
    for place in range(jobs):
        size, ratio = int(rng.integers(1, 9)), rng.uniform(0.3, 3, resources)
        options = []
        for step in range(int(rng.integers(1, 5))):
            used = np.maximum(1, np.rint(size * 2**step * ratio * rng.uniform(0.7, 1.3, resources)))
            uses = {name: int(use) for name, use in zip(names, used, strict=True) if rng.random() < 0.9}
            worth = round(float((size * 2**step) ** 0.8 * rng.uniform(0.8, 1.4)), 2)
            options.append(KnapsackOption(f"o{step}", worth, uses))
        owner = f"t{int(rng.integers(tenants))}"
        menus.append(KnapsackJob(f"j{place}", tuple(options), required=False, tenant=owner))
    part = rng.uniform(0.3, 0.95, (tenants, resources)) / tenants
    quotas = [
        {name: Quota(int(own * capacities[name])) for name, own in zip(names, row, strict=True)}
        for row in part
    ]
    return _of_tenants(capacities, menus, quotas, fairness=Fairness())


def _of_tenants(capacities: Mapping[str, int], menus: Any, quotas: Any, **fields: Any) -> Any:
    """Return menus of tenants ``t0``, ``t1``, .. as an instance of greatest value."""
    from apportion.instances import MultipleChoiceKnapsackInstance
    from apportion.instances.tenants import Tenant

    trees = tuple(Tenant(f"t{place}", quotas=own) for place, own in enumerate(quotas))
    own = {"capacities": capacities, "jobs": tuple(menus), "tenants": trees}
    return MultipleChoiceKnapsackInstance("1", sense="maximize", **own, **fields)


def _tenants(seed: int, jobs: int, tenants: int, gpus: int, share: Any = "dominant_share") -> Any:
    """Make a round of a cluster of three GPU types whose shares are made equal over a tree of tenants."""
    from apportion.instances.multiple_choice_knapsack.generator import generate_tenants
    from apportion.instances.tenants import Fairness

    return generate_tenants(seed, jobs, tenants, gpus, Fairness(share))


def _file(data: Path, path: str, format: str, index: int = 0, sense: str | None = None) -> Any:
    """Read one problem of a published file."""
    import apportion

    return apportion.read(data / path, format=format, index=index, sense=sense)


def _gavel_table(data: Path, path: str, jobs: int, seed: int) -> Any:
    """Draw single-GPU jobs of 10^1.5 to 10^4 minutes from a throughput table, one GPU of a type for 32."""
    from apportion.instances.readers.machines import throughputs
    from apportion.models.assignment import Assignment

    table = throughputs((data / path).read_bytes())
    types = sorted({gpu for row in table.values() for gpu in row})
    alone = [[row[k] for k in types] for (_, n), row in table.items() if n == 1 and len(row) == len(types)]
    rng = np.random.default_rng(seed)
    rates = np.array(alone)[rng.integers(0, len(alone), jobs)]
    times = (60 * 10 ** rng.uniform(1.5, 4, jobs) * rates.min(axis=1))[:, None] / rates
    machines = np.tile(np.arange(len(types)), jobs)
    offsets = np.arange(jobs + 1) * len(types)
    counts = np.full(len(types), max(jobs // 32, 1))
    return Assignment.from_arrays(
        "makespan", times.ravel(), machines, offsets, len(types), counts=counts, divisible=True
    )


def _summit(data: Path, row: int, trainers: int) -> Any:
    """Read one event of the Summit trace of idle nodes."""
    from apportion.cluster.simulation.idle_trace import read_idle_trace
    from apportion.cluster.simulation.snapshot import snapshot_from_files

    trace, jobs = data / "bftrainer/summit_idle_intervals.npz", data / "bftrainer/ImageNet-imgps-jobs.csv"
    if not trace.is_file():
        raise FileNotFoundError(2, "missing", trace.name)
    at_s = float(np.asarray(read_idle_trace(trace).event_s)[row])
    return snapshot_from_files(trace, jobs, at_s, trainers)


MAKERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "event": _event,
        "menus": _menus,
        "uniform_menus": _uniform_menus,
        "half_menus": _half_menus,
        "ready_jobs": _ready_jobs,
        "alike_jobs": _alike_jobs,
        "racks": _racks,
        "pairs_of_racks": _pairs_of_racks,
        "must_run": _must_run,
        "tasks": _tasks,
        "periods": _periods,
        "moves": _moves,
        "blocks": _blocks,
        "sia": _sia,
        "knapsack": _knapsack,
        "freezing": _freezing,
        "freezing_on_nodes": _freezing_on_nodes,
        "placement": _placement,
        "placement_menus": _placement_menus,
        "linear_costs": _linear_costs,
        "transportation": _transportation,
        "linear_assignment": _linear_assignment,
        "generalised_assignment": _generalised_assignment,
        "nearly_full": _nearly_full,
        "unrelated": _unrelated,
        "gavel": _gavel,
        "gangs": _gangs,
        "lenders": _lenders,
        "lent_flavors": _lent_flavors,
        "shared_resources": _shared_resources,
        "tenants": _tenants,
        "file": _file,
        "summit": _summit,
        "gavel_table": _gavel_table,
    }
)

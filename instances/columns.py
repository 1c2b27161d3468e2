"""The options of an instance of any kind as exact columns: what proofs, price bounds and statements read.

An option's worth, its uses and the machines that it holds are what its kind says of it, unrounded. A kind may
give the same columns quicker, in vectors (`OptionSet.columns`); a test holds these to the options one by one.

What no plan is better than at given prices, exactly, for every kind whose worths add up:

    lambda . C + sum_j max_i (v_ji - lambda . u_ji)        (weak duality; the mirror image of costs)

Valid for prices >= 0 of capacities, of limits of tenants, and of capacities that follow from an
instance (`OptionSet.derived`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.freezing.nodes import TypeNodes
from apportion.instances.kind import ProblemType
from apportion.instances.options import Entries, Place, Pool, entries_by, uses_by
from apportion.instances.tenants.check import capacities_and_limits, ledger_of
from apportion.instances.tenants.ledger import TenantLedger, is_tenanted

__all__ = [
    "Columns",
    "Goal",
    "PoolUse",
    "columns_of",
    "listed",
    "price_bound",
]

Goal = Literal["maximize", "minimize", "makespan", "shares"]
Integers = NDArray[np.int64]
Exact = NDArray[np.float64] | Sequence[tuple[int, int]]
"""Numbers as doubles, or each as what it is over what, whole."""


@dataclass(frozen=True, slots=True, eq=False)
class PoolUse:
    """What options hold of pools of machines.

    Attributes
    ----------
    pools
        The pools.
    pool, gang, use
        int64 [options]: position of the pool (-1: none), machines held, and use of each.
    time
        float64 [options].
    """

    pools: Sequence[Pool]
    pool: Integers
    gang: Integers
    use: Integers
    time: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Every admissible option, job after job.

    Attributes
    ----------
    goal
        A sum that is maximised or minimised, a makespan, or one where jobs share machines by time.
    jobs
        The jobs' names.
    offsets
        int64 [jobs + 1].
    values
        What options are worth.
    uses
        int64 [options, capacities]; sparse where the array would be large and nearly empty.
    capacities, rooms
        Names, which may repeat for a bare model, and amounts; rooms of pools do not stand here.
    waits
        bool [jobs]: jobs that may get nothing beside their options, worth 0; ``None`` for none.
    pool_use
        What options hold of machines; ``None`` for a kind without.
    nodes
        By capacity that lies on nodes: these, ``None`` where their size is not told.
    sections
        In which order proofs price capacities, pools and cuts.
    names
        The options' names.
    barred
        By job, machines that it is known to take but may not have.
    alike
        Groups of capacities that may be exchanged, of a bare model.
    """

    goal: Goal
    jobs: Sequence[str]
    offsets: Integers
    values: Exact
    uses: Any
    capacities: Sequence[str]
    rooms: Sequence[int]
    waits: NDArray[np.bool_] | None = None
    pool_use: PoolUse | None = None
    nodes: Mapping[str, TypeNodes | None] | None = None
    sections: tuple[str, ...] = ("capacities",)
    names: Callable[[], Sequence[str | None]] = tuple
    barred: Mapping[int, Sequence[Place]] | None = None
    alike: Callable[[bool], tuple[tuple[int, ...], ...]] | None = None

    @property
    def owner(self) -> Integers:
        """The job of every option."""
        return np.arange(self.offsets.size - 1).repeat(np.diff(self.offsets))


def columns_of(kind: ProblemType, instance: Any) -> Columns:
    """Return the columns of an instance, those of its kind where it gives any."""
    options = kind.option_set
    if options is not None and options.columns is not None and (options.relaxes or not is_tenanted(instance)):
        found: Columns = options.columns(instance)
        return found
    return listed(kind, instance)


def listed(kind: ProblemType, instance: Any, *, tenants: bool = True) -> Columns:
    """Return the columns of an instance, option by option, with or without the limits of its tenants."""
    option_set = kind.option_set
    if option_set is None:
        raise TypeError(f"there are no proofs about a {type(instance).__name__}")
    pools, nodes = option_set.pools(instance), option_set.nodes(instance)
    ledger = ledger_of(kind, instance) if tenants and is_tenanted(instance) else None
    limits = capacities_and_limits(kind, instance) if ledger is None else ledger.limits
    menus = (
        [list(option_set.options(instance, job)) for job in instance.jobs]
        if ledger is None
        else list(ledger.options.values())
    )
    options = [option for own in menus for option in own]
    number = {pool.name: at for at, pool in enumerate(pools)}
    column = {name: k for k, name in enumerate(name for name in limits if name not in number)}
    used = [option.uses for option in options]
    offsets = np.concatenate(([0], np.cumsum([len(own) for own in menus]))).astype(np.int64)
    entries = entries_by(used, column) if ledger is None else _with_limits(ledger, used, column, offsets)
    values = [option.value for option in options]
    floats = all(type(value) is float for value in values)
    pool_use, barred = None, dict[int, Sequence[Place]]()
    if pools:
        pool_use = _pool_use(pools, number, [option.place for option in options])
        for at, (job, own) in enumerate(zip(instance.jobs, menus, strict=True)):
            if left := option_set.barred(instance, job, {option.name for option in own}):
                barred[at] = left
    cut = ("cuts",) if pools or nodes else ()
    return Columns(
        option_set.goal(instance)
        if option_set.goal
        else "maximize"
        if kind.maximizes(instance)
        else "minimize",
        [job.id for job in instance.jobs],
        offsets,
        np.array(values, dtype=np.float64) if floats else [value.as_integer_ratio() for value in values],
        uses_by(entries, (len(options), len(column))),
        list(column),
        [limits[name] for name in column],
        pool_use=pool_use,
        nodes=nodes,
        sections=("pools", *cut, "capacities") if pools else ("capacities", *cut),
        names=lambda: [option.name for option in options],
        barred=barred,
    )


def _with_limits(
    ledger: TenantLedger, used: Sequence[Mapping[str, int]], column: Mapping[str, int], offsets: Integers
) -> Entries:
    """Return what options take, and of the limits of tenants, as `TenantLedger.uses` has it one by one."""
    shared = {name: k for k, name in enumerate(ledger.capacities)}
    option, capacity, use = entries_by(used, shared)
    owner = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))[option]
    leaf_of = [ledger.jobs[job].tenant for job in ledger.options]
    place = {leaf: at for at, leaf in enumerate(dict.fromkeys(leaf_of))}
    leaf = np.array([place[leaf] for leaf in leaf_of], dtype=np.int64)[owner]
    preemptible = np.array([*map(ledger.is_preemptible, ledger.options)], dtype=np.bool_)[owner]
    found = [entries_by(used, column)]
    for row in ledger.rows:
        counted = np.array([one in row.leaves for one in place], dtype=np.bool_)[leaf]
        counted &= capacity == shared[row.capacity]
        at = np.flatnonzero(counted if row.preemptible_too else counted & ~preemptible)
        found.append((option[at], np.full(at.size, column[row.name]), use[at]))
    jobs = {job: at for at, job in enumerate(ledger.options)}
    for name, (_, members) in ledger.floors.items():
        for job in members:
            forgone = ledger.best[job] - np.array(ledger.shares[job], dtype=np.int64)
            at, floor = np.flatnonzero(forgone), column[ledger.floor_names[name]]
            found.append((offsets[jobs[job]] + at, np.full(at.size, floor), forgone[at]))
    option, capacity, use = (np.concatenate(part) for part in zip(*found, strict=True))
    return option, capacity, use


def _pool_use(pools: Sequence[Pool], number: Mapping[str, int], places: Sequence[Place | None]) -> PoolUse:
    nowhere = Place("", 1, 0, 0.0)
    known = [nowhere if place is None else place for place in places]
    return PoolUse(
        pools,
        np.array([number.get(place.pool, -1) for place in known], dtype=np.int64),
        np.array([place.gang for place in known], dtype=np.int64),
        np.array([place.use for place in known], dtype=np.int64),
        np.array([place.time for place in known], dtype=np.float64),
    )


def price_bound(
    kind: ProblemType, instance: Any, multipliers: Mapping[str, float], columns: Columns | None = None
) -> Fraction | None:
    """Return the bound; ``None`` if a required job has no admissible option.

    Parameters
    ----------
    kind, instance, multipliers
        What is bounded, and by which prices.
    columns
        The options, where the kind states them in other ways than its first one.

    Raises
    ------
    InvalidInstance
        If the multipliers do not name every capacity, or name what is none, or are not finite numbers >= 0.
    """
    option_set = kind.option_set
    assert option_set is not None
    extreme = None if is_tenanted(instance) else option_set.extreme
    given: Columns = columns or (columns_of(kind, instance) if extreme is None else extreme(instance))
    pools = () if given.pool_use is None else [pool.name for pool in given.pool_use.pools]
    stated = {*given.capacities, *pools}  # what a kind tells of itself in other words has no price
    shared = {name: room for name, room in capacities_and_limits(kind, instance).items() if name in stated}
    rooms = dict(zip(given.capacities, given.rooms, strict=True)) | shared
    beyond = {name: option_set.derived(instance, name) for name in multipliers if name not in rooms}
    for name, price in multipliers.items():
        number = isinstance(price, int | float) and not isinstance(price, bool)
        known = name in rooms or beyond[name] is not None
        if not known or not number or not math.isfinite(price) or price < 0:
            said = "must be a capacity, a quota or a floor with a finite number >= 0"
            raise InvalidInstance(Problem(f"$.certificate.multipliers.{name}", said))
    if not shared.keys() <= multipliers.keys():
        raise InvalidInstance(Problem("$.certificate.multipliers", "must name every capacity"))
    sign = 1 if kind.maximizes(instance) else -1
    prices = {name: Fraction(price) for name, price in multipliers.items() if price}
    ratios = [value if isinstance(value, tuple) else value.as_integer_ratio() for value in _values(given)]
    # of doubles a power of two; whole numbers take less time than fractions
    unit = math.lcm(*(price.denominator for price in prices.values()), *{below for _, below in ratios})
    worths = [sign * above * (unit // below) for above, below in ratios]
    total = 0
    for name, exact in prices.items():
        price, derived = exact.numerator * (unit // exact.denominator), beyond.get(name)
        total += price * (rooms[name] if derived is None else derived.limit)
        amounts = _uses(given, name) if derived is None else derived.amounts(given)
        used = np.asarray(amounts, dtype=np.int64)
        for row in np.flatnonzero(used).tolist():
            worths[row] -= price * int(used[row])
    for job, (first, last) in enumerate(pairwise(given.offsets.tolist())):
        waits = [0] if given.waits is not None and given.waits[job] else []
        if first == last and not waits:
            return None
        total += max([*worths[first:last], *waits])
    return Fraction(sign * total, unit)


def _values(given: Columns) -> Any:
    return given.values.tolist() if isinstance(given.values, np.ndarray) else given.values


def _uses(given: Columns, name: str) -> Any:
    """Return what options take of a capacity, or of all machines of a pool together."""
    if name in given.capacities:
        used: Any = given.uses[:, list(given.capacities).index(name)]
        return used if isinstance(used, np.ndarray) else used.toarray().ravel()
    assert given.pool_use is not None
    number = [pool.name for pool in given.pool_use.pools].index(name)
    return np.where(given.pool_use.pool == number, given.pool_use.gang * given.pool_use.use, 0)

"""Capacities and options that may be exchanged for each other: one relaxation for all of a class.

Colour refinement (Grohe, Kersting, Mladenov and Selman, *Dimension reduction via colour refinement*, 2014):
capacities of one colour have equal amounts and are used alike by the options of every colour, options of one
colour are of one job, worth the same and use alike the capacities of every colour. The relaxation over
classes, with the amounts and uses of each class added up, has the optimum of the whole, and its prices are
those of all members. Only the prices are taken: what they bound is computed over all options again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.multiknapsack.option_table import OptionTable

__all__ = ["Folded", "folded"]

Integers = NDArray[np.int64]
_ROUNDS = 50
_FEWER = 4
"""Options per class from which on classes are worth it."""
_MANY = 200_000
"""Uses from which on a relaxation of all is slow; below, its largest options are a better begin."""
_LOOKED_AT = 50
"""Jobs that are looked at before any other work is done."""


class Folded(NamedTuple):
    """Menus of classes, and the class of every capacity."""

    menus: OptionTable
    capacity: Integers


def folded(menus: OptionTable) -> Folded | None:
    """Return the menus of classes, ``None`` where few options are alike."""
    from scipy.sparse import csr_array

    if menus.num_entries < _MANY or not _some_are_alike(menus):
        return None
    place, option, use = menus.entries()
    if not np.array_equal(use, np.rint(use)):
        return None
    shape = menus.num_capacities, menus.num_options
    matrix = csr_array((use.astype(np.int64), (place, option)), shape=shape)
    across = matrix.T.tocsr()
    capacity = np.unique(menus.capacities, return_inverse=True)[1].astype(np.int64)
    options = _pairs(menus.job, np.unique(menus.values, return_inverse=True)[1].astype(np.int64))
    rng, before = np.random.default_rng(1), 0
    for _ in range(_ROUNDS):
        options = _pairs(options, np.asarray(across @ _marks(rng, capacity)[capacity]))
        capacity = _pairs(capacity, np.asarray(matrix @ _marks(rng, options)[options]))
        classes = int(options.max(initial=-1)) + 1
        if classes * _FEWER > menus.num_options:
            return None
        if classes + int(capacity.max(initial=-1)) + 1 == before:
            break
        before = classes + int(capacity.max(initial=-1)) + 1
    first = np.unique(options, return_index=True)[1]
    first.sort()
    mine = capacity[place[np.isin(option, first)]]
    columns = np.searchsorted(first, option[np.isin(option, first)])
    uses = np.zeros((int(capacity.max()) + 1, first.size))
    np.add.at(uses, (mine, columns), use[np.isin(option, first)])
    sizes = np.bincount(menus.job[first], minlength=menus.num_jobs)
    classes_of = np.zeros(uses.shape[0])
    np.add.at(classes_of, capacity, menus.capacities)
    small = OptionTable(
        menus.values[first],
        uses,
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        menus.job[first],
        np.arange(first.size, dtype=np.int64),
        classes_of,
        np.arange(classes_of.size, dtype=np.int64),
    )
    return Folded(small, capacity)


def _some_are_alike(menus: OptionTable) -> bool:
    """Return whether the first jobs have options of few values, which is seen at once."""
    few = menus.values[: int(menus.offsets[min(menus.num_jobs, _LOOKED_AT)])]
    job = menus.job[: few.size]
    return few.size > 0 and len(set(zip(job.tolist(), few.tolist(), strict=True))) * _FEWER <= few.size


def _marks(rng: np.random.Generator, classes: Integers) -> Integers:
    """Return a random number per class: sums of them, modulo 2^64, differ where the members' classes do."""
    return rng.integers(1, 2**62, int(classes.max(initial=0)) + 1)


def _pairs(one: Integers, other: Integers) -> Integers:
    """Return numbers from 0 that are equal where both are."""
    order = np.lexsort((other, one))
    differs = (np.diff(one[order]) != 0) | (np.diff(other[order]) != 0)
    found = np.empty(one.size, dtype=np.int64)
    found[order] = np.concatenate(([0], np.cumsum(differs))) if one.size else 0
    return found

"""Is there a placement of all jobs within a target cost? A depth-first search in integers.

Every job goes to one machine; a machine has capacities. The bound of a node relaxes "every job once": with a
whole price of every job each machine is a 0/1 knapsack of its own, and one forward and one backward table
give the bound of every pair at once, by which pairs are removed (Posta, Ferland, Michelon, Computational
Optimization and Applications 52, 2012). Prices follow the subgradient with Polyak's step towards the target.

The compiled `assignment_tree_c` does all the work, in slices: a search is stopped and resumed at will. It has
no twin in Python; callers take another road where it is missing.

Uses and capacities made small where every machine must hold as many jobs as it can.

Let K_i be the most jobs that machine i can hold, by its smallest uses. Where the K_i add up to the number of
jobs, every plan has exactly K_i jobs on machine i. So a constant d_i may be taken off all uses there and K_i
times it off the capacity: plans stay plans, and while any K_i + 1 jobs still exceed what is left, no others
appear. Jobs of 1,000 to 1,100 seconds on machines that have room for ten of them are then searched in tables
of hundreds of steps, exactly, instead of ten thousand.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.compiled import load
from apportion.solvers.search.depth_first import Status

__all__ = ["LARGEST_SUM", "MOST_JOBS", "AssignmentTree", "Placement", "available", "with_full_counts"]


_LARGEST = 2**50
"""Capacities above are left alone: sums over all jobs must not leave 64 bits."""


def with_full_counts(
    use: NDArray[np.int64], capacity: NDArray[np.int64], allowed: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return uses and capacities with the same plans, smaller where counts are full, else as they are.

    Parameters
    ----------
    use
        int64 [machines, jobs], at least 0.
    capacity
        int64 [machines], at least 0.
    allowed
        bool [machines, jobs]: whether the job may go there.
    """
    machines, jobs = use.shape
    beyond = int(capacity.max(initial=0)) + 1
    if beyond > _LARGEST:
        return use, capacity
    ordered = np.sort(np.where(allowed, np.minimum(use, beyond), beyond), axis=1)
    sums = np.cumsum(ordered, axis=1)
    count = (sums <= capacity[:, None]).sum(axis=1)
    if int(count.sum()) != jobs:
        return use, capacity
    more = np.append(sums, np.full((machines, 1), np.iinfo(np.int64).max), axis=1)
    spare = more[np.arange(machines), count] - capacity - 1
    taken = np.where(count > 0, np.minimum(ordered[:, 0], spare), 0)
    return np.maximum(use - taken[:, None], 0), capacity - count * taken


LARGEST_SUM = 2**50
"""Prices and costs of all jobs together stay below: doubles, in which the tables stand, hold them exactly."""

MOST_JOBS = 2_000
"""Every depth keeps its prices: so many jobs take 32 MB."""

_GIVEN = ("jobs", "machines", "resources", "width", "target", "unit", "root_steps", "node_steps", "largest")
_WORK, _NODES, _BEST, _CONTROLS = 13, 14, 17, 20
_ROOT_STEPS, _NODE_STEPS = 300, 15
"""Steps of the prices at the root and below."""
_STEPS, _FEW = 2_048, 64
"""Steps of a capacity in a tree of few nodes, and how many nodes are few; more nodes may have more steps."""
_CELLS, _TABLE = 32_000_000, 8_000_000
"""Cells of all tables of one step of the prices, and of one table, at most."""
_SLICE = 3_000_000
"""Cells of one slice: a few milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Jobs that each go to one machine, in whole numbers.

    Attributes
    ----------
    cost
        int64 [machines, jobs], at least 0.
    use
        int64 [resources, machines, jobs], at least 0. Knapsacks bound the first resource; the others are kept
        by the search alone.
    capacity
        int64 [resources, machines], at least 0.
    open
        uint8 [machines, jobs]: whether the job may go there.
    """

    cost: NDArray[np.int64]
    use: NDArray[np.int64]
    capacity: NDArray[np.int64]
    open: NDArray[np.uint8]

    def kinds(self) -> NDArray[np.int32]:
        """Return int32 [machines]: the first machine that is alike in all."""
        machines = self.cost.shape[0]
        features = np.concatenate(
            (
                np.where(self.open == 1, self.cost, -1),
                *np.where(self.open == 1, self.use, -1),
                self.capacity.T,
            ),
            axis=1,
        )
        _, first, kind = np.unique(features, axis=0, return_index=True, return_inverse=True)
        return np.asarray(first[kind.reshape(machines)], dtype=np.int32)

    def counted(self) -> Placement:
        """Return the same with smaller uses of the first resource, where machines must be full by count."""
        own = self.capacity[0]
        use, capacity = with_full_counts(self.use[0], own, self.open == 1)
        if capacity is own:
            return self
        return replace(
            self,
            use=np.concatenate((use[None], self.use[1:])),
            capacity=np.concatenate((capacity[None], self.capacity[1:])),
        )

    def grain(self, nodes: int) -> NDArray[np.int64]:
        """Return int64 [machines]: the steps of the first capacities in a tree of about so many nodes."""
        machines, jobs = self.cost.shape
        most = max(_STEPS, _STEPS * nodes // _FEW)
        most = max(16, min(most, _CELLS // (jobs * machines), _TABLE // (jobs + 1)))
        common = np.gcd.reduce(np.where(self.open == 1, self.use[0], 0), axis=1)
        return np.asarray(np.maximum(np.maximum(common, 1), -(-self.capacity[0] // most)), dtype=np.int64)


def available() -> bool:
    """Whether the compiled search was built and is switched on."""
    return load("search.assignment_tree_c") is not None


def _compiled() -> ModuleType:
    module = load("search.assignment_tree_c")
    if module is None:
        raise RuntimeError("the compiled search is not built or is switched off")
    return module


class AssignmentTree:
    """One decision, begun and resumed: a placement that costs at most the target, or that there is none.

    All of its state is plain arrays: it can be pickled at any time and taken up again.

    Parameters
    ----------
    placement
        The jobs and machines.
    target
        The cost.
    unit
        The least difference of two costs: how far beyond the target the prices aim.
    prices
        int64 [jobs] to begin with.
    nodes
        About how many nodes it may have: tables of few nodes are coarse.
    root_steps
        Steps of the prices at the root.
    """

    def __init__(
        self,
        placement: Placement,
        target: int,
        unit: int,
        prices: NDArray[np.int64],
        nodes: int,
        root_steps: int = _ROOT_STEPS,
    ) -> None:
        module = _compiled()
        kinds = placement.kinds()
        placement = placement.counted()
        machines, jobs = placement.cost.shape
        possible = np.where(placement.open == 1, placement.use, 0).sum(axis=2)
        capacity = np.minimum(placement.capacity, possible)
        self._cost = np.ascontiguousarray(placement.cost, dtype=np.int64)
        self._use = np.ascontiguousarray(placement.use, dtype=np.int64)
        self._grain = placement.grain(nodes)
        width = int((capacity[0] // self._grain).max(initial=0)) + 1
        resources = int(capacity.shape[0])
        size = int(module.size(jobs, machines, resources, width))
        self._block = np.zeros(size // 8 + 1, dtype=np.int64)
        given = (
            jobs,
            machines,
            resources,
            width,
            target,
            unit,
            root_steps,
            _NODE_STEPS,
            LARGEST_SUM // (2 * jobs),
        )
        self._block[: len(_GIVEN)] = given
        module.begin(
            self._block,
            np.ascontiguousarray(capacity),
            np.ascontiguousarray(placement.open, dtype=np.uint8),
            np.ascontiguousarray(prices, dtype=np.int64),
            kinds,
        )
        self._jobs, self._pairs = jobs, (machines, jobs)

    def run(self, nodes: int, work: int = _SLICE) -> Status:
        """Search on for so many more nodes, and for about so much work (cells of tables)."""
        until, most = int(self._block[_WORK]) + work, int(self._block[_NODES]) + nodes
        return Status(_compiled().run(self._block, self._cost, self._use, self._grain, until, most))

    def widest(self) -> int | None:
        """Return the least depth above the present one at which machines are still to be tried, if any."""
        depth = int(_compiled().state(self._block)[2])
        return None if depth < 0 else depth

    def divided(self) -> AssignmentTree | None:
        """Give away what is to be tried at the `widest` depth as a tree of its own; ``None``: nothing is."""
        given: AssignmentTree = copy(self)
        given._block = np.zeros_like(self._block)
        return given if _compiled().divided(self._block, self._cost, self._use, given._block) else None

    @property
    def nodes(self) -> int:
        """Nodes so far."""
        return int(self._block[_NODES])

    @property
    def work(self) -> int:
        """Cells of tables so far."""
        return int(self._block[_WORK])

    @property
    def num_bytes(self) -> int:
        """Bytes of the tree, costs and uses left out."""
        return int(self._block.nbytes)

    @property
    def bound(self) -> int:
        """The best bound of the node bounded last: of the root while there is one node."""
        return int(self._block[_BEST])

    @property
    def found(self) -> NDArray[np.int32]:
        """int32 [jobs]: the machine of every job, after `Status.FOUND`."""
        at = _compiled().state(self._block)[0]
        return self._block.view(np.int32)[at // 4 : at // 4 + self._jobs].copy()

    @property
    def prices(self) -> NDArray[np.int64]:
        """int64 [jobs]: the best prices of the root."""
        at = _compiled().state(self._block)[1]
        return self._block[at // 8 : at // 8 + self._jobs].copy()

"""Generalised assignment by the compiled tree: a rising sequence of targets, each decided in integers.

Between the decisions trees over a few machines, those that waste most more often, ask for a placement of
their jobs that costs less; the prices of the capacities only guide which machines. Before them comes a local
search by shifts, swaps and ejection chains of length two (Yagiura, Ibaraki, Glover 2004), every neighbourhood
evaluated as one array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.exact_sums import exact_sum
from apportion.solvers.search.assignment_tree import (
    LARGEST_SUM,
    MOST_JOBS,
    AssignmentTree,
    Placement,
    available,
)
from apportion.solvers.search.depth_first import Status
from apportion.solvers.search.few_machines import (
    Answer,
    FewMachines,
    Lattice,
    Rising,
    Trial,
    any_placement,
    on_lattice,
)
from apportion.solvers.search.slices import Slices

__all__ = ["NODES", "Descent", "Improving", "Part", "Searched", "TreeSearch", "fits", "fits_in_parts"]


class Descent:
    """Shifts, swaps and ejections of jobs that are all placed, the best first, while one costs less.

    Parameters
    ----------
    model
        An assignment of costs (or values, then negated), all jobs placed.
    choice
        A feasible choice.
    """

    def __init__(self, model: Assignment, choice: NDArray[np.int64]) -> None:
        sign = -1.0 if model.goal == "value" else 1.0
        jobs = np.arange(model.num_jobs)
        self.rows = model.rows()
        if not model.required.all():
            out = np.where(model.required, -2, -1)[:, None]
            self.rows = np.concatenate((self.rows, out), axis=1)
            self.rows[:, :-1][self.rows[:, :-1] == -1] = -2
        else:
            self.rows[self.rows == -1] = -2
        at = np.maximum(self.rows, 0)
        real = self.rows >= 0
        self.cost = np.where(real, sign * model.values[at], np.where(self.rows == -1, 0.0, np.inf))
        self.use = np.where(real, model.uses[at], 0).astype(np.int64)
        limit = np.where(model.limited, model.capacities, np.int64(2**61))
        self.limit = limit if model.required.all() else np.append(limit, np.int64(2**61))
        self.jobs = jobs
        self.placed = np.argmax(self.rows == choice[:, None], axis=1)
        self.room = self.limit.copy()
        np.subtract.at(self.room, self.placed, self.use[self.jobs, self.placed])

    def _move(self, job: int, machine: int) -> None:
        self.room[self.placed[job]] += self.use[job, self.placed[job]]
        self.room[machine] -= self.use[job, machine]
        self.placed[job] = machine

    def run(self, over: Callable[[float], bool]) -> NDArray[np.int64]:
        """Return the choice that it leads to, or where it is when a cost is low enough or the time over."""
        while not over(float(self.cost[self.jobs, self.placed].sum())):
            if not (self._shift() or self._swap() or self._eject()):
                break
        return np.asarray(self.rows[self.jobs, self.placed], dtype=np.int64)

    def _shift(self) -> bool:
        gain = self.cost[self.jobs, self.placed][:, None] - self.cost
        gain[self.use > self.room[None, :]] = -np.inf
        gain[self.jobs, self.placed] = 0.0
        best = int(np.argmax(gain))
        job, machine = divmod(best, self.cost.shape[1])
        if not gain[job, machine] > 1e-9:
            return False
        self._move(job, machine)
        return True

    def _swap(self) -> bool:
        there = self.cost[:, self.placed]
        now = self.cost[self.jobs, self.placed]
        with np.errstate(invalid="ignore"):
            gain = (now[:, None] - there) + (now[:, None] - there).T
        use_there = self.use[:, self.placed]
        own = self.use[self.jobs, self.placed]
        # job j into the machine of k, once k has left it
        fits = use_there <= (self.room[self.placed] + own)[None, :]
        gain[~(fits & fits.T)] = -np.inf
        gain[~np.isfinite(gain)] = -np.inf
        best = int(np.argmax(gain))
        first, second = divmod(best, self.jobs.size)
        if not gain[first, second] > 1e-9:
            return False
        to_first, to_second = int(self.placed[second]), int(self.placed[first])
        self._set_pair(first, to_first, second, to_second)
        return True

    def _set_pair(self, first: int, to_first: int, second: int, to_second: int) -> None:
        self._move(first, to_first)
        self._move(second, to_second)

    def _eject(self) -> bool:
        """Shift a job onto a machine and move one of that machine's jobs on to a third."""
        now = self.cost[self.jobs, self.placed]
        own = self.use[self.jobs, self.placed]
        onward = self.cost - now[:, None]
        onward[self.use > self.room[None, :]] = np.inf
        onward[self.jobs, self.placed] = np.inf
        next_machine = np.argmin(onward, axis=1)
        leave = onward[self.jobs, next_machine]
        enter = self.cost[:, self.placed] - now[:, None]
        fits = self.use[:, self.placed] <= (self.room[self.placed] + own)[None, :]
        gain = -(enter + leave[None, :])
        gain[~fits] = -np.inf
        gain[self.placed[:, None] == self.placed[None, :]] = -np.inf
        # the ejected job may not go where the entering one just made room for nothing else
        gain[~np.isfinite(gain)] = -np.inf
        best = int(np.argmax(gain))
        job, ejected = divmod(best, self.jobs.size)
        if not gain[job, ejected] > 1e-9:
            return False
        machine = int(self.placed[ejected])
        self._move(ejected, int(next_machine[ejected]))
        self._move(job, machine)
        return True


NODES, _STEPS = 100, 60
"""Nodes of such a tree at most, and steps of the prices at its root."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A tree over some machines and the jobs that they have.

    Attributes
    ----------
    tree
        Is there a placement of these jobs that costs less?
    at
        int32 [all jobs]: the placement that is improved.
    machines, jobs
        int64: those of the tree, in its order.
    """

    tree: AssignmentTree
    at: NDArray[np.int32]
    machines: NDArray[np.int64]
    jobs: NDArray[np.int64]

    def whole(self, found: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return int32 [all jobs]: the placement with what the tree found."""
        better = self.at.copy()
        better[self.jobs] = self.machines[found]
        return better


class Improving:
    """Improves one placement, tree by tree.

    Parameters
    ----------
    placement
        Jobs and machines; the first resource is what bounds.
    step
        The least difference of two costs.
    paid
        float64 [machines]: prices of the capacities, in units of cost.
    """

    def __init__(self, placement: Placement, step: int, paid: NDArray[np.float64]) -> None:
        self._placement, self._step, self._paid = placement, step, paid
        able = placement.open == 1
        self._reduced = np.where(able, placement.cost + paid[:, None] * placement.use[0], np.inf)
        self._reduced -= self._reduced.min(axis=0)

    def part(
        self, at: NDArray[np.int32], prices: NDArray[np.int64], rng: np.random.Generator, size: int
    ) -> Part:
        """Return a tree over some machines that are drawn, for a placement that costs less.

        Parameters
        ----------
        at
            A placement that keeps the capacities.
        prices
            int64 [jobs]: of the tree's last root.
        rng, size
            Draws so many machines.
        """
        placement, jobs = self._placement, np.arange(at.size)
        count = placement.cost.shape[0]
        held = np.bincount(at, weights=placement.use[0][at, jobs], minlength=count)
        lost = np.bincount(at, weights=self._reduced[at, jobs], minlength=count)
        waste: NDArray[np.float64] = lost + self._paid * (placement.capacity[0] - held)
        waste = waste + max(float(waste.mean()), 1e-300) / 4
        machines = np.sort(rng.choice(count, size, replace=False, p=waste / waste.sum()))
        own = np.flatnonzero(np.isin(at, machines))
        part = np.ix_(machines, own)
        now = int(placement.cost[at[own], own].sum())
        small = Placement(
            placement.cost[part],
            placement.use[0][part][None],
            placement.capacity[:1, machines],
            placement.open[part],
        )
        tree = AssignmentTree(small, now - self._step, self._step, prices[own], NODES, _STEPS)
        return Part(tree, at, machines, own)


_PAIRS, _MOST_PAIRS = 1_000_000, 4_000_000
"""Jobs times machines up to which the tree is held, and up to which trees over some machines are."""
_PRECISION = 10
"""Prices are finer than values by at most this many bits."""
_AGAIN = 100
"""Steps of the prices at a root that begins with the prices of another."""
_BEFORE = 1_500_000_000
"""Cells of tables, about half a second, before anything but decisions is tried: most are proven by then."""
_MOST = 12
"""Machines of the largest trees between decisions."""
_DIVE = 64
"""Nodes, beyond one for every job, in which a tree reaches a plan."""
_CLOSE = Fraction(1, 4 * 10**9)
"""Values on no lattice are proven up to this share: a quarter of what the contract calls optimal."""


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """How a search of the assignment tree ended: its placement, bound and status.

    Attributes
    ----------
    choice
        The best choice, or ``None``.
    bound
        A bound on the objective, in the model's sense; ``None`` where there is no plan at all.
    closed
        Whether nothing better is left: with no choice, that there is no plan.
    nodes
        Nodes looked at.
    interrupted
        Whether Ctrl-C ended it.
    row_multipliers
        float64 [jobs]: what the rows of jobs are worth at the last root; where costs are minimised, negated.
    """

    choice: NDArray[np.int64] | None
    bound: float | None
    closed: bool
    nodes: int
    interrupted: bool
    row_multipliers: NDArray[np.float64]


def fits(model: Assignment) -> bool:
    """Return whether the compiled search is there and takes the model."""
    pairs = model.num_jobs * (model.num_machines + 1)
    return model.num_jobs <= MOST_JOBS and pairs <= _PAIRS and fits_in_parts(model)


def fits_in_parts(model: Assignment) -> bool:
    """Return whether the compiled search is there and takes some machines of the model at a time."""
    if not available() or model.num_jobs == 0 or model.num_jobs * (model.num_machines + 1) > _MOST_PAIRS:
        return False
    if (model.capacities[model.limited] < 0).any() or model.repeats:
        return False
    return TreeSearch.lattice_of(model) is not None


class TreeSearch:
    """The search over one model, from a choice if there is one.

    Parameters
    ----------
    model
        An assignment of costs or values that `fits`.
    prices
        float64 [machines]: prices of the capacities to begin with.
    improving
        Whether better plans are looked for between decisions.
    """

    def __init__(self, model: Assignment, prices: NDArray[np.float64], improving: bool = True) -> None:
        self.model, self._improves = model, improving
        lattice = self.lattice_of(model)
        assert lattice is not None
        self.lattice = lattice
        self.rows, whole, use, capacity = _arrays(model, lattice)
        open_pairs = (self.rows > -2) & (use <= capacity[:, None])
        self.base = np.where(open_pairs, whole, np.iinfo(np.int64).max).min(axis=0)
        self.base[~open_pairs.any(axis=0)] = 0
        self._cheapest = _cheapest(model, self.rows, open_pairs)
        cost = np.where(open_pairs, whole - self.base, 0)
        self.step = max(int(np.gcd.reduce(cost, axis=None)), 1)
        largest = max(int(cost.max(initial=0)), 1)
        jobs = model.num_jobs
        self.scale = 1 << min(max((LARGEST_SUM // (8 * jobs * largest)).bit_length() - 1, 0), _PRECISION)
        self.placement = Placement(
            np.ascontiguousarray(cost * self.scale),
            np.ascontiguousarray(use[None]),
            np.ascontiguousarray(capacity[None]),
            open_pairs.astype(np.uint8),
        )
        self.prices = self._first_prices(prices)
        self.choice: NDArray[np.int64] | None = None

    @staticmethod
    def lattice_of(model: Assignment) -> Lattice | None:
        """Return the values as whole numbers small enough for the search."""
        return on_lattice(model.values, LARGEST_SUM // (64 * max(model.num_jobs, 1)))

    def run(
        self,
        start: NDArray[np.int64] | None,
        gap: float,
        nodes: int | None,
        seed: int,
        over: Callable[[], bool],
        report: Callable[[NDArray[np.int64], float | None], None],
        threads: int = 1,
        deciding: bool = True,
    ) -> Searched:
        """Search until proven, over, or out of nodes.

        Parameters
        ----------
        start
            A feasible choice.
        gap
            Relative gap at which to stop.
        nodes
            Limit on the nodes, ``None`` for none.
        seed
            Random seed of the search for better plans.
        over
            Whether the time is over.
        report
            Called with every better choice and the bound.
        threads
            Among how many the trees are divided; the answer repeats for the same number.
        deciding
            Whether anything is decided of all machines; else a given choice is improved until it is over.
        """
        self.choice, self._report = None, report
        self._slices = Slices(over, nodes, threads)
        self._gap = Fraction(gap)
        if start is None:
            status, start = self._any()
            if start is None:
                return self._ended(None, status is Status.EXHAUSTED)
        self._improving = Improving(self.placement, self.step * self.scale, self._paid)
        machines = self.placement.cost.shape[0]
        self._least_work = 2**40
        self._few = FewMachines(machines, _MOST, NODES, _BEFORE, seed, self._slices)
        rising = Rising(
            self._decide,
            0,
            self._value(start),
            self.step,
            self.step,
            self._slices.over,
            self._improve,
            self._dive,
            self.model.num_jobs + _DIVE,
        )
        self._rising = rising
        self._take(start)
        if deciding:
            rising.run()
        else:
            self._few.beside(self._attempt, lambda: rising.closed, 2**62)
        return self._ended(self._bound(), rising.closed)

    def _ended(self, bound: float | None, closed: bool) -> Searched:
        unit = float(self.lattice.unit / self.scale)
        rows = -unit * (self.base * self.scale + self.prices).astype(np.float64)
        slices = self._slices
        return Searched(self.choice, bound, closed, slices.nodes, slices.interrupted, rows)

    def _reach(self) -> None:
        """Set by how much a plan must be better than the incumbent to be searched for."""
        assert self.choice is not None
        worth = abs(Fraction(self.model.objective(self.choice)))
        share = max(self._gap, Fraction(0) if self.lattice.natural else _CLOSE)
        steps = int(worth * share / self.lattice.unit) // self.step
        self._rising.slack = self.step * (1 + steps)

    def _any(self) -> tuple[Status, NDArray[np.int64] | None]:
        """Look for any plan at all: no costs, any placement is within the target 0."""
        placement = self.placement
        status, found = any_placement(
            placement.use[0], placement.capacity[0], placement.open == 1, self._slices
        )
        return status, None if found is None else self._choice_of(found)

    def _decide(self, target: int, nodes: int) -> Answer:
        first = self._rising.nodes == 0
        tree = AssignmentTree(
            self.placement,
            target * self.scale,
            self.step * self.scale,
            self.prices,
            nodes,
            *(() if first else (_AGAIN,)),
        )
        before, worked = self._slices.nodes, self._slices.work
        status, found = self._slices.run(tree, nodes)
        per_node = (self._slices.work - worked) // max(self._slices.nodes - before, 1)
        self._least_work = min(self._least_work, per_node)
        self.prices = tree.prices
        value = None
        if found is not None:
            value = self._value_of(found)
            self._take(self._choice_of(found))
        bound = None
        if tree.nodes == 1 and status is Status.OUT_OF_NODES:
            bound = -(-tree.bound // self.scale)
        return Answer(status is Status.EXHAUSTED, value, bound, self._slices.nodes - before)

    def _dive(self, target: int, nodes: int) -> Answer:
        """Decide in as few nodes as reach a plan; prices of a far target stay only where there is none."""
        before = self.prices
        answer = self._decide(target, nodes)
        if not answer.none:
            self.prices = before
        return answer

    def _improve(self, nodes: int) -> None:
        """Search for better plans as long as the decisions take, anew after every one that is found."""
        if self._improves:
            self._few.beside(self._attempt, lambda: self._rising.closed, nodes * self._least_work)

    def _attempt(self, rng: np.random.Generator, size: int) -> Trial:
        assert self.choice is not None
        at = np.argmax(self.rows == self.choice, axis=0).astype(np.int32)
        part = self._improving.part(at, self.prices, rng, size)

        def take(found: NDArray[np.int32]) -> None:
            better = part.whole(found)
            self._take(self._choice_of(better))
            self._rising.high = min(self._rising.high, self._value_of(better))

        return Trial(part.tree, take)

    def _value_of(self, found: NDArray[np.int32]) -> int:
        return int(self.placement.cost[found, np.arange(found.size)].sum()) // self.scale

    def _value(self, choice: NDArray[np.int64]) -> int:
        return self._value_of(np.argmax(self.rows == choice, axis=0).astype(np.int32))

    def _choice_of(self, found: NDArray[np.int32]) -> NDArray[np.int64]:
        return np.asarray(self.rows[found, np.arange(found.size)], dtype=np.int64)

    def _take(self, choice: NDArray[np.int64]) -> None:
        """Keep a plan if it is better and the model agrees."""
        if not self.model.check(choice).feasible:
            raise AssertionError("the search placed jobs beyond a capacity")
        sign = 1.0 if self.model.goal == "value" else -1.0
        if (
            self.choice is None
            or sign * (self.model.objective(choice) - self.model.objective(self.choice)) > 0
        ):
            self.choice = choice
            self._reach()
            self._report(choice, self._bound())

    def _bound(self) -> float | None:
        """Return the bound in the model's sense, rounded outward, or the objective it equals."""
        rising, lattice, model = self._rising, self.lattice, self.model
        low = min(rising.low, rising.high)
        least = (low + int(self.base.sum())) * lattice.unit - model.num_jobs * lattice.error
        least = max(least, self._cheapest)
        if self.choice is not None:
            sign = -1 if model.goal == "value" else 1
            own = sign * exact_sum(model.values[self.choice[self.choice >= 0]])
            if least >= own:
                return model.objective(self.choice)
        rounded = _down(least)
        return -rounded if model.goal == "value" else rounded

    def _first_prices(self, prices: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return what each job costs at least at prices of the capacities: the duals of the relaxation."""
        self._paid = np.zeros(self.placement.cost.shape[0])
        self._paid[: prices.size] = prices / float(self.lattice.unit) * self.scale
        reduced = self.placement.cost + self._paid[:, None] * self.placement.use[0]
        least = np.where(self.placement.open == 1, reduced, np.inf).min(axis=0)
        least = np.where(np.isfinite(least), least, 0.0)
        most = LARGEST_SUM // (2 * self.model.num_jobs)
        whole: NDArray[np.int64] = np.rint(np.clip(least, -most, most)).astype(np.int64)
        return whole


def _arrays(
    model: Assignment, lattice: Lattice
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return entries, costs, uses [machines, jobs], capacities; optional jobs may go to a free machine."""
    jobs, machines = model.num_jobs, model.num_machines
    optional = not bool(model.required.all())
    rows = np.full((machines + optional, jobs), -2, dtype=np.int64)
    rows[model.machine, model.job_of_option()] = np.arange(model.num_options)
    if optional:
        rows[machines, ~model.required] = -1
    at = np.maximum(rows, 0)
    sign = -1 if model.goal == "value" else 1
    whole = np.where(rows >= 0, sign * lattice.whole[at], 0)
    limited = np.append(model.limited, False) if optional else model.limited
    room = np.append(model.capacities, 0) if optional else model.capacities
    use = np.where((rows >= 0) & limited[:, None], model.uses[at], 0)
    return rows, whole, use, np.where(limited, room, 0)


def _cheapest(model: Assignment, rows: NDArray[np.int64], open_pairs: NDArray[np.bool_]) -> Fraction:
    """Return what the jobs cost at least, each where it is cheapest, exactly."""
    cost = np.where(rows >= 0, (-1 if model.goal == "value" else 1) * model.values[np.maximum(rows, 0)], 0.0)
    least = np.where(open_pairs, cost, np.inf).min(axis=0)
    return exact_sum(least[np.isfinite(least)])


def _down(value: Fraction) -> float:
    """Return the largest float that is not above a fraction (or nearly)."""
    near = float(value)
    return near if Fraction(near) <= value else float(np.nextafter(near, -np.inf))

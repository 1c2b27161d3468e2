"""Small random problems of every tree against enumeration in fractions: whole calls, as many as one likes.

    python -m tests.solvers.search.enumerations [--only PROBLEM] [--count N] [--first SEED] [--threads K]

Problems are menus with capacities, generalised assignments, makespans on machines and on pools with gangs;
`APPORTION_UNCOMPILED=1` takes the uncompiled roads. A difference is a claim that enumeration refutes: an
objective of an optimal plan, a bound, a plan or none where the truth is the other. The exit code is 1 if
there is one.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

import apportion
from apportion.core.outcome import Termination
from apportion.models import MultipleChoiceKnapsack
from apportion.models.assignment import Assignment
from apportion.solvers.generalised_assignment import by_tree as assigned
from apportion.solvers.makespan import by_tree as scheduled

__all__ = ["PROBLEMS", "Problem", "Tally", "compare"]

KINDS = ("whole", "tenths", "real", "tiny", "huge", "signed", "few")

Model = TypeVar("Model", MultipleChoiceKnapsack, Assignment)


def menus(seed: int) -> MultipleChoiceKnapsack:
    """Draw up to five menus of up to four options under up to four capacities, some of them optional."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, rng.integers(1, 6))
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    capacities = int(rng.integers(1, 5))
    values = _values(rng, (int(offsets[-1]), 1))[:, 0]
    top = int(rng.choice([3, 12, 40, 10**6, 2**40]))
    uses = rng.integers(0, top, (values.size, capacities), endpoint=True)
    most = np.maximum.reduceat(uses, offsets[:-1], axis=0).sum(axis=0)
    return MultipleChoiceKnapsack.from_arrays(
        values,
        uses,
        offsets,
        (rng.uniform(0.1, 0.9, capacities) * most).astype(np.int64),
        required=rng.random(sizes.size) < rng.choice([0.0, 0.5, 1.0]),
        sense="maximize" if rng.random() < 0.7 else "minimize",
    )


def assignments(seed: int) -> Assignment:
    """Draw a small assignment: up to six jobs on up to four machines, pairs forbidden, some jobs optional."""
    rng = np.random.default_rng(seed)
    jobs, machines = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    allowed = rng.random((jobs, machines)) < rng.choice([0.6, 1.0])
    allowed[np.arange(jobs), rng.integers(0, machines, jobs)] = True
    values = _values(rng, allowed.shape)
    uses = rng.integers(0, 12, allowed.shape) * int(rng.choice([1, 1, 7, 10**6]))
    total = uses.sum(axis=0)
    capacities = (rng.uniform(0.2, 1.0, machines) * total / rng.choice([1, machines])).astype(np.int64)
    return Assignment.from_arrays(
        "cost" if rng.random() < 0.5 else "value",
        *_menus(values, allowed),
        machines,
        uses=uses[allowed],
        capacities=capacities,
        limited=rng.random(machines) < 0.85,
        required=rng.random(jobs) < rng.choice([0.0, 0.5, 1.0, 1.0]),
    )


def makespans(seed: int) -> Assignment:
    """Draw a small makespan: up to seven jobs on up to four machines, some alike, some with a capacity."""
    rng = np.random.default_rng(seed)
    jobs, machines = int(rng.integers(1, 8)), int(rng.integers(1, 5))
    times = rng.integers(0, 60, (jobs, machines)).astype(float)
    alike = rng.random(machines) < 0.4
    times[:, alike] = times[:, :1]
    kind = int(rng.integers(5))
    times = (times, times / 10, times * rng.lognormal(0.0, 0.2, machines), times * 1e-7, times * 1e9)[kind]
    allowed = rng.random((jobs, machines)) < rng.choice([0.7, 1.0, 1.0])
    allowed[np.arange(jobs), rng.integers(0, machines, jobs)] = True
    uses = rng.integers(0, 12, times.shape)
    capacities = (rng.uniform(0.3, 1.0, machines) * uses.sum(axis=0)).astype(np.int64)
    return Assignment.from_arrays(
        "makespan",
        *_menus(times, allowed),
        machines,
        uses=uses[allowed],
        capacities=capacities,
        limited=rng.random(machines) < rng.choice([0.0, 0.0, 0.5]),
    )


def gangs(seed: int) -> Assignment:
    """Draw up to five jobs that hold one machine or several of a pool's at once, on up to three pools."""
    rng = np.random.default_rng(seed)
    jobs, pools = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    counts = rng.integers(1, 5, pools)
    times = rng.integers(0, int(rng.choice([5, 30, 1_000])), (jobs, pools)) / float(rng.choice([1, 1, 4, 10]))
    allowed = rng.random((jobs, pools)) < rng.choice([0.7, 1.0])
    allowed[np.arange(jobs), rng.integers(0, pools, jobs)] = True
    held = rng.integers(1, counts, (jobs, pools), endpoint=True)
    return Assignment.from_arrays(
        "makespan",
        *_menus(times, allowed),
        pools,
        gpus=held[allowed],
        counts=counts,
    )


def _menus(
    values: NDArray[np.float64], allowed: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return values, machines and offsets of the pairs that are allowed, job by job."""
    offsets = np.concatenate(([0], np.cumsum(allowed.sum(axis=1))))
    return values[allowed], np.nonzero(allowed)[1], offsets


def _values(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return values: whole, on a grid, real, tiny, huge, of both signs, few of them different."""
    whole = rng.integers(0, 60, shape).astype(float)
    return {
        "whole": whole,
        "tenths": whole / 10,
        "real": rng.lognormal(0.0, 1.0, shape),
        "tiny": whole * 1e-7,
        "huge": whole * 1e9 + rng.integers(0, 3, shape),
        "signed": whole - 30,
        "few": np.floor(whole / 20),
    }[KINDS[int(rng.integers(len(KINDS)))]]


def _wholes(values: NDArray[np.float64]) -> tuple[list[int], int]:
    """Return values as whole numbers over a common denominator."""
    fractions = [Fraction(v) for v in values.tolist()]
    whole = math.lcm(*(v.denominator for v in fractions))
    return [int(v * whole) for v in fractions], whole


def best_menus(model: MultipleChoiceKnapsack) -> Fraction | None:
    """Return the best value of all choices, exactly, or ``None`` without a feasible one."""
    value, whole = _wholes(model.values)
    uses, room = model.uses.tolist(), model.capacities.tolist()
    rows = [list(range(a, b)) for a, b in itertools.pairwise(model.offsets.tolist())]
    menus = [menu if must else [-1, *menu] for menu, must in zip(rows, model.required.tolist(), strict=True)]
    best: int | None = None
    for choice in itertools.product(*menus):
        taken = [row for row in choice if row >= 0]
        if any(sum(uses[row][k] for row in taken) > most for k, most in enumerate(room)):
            continue
        own = sum(value[row] for row in taken)
        if best is None or (own > best if model.sense == "maximize" else own < best):
            best = own
    return None if best is None else Fraction(best, whole)


def best_assignment(model: Assignment) -> Fraction | None:
    """Return the best objective of all choices, exactly, or ``None`` without a feasible one."""
    value, whole = _wholes(model.values)
    machine, use = model.machine.tolist(), model.uses.tolist()
    room = [c if k else 2**62 for c, k in zip(model.capacities.tolist(), model.limited.tolist(), strict=True)]
    ends = [0] * len(room)
    offsets, required = model.offsets.tolist(), model.required.tolist()
    best: int | None = None

    def place(job: int, total: int) -> None:
        nonlocal best
        if job == model.num_jobs:
            own = max(ends) if model.goal == "makespan" else total
            if best is None or (own > best if model.goal == "value" else own < best):
                best = own
            return
        for row in range(offsets[job], offsets[job + 1]):
            on = machine[row]
            if use[row] > room[on]:
                continue
            room[on] -= use[row]
            ends[on] += value[row]
            place(job + 1, total + value[row])
            room[on] += use[row]
            ends[on] -= value[row]
        if not required[job]:
            place(job + 1, total)

    place(0, 0)
    return None if best is None else Fraction(best, whole)


def best_gangs(model: Assignment) -> Fraction | None:
    """Return the least makespan: of every way to share the jobs among the pools, every order on each."""
    time, whole = _wholes(model.values)
    gpus, machine = model.gpus.tolist(), model.machine.tolist()
    known: dict[tuple[int, ...], int] = {}

    def least(rows: tuple[int, ...], count: int) -> int:
        if rows not in known:
            known[rows] = min(listed(order, count) for order in itertools.permutations(rows))
        return known[rows]

    def listed(order: Iterable[int], count: int) -> int:
        """Begin each job as soon as enough machines are free, and no sooner than those before it."""
        free = [0] * count
        for row in order:
            free.sort()
            begun = free[gpus[row] - 1]
            free[: gpus[row]] = [begun + time[row]] * gpus[row]
            free = [max(moment, begun) for moment in free]
        return max(free)

    best: int | None = None
    for choice in itertools.product(*(range(a, b) for a, b in itertools.pairwise(model.offsets.tolist()))):
        end = 0
        for pool, count in enumerate(model.counts.tolist()):
            if rows := tuple(row for row in choice if machine[row] == pool):
                end = max(end, least(rows, count))
        best = end if best is None else min(best, end)
    return None if best is None else Fraction(best, whole)


@dataclass(frozen=True, slots=True)
class Problem(Generic[Model]):
    """A kind of problem: how one is drawn, its truth, and whether a compiled tree takes it to the end."""

    draw: Callable[[int], Model]
    truth: Callable[[Model], Fraction | None]
    proven: Callable[[Model], bool]


PROBLEMS: dict[str, Problem[Any]] = {
    "menus": Problem(menus, best_menus, lambda _: True),
    "assignment": Problem(assignments, best_assignment, assigned.fits),
    "makespan": Problem(makespans, best_assignment, scheduled.fits),
    "gangs": Problem(gangs, best_gangs, lambda _: True),
}


@dataclass(slots=True)
class Tally:
    """What was compared: problems, those without a plan, those a tree took, those left open, differences."""

    compared: int = 0
    infeasible: int = 0
    taken: int = 0
    unproven: int = 0
    different: tuple[str, ...] = ()


def compare(problem: Problem[Any], seeds: Iterable[int], limit: float, threads: int = 1) -> Tally:
    """Solve problems and compare every answer with enumeration.

    Parameters
    ----------
    problem
        The kind.
    seeds
        One problem each.
    limit
        Seconds for those that no tree takes: HiGHS, which searches them, may end a little short of a proof.
    threads
        Handed on.
    """
    tally = Tally()
    for seed in seeds:
        model = problem.draw(seed)
        taken, best = problem.proven(model), problem.truth(model)
        solution = apportion.solve(model, time_limit=None if taken else limit, threads=threads)
        tally.compared += 1
        tally.taken += taken
        wrong = None
        if best is None or solution.termination is Termination.INFEASIBLE:
            tally.infeasible += best is None
            if best is not None or solution.objective is not None:
                wrong = f"{solution.termination}, {solution.objective}"
            tally.unproven += best is None and solution.termination is not Termination.INFEASIBLE
        else:
            wrong = refuted(model.sense, solution, best)
            tally.unproven += solution.termination is not Termination.OPTIMAL
        if wrong is not None:
            truth = "no plan" if best is None else float(best)
            tally.different = (*tally.different, f"seed {seed}: {wrong}; by enumeration {truth}")
    return tally


def refuted(sense: str, solution: apportion.Solution, best: Fraction) -> str | None:
    """Return which claim of an answer the exact optimum refutes, if one does."""
    sign, scale = (1 if sense == "minimize" else -1), max(abs(best), Fraction(1, 10**9))
    if solution.objective is not None:
        above = sign * (Fraction(solution.objective) - best)
        optimal = solution.termination is Termination.OPTIMAL
        if above < -scale / 10**9 or (optimal and above > scale / 10**9):
            return f"{solution.termination} {solution.objective}"
    if solution.bound is not None and sign * (Fraction(solution.bound) - best) > scale / 10**12:
        return f"the bound {solution.bound}"
    return None


def main() -> int:
    """Compare, and print a line for every kind of problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--only", choices=list(PROBLEMS), action="append", help="only this problem (repeatable)"
    )
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1.0, help="seconds for those that no tree takes")
    given = parser.parse_args()
    different = 0
    for name in given.only or PROBLEMS:
        seeds = range(given.first, given.first + given.count)
        tally = compare(PROBLEMS[name], seeds, given.limit, given.threads)
        different += len(tally.different)
        print(
            f"{name}, seeds {seeds.start} to {seeds.stop - 1}, {given.threads} thread(s): "
            f"{len(tally.different)} differences; {tally.infeasible} without a plan, "
            f"{tally.unproven} left open",
            *tally.different,
            sep="\n  ",
            flush=True,
        )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

"""A mean completion time that no policy undercuts, not even one that knows the future.

The GPUs' capacity is priced. With prices lambda(t) >= 0 for a second of a GPU of each type, every schedule
that keeps within N GPUs has, by weak duality,

    sum_j C_j  >=  sum_j  min over plans of job j [ C_j + int lambda k_j dt ]  -  int lambda N dt.

A job's own least cost is bounded from below by a dual of its own. Its epochs e, of L_ek seconds on
configuration k, are taken in any order. For any worths mu_e >= 0 of an epoch and any end C

    C + int lambda k dt  >=  C + sum_e mu_e - int_release^C max_ek (mu_e / L_ek - lambda k)^+ dt,

and the bound is the minimum over C of the maximum over a family of worths, mu_e = min_k (a + b k) L_ek.
Every a, b and lambda gives a valid bound; the prices are improved by subgradient steps.

What it leaves out: restarts but the first, rounds but the first, neighbours, the order of the epochs. Rates
are the greatest that the simulation has for a number of GPUs, over all placements and batches. The
simulation ends epochs on the nearest whole second, so where all begins on whole seconds one of L seconds
takes no less than ceil(L - 1/2), else than L - 1/2. A stay on one configuration makes more of this by less
than three halves of a second, by the epochs that it begins and ends within; and it begins with a restart,
which is longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.training.application import GoodputTable, split_batch
from apportion.cluster.estimation.training.step_times import smallest_rotation
from apportion.cluster.policies.rounds.cluster_view import Nodes
from apportion.cluster.simulation.rounds.job_states import RoundRules
from apportion.cluster.simulation.rounds.scenario import Scenario
from apportion.core.errors import InvalidInstance, InvalidOption, Problem

__all__ = ["CompletionBound", "bound_at", "completion_bound", "greatest_rates", "prices_of"]

_FINE_S, _LATE = 240.0, 90
"""Intervals of prices while jobs come, and how many there are after the last one."""
_OWN, _TRIED = (0.2, 100.0), ((8, 32), (40, 80))
"""How many a and b of the worths are tried while prices are searched, and in the end."""
_LEAST_RESTART_S = 1.5
"""What a stay on one configuration may make of rounding; see above."""
_STEP, _SLOWS, _MOMENTUM = 0.2, 15.0, 0.8
_ALIKE = 6
"""Into how many kinds of jobs those of one application are put while prices are searched."""
_ROUNDED = 1.0 - 1e-9
"""Times of epochs are computed here in another order than in the simulation."""


@dataclass(frozen=True, slots=True, eq=False)
class CompletionBound:
    """A lower bound of the mean completion time, and the prices that it rests on.

    Attributes
    ----------
    mean_s
        Seconds from submission to completion, the mean over the jobs.
    edges_s
        float64 [intervals + 1], from 0: when prices change; afterwards they are 0.
    prices
        float64 [types, intervals] >= 0: seconds of completion per second of a GPU.
    """

    mean_s: float
    edges_s: NDArray[np.float64]
    prices: NDArray[np.float64]

    def document(self, types: Sequence[str]) -> dict[str, Any]:
        """Return it as an object of JSON, which `prices_of` reads."""
        by_type = {name: own.tolist() for name, own in zip(types, self.prices, strict=True)}
        return {"avg_jct_s": self.mean_s, "edges_s": self.edges_s.tolist(), "prices": by_type}


class _Document(msgspec.Struct):
    edges_s: list[float]
    prices: dict[str, list[float]]


class _Answer(msgspec.Struct):
    bound: _Document


def prices_of(text: str, types: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return when prices change and the prices, as of `CompletionBound`, from an answer with its ``bound``.

    Raises
    ------
    InvalidInstance
        If the text is no such answer.
    InvalidOption
        If it is one for other GPU types.
    """
    try:
        found = msgspec.json.decode(text, type=_Answer).bound
    except msgspec.DecodeError as error:
        raise InvalidInstance(Problem("$", f"is no answer of simulate --bound --json: {error}")) from None
    if sorted(found.prices) != sorted(types):
        raise InvalidOption(f"the prices are for {', '.join(found.prices)}, the machines {', '.join(types)}")
    if any(len(own) != len(found.edges_s) - 1 for own in found.prices.values()):
        raise InvalidInstance(Problem("$.bound.prices", "has not one price for every interval of edges_s"))
    return np.array(found.edges_s), np.array([found.prices[name] for name in types])


@dataclass(frozen=True, slots=True, eq=False)
class _Epochs:
    """The work of the jobs of one application.

    Attributes
    ----------
    jobs
        int64: which.
    types, gpus
        int64 [configurations].
    seconds
        float64 [epochs, configurations]: how long each takes at the least.
    """

    jobs: NDArray[np.int64]
    types: NDArray[np.int64]
    gpus: NDArray[np.int64]
    seconds: NDArray[np.float64]

    def valued(
        self, own: NDArray[np.float64], per_gpu: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return float64 [tried]: what all epochs are worth; [tried, configurations]: a second at most."""
        price = own + per_gpu * self.gpus
        owed, earned = np.zeros(own.size), np.zeros(price.shape)
        for epoch in self.seconds:
            runs = np.isfinite(epoch)
            worth = (price[:, runs] * epoch[runs]).min(axis=1)
            owed += worth
            earned = np.maximum(earned, worth[:, None] / epoch)
        return owed, earned


def completion_bound(
    scenario: Scenario,
    rules: Sequence[RoundRules],
    completed_s: NDArray[np.float64],
    steps: int = 120,
) -> CompletionBound:
    """Search prices whose bound is high.

    Parameters
    ----------
    scenario
        Jobs, profiles and machines; nothing is frozen, nobody shares a GPU.
    rules
        Of the policies that the bound is for.
    completed_s
        float64 [jobs]: when jobs complete under some policy: where the search begins.
    steps
        Steps of the prices.

    Raises
    ------
    InvalidOption
        If restarts are short.
    """
    submitted_s = scenario.submitted_s
    last = float(submitted_s.max()) + 10_000.0
    horizon = max(float(np.nanmax(completed_s)) * 1.3, last + 20_000.0)
    edges = np.unique(np.concatenate((np.arange(0.0, last, _FINE_S), np.geomspace(last, horizon, _LATE))))
    there = (submitted_s[:, None] <= edges[:-1]) & (completed_s[:, None] > edges[:-1])
    available = scenario.nodes.gpus_by_type
    # as many jobs as there are share the GPUs: a price of so many seconds, less what jobs gain by waiting
    prices = np.tile(0.8 * there.sum(axis=0) / available.sum(), (available.size, 1))
    released = _released(submitted_s, rules)
    work = _of_few_kinds(scenario, _epochs(scenario, rules))
    best, kept = -np.inf, prices
    speed = np.zeros_like(prices)
    for step in range(steps):
        total, used = _dual(work, released, available, edges, prices, _TRIED[0])
        if total > best:
            best, kept = total, prices
        excess = used / (available[:, None] * np.diff(edges)) - 1.0
        speed = _MOMENTUM * speed + (1.0 - _MOMENTUM) * excess
        size = _STEP / (1.0 + step / _SLOWS)
        prices = np.maximum(0.0, prices + size * np.clip(speed, -1.0, 1.0) * np.maximum(prices, 0.02))
    return bound_at(scenario, rules, edges, kept)


def bound_at(
    scenario: Scenario,
    rules: Sequence[RoundRules],
    edges_s: NDArray[np.float64],
    prices: NDArray[np.float64],
) -> CompletionBound:
    """Return the bound that given prices have: of them alone, whoever found them.

    Raises
    ------
    InvalidOption
        If restarts are short, times do not rise, or a price is below 0 or missing.
    """
    available = scenario.nodes.gpus_by_type
    rising = (
        edges_s.size > 1 and edges_s[0] == 0.0 and np.isfinite(edges_s).all() and (np.diff(edges_s) > 0).all()
    )
    if not rising:
        raise InvalidOption("the times of prices must rise from 0")
    if prices.shape != (available.size, edges_s.size - 1) or not np.all(
        np.isfinite(prices) & (prices >= 0.0)
    ):
        shape = f"{available.size} GPU types and {edges_s.size - 1} intervals"
        raise InvalidOption(f"prices must be at least 0, one for each of {shape}")
    released = _released(scenario.submitted_s, rules)
    total, _ = _dual(_epochs(scenario, rules), released, available, edges_s, prices, _TRIED[1])
    return CompletionBound(float(total - scenario.submitted_s.sum()) / len(scenario.jobs), edges_s, prices)


def _dual(
    work: Sequence[_Epochs],
    released: NDArray[np.float64],
    available: NDArray[np.int64],
    edges: NDArray[np.float64],
    prices: NDArray[np.float64],
    tried: tuple[int, int],
) -> tuple[float, NDArray[np.float64]]:
    """Return the bound of the sum of completion times, and float64 [types, intervals]: GPU-seconds used."""
    seconds = np.diff(edges)
    paid = available @ (prices * seconds)
    total, size = -float(paid.sum()), float(paid.sum())
    used = np.zeros_like(prices)
    own, per_gpu = _tried(prices, tried)
    for one in work:
        owed, earned = one.valued(own, per_gpu)
        fastest_s = float(one.seconds.min(axis=1).sum())
        gain = np.zeros((owed.size, seconds.size))  # float64 [tried, intervals]: a second's
        chosen = np.full(gain.shape, -1)
        for k, (kind, gpus) in enumerate(zip(one.types.tolist(), one.gpus.tolist(), strict=True)):
            here = earned[:, k, None] - gpus * prices[kind]
            better = here > gain
            gain[better], chosen[better] = here[better], k
        upto = np.concatenate((np.zeros((gain.shape[0], 1)), np.cumsum(gain * seconds, axis=1)), axis=1)
        for job in one.jobs.tolist():
            begin = released[job]
            first = int(np.searchsorted(edges, begin, side="right")) - 1  # the first edge is 0
            if first >= seconds.size:  # after all prices: its work takes as long as it takes
                total += begin + fastest_s
                continue
            before = upto[:, first] + gain[:, first] * (begin - edges[first])
            end = edges[first:].copy()
            end[0] = begin
            cost = end + owed[:, None] - np.maximum(upto[:, first:] - before[:, None], 0.0)
            least = np.minimum(cost[:, :-1], cost[:, 1:])  # linear in between
            possible = end[1:] >= begin + fastest_s - 1e-6
            of_end = np.where(possible, least.max(axis=0), np.inf)
            at = int(of_end.argmin())
            total += min(float(of_end[at]), float(edges[-1]))
            row = int(least[:, at].argmax())
            stop = first + at + int(cost[row, at + 1] <= cost[row, at])
            on = chosen[row, first:stop]
            held = np.flatnonzero(on >= 0)
            span = seconds[first:stop].copy()
            if span.size:
                span[0] -= begin - edges[first]
            np.add.at(used, (one.types[on[held]], first + held), one.gpus[on[held]] * span[held])
            size += float(end[-1]) + float(owed[row]) + float(upto[row, -1])
    # every summand is at most its part of `size`, and none passes through more additions than there are terms
    terms = sum(one.gpus.size + one.jobs.size for one in work) + 2 * seconds.size + 1000
    return total - terms * 2.0**-52 * size, used


def _released(submitted_s: NDArray[np.float64], rules: Sequence[RoundRules]) -> NDArray[np.float64]:
    """Return float64 [jobs]: when each can begin to train, less what its first stay may make of rounding."""
    if min(float(np.min(one.restart_s)) for one in rules) < _LEAST_RESTART_S:
        raise InvalidOption(f"the bound needs restarts of at least {_LEAST_RESTART_S} s")
    starts = [
        np.maximum(np.ceil(submitted_s / one.round_s), 1.0) * one.round_s + one.restart_s for one in rules
    ]
    return np.asarray(np.min(starts, axis=0) - _LEAST_RESTART_S)


def _epochs(scenario: Scenario, rules: Sequence[RoundRules]) -> list[_Epochs]:
    whole = all(np.all(np.mod((one.round_s, *np.ravel(one.restart_s)), 1.0) == 0.0) for one in rules)
    alike: dict[int, list[int]] = {}
    batches: dict[str, set[int]] = {}
    for at, (job, application) in enumerate(zip(scenario.jobs, scenario.applications, strict=True)):
        alike.setdefault(id(application), []).append(at)
        batches.setdefault(job.application, set()).add(job.batch)
    greatest = {
        name: greatest_rates(scenario.tables[name], sorted(asked), scenario.nodes)
        for name, asked in batches.items()
    }
    found = []
    for jobs in alike.values():
        application = scenario.applications[jobs[0]]
        rates, types, gpus = greatest[application.name]
        rates, work = rates[: application.epochs], np.diff(application.progress)
        with np.errstate(divide="ignore", invalid="ignore"):
            seconds = np.where(rates > 0.0, work[:, None] / rates * _ROUNDED, np.inf) - 0.5
        if whole:
            seconds = np.ceil(seconds)
        seconds = seconds[seconds.min(axis=1) > 0.0]  # others take no time
        found.append(_Epochs(np.array(jobs), types, gpus, seconds))
    return found


def _of_few_kinds(scenario: Scenario, work: Sequence[_Epochs]) -> list[_Epochs]:
    """Return jobs of one application in a few kinds by their work, all of a kind with that of its median."""
    own: dict[str, list[_Epochs]] = {}
    for one in work:
        own.setdefault(scenario.jobs[one.jobs[0]].application, []).append(one)
    found = []
    for kinds in own.values():
        kinds.sort(key=lambda one: float(one.seconds.min(axis=1).sum()))
        for at in np.array_split(np.arange(len(kinds)), min(_ALIKE, len(kinds))):
            jobs = np.concatenate([kinds[k].jobs for k in at.tolist()])
            found.append(replace(kinds[int(at[at.size // 2])], jobs=jobs))
    return found


def _tried(prices: NDArray[np.float64], size: tuple[int, int]) -> tuple[NDArray[np.float64], ...]:
    """Return the a and the b of all worths that are tried, float64 [tried, 1]; the b span the prices."""
    paid = prices[prices > 0.0]
    low, high = (np.quantile(paid, 0.1) / 2.0, paid.max() * 1.2) if paid.size else (0.01, 1.0)
    own = np.concatenate(([0.0], np.geomspace(*_OWN, size[0])))
    per_gpu = np.concatenate(([0.0], np.geomspace(low, high, size[1])))
    return tuple(grid.reshape(-1, 1) for grid in np.meshgrid(own, per_gpu))


def greatest_rates(
    table: GoodputTable, batches: Sequence[int], nodes: Nodes
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the greatest progress per second on every number of GPUs of one type, with types and numbers.

    Parameters
    ----------
    table
        The application's goodput.
    batches
        What users ask for, beside what the application would choose by itself.
    nodes
        The machines.

    Returns
    -------
    tuple
        float64 [epochs, configurations], int64 [configurations], int64 [configurations]; only what is quicker
        in some epoch than any smaller number of GPUs of the type.
    """
    application, found = table.application, []
    for kind, name in enumerate(nodes.types):
        times = application.step_times.get(name)
        if times is None:
            continue
        own = nodes.gpus[nodes.of_type(kind)]
        so_far = np.zeros(application.epochs)
        for gpus in range(1, int(own.sum()) + 1):
            rate = np.zeros(application.epochs)
            for placement in _placements(gpus, own, times.measured):
                rate = np.maximum(rate, _rates(table, batches, placement, name))
            if (rate > so_far).any():
                so_far = np.maximum(so_far, rate)
                found.append((so_far, kind, gpus))
    rates, types, numbers = zip(*found, strict=True)
    return np.stack(rates, axis=1), np.array(types), np.array(numbers)


def _placements(
    gpus: int, nodes: NDArray[np.int64], measured: frozenset[tuple[int, ...]]
) -> Iterator[tuple[int, ...]]:
    """Yield placements of so many GPUs: what was measured, and one other for each number of nodes.

    Step times of what was not measured depend on the numbers of GPUs and nodes alone.
    """
    largest = int(nodes.max())
    yield from (
        one for one in measured if sum(one) == gpus and len(one) <= nodes.size and max(one) <= largest
    )
    for count in range(-(-gpus // largest), min(gpus, nodes.size) + 1):
        others = (one for one in _shared_out(gpus, count, largest) if smallest_rotation(one) not in measured)
        yield from islice(others, 1)


def _shared_out(gpus: int, nodes: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to take so many GPUs from so many nodes, at least one of each."""
    if nodes == 1:
        yield (gpus,)
        return
    for first in range(max(1, gpus - (nodes - 1) * largest), min(largest, gpus - nodes + 1) + 1):
        for others in _shared_out(gpus - first, nodes - 1, largest):
            yield (first, *others)


def _rates(
    table: GoodputTable, batches: Sequence[int], placement: tuple[int, ...], gpu_type: str
) -> NDArray[np.float64]:
    """Return float64 [epochs]: progress per second at the best batch."""
    application, gpus = table.application, sum(placement)
    splits = [split_batch(application, batch, gpus) for batch in batches]
    local = np.array([split.local for split in splits], dtype=np.int64)
    again = np.array([split.accumulation for split in splits], dtype=np.int64)
    step, sync = application.step_times[gpu_type].curve(placement, local)
    total, seconds = gpus * local * (again + 1), step + again * (step - sync)
    possible = (local >= 1) & (seconds > 0.0)
    total, seconds = total[possible], seconds[possible]
    if (chosen := table.splits(placement, gpu_type)) is not None:
        total, seconds = np.append(total, chosen.total), np.append(seconds, chosen.seconds)
    if not total.size:
        return np.zeros(application.epochs)
    return np.asarray((application.gains(total) / seconds[:, None]).max(axis=0))

"""The smoothed dual: a temperature under which every job draws its option, and capacities are met on average.

At temperature T job j takes option i with probability proportional to ``exp((v_i - lambda . u_i) / T)`` and
the slack of capacity k is exponential with mean ``T / lambda_k``. The multipliers for which the mean use
plus the mean slack is the capacity minimise the strictly convex

    lambda . C + T sum_j log sum_i exp((v_ji - lambda . u_ji) / T) - T sum_k log lambda_k

(an entropic smoothing of the Lagrangian dual with a logarithmic barrier; as T falls it becomes the dual).
It is minimised by Newton's method. The covariance of the draws tells how far the use of the jobs still to
be decided can be steered and at what loss: that is what the beam search weighs its states with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.exact_sums import product
from apportion.solvers.multiknapsack.option_table import OptionTable

__all__ = ["EntropicDual", "entropic_dual", "freezing_temperature"]

_NEWTON_STEPS = 40
_BISECTIONS = 9
_DEAREST = 1e4
"""Greatest price of a unit, in spans of a job's values."""


@dataclass(frozen=True, slots=True, eq=False)
class EntropicDual:
    """The distribution of options at one temperature.

    Attributes
    ----------
    temperature
        T > 0, in units of value.
    weights
        float64 [capacities] > 0: the multipliers at which means meet capacities.
    loss
        float64 [options] >= 0: ``max_i (v - lambda . u)`` of the job less the option's own.
    probability
        float64 [options], summing to 1 per job.
    mean
        float64 [capacities, jobs]: mean use.
    slack
        float64 [capacities] > 0: mean slack, at most the capacity.
    bound
        The Lagrangian bound at the multipliers.
    """

    temperature: float
    weights: NDArray[np.float64]
    loss: NDArray[np.float64]
    probability: NDArray[np.float64]
    mean: NDArray[np.float64]
    slack: NDArray[np.float64]
    bound: float

    def entropy(self, menus: OptionTable) -> NDArray[np.float64]:
        """Return float64 [jobs]: the entropy of each job's draw, in nats."""
        terms = self.probability * np.log(np.maximum(self.probability, 1e-300))
        return -np.add.reduceat(terms, menus.offsets[:-1])


def _draws(
    menus: OptionTable, weights: NDArray[np.float64], temperature: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]:
    """Return loss, probability, log partition per job and the Lagrangian bound."""
    scores = menus.scores(weights)
    top = menus.largest(scores)
    loss = top[menus.job] - scores
    mass = np.exp(loss / -temperature)
    total = np.add.reduceat(mass, menus.offsets[:-1])
    return loss, mass / total[menus.job], np.log(total), float(weights @ menus.capacities + top.sum())


def entropic_dual(
    menus: OptionTable,
    start: NDArray[np.float64],
    temperature: float,
    late: Callable[[], bool] = lambda: False,
) -> EntropicDual:
    """Find the tilt of one temperature by a damped Newton method.

    Parameters
    ----------
    menus
        At least one job and one capacity.
    start
        float64 [capacities] >= 0: multipliers nearby.
    temperature
        T > 0.
    late
        Asked once per step; true ends the method where it is (any multipliers give valid losses).
    """
    capacities, offsets = menus.capacities, menus.offsets[:-1]
    room = np.maximum(capacities, 1e-3)
    weights = np.maximum(start, temperature / room)
    # Beyond this price a capacity's mean slack is far below one unit: nothing is gained by going on.
    ceiling = np.maximum(1e3 * weights, 1e6 * temperature)
    # Far above all values a price cancels in every sum, and the bound with it, however often it was raised.
    span = float((menus.largest(menus.values) - menus.smallest(menus.values)).max(initial=0.0))
    ceiling = np.minimum(ceiling, _DEAREST * max(span, temperature))
    weights = np.minimum(weights, ceiling)
    loss, probability, partition, bound = _draws(menus, weights, temperature)
    height = bound + temperature * (partition.sum() - np.log(weights).sum())
    for _ in range(_NEWTON_STEPS):
        if late():
            break
        weighted = menus.uses * probability
        mean = np.add.reduceat(weighted, offsets, axis=1)
        gradient = capacities - mean.sum(axis=1) - temperature / weights
        hessian = (product(weighted, menus.uses.T) - product(mean, mean.T)) / temperature
        hessian[np.diag_indices_from(hessian)] += temperature / weights**2
        try:
            direction = -np.linalg.solve(hessian, gradient)
        except np.linalg.LinAlgError:
            break
        decrease = -float(gradient @ direction)
        if not decrease > 1e-5 * temperature:
            break
        step = 1.0
        falling = direction < 0
        if falling.any():
            with np.errstate(over="ignore"):  # a direction next to nothing bounds no step
                step = min(1.0, 0.95 * float((weights[falling] / -direction[falling]).min()))
        moved = False
        while step > 1e-5:
            trial = np.minimum(weights + step * direction, ceiling)
            new = _draws(menus, trial, temperature)
            new_height = new[3] + temperature * (new[2].sum() - np.log(trial).sum())
            if new_height <= height - 1e-4 * step * decrease:
                weights, height, moved = trial, new_height, True
                loss, probability, partition, bound = new
                break
            step *= 0.5
        if not moved:
            break
    mean = np.add.reduceat(menus.uses * probability, offsets, axis=1)
    slack = np.minimum(temperature / weights, room)
    return EntropicDual(temperature, weights, loss, probability, mean, slack, bound)


def log_count(menus: OptionTable, smoothed: EntropicDual) -> float:
    """Return the logarithm of how many feasible choices are about as good as a draw.

    The entropy of the draws less that of a normal law over total use and slack: the share of draws whose
    use meets the capacities. Zero marks the temperature below which no choice is expected, that is, the
    optimum.
    """
    weighted = menus.uses * smoothed.probability
    spread = (
        product(weighted, menus.uses.T) - product(smoothed.mean, smoothed.mean.T) + np.diag(smoothed.slack**2)
    )
    draws = float(smoothed.entropy(menus).sum() + (1.0 + np.log(smoothed.slack)).sum())
    return draws - 0.5 * float(np.linalg.slogdet(2 * np.pi * spread)[1])


def freezing_temperature(
    menus: OptionTable, start: NDArray[np.float64], late: Callable[[], bool] = lambda: False
) -> EntropicDual:
    """Return the tilt at which about one choice as good is expected to exist (bisection on the logarithm)."""
    span = float((menus.largest(menus.values) - menus.smallest(menus.values)).max(initial=0.0))
    if span <= 0.0:
        return entropic_dual(menus, start, 1.0, late)
    low, high = np.log(span * 1e-6), np.log(span)
    smoothed = entropic_dual(menus, start, float(np.exp((low + high) / 2)), late)
    for _ in range(_BISECTIONS):
        if late():
            break
        if log_count(menus, smoothed) > 0:
            high = np.log(smoothed.temperature)
        else:
            low = np.log(smoothed.temperature)
        smoothed = entropic_dual(menus, smoothed.weights, float(np.exp((low + high) / 2)), late)
    return smoothed

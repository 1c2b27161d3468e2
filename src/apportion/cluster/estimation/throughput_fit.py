"""Fit layer-aware throughput to measured step times by robust least squares.

Residuals are log T - log t, so that every row counts by its relative error; beyond a tenth they count
linearly (soft L1), so that single noisy rows do not move the fit. Parameters are fitted as logarithms (c and
gamma as logits), which keeps them positive. What the rows cannot tell is not fitted.

Computation and synchronisation are sums of parameter times column, C = sum_i p_i c_i and S = sum_i q_i s_i (c
+ (1 - c) rho). With the shares P = C^gamma / (C^gamma + S^gamma) and Q = 1 - P, the logarithm of T(k, g)
changes by

    d log T / d log p_i = P p_i c_i / C,    d log T / d log q_i = Q q_i s_i / S,
    d log T / d c = Q (1 - rho) / (c + (1 - c) rho),    d log T / d gamma = (P log(C/T) + Q log(S/T)) / gamma.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.layer_throughput import LAWS, LayerThroughput, SynchronisationLaw, ring_term
from apportion.core.errors import InvalidOption, one_of

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

__all__ = ["Goodness", "StepTerms", "Steps", "ThroughputFit", "fit_throughput", "goodness"]


Floats = NDArray[np.float64]

_OUTLYING = 4.0
"""A row is an outlier beyond this many robust standard deviations, and at least a tenth off."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Measured optimiser steps, one row each, as arrays of one length.

    Attributes
    ----------
    gpus, nodes
        How many GPUs and nodes the job ran on in all.
    local_batch
        Samples per GPU.
    seconds
        Measured time of a whole step, above 0.
    work, parameters
        u(k) and rho(k) of the row's depth.
    cached_forward
        v(k) where the frozen prefix is cached, 0 where it is not; ``None`` if no row is cached.
    """

    gpus: Floats
    nodes: Floats
    local_batch: Floats
    seconds: Floats
    work: Floats
    parameters: Floats
    cached_forward: Floats | None = None

    def where(self, kept: NDArray[np.bool_]) -> Steps:
        """Return the measured steps that a mask keeps."""
        cached = None if self.cached_forward is None else self.cached_forward[kept]
        return Steps(
            self.gpus[kept],
            self.nodes[kept],
            self.local_batch[kept],
            self.seconds[kept],
            self.work[kept],
            self.parameters[kept],
            cached,
        )

    def predicted(self, model: LayerThroughput) -> Floats:
        """Return a model's time for every row."""
        return model.step_time(
            self.gpus,
            self.nodes,
            self.local_batch,
            self.work,
            self.parameters,
            cached_forward=self.cached_forward,
        )


@dataclass(frozen=True, slots=True)
class Goodness:
    """How well a model predicts measured step times.

    Attributes
    ----------
    rows
        Number of rows.
    mape, median_ape
        Mean and median absolute percentage error.
    rmsle
        Root mean squared difference of logarithms.
    outliers
        Rows further off than four robust standard deviations and a tenth.
    """

    rows: int
    mape: float
    median_ape: float
    rmsle: float
    outliers: int


def goodness(model: LayerThroughput, steps: Steps) -> Goodness:
    """Return how well a model predicts measured steps.

    Raises
    ------
    InvalidOption
        If there is no row, or a row needs what was not measured.
    """
    if not steps.seconds.size:
        raise InvalidOption("there is no row to judge the fit by")
    predicted = steps.predicted(model)
    error = 100.0 * np.abs(predicted / steps.seconds - 1.0)
    residual = np.log(predicted / steps.seconds)
    spread = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
    outlying = np.abs(residual) > max(_OUTLYING * spread, 0.1)
    return Goodness(
        rows=int(error.size),
        mape=float(error.mean()),
        median_ape=float(np.median(error)),
        rmsle=float(np.sqrt(np.mean(residual**2))),
        outliers=int(outlying.sum()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class StepTerms:
    """What every parameter is multiplied with, row by row.

    Attributes
    ----------
    compute, synchronise
        float64 [rows, parameters]: the columns c_i and s_i, in the order of their names.
    compute_names, synchronise_names
        The parameters in that order.
    parameters
        float64 [rows]: rho.
    """

    compute: Floats
    synchronise: Floats
    compute_names: tuple[str, ...]
    synchronise_names: tuple[str, ...]
    parameters: Floats

    def log_time(self, values: Mapping[str, float]) -> tuple[Floats, dict[str, Floats]]:
        """Return log T per row, and per parameter its slope: by log p, but by c and gamma themselves.

        Parameters
        ----------
        values
            Every parameter by name, above 0; ``fixed_sync_share`` and ``overlap`` may be absent (1).
        """
        fixed, gamma = values.get("fixed_sync_share", 1.0), values.get("overlap", 1.0)
        p = np.array([values[name] for name in self.compute_names])
        q = np.array([values[name] for name in self.synchronise_names])
        kept = fixed + (1.0 - fixed) * self.parameters
        compute, raw = self.compute @ p, self.synchronise @ q
        sync = raw * kept
        high, low = np.maximum(compute, sync), np.minimum(compute, sync)
        power = (low / high) ** gamma
        time = high * (1.0 + power) ** (1.0 / gamma)
        late = np.where(sync > compute, 1.0, power) / (1.0 + power)  # Q
        early = 1.0 - late
        synced = sync > 0
        safe = np.where(synced, raw, 1.0)
        slopes = {
            name: early * value * column / compute
            for name, value, column in zip(self.compute_names, p, self.compute.T, strict=True)
        }
        for name, value, column in zip(self.synchronise_names, q, self.synchronise.T, strict=True):
            slopes[name] = late * value * column / safe
        slopes["fixed_sync_share"] = late * (1.0 - self.parameters) / np.where(synced, kept, 1.0)
        behind = np.log(np.where(synced, sync / time, 1.0))
        slopes["overlap"] = (early * np.log(compute / time) + late * behind) / gamma
        return np.log(time), slopes


_STARTS = 4
_TRIAL_ROWS = 600
"""Of more rows than these, that many drawn ones choose among the starts; the best goes on with all rows."""
_SCALE = 0.05
"""Residual, relative, from which on the robust loss bends."""
_BOUND = 14.0
"""Largest magnitude of a fitted logarithm: a millisecond's thousandth to days."""
_UNDETERMINED = 1e-7
"""Singular value, relative to the largest, below which a direction is not determined."""
_SQUASHED = ("fixed_sync_share", "overlap")
_START: Mapping[str, float] = MappingProxyType(
    {
        "forward_s": np.log(0.02),
        "forward_s_per_sample": np.log(0.005),
        "backward_s": np.log(0.05),
        "backward_s_per_sample": np.log(0.005),
        "node_s": np.log(0.1),
        "node_growth_s": np.log(0.05),
        "network_s": np.log(0.15),
        "network_growth_s": np.log(0.05),
        "fixed_sync_share": 1.0,
        "overlap": -2.0,
        "cache_s_per_sample": np.log(0.001),
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class ThroughputFit:
    """A fitted model.

    Attributes
    ----------
    model
        Its parameters.
    standard_error
        Of every fitted parameter, in its own unit, from the Jacobian at the optimum; ``None`` where the rows
        do not determine it.
    train
        How well it tells the rows it was fitted to.
    loss
        The robust loss at the optimum, for comparing models of the same rows.
    """

    model: LayerThroughput
    standard_error: Mapping[str, float | None]
    train: Goodness
    loss: float


def fit_throughput(steps: Steps, law: SynchronisationLaw = "ring", seed: int = 0) -> ThroughputFit:
    """Fit T(k, g) to measured steps, from four starts.

    Parameters
    ----------
    steps
        The rows.
    law
        How synchronisation grows with the GPUs.
    seed
        Seed of the starts.

    Raises
    ------
    InvalidOption
        If there are fewer rows than parameters to fit, or `law` is unknown.
    """
    from scipy.optimize import least_squares

    one_of("law", law, LAWS)
    names = _identified(steps)
    if steps.seconds.size < len(names):
        raise InvalidOption(f"{steps.seconds.size} row(s) cannot determine {len(names)} parameters")
    start = np.array([_START[name] for name in names])
    # a first guess of the right size, whatever the unit of the model's steps
    start += np.where(
        [name in _SQUASHED for name in names],
        0.0,
        np.median(np.log(steps.seconds)) + 0.5,
    )

    def descend(rows: Steps, first: Floats, evaluations: int) -> OptimizeResult:
        problem = _Problem(names, rows, law)
        return least_squares(
            problem.residuals,
            np.clip(first, -_BOUND, _BOUND),
            jac=problem.jacobian,
            bounds=(-_BOUND, _BOUND),
            loss="soft_l1",
            f_scale=_SCALE,
            max_nfev=evaluations,
        )

    rng = np.random.default_rng(seed)
    drawn = np.zeros(steps.seconds.size, dtype=np.bool_)
    drawn[rng.permutation(steps.seconds.size)[:_TRIAL_ROWS]] = True
    trial = steps.where(drawn)
    firsts = [start + (rng.normal(0.0, 0.7, start.size) if attempt else 0.0) for attempt in range(_STARTS)]
    trials = [descend(trial, first, 400) for first in firsts]
    best = min(trials, key=lambda found: float(found.cost))
    if not drawn.all():
        best = descend(steps, best.x, 400)
    model = _model(names, best.x, law)
    errors = _standard_errors(names, best.x, np.asarray(best.jac), 2.0 * best.cost, steps.seconds.size)
    return ThroughputFit(model, errors, goodness(model, steps), float(best.cost))


class _Problem:
    """Residuals log T - log t and their Jacobian; scipy asks for both at the same point in turn."""

    def __init__(self, names: list[str], steps: Steps, law: SynchronisationLaw) -> None:
        self._names = names
        self._terms = _terms(names, steps, law)
        self._measured = np.log(steps.seconds)
        self._point: Floats | None = None
        self._slopes: Mapping[str, Floats] = {}

    def residuals(self, point: Floats) -> Floats:
        values = {name: _natural(name, float(value)) for name, value in zip(self._names, point, strict=True)}
        logarithm, self._slopes = self._terms.log_time(values)
        self._point = point.copy()
        return logarithm - self._measured

    def jacobian(self, point: Floats) -> Floats:
        if self._point is None or not np.array_equal(point, self._point):
            self.residuals(point)
        columns = [
            self._slopes[name] * (_slope(name, float(value)) if name in _SQUASHED else 1.0)
            for name, value in zip(self._names, point, strict=True)
        ]
        return np.column_stack(columns)


def _terms(names: list[str], steps: Steps, law: SynchronisationLaw) -> StepTerms:
    m, u = steps.local_batch, steps.work
    several, grown = steps.gpus > 1, ring_term(steps.gpus, law)
    forward = 1.0 - (0.0 if steps.cached_forward is None else steps.cached_forward) * np.ones(m.size)
    compute = {
        "forward_s": forward,
        "forward_s_per_sample": forward * m,
        "backward_s": u,
        "backward_s_per_sample": u * m,
        "cache_s_per_sample": m,
    }
    sync: dict[str, Floats] = {}
    for place, rows in (("node", steps.nodes <= 1), ("network", steps.nodes > 1)):
        here = (several & rows).astype(np.float64)
        sync[f"{place}_s"], sync[f"{place}_growth_s"] = here, here * grown
        if law == "ring" and f"{place}_growth_s" not in names:
            sync[f"{place}_s"] += here * grown  # not determined: b = a, as in `LayerThroughput`
    compute_names = tuple(name for name in names if name in compute)
    sync_names = tuple(name for name in names if name in sync)
    return StepTerms(
        np.column_stack([compute[name] for name in compute_names]),
        np.column_stack([sync[name] for name in sync_names] or [np.zeros((m.size, 0))]),
        compute_names,
        sync_names,
        steps.parameters,
    )


def _identified(steps: Steps) -> list[str]:
    """Return the parameters that the measured rows determine."""
    names = ["forward_s", "forward_s_per_sample", "backward_s", "backward_s_per_sample"]
    for place, rows in (
        ("node", (steps.gpus > 1) & (steps.nodes <= 1)),
        ("network", (steps.gpus > 1) & (steps.nodes > 1)),
    ):
        if rows.any():
            names.append(f"{place}_s")
            if np.unique(steps.gpus[rows]).size > 1:
                names.append(f"{place}_growth_s")
    several = steps.gpus > 1
    if several.any():
        names.append("overlap")
        if np.unique(steps.parameters[several]).size > 1:
            names.append("fixed_sync_share")
    if steps.cached_forward is not None and steps.cached_forward.any():
        names.append("cache_s_per_sample")
    return names


def _model(names: list[str], point: Floats, law: SynchronisationLaw) -> LayerThroughput:
    values = {name: _natural(name, float(value)) for name, value in zip(names, point, strict=True)}
    return LayerThroughput(**values, law=law)


def _natural(name: str, value: float) -> float:
    if name == "fixed_sync_share":
        return float(1.0 / (1.0 + np.exp(-value)))
    if name == "overlap":
        return float(1.0 + 9.0 / (1.0 + np.exp(-value)))
    return float(np.exp(value))


def _slope(name: str, value: float) -> float:
    natural = _natural(name, value)
    if name == "fixed_sync_share":
        return natural * (1.0 - natural)
    if name == "overlap":
        return (natural - 1.0) * (10.0 - natural) / 9.0
    return natural


def _standard_errors(
    names: list[str], point: Floats, jacobian: Floats, squares: float, rows: int
) -> Mapping[str, float | None]:
    """Return sigma sqrt(diag((J'J)^-1)) by the delta method, from the singular values of J."""
    _, singular, directions = np.linalg.svd(jacobian, full_matrices=False)
    sure = singular > _UNDETERMINED * singular[0]
    variance = squares / max(rows - len(names), 1)
    spread = np.sqrt(variance * ((directions[sure] / singular[sure, None]) ** 2).sum(axis=0))
    unsure = (directions[~sure] ** 2).sum(axis=0) > 0.01
    return MappingProxyType(
        {
            name: None if unsure[i] else float(spread[i] * _slope(name, float(point[i])))
            for i, name in enumerate(names)
        }
    )

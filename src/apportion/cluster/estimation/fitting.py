"""From a file of measured steps to a fitted model, a freezing profile, and what freezing costs in learning.

A model of T(k, g) is judged on rows that were held out (`fit`).

A profile is what `training.freezing_file` reads (`fitted_profile`). Synchronisation hides behind the backward
pass, so what freezing saves depends on the GPUs. Two laws are fitted, one to the rows of one GPU and one to
those of several: where a network's rows on several GPUs are noisy they would otherwise spoil what is known
well. Of every GPU count the profile holds the median over the measured batches of T(k, g) / T(0, g).

What freezing a prefix costs in learning comes from gradient statistics per layer (`retained_progress`). One
SGD step at learning rate e on a loss of curvature h gains e S - e^2 h (S + V / B) / 2, with S the squared
norm of the gradient and V the trace of its covariance over the layers that are trained. At the best e it
gains S^2 / (2 h (S + V / B)). Freezing the first k of L layers leaves S_u and V_u, hence the share

    psi(k) = [S_u^2 / (S_u + V_u / B)] / [S^2 / (S + V / B)],      penalty = theta (1 - psi)

clipped to at most 1 and made non-increasing in k. For nothing frozen and two batch sizes the same expression
is Pollux's statistical efficiency (OSDI 2021), so that throughput x efficiency x psi generalises its goodput.

psi measures slower progress at one instant, not the accuracy at the end, and is pessimistic about layers that
have converged; theta scales it (1 as derived, about 0.5 fits what the freezing literature reports).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.cluster.estimation.layer_throughput import LAWS, SynchronisationLaw
from apportion.cluster.estimation.measured_steps import LayerShares, MeasuredSteps
from apportion.cluster.estimation.throughput_fit import (
    Goodness,
    Steps,
    ThroughputFit,
    fit_throughput,
    goodness,
)
from apportion.cluster.estimation.training.freezing_profile import LEVELS, FreezingFile, Penalty
from apportion.core.errors import InvalidInstance, InvalidOption, Problem
from apportion.core.files import number_columns

__all__ = [
    "FittedModel",
    "fit",
    "fitted_profile",
    "held_out_rows",
    "parse_hold_out",
    "profile_of",
    "retained_by_phase",
    "retained_progress",
]


Floats = NDArray[np.float64]


def retained_progress(
    layer_grad_sqr: ArrayLike, layer_grad_var: ArrayLike, batch_ratio: float = 1.0
) -> Floats:
    """Return psi(k) for k = 0..L.

    Parameters
    ----------
    layer_grad_sqr
        float64 [L]: estimates of the squared gradient norm of every layer; negative estimates count as 0.
    layer_grad_var
        float64 [L]: variance of the gradient of every layer at the batch it was measured with.
    batch_ratio
        The batch asked about over the one measured with: variance falls by it.

    Raises
    ------
    InvalidOption
        If the arrays differ in length or hold what is no number, or `batch_ratio` is not above 0.
    """
    square, noise = _layers(layer_grad_sqr), _layers(layer_grad_var)
    if square.shape != noise.shape or not (np.isfinite(batch_ratio) and batch_ratio > 0):
        raise InvalidOption("need as many variances as squared norms, and batch_ratio > 0")
    left, noise_left = _suffix_sums(square), _suffix_sums(noise) / batch_ratio
    gain = _gain(left, noise_left)
    psi = gain / gain[0] if gain[0] > 0 else np.zeros(gain.size)
    psi[0] = 1.0
    return np.minimum.accumulate(np.minimum(psi, 1.0))


def _layers(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InvalidOption("per-layer statistics must be one finite number per layer")
    return np.maximum(array, 0.0)


def _suffix_sums(values: Floats) -> Floats:
    """Return the sums over layers beyond k, for k = 0..L."""
    return np.concatenate((np.cumsum(values[::-1])[::-1], [0.0]))


def _gain(square: Floats, noise: Floats) -> Floats:
    """Return S^2 / (S + V): S times its share, which neither overflows nor divides by 0."""
    total = square + noise
    return square * np.divide(square, total, out=np.zeros(total.size), where=total > 0)


_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "depth": "depth",
        "frozen_layer": "depth",
        "gpus": "gpus",
        "nodes": "nodes",
        "batch": "local_batch",
        "local_bsz": "local_batch",
    }
)
"""What a hold-out may name, and the array it means."""
_COMPARE: Mapping[str, Any] = MappingProxyType(
    {">": np.greater, "<": np.less, ">=": np.greater_equal, "<=": np.less_equal}
)


@dataclass(frozen=True, slots=True, eq=False)
class FittedModel:
    """A fit and what it was made from.

    Attributes
    ----------
    fit
        Parameters, standard errors, and errors on the rows fitted to.
    held_out
        Errors on the rows held out, ``None`` without any.
    work_share
        What the share of the work u(k) is taken from: a column of the layer file, or ``"layers"`` for
        1 - k / L.
    parameter_share
        What the share of the parameters rho(k) is taken from, named in the same way.
    layers
        The number of layers, L.
    unusable
        Columns of the layer file that do not fall from 1 towards 0, not used.
    steps
        All rows, with their shares.
    """

    fit: ThroughputFit
    held_out: Goodness | None
    work_share: str
    parameter_share: str
    layers: int
    unusable: tuple[str, ...]
    steps: Steps

    def as_json(self) -> dict[str, Any]:
        """Return everything as it is written to a model file."""
        train, held = self.fit.train, self.held_out
        return {
            "kind": "layer_throughput",
            "schema_version": "1",
            "mape_train": train.mape,
            "mape_held_out": None if held is None else held.mape,
            "rmsle_train": train.rmsle,
            "rmsle_held_out": None if held is None else held.rmsle,
            "rows_train": train.rows,
            "rows_held_out": 0 if held is None else held.rows,
            "outliers_train": train.outliers,
            "parameters": self.fit.model.as_json(),
            "standard_errors": dict(self.fit.standard_error),
            "work_share": self.work_share,
            "parameter_share": self.parameter_share,
            "layers": self.layers,
            "unusable_columns": list(self.unusable),
        }


def parse_hold_out(text: str) -> tuple[str, str, tuple[float, ...]]:
    """Parse ``depth=16,24`` or ``gpus>6`` into field, relation and values.

    Raises
    ------
    InvalidOption
        If it is neither.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(>=|<=|=|>|<)\s*([0-9.]+(?:\s*,\s*[0-9.]+)*)\s*", text)
    if match and match[1] in _FIELDS:
        values = [number.strip() for number in match[3].split(",")]
        if all(re.fullmatch(r"\d+(\.\d+)?", value) for value in values) and (
            match[2] == "=" or len(values) == 1
        ):
            return match[1], match[2], tuple(float(value) for value in values)
    raise InvalidOption(
        f"hold out as depth=16,24 or gpus>6, with one of {', '.join(_FIELDS)}; not {text[:60]!r}"
    )


def held_out_rows(steps: MeasuredSteps, hold_out: str) -> NDArray[np.bool_]:
    """Return which rows a hold-out names; see `parse_hold_out`."""
    field, relation, values = parse_hold_out(hold_out)
    column = getattr(steps, _FIELDS[field])
    if relation == "=":
        return np.isin(column, values)
    return np.asarray(_COMPARE[relation](column, values[0]), dtype=np.bool_)


def fit(
    measured: MeasuredSteps,
    layers: LayerShares | None = None,
    hold_out: str | None = None,
    law: SynchronisationLaw = "ring",
) -> FittedModel:
    """Fit T(k, g); what u(k) is, is decided by the rows fitted to, never by those held out.

    Parameters
    ----------
    measured
        The rows.
    layers
        What remains unfrozen at every depth; without it every layer counts alike, of as many layers as
        leave a tenth unfrozen at the deepest row.
    hold_out
        Rows to judge by, as ``depth=16,24`` or ``gpus>6``.
    law
        How synchronisation grows with the GPUs.

    Raises
    ------
    InvalidOption
        If the hold-out leaves nothing, or too little, to fit to or to judge by.
    InvalidInstance
        If the rows cannot determine the parameters, or one is deeper than there are layers.
    """
    held = np.zeros(measured.depth.size, np.bool_) if hold_out is None else held_out_rows(measured, hold_out)
    if hold_out is not None and (held.all() or not held.any()):
        raise InvalidOption(f"{hold_out[:60]!r} holds out {'every' if held.all() else 'no'} row")
    deepest = int(measured.depth.max())
    count = layers.layers if layers is not None else max(round(deepest / 0.9), deepest + 1)
    if deepest > count:
        row = int(np.argmax(measured.depth)) + 1
        message = f"{deepest} exceeds the {count} layers of the layer file"
        raise InvalidInstance(Problem(f"measurement {row}, frozen_layer", message))
    by_layers = 1.0 - measured.depth / count
    shares = {} if layers is None else {name: layers.at(name, measured.depth) for name in layers.shares}
    rho_name = "param_frac_unfrozen" if "param_frac_unfrozen" in shares else "layers"
    rho = shares.get(rho_name, by_layers)
    best: tuple[str, Steps, ThroughputFit] | None = None
    for name, work in {"layers": by_layers, **shares}.items():
        if name == "param_frac_unfrozen":
            continue
        steps = Steps(
            measured.gpus.astype(np.float64),
            measured.nodes.astype(np.float64),
            measured.local_batch,
            measured.seconds,
            work,
            rho,
            measured.cached_forward,
        )
        found = _fit_rows(steps.where(~held), law, hold_out)
        if best is None or found.loss < best[2].loss:
            best = (name, steps, found)
    assert best is not None
    name, steps, found = best
    return FittedModel(
        fit=found,
        held_out=_judged(found, steps.where(held), hold_out) if held.any() else None,
        work_share=name,
        parameter_share=rho_name,
        layers=count,
        unusable=() if layers is None else layers.unusable,
        steps=steps,
    )


def _fit_rows(rows: Steps, law: SynchronisationLaw, hold_out: str | None) -> ThroughputFit:
    try:
        return fit_throughput(rows, law)
    except InvalidOption as error:
        if hold_out is None and law in LAWS:
            raise InvalidInstance(Problem("$", str(error))) from None
        where = "" if hold_out is None else f"without the rows of {hold_out!r}: "
        raise InvalidOption(f"{where}{error}") from None


def _judged(found: ThroughputFit, rows: Steps, hold_out: str | None) -> Goodness:
    try:
        return goodness(found.model, rows)
    except InvalidOption as error:
        raise InvalidOption(f"{hold_out!r} cannot be judged: among the other rows, {error}") from None


_DIGITS = 4
_COLUMNS = ("phase", "layer", "grad_sqr", "grad_var")


def fitted_profile(
    application: str,
    measured: MeasuredSteps,
    layers: LayerShares,
    penalty: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    source: str = "",
) -> FreezingFile:
    """Return the profile of an application whose steps were measured at several depths.

    Parameters
    ----------
    application
        Its name.
    measured, layers
        Step times, and what remains unfrozen at every depth.
    penalty
        From `retained_by_phase`; ``None``: nobody measured gradients, and the profile says so.
    source
        In words, what was measured.

    Raises
    ------
    InvalidOption
        If no step with nothing frozen was measured, or no depth of a tenth of the layers.
    """
    # a tenth t stands for the first floor(t L) layers
    deepest = -(-(int(measured.depth.max()) + 1) * LEVELS // layers.layers) - 1
    if not (measured.depth == 0).any() or deepest < 1:
        raise InvalidOption("a profile needs steps with nothing frozen and with a tenth of the layers frozen")
    share = np.arange(deepest + 1) / LEVELS
    rows: dict[int, NDArray[np.float64]] = {}
    for some in (measured.gpus == 1, measured.gpus > 1):
        if some.any():
            part = _rows(measured, some)
            law = fit(part, layers)
            depths = np.floor(share * layers.layers).astype(np.int64)
            for gpus in np.unique(part.gpus).tolist():
                rows[gpus] = _relative(law, part, layers, gpus, depths)
    return FreezingFile(
        schema_version="1",
        application=application,
        frozen=tuple(share.tolist()),
        gpus=tuple(rows),
        relative_step=tuple(tuple(np.round(row, _DIGITS).tolist()) for row in rows.values()),
        penalty=None if penalty is None else profile_of(*penalty, share),
        source=source,
    )


def retained_by_phase(
    path: str | Path, batch_ratio: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return phases and psi, float64 [phases] and [phases, layers + 1], from gradient statistics.

    Parameters
    ----------
    path
        A CSV with ``phase`` (progress over the whole, 0 to 1), ``layer`` (0, 1, 2 ...), ``grad_sqr`` and
        ``grad_var``: a row per phase and layer; several rows of one phase and layer are averaged, negative
        estimates stand as 0.
    batch_ratio
        The batch trained with over the one measured with.

    Raises
    ------
    InvalidInstance
        If a column is missing, a value is no number, or a phase lacks a layer.
    """
    table = number_columns(Path(path), _COLUMNS)
    phase, layer = table[:, 0], table[:, 1]
    wrong = (phase > 1) | (layer != np.floor(layer)) | (layer > 1e6)
    if wrong.any():
        row = int(np.argmax(wrong)) + 1
        raise InvalidInstance(
            Problem(f"{path}, row {row}", "phase must be from 0 to 1, layer a whole number from 0")
        )
    phases, count = np.unique(phase), int(layer.max()) + 1
    cell = np.searchsorted(phases, phase) * count + layer.astype(np.int64)
    seen = np.bincount(cell, minlength=phases.size * count)
    if not seen.all():
        at, missing = divmod(int(np.argmin(seen)), count)
        raise InvalidInstance(Problem(f"{path}, phase {phases[at]:g}", f"has no row for layer {missing}"))
    mean = [
        (np.bincount(cell, weights=table[:, column], minlength=seen.size) / seen).reshape(-1, count)
        for column in (2, 3)
    ]
    psi = [retained_progress(square, noise, batch_ratio) for square, noise in zip(*mean, strict=True)]
    return phases, np.array(psi)


def profile_of(phases: NDArray[np.float64], psi: NDArray[np.float64], share: NDArray[np.float64]) -> Penalty:
    """Return psi at some shares of the layers as it stands in a profile file."""
    at = np.linspace(0.0, 1.0, psi.shape[1])
    # a share of nothing is no number a profile may hold
    kept = [np.maximum(np.round(np.interp(share, at, row), _DIGITS), 10.0**-_DIGITS) for row in psi]
    return Penalty(tuple(phases.tolist()), tuple(tuple(row.tolist()) for row in kept))


def _rows(measured: MeasuredSteps, kept: NDArray[np.bool_]) -> MeasuredSteps:
    columns = {one.name: getattr(measured, one.name) for one in fields(measured)}
    return replace(measured, **{name: rows[kept] for name, rows in columns.items() if rows is not None})


def _relative(
    law: FittedModel, part: MeasuredSteps, layers: LayerShares, gpus: int, depths: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return float64 [depths]: the median over the batches measured on that many GPUs."""
    own = part.gpus == gpus
    nodes, batches = int(part.nodes[own].min()), np.unique(part.local_batch[own])
    work = 1.0 - depths / layers.layers if law.work_share == "layers" else layers.at(law.work_share, depths)
    rho = 1.0 - depths / layers.layers
    if law.parameter_share != "layers":
        rho = layers.at(law.parameter_share, depths)
    seconds = law.fit.model.step_time(gpus, nodes, batches[:, None], work, rho)
    relative = np.median(seconds / seconds[:, :1], axis=0)
    return np.asarray(relative / relative[0])

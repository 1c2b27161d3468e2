"""From measured steps and gradients to a freezing profile: what `training.freezing_file` reads.

Synchronisation hides behind the backward pass, so what freezing saves depends on the GPUs. Two laws T(k, g)
are fitted, one to the rows of one GPU and one to those of several: where a network's rows on several GPUs are
noisy they would otherwise spoil what is known well. Of every GPU count the profile holds the median over the
measured batches of T(k, g) / T(0, g).
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, InvalidOption, Problem
from apportion.estimation.fitting import FittedModel, fit
from apportion.estimation.frozen_penalty import retained_progress
from apportion.estimation.measured_steps import LayerShares, MeasuredSteps
from apportion.estimation.training.freezing_file import FreezingFile, Penalty
from apportion.estimation.training.freezing_profile import LEVELS
from apportion.estimation.training.numeric_csv import number_columns

__all__ = ["fitted_profile", "profile_of", "retained_by_phase"]

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

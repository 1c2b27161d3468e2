"""From a file of measured steps to a fitted model of T(k, g), judged on rows that were held out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, InvalidOption, Problem
from apportion.estimation.layer_throughput import LAWS, SynchronisationLaw
from apportion.estimation.measured_steps import LayerShares, MeasuredSteps
from apportion.estimation.step_rows import Goodness, Steps, goodness
from apportion.estimation.throughput_fit import ThroughputFit, fit_throughput

__all__ = ["FittedModel", "fit", "held_out_rows", "parse_hold_out"]

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

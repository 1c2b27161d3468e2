"""``apportion fit``: from measured step times to a model of step time against GPUs and frozen depth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import check_target, say, write_file

if TYPE_CHECKING:
    from apportion.cluster.estimation.fitting import FittedModel
    from apportion.cluster.estimation.measured_steps import LayerShares, MeasuredSteps

__all__ = ["command"]


@click.command("fit")
@click.argument("measurements", metavar="MEASUREMENTS.csv|-")
@click.option("--layers", metavar="APP_INFO.csv", help="What remains unfrozen at every depth.")
@click.option("--hold-out", metavar="RULE", help="Judge by these rows: depth=16,24 or gpus>6.")
@click.option(
    "--law",
    type=click.Choice(["ring", "linear"]),
    default="ring",
    show_default=True,
    help="How synchronisation grows with the GPUs: ring all-reduce, or Pollux's straight line.",
)
@click.option("-o", "--out", metavar="FILE", help="Write the fitted model here, as JSON.")
@click.option("--profile", metavar="FILE.json", help="Write a freezing profile for `simulate` here.")
@click.option("--application", metavar="NAME", help="Whose profile it is; default: the name of its file.")
@click.option("--gradients", metavar="FILE.csv", help="For the profile: phase, layer, grad_sqr, grad_var.")
@click.option("--plot", metavar="FILE.svg|.html|.png|.pdf", help="Draw predicted against measured times.")
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
def command(
    measurements: str,
    layers: str | None,
    hold_out: str | None,
    law: Any,
    out: str | None,
    profile: str | None,
    application: str | None,
    gradients: str | None,
    plot: str | None,
    as_json: bool,
) -> int:
    """Fit step times of a network against placement, batch and frozen depth; a CSV row a measurement."""
    from apportion.cli.output import emit
    from apportion.cluster.estimation.fitting import fit
    from apportion.cluster.estimation.measured_steps import read_layers, read_steps
    from apportion.draw import check_name

    check_target(out)
    check_target(profile)
    check_target(plot)
    if profile is None and (gradients is not None or application is not None):
        raise click.UsageError("--gradients and --application are for the --profile that is to be written")
    if profile is not None and layers is None:
        raise click.UsageError("--profile needs --layers: how many layers there are, and what each holds")
    if plot is not None:
        check_name(plot)
    measured = read_steps(_text_of(measurements))
    shares = None if layers is None else read_layers(_text_of(layers))
    fitted = fit(measured, shares, hold_out, law)
    coefficients = fitted.as_json()
    if out is not None and out != "-":
        emit(json.dumps(coefficients, indent=2).encode(), out)
    if profile is not None and shares is not None:
        write_file(profile, _profile(application or Path(profile).stem, measured, shares, gradients))
    if plot is not None:
        _draw(fitted, measured, hold_out, plot)
    if as_json or out == "-":
        say(json.dumps(coefficients))
    else:
        say(_summary(fitted))
    return 0


def _profile(application: str, measured: MeasuredSteps, layers: LayerShares, gradients: str | None) -> bytes:
    import msgspec

    from apportion.cluster.estimation.fitting import fitted_profile, retained_by_phase

    penalty = None if gradients is None else retained_by_phase(gradients)
    made = fitted_profile(application, measured, layers, penalty)
    return msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"


def _text_of(path: str) -> str:
    from apportion.cli.source import bytes_of
    from apportion.core.errors import InvalidInstance, Problem

    content = bytes_of(path)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInstance(
            Problem(f"{path} line {line}", f"is no UTF-8 text: {error.reason}; save it as UTF-8")
        ) from None


def _draw(fitted: FittedModel, measured: MeasuredSteps, hold_out: str | None, path: str) -> None:
    import numpy as np

    from apportion.cluster.estimation.fitting import held_out_rows
    from apportion.core.errors import InvalidOption
    from apportion.draw import encoded
    from apportion.draw.curve_svg import fit_svg
    from apportion.draw.svg import page

    rows = np.ones(measured.seconds.size, dtype=np.bool_)
    held = ~rows if hold_out is None else held_out_rows(measured, hold_out)
    try:
        predicted = fitted.steps.predicted(fitted.fit.model)
    except InvalidOption as error:
        raise InvalidOption(f"cannot draw: {error}") from None
    text = _errors(fitted)
    drawn = fit_svg(fitted.steps.seconds, predicted, held, text)
    if path.lower().endswith((".html", ".htm")):
        drawn = page(drawn, "Goodness of fit")
    write_file(path, encoded(drawn, path))


def _errors(fitted: FittedModel) -> str:
    train, held = fitted.fit.train, fitted.held_out
    text = f"mean error {train.mape:.2f} % on {train.rows} fitted rows"
    return text if held is None else f"{text}, {held.mape:.2f} % on {held.rows} held out"


def _summary(fitted: FittedModel) -> str:
    train = fitted.fit.train
    lines = [
        f"{_errors(fitted)} (median {train.median_ape:.2f} %, rmsle {train.rmsle:.4f})",
        f"backward work by {fitted.work_share}, parameters by {fitted.parameter_share}, "
        f"{fitted.layers} layers",
    ]
    if train.outliers:
        lines.append(f"{train.outliers} outlying rows count less: their error enters linearly")
    if fitted.unusable:
        lines.append(f"not used, not falling from 1 towards 0: {', '.join(fitted.unusable)}")
    for name, value in fitted.fit.model.as_json().items():
        if isinstance(value, float):
            error = fitted.fit.standard_error.get(name)
            spread = "not determined" if error is None else f"+- {error:.2g}"
            lines.append(f"  {name:<24}{value:>12.6g}  {spread}")
    return "\n".join(lines)

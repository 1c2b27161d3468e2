"""``apportion predict``: relative speeds on another architecture, from models alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import say

if TYPE_CHECKING:
    from apportion.cluster.estimation.model_similarity import ReferenceTable

__all__ = ["command"]


@click.command("predict")
@click.option("--reference", required=True, metavar="TABLE.csv", help="One row a model, with both speeds.")
@click.option("--target-column", required=True, help="Column of speeds on the architecture asked about.")
@click.option("--base-column", required=True, help="Column of speeds on the architecture everybody has.")
@click.option("--leave-one-out", is_flag=True, help="Error without the model itself (the default).")
@click.option("--leave-one-family-out", is_flag=True, help="Error without the model's whole family.")
@click.option(
    "--model", "name", metavar="NAME", help="Predict one model of the table, measured there or not."
)
@click.option(
    "--neighbours",
    default=3,
    show_default=True,
    help="How many of the nearest known models a prediction averages.",
)
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
def command(
    reference: str,
    target_column: str,
    base_column: str,
    leave_one_out: bool,
    leave_one_family_out: bool,
    name: str | None,
    neighbours: int,
    as_json: bool,
) -> int:
    """Predict relative speeds over a table of measured models, and the error of doing so.

    TABLE.csv has a column model, the two columns of speeds, and any of family, infer_gmacs, infer_macts,
    param_count, batch and gpus. An empty speed was not measured.

    Exit codes: 0 predicted, 2 usage or no such model, 3 a wrong table.
    """
    from apportion.cli.source import text_of
    from apportion.cluster.estimation.model_similarity import read_reference
    from apportion.core.errors import InvalidOption

    if leave_one_out and leave_one_family_out:
        raise InvalidOption("choose one of --leave-one-out and --leave-one-family-out")
    table = read_reference(text_of(reference), base_column, target_column)
    prediction = (
        _error(table, leave_one_family_out, neighbours)
        if name is None
        else _one(table, name, leave_one_family_out, neighbours)
    )
    say(json.dumps(prediction) if as_json else _text(prediction))
    return 0


def _error(table: ReferenceTable, by_family: bool, neighbours: int) -> dict[str, Any]:
    from apportion.cluster.estimation.model_similarity import held_out
    from apportion.cluster.estimation.similarity import SimilarityPredictor

    result = held_out(table, by_family, lambda: SimilarityPredictor(neighbours))
    return {
        "mape": result.mape,
        "mape_median_guess": result.mape_median_guess,
        "models": result.models,
        "held_out": "family" if by_family else "model",
        "skipped_rows": table.skipped,
    }


def _one(table: ReferenceTable, name: str, by_family: bool, neighbours: int) -> dict[str, Any]:
    from apportion.cluster.estimation.similarity import SimilarityPredictor
    from apportion.core.errors import InvalidInstance, InvalidOption, Problem

    everybody = (*table.signatures, *table.unmeasured)
    asked = next((signature for signature in everybody if signature.name == name), None)
    if asked is None:
        raise InvalidOption(f"there is no model {name!r} in the table")
    known = [
        position
        for position, signature in enumerate(table.signatures)
        if signature.name != name and not (by_family and signature.family == asked.family)
    ]
    if not known:
        left = f"without the family {asked.family!r}" if by_family else f"without {name!r}"
        raise InvalidInstance(Problem("model", f"no measured model is left {left}"))
    fitted = SimilarityPredictor(neighbours).fit(
        [table.signatures[position] for position in known], table.ratio[known][:, None]
    )
    prediction = fitted.predict([asked])[0]
    measured = {
        signature.name: float(ratio) for signature, ratio in zip(table.signatures, table.ratio, strict=True)
    }
    return {
        "model": name,
        "family": asked.family,
        "relative_speed": float(prediction.speed[0]),
        "spread": float(prediction.spread[0]),
        "measured": measured.get(name),
        "models": len(known),
        "neighbours": [
            {"model": near, "distance": float(distance), "relative_speed": measured[near]}
            for near, distance in zip(prediction.neighbours, prediction.distances, strict=True)
        ],
    }


def _text(prediction: dict[str, Any]) -> str:
    if "mape" in prediction:
        return (
            f"{prediction['models']} models, each predicted without its {prediction['held_out']}: "
            f"mean error {prediction['mape']:.2f} % "
            f"(guessing the median: {prediction['mape_median_guess']:.2f} %)"
        )
    measured = "" if prediction["measured"] is None else f", measured {prediction['measured']:.3f}"
    lines = [
        f"{prediction['model']} ({prediction['family']}): {prediction['relative_speed']:.3f} times the base, "
        f"spread {100 * prediction['spread']:.1f} %{measured}"
    ]
    lines += [
        f"  {near['model']}: {near['relative_speed']:.3f}, distance {near['distance']:.3f}"
        for near in prediction["neighbours"]
    ]
    return "\n".join(lines)

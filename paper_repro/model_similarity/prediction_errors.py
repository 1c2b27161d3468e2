"""How far off predictions by similarity are on every pair of architectures of the measured tables.

``python -m paper_repro.model_similarity.prediction_errors --data FOLDER``

Every ordered pair of one table is a table of its own: the ratio of the speeds of each model, predicted
without it, and without its whole family, beside guessing the median of the others.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from apportion.cli.running import in_one_line
from apportion.cluster.estimation.model_similarity import ReferenceTable, held_out
from paper_repro.model_similarity.measured import (
    Measured,
    benchmark_signature,
    benchmark_types,
    gavel_signature,
    gavel_types,
    sizes,
    timm,
)
from paper_repro.tables import Table, write_table

_LEAST = 3


def pairs(folder: Path) -> Iterator[tuple[str, str, ReferenceTable]]:
    """Yield source, pair and table of every ordered pair of architectures measured alike."""
    known, measured = sizes(folder), benchmark_types(folder)
    for one, two in permutations(measured, 2):
        if one[1:] != two[1:]:
            continue
        both = [model for model in measured[one] if model in measured[two]]
        signatures = tuple(benchmark_signature(model, one[1], known) for model in both)
        ratio = np.array([measured[two][model] / measured[one][model] for model in both])
        # models that timm does not know have no size and are left out
        sized = [k for k, signature in enumerate(signatures) if signature.gmacs is not None]
        if len(sized) >= _LEAST:
            table = ReferenceTable(tuple(signatures[k] for k in sized), ratio[sized], (), 0)
            yield "pytorch-gpu-benchmark", f"{two[0]} over {one[0]}, {one[1]} GPUs, {one[2]}, {one[3]}", table
    types, rows = gavel_types(folder / "gavel" / "simulation_throughputs.json")
    for base, target in permutations(types, 2):
        for gpus in (1, 2, 4, 8):
            keys = [key for key, row in rows.items() if key[1] == gpus and base in row and target in row]
            if len(keys) >= _LEAST:
                ratio = np.array([rows[key][target] / rows[key][base] for key in keys])
                signatures = tuple(gavel_signature(*key) for key in keys)
                yield "Gavel", f"{target} over {base}, {gpus} GPUs", ReferenceTable(signatures, ratio, (), 0)
    two_gpus: Measured = timm(folder)
    for base_column, target_column in ((0, 1), (1, 0)):
        ratio = two_gpus.speeds[:, target_column] / two_gpus.speeds[:, base_column]
        pair = f"{two_gpus.architectures[target_column]} over {two_gpus.architectures[base_column]}"
        yield "timm", pair, ReferenceTable(two_gpus.signatures, ratio, (), 0)


def main() -> None:
    """Print a line per source, the pairs where guessing does better, and the A100; write their table."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.model_similarity.prediction_errors")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("model_similarity_results"))
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    found: dict[tuple[str, bool], list[tuple[float, float]]] = defaultdict(list)
    worse: list[str] = []
    for source, pair, table in pairs(asked.data):
        for by_family in (False, True):
            if by_family and len({signature.family for signature in table.signatures}) < 2:
                continue
            held = held_out(table, by_family)
            found[(source, by_family)].append((held.mape, held.mape_median_guess))
            if held.mape > held.mape_median_guess and not by_family:
                worse.append(
                    f"- {source}: {pair}, {held.models} models: {held.mape:.2f} % > "
                    f"{held.mape_median_guess:.2f} %"
                )
                rows.append(
                    {"source": source, "pair": pair, "models": held.models, "error_percent": held.mape}
                    | {"guess_percent": held.mape_median_guess}
                )
        if pair == "A100-SXM4-40GB over TITAN Xp, 1 GPUs, single, train":
            rows += _reference(table)
    rows += _layouts(asked.data)
    print("\n| table | left out | pairs | mean error | median guess | worse than the guess | at most |")
    print("|---|---|---|---|---|---|---|")
    for (source, by_family), numbers in found.items():
        error, guess = np.array(numbers).T
        what = "family" if by_family else "model"
        lost = int((error > guess).sum())
        rows.append(
            {"source": source, "left_out": what, "pairs": error.size, "error_percent": float(error.mean())}
            | {"guess_percent": float(guess.mean()), "worse": lost, "at_most": float((error / guess).max())}
        )
        print(
            f"| {source} | {what} | {error.size} | {error.mean():.1f} % | {guess.mean():.1f} % | "
            f"{lost} | {(error / guess).max():.2f} times |"
        )
    print("\nWithout the model itself, guessing does better on:\n")
    print("\n".join(worse) or "- none")
    made = Table("paper_repro.model_similarity.prediction_errors", rows, "resampled models: 0")
    write_table(asked.out / "prediction_errors.json", made)


def _reference(table: ReferenceTable) -> Iterator[dict[str, Any]]:
    """Print and yield the errors on the 23 models of the figure compared with, and on all that timm knows."""
    left = ("mnasnet0_5", "mnasnet0_75", "mnasnet1_3")
    rows = [k for k, signature in enumerate(table.signatures) if signature.name.split(" ")[0] not in left]
    for which in (rows, list(range(len(table.signatures)))):
        part = ReferenceTable(tuple(table.signatures[k] for k in which), table.ratio[which], (), 0)
        yield _both_ways("pytorch-gpu-benchmark", "A100 over TITAN Xp, training", part)


def _layouts(folder: Path) -> Iterator[dict[str, Any]]:
    """Print and yield the errors on timm's two layouts of an image."""
    for layout, words in (("nchw", "channels first"), ("nhwc", "channels last")):
        measured = timm(folder, layout)
        ratio = measured.speeds[:, 1] / measured.speeds[:, 0]
        yield _both_ways(
            "timm", f"4090 over 3090, {words}", ReferenceTable(measured.signatures, ratio, (), 0)
        )


def _both_ways(source: str, pair: str, table: ReferenceTable) -> dict[str, Any]:
    """Return errors without the model and without its family, and how uncertain the first is."""
    held, by_family = held_out(table), held_out(table, True)
    off = 100 * np.abs(held.predicted / table.ratio - 1.0)
    drawn = np.random.default_rng(0).choice(off, size=(10_000, off.size)).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    print(
        f"{pair}, {held.models} models: {held.mape:.2f} % (95 % of resampled models: "
        f"{low:.1f} to {high:.1f} %), without the family {by_family.mape:.2f} %, "
        f"median guess {held.mape_median_guess:.1f} %"
    )
    return {
        "source": source,
        "pair": pair,
        "models": held.models,
        "error_percent": held.mape,
        "low_percent": float(low),
        "high_percent": float(high),
        "family_error_percent": by_family.mape,
        "guess_percent": held.mape_median_guess,
    }


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.model_similarity.prediction_errors"):
        main()

"""How well `apportion fit` tells the step times that IceFrog's first author published, and a linear law.

``python -m paper_repro.icefrog.step_time_fits --data FOLDER [--out FOLDER]``

Writes ``step_time_fits.json``: a row a fit. Half a minute of processor time.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion.cli.running import in_one_line
from apportion.cluster.estimation.fitting import fit
from apportion.cluster.estimation.measured_steps import read_layers, read_steps
from paper_repro.tables import Table, markdown, write_table

_BERT, _YOLO = "bert_wikitext2", "yolov3_voc"
_SAME = "the same rows"


@dataclass(frozen=True, slots=True)
class _Fit:
    """A fit of a network's rows; without a rule for rows held out it is judged by those it was fitted to."""

    network: str
    fitted_to: str
    judged_by: str = _SAME
    hold_out: str | None = None
    one_gpu: bool = False
    linear: bool = True


_FITS = (
    _Fit(_BERT, "all rows"),
    _Fit(_BERT, "depths 0, 32, 72", "the 7 other depths", "depth=8,16,24,40,48,56,64"),
    _Fit(_BERT, "at most 8 GPUs", "9-16 GPUs", "gpus>8"),
    _Fit(_BERT, "at most 6 GPUs", "7-16 GPUs", "gpus>6"),
    _Fit(_BERT, "at most 4 GPUs", "5-16 GPUs", "gpus>4"),
    _Fit(_BERT, "at most 2 GPUs", "3-16 GPUs", "gpus>2"),
    _Fit(_BERT, "2-16 GPUs", "1 GPU", "gpus=1", linear=False),
    _Fit(_BERT, "4-16 GPUs", "1-3 GPUs", "gpus<4", linear=False),
    _Fit(_BERT, "batches of at most 32", "larger batches", "batch>32", linear=False),
    _Fit(_YOLO, "depths 0, 36, 81", "the 7 other depths", "depth=9,18,27,45,54,63,72", one_gpu=True),
    _Fit(_YOLO, "all rows", linear=False),
)
"""Without `linear` only the ring's law is fitted."""


def rows(data: Path) -> Iterator[dict[str, Any]]:
    """Yield a row a fit."""
    folder = data / "layer_freezing"
    for one in _FITS:
        text = (folder / "frozen_throughput" / f"{one.network}_placements.csv").read_text()
        if one.one_gpu:
            text = "\n".join(line for line in text.splitlines() if line.startswith(("placement", "1,")))
        measured = read_steps(text)
        layers = read_layers((folder / "layer_stats" / f"{one.network}_app_info.csv").read_text())
        for law in ("ring", "linear") if one.linear else ("ring",):
            made = fit(measured, layers, one.hold_out, law)
            judged = made.fit.train if made.held_out is None else made.held_out
            yield {
                "network": one.network + (", 1 GPU" if one.one_gpu else ""),
                "fitted to": one.fitted_to,
                "rows": made.fit.train.rows,
                "judged by": one.judged_by,
                "rows judged": judged.rows,
                "law": law,
                "mean error, %": judged.mape,
            }


def main() -> None:
    """Fit them all, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.icefrog.step_time_fits")
    parser.add_argument("--data", type=Path, required=True, help="folder with layer_freezing")
    parser.add_argument("--out", type=Path, default=Path("icefrog_results"))
    asked = parser.parse_args()
    made = list(rows(asked.data))
    print("\n".join(markdown(made)))
    table = Table("paper_repro.icefrog.step_time_fits", made, "none: least squares, no chance")
    write_table(asked.out / "step_time_fits.json", table)


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.icefrog.step_time_fits"):
        main()

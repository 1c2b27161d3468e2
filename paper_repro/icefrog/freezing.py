"""The freezing profiles of the study, written from the precursor's measurements, and read.

``python -m paper_repro.icefrog.freezing --data FOLDER`` writes ``profiles/*.json``, with ``--table FILE`` how
much shorter they make a step as well; FOLDER holds ``layer_freezing``. Of the Pollux traces' six applications
two were measured frozen by IceFrog's first author (BERT and YOLOv3, step times on V100 GPUs); gradients were
measured of CNNs on CIFAR-10 alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from apportion.cli.running import in_one_line
from apportion.cluster.estimation.fitting import fitted_profile, profile_of, retained_progress
from apportion.cluster.estimation.measured_steps import read_layers, read_steps
from apportion.cluster.estimation.training.freezing_profile import (
    FreezingFile,
    FreezingProfiles,
    freezing_profiles,
    read_freezing,
)
from paper_repro.tables import Table, write_table

__all__ = ["STAND_INS", "freezing_of"]

STAND_INS = ("yolov3", "bert")
"""Whose step times stand in for cifar10 and imagenet: nobody has published theirs by depth."""

_HERE = Path(__file__).parent / "profiles"
_PHASES = (0.25, 0.5, 0.75)
_AROUND = 5
"""Gradient statistics are averaged over so many epochs before and after a phase."""
_STEPS = {"bert": "bert_wikitext2", "yolov3": "yolov3_voc"}
_NETWORKS = {"cifar10": "ResNet18", "imagenet": "ResNet50", "yolov3": "ResNet50"}
_SHARES = np.arange(8) / 10
"""As deep as steps were measured: 0.7 of the layers."""


@cache
def freezing_of(stand_in: str | None = "yolov3") -> FreezingProfiles:
    """Return the profiles of the study.

    Parameters
    ----------
    stand_in
        One of `STAND_INS`; ``None`` freezes only what was measured.
    """
    return freezing_profiles(read_freezing(_HERE), stand_in)


def _psi(data: Path, network: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return phases and psi from the gradients of an unfrozen run at batch 128."""
    seen = np.load(data / "layer_stats" / f"cifar10_{network}_bs128.npz")
    rows = []
    for phase in _PHASES:
        at = int(phase * len(seen["epoch"]))
        some = slice(at - _AROUND, at + _AROUND + 1)
        square, noise = (
            np.maximum(seen[name][some].astype(np.float64), 0.0).mean(axis=0)
            for name in ("layer_grad_sqr", "layer_grad_var")
        )
        rows.append(retained_progress(square, noise))
    return np.array(_PHASES), np.array(rows)


def _made(data: Path) -> Mapping[str, FreezingFile]:
    said = "psi of {} on CIFAR-10, batch 128, mean over 11 epochs around each phase"
    found = {}
    for name in ("bert", "cifar10", "imagenet", "yolov3"):
        network = _NETWORKS.get(name)
        if network is None:
            penalty = (np.array([0.5]), 1.0 - 0.15 * np.linspace(0.0, 1.0, 11)[None, :])
            why = "psi = 1 - 0.15 f is assumed: no gradient statistics of BERT were published"
        else:
            penalty, why = _psi(data, network), said.format(network)
        if name not in _STEPS:
            found[name] = FreezingFile(
                schema_version="1",
                application=name,
                frozen=tuple(_SHARES.tolist()),
                penalty=profile_of(*penalty, _SHARES),
                source=f"no step times by depth were published; {why}",
            )
            continue
        steps = read_steps((data / "frozen_throughput" / f"{_STEPS[name]}_placements.csv").read_text())
        layers = read_layers((data / "layer_stats" / f"{_STEPS[name]}_app_info.csv").read_text())
        source = f"laws fitted to {steps.seconds.size} step times on V100 GPUs ({_STEPS[name]}); {why}"
        found[name] = fitted_profile(name, steps, layers, penalty, source)
    return found


def _speed_ups(profiles: Mapping[str, FreezingFile]) -> Iterator[dict[str, Any]]:
    """Yield how many times quicker a step is at the deepest share measured, by GPUs."""
    for name, made in profiles.items():
        for gpus, relative in zip(made.gpus or (), made.relative_step or (), strict=True):
            yield {"application": name, "GPUs": gpus, "frozen": made.frozen[-1], "quicker": 1 / relative[-1]}


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.icefrog.freezing")
    parser.add_argument("--data", type=Path, required=True, help="folder with layer_freezing")
    parser.add_argument("--out", type=Path, default=_HERE)
    parser.add_argument("--table", type=Path, help="written beside the profiles")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    found = _made(given.data / "layer_freezing")
    for name, made in found.items():
        path = given.out / f"{name}.json"
        path.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
        print(f"written: {path}")
    if given.table is not None:
        told = "none: least squares, no chance"
        write_table(given.table, Table("paper_repro.icefrog.freezing", list(_speed_ups(found)), told))


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.icefrog.freezing"):
        main()

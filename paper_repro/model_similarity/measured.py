"""Measured speeds as the policy sees them: Gavel, pytorch-gpu-benchmark, timm."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.similarity import ModelSignature, family_of
from apportion.instances.readers.machines import throughputs

__all__ = [
    "Measured",
    "benchmark",
    "benchmark_signature",
    "benchmark_types",
    "gavel",
    "gavel_signature",
    "gavel_types",
    "sizes",
    "timm",
]

_SAME = {"mobilenet_v2": "mobilenetv2_100", "mnasnet1_0": "mnasnet_100"}
"""Names of the same model in torchvision and in timm."""
_SAME |= {"mnasnet0_5": "mnasnet_050", "mnasnet0_75": "mnasnet_075", "mnasnet1_3": "mnasnet_140"}
_FOUR = ("TITAN Xp", "GeForce RTX 2080 Ti", "TITAN RTX", "A100-SXM4-40GB")


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Job types measured on every one of some architectures.

    Attributes
    ----------
    name
        Where from.
    architectures
        The first is the one everybody has.
    signatures
        What is known of each type without running it.
    speeds
        float64 [types, architectures].
    gpus
        int64 [types].
    groups
        Which model a type is: a model is never among those that predict it.
    """

    name: str
    architectures: tuple[str, ...]
    signatures: tuple[ModelSignature, ...]
    speeds: NDArray[np.float64]
    gpus: NDArray[np.int64]
    groups: NDArray[np.int64]


def gavel_types(path: Path) -> tuple[list[str], dict[tuple[str, int], dict[str, float]]]:
    """Return the architectures of Gavel's table, and steps per second by (job type, GPUs)."""
    table = throughputs(path.read_bytes())
    return sorted({gpu for row in table.values() for gpu in row}), table


def gavel_signature(name: str, gpus: int) -> ModelSignature:
    """Return the signature of a job type such as ``ResNet-18 (batch size 64)``."""
    batch = re.search(r"batch size (\d+)", name)
    size = None if batch is None else float(batch.group(1))
    return ModelSignature(f"{name} x{gpus}", name.split(" (")[0], batch=size, gpus=float(gpus))


def gavel(folder: Path) -> Measured:
    """Return Gavel's job types: a type and batch size with 1 to 8 GPUs on K80, P100 and V100."""
    types, table = gavel_types(folder / "gavel" / "simulation_throughputs.json")
    whole = {key: row for key, row in table.items() if len(row) == len(types)}
    speeds = np.array([[row[gpu] for gpu in types] for row in whole.values()])
    signatures = tuple(gavel_signature(*key) for key in whole)
    return _measured("Gavel", types, signatures, speeds, [name for name, _ in whole])


def benchmark_types(folder: Path) -> dict[tuple[str, int, str, str], dict[str, float]]:
    """Return images per second by (GPU, GPUs, precision, mode) and model of pytorch-gpu-benchmark."""
    found: dict[tuple[str, int, str, str], dict[str, float]] = defaultdict(dict)
    path = folder / "pytorch_gpu_benchmark" / "tidy_ms_per_batch.csv"
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["mode"] in ("train", "infer"):
                key = (row["gpu"], int(row["n_gpus"]), row["precision"], row["mode"])
                found[key].setdefault(row["model"], 12_000.0 / float(row["mean_ms"]))
    return found


def benchmark_signature(model: str, gpus: int, sizes: dict[str, tuple[float, ...]]) -> ModelSignature:
    """Return the signature of a torchvision model: its size as timm states it, where timm has it."""
    gmacs, acts, params = sizes.get(_SAME.get(model, model), (None, None, None))
    return ModelSignature(f"{model} x{gpus}", family_of(model), gmacs, acts, params, gpus=float(gpus))


def benchmark(folder: Path) -> Measured:
    """Return torchvision models in single precision training with 1 to 4 GPUs on four architectures."""
    table, known = benchmark_types(folder), sizes(folder)
    signatures, speeds, groups = [], [], []
    for gpus in range(1, 5):
        columns = [table[(name, gpus, "single", "train")] for name in _FOUR]
        for model in sorted(set.intersection(*map(set, columns))):
            signatures.append(benchmark_signature(model, gpus, known))
            speeds.append([column[model] for column in columns])
            groups.append(model)
    return _measured("pytorch-gpu-benchmark", _FOUR, tuple(signatures), np.array(speeds), groups)


def timm(folder: Path, layout: str = "nchw") -> Measured:
    """Return timm's models inferring in mixed precision on one RTX 3090 or 4090, one image size each.

    Parameters
    ----------
    folder
        The data folder.
    layout
        ``nchw`` for channels first, ``nhwc`` for channels last.
    """
    base, target = (_timm_rows(folder, gpu, layout) for gpu in ("rtx3090", "rtx4090"))
    signatures, speeds, groups = [], [], []
    for (model, size), row in base.items():
        other = target.get((model, size))
        if other is None or model in groups:
            continue
        signatures.append(ModelSignature(model, family_of(model), *row[1:]))
        speeds.append([row[0], other[0]])
        groups.append(model)
    # ten folds of models: one fit per fold rather than one per model
    fold = [str(number % 10) for number in range(len(groups))]
    return _measured("timm", ("rtx3090", "rtx4090"), tuple(signatures), np.array(speeds), fold)


def sizes(folder: Path) -> dict[str, tuple[float, ...]]:
    """Return GMACs, activations and parameters of timm's models at 224 pixels."""
    return {
        model: row[1:]
        for (model, size), row in _timm_rows(folder, "rtx3090", "nchw").items()
        if size == "224"
    }


def generated(seed: int = 0) -> Measured:
    """Return made-up job types: six models, three batch sizes, 1, 2 and 4 GPUs, three architectures.

    A speed is that of the model times that of the architecture, which suits large batches better the newer it
    is, within a quarter.
    """
    rng = np.random.default_rng(seed)
    architectures = ("older", "middling", "newer")
    signatures, speeds, groups = list[ModelSignature](), list[NDArray[np.float64]](), list[str]()
    for model in range(6):
        own = float(rng.uniform(20, 200))
        for batch in (16, 64, 256):
            for gpus in (1, 2, 4):
                suits = np.array([1.0, 2.0, 4.0]) * (batch / 64) ** np.array([0.0, 0.1, 0.2])
                signatures.append(
                    ModelSignature(
                        f"model {model}, batch {batch} x{gpus}",
                        f"family {model % 3}",
                        batch=float(batch),
                        gpus=float(gpus),
                    )
                )
                speeds.append(own * gpus**0.9 * suits * rng.uniform(0.8, 1.25, 3))
                groups.append(f"model {model}")
    return _measured("generated", architectures, tuple(signatures), np.array(speeds), groups)


def _timm_rows(folder: Path, gpu: str, layout: str) -> dict[tuple[str, str], tuple[float, ...]]:
    path = folder / "timm" / f"benchmark-infer-amp-{layout}-pt240-cu124-{gpu}.csv"
    columns = ("infer_samples_per_sec", "infer_gmacs", "infer_macts", "param_count")
    found: dict[tuple[str, str], tuple[float, ...]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if all(row[column] for column in columns):
                numbers = tuple(float(row[column]) for column in columns)
                found.setdefault((row["model"], row["infer_img_size"]), numbers)
    return found


def _measured(
    name: str,
    architectures: Sequence[str],
    signatures: tuple[ModelSignature, ...],
    speeds: NDArray[np.float64],
    groups: Sequence[str],
) -> Measured:
    gpus = np.array([int(signature.gpus or 1) for signature in signatures], dtype=np.int64)
    number = np.unique(np.array(groups), return_inverse=True)[1].astype(np.int64)
    return Measured(name, tuple(architectures), signatures, speeds, gpus, number)

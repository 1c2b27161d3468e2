"""Read the measured profiles of a set of applications: one folder each, as Pollux and Sia publish them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from apportion.cluster.estimation.training.application import Application
from apportion.cluster.estimation.training.step_times import StepTimes
from apportion.core.errors import InvalidInstance, Problem
from apportion.core.files import number_columns

__all__ = ["HOMOGENEOUS", "read_applications", "training_folder"]

HOMOGENEOUS = "gpu"
"""The name of the only GPU type of profiles that do not name any."""

# epochs and the greatest local batch are the simulator's, not in its tables (Pollux, OSDI 2021, artifact)
_EPOCHS: Mapping[str, int] = MappingProxyType(
    {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
)
_MAX_LOCAL: Mapping[str, int] = MappingProxyType({"yolov3": 8})
_STATISTICS = ("progress", "iteration", "grad_sqr", "grad_var")


def read_applications(folder: str | Path) -> Mapping[str, Application]:
    """Read every sub-folder that has measurements; a folder that holds ``traces`` stands for that one.

    A sub-folder holds ``validation-BATCH.csv`` (progress, iteration, grad_sqr, grad_var; a row an epoch) and
    ``placements.csv`` with ``scalability.csv``, or both with ``-TYPE`` before ``.csv`` for every GPU type.

    Raises
    ------
    InvalidInstance
        If the folder has no application or a file of one is wrong.
    """
    folder = training_folder(folder)
    if not folder.is_dir():
        raise InvalidInstance(Problem(str(folder), "is no folder; expected one sub-folder an application"))
    names = sorted(path.name for path in folder.iterdir() if any(path.glob("validation-*.csv")))
    if not names:
        raise InvalidInstance(Problem(str(folder), "has no sub-folder with a validation-BATCH.csv"))
    return MappingProxyType({name: _read(folder / name) for name in names})


def training_folder(folder: str | Path) -> Path:
    """Return the folder whose sub-folders are applications: ``traces`` of it where there is one."""
    folder = Path(folder)
    return folder / "traces" if (folder / "traces").is_dir() else folder


def _read(folder: Path) -> Application:
    tables = {}
    for path in folder.glob("validation-*.csv"):
        batch = re.fullmatch(r"validation-([1-9]\d{0,8})\.csv", path.name)
        if batch is None:
            raise InvalidInstance(Problem(str(path), "must be named validation-BATCH.csv with a whole batch"))
        tables[int(batch[1])] = number_columns(path, _STATISTICS)
    batches = sorted(tables)
    epochs = min(len(table) for table in tables.values())
    epochs = min(epochs, _EPOCHS.get(folder.name, epochs))
    stacked = np.stack([tables[batch][:epochs] for batch in batches])
    step_times = _step_times(folder)
    progress = np.concatenate(([0.0], stacked[:, :, 0].min(axis=0)))
    if not (np.diff(progress) > 0).all():
        raise InvalidInstance(Problem(str(folder), "progress must increase from epoch to epoch"))
    return Application(
        name=folder.name,
        epochs=epochs,
        batches=np.array(batches, dtype=np.int64),
        progress=progress,
        iteration=stacked[:, :, 1],
        grad_sqr=stacked[:, :, 2],
        grad_var=stacked[:, :, 3],
        step_times=MappingProxyType(step_times),
        min_local=min(times.min_local for times in step_times.values()),
        max_local=_MAX_LOCAL.get(folder.name, max(times.max_local for times in step_times.values())),
    )


def _step_times(folder: Path) -> dict[str, StepTimes]:
    found = {}
    for path in sorted(folder.glob("placements*.csv")):
        gpu_type = path.stem.removeprefix("placements").removeprefix("-") or HOMOGENEOUS
        more = path.with_name(path.name.replace("placements", "scalability", 1))
        found[gpu_type] = StepTimes.read(path, more if more.is_file() else None)
    if not found:
        raise InvalidInstance(Problem(str(folder), "has no placements.csv"))
    return found

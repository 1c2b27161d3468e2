"""One training application as measured, how its batch is split, and the batch of most progress per second.

Definitions follow the published Pollux simulator (Qiao et al., OSDI 2021). Goodput is throughput x
statistical efficiency; up to the constant initial batch it is AdaScale's gain over the seconds of a step,
which is progress per second. Applications are read as Pollux and Sia publish them: one folder each.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.training.step_times import StepTimes
from apportion.core.errors import InvalidInstance, Problem
from apportion.core.files import number_columns

__all__ = [
    "HOMOGENEOUS",
    "Application",
    "BatchSplit",
    "GoodputTable",
    "Splits",
    "read_applications",
    "split_batch",
    "training_folder",
]

HOMOGENEOUS = "gpu"
"""The name of the only GPU type of profiles that do not name any."""

# epochs and the greatest local batch are the simulator's, not in its tables (Pollux, OSDI 2021, artifact)
_EPOCHS: Mapping[str, int] = MappingProxyType(
    {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
)
_MAX_LOCAL: Mapping[str, int] = MappingProxyType({"yolov3": 8})
_STATISTICS = ("progress", "iteration", "grad_sqr", "grad_var")


@dataclass(frozen=True, slots=True, eq=False)
class Application:
    """The measurements of one application: step times, batches and progress.

    Attributes
    ----------
    name
        The application's name.
    epochs
        Epochs until it is done.
    batches
        int64 [batches]: the total batch sizes that were validated, increasing; the first is the initial one.
    progress
        float64 [epochs + 1]: progress at the start of every epoch, in steps of the initial batch.
    iteration, grad_sqr, grad_var
        float64 [batches, epochs]: iterations so far, and the gradient's squared norm and variance, by epoch.
    step_times
        Measured step times by GPU type.
    min_local, max_local
        Bounds of the samples per GPU.
    """

    name: str
    epochs: int
    batches: NDArray[np.int64]
    progress: NDArray[np.float64]
    iteration: NDArray[np.float64]
    grad_sqr: NDArray[np.float64]
    grad_var: NDArray[np.float64]
    step_times: Mapping[str, StepTimes]
    min_local: int
    max_local: int

    @property
    def initial_batch(self) -> int:
        """The smallest validated batch; statistical efficiency is relative to it."""
        return int(self.batches[0])

    @property
    def max_batch(self) -> int:
        """The greatest validated batch."""
        return int(self.batches[-1])

    def ending(self, epochs: int, work: float) -> Application:
        """Return one like it that ends after so many epochs, each of so many times the work."""
        if (epochs, work) == (self.epochs, 1.0):
            return self
        return replace(
            self, epochs=epochs, progress=self.progress[: epochs + 1] * work, iteration=self.iteration * work
        )

    def iterations_to(self, batch: int, epoch: int) -> float:
        """Return the iterations at `batch` that the table gives for `epoch`."""
        return self._at(self.iteration, batch, epoch)

    def gradient(self, batch: int, epoch: int) -> tuple[float, float]:
        """Return the gradient's squared norm and its variance at `batch` in `epoch`."""
        return self._at(self.grad_sqr, batch, epoch), self._at(self.grad_var, batch, epoch)

    def gain(self, batch: int, epoch: int) -> float:
        """Return AdaScale's gain of a step at `batch` over one at the initial batch.

        (var + sqr) / (var / scale + sqr), scale = batch / initial batch (Johnson et al., ICML 2020; Pollux).
        """
        sqr, var = self.gradient(batch, epoch)
        scale = batch / self.initial_batch
        return (var + sqr) / (var / scale + sqr)

    def gains(self, totals: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64 [totals, epochs]: `gain` of many batches in every epoch."""
        batches, sqr, var = self.batches, self.grad_sqr, self.grad_var
        if batches.size > 1:
            high = np.clip(np.searchsorted(batches, totals, side="right"), 1, batches.size - 1)
            share = ((totals - batches[high - 1]) / (batches[high] - batches[high - 1]))[:, None]
            sqr, var = (table[high - 1] + share * (table[high] - table[high - 1]) for table in (sqr, var))
        scale = (totals / self.initial_batch)[:, None]
        return np.asarray((var + sqr) / (var / scale + sqr))

    def _at(self, table: NDArray[np.float64], batch: int, epoch: int) -> float:
        """Interpolate between the two validated batches around `batch`; the outermost pair beyond them."""
        if self.batches.size == 1:
            return float(table[0, epoch])
        high = min(max(bisect_right(self.batches.tolist(), batch), 1), self.batches.size - 1)
        low_batch, high_batch = int(self.batches[high - 1]), int(self.batches[high])
        low, above = float(table[high - 1, epoch]), float(table[high, epoch])
        return low + (above - low) / (high_batch - low_batch) * (batch - low_batch)


_ROUNDING = 1e-8


@dataclass(frozen=True, slots=True)
class BatchSplit:
    """Samples per GPU and step, and the steps accumulated before the one that synchronises.

    Attributes
    ----------
    local
        Samples per GPU in one forward-backward pass.
    accumulation
        Extra passes without synchronisation, at least 0.
    """

    local: int
    accumulation: int

    def total(self, replicas: int) -> int:
        """Return the samples of an optimiser step on `replicas` GPUs."""
        return replicas * self.local * (self.accumulation + 1)

    def seconds(self, step: float, sync: float) -> float:
        """Return the seconds of an optimiser step: accumulating passes skip the synchronisation."""
        return step + self.accumulation * (step - sync)


def split_batch(
    application: Application, batch: int, replicas: int, always_accumulate_alone: bool = False
) -> BatchSplit:
    """Split a fixed total batch as the published Pollux simulator does.

    On one GPU a batch beyond the initial one is accumulated at least once, so that a gradient variance can be
    measured.

    Parameters
    ----------
    application
        Whose bounds count.
    batch
        Samples of an optimiser step.
    replicas
        GPUs, at least 1.
    always_accumulate_alone
        Accumulate on one GPU whatever the batch is: what Optimus' oracle assumes.
    """
    wanted = math.ceil(batch / replicas - _ROUNDING)
    accumulation = math.ceil(wanted / application.max_local - _ROUNDING) - 1
    if replicas == 1 and (always_accumulate_alone or batch > application.initial_batch):
        accumulation = max(accumulation, 1)
    local = math.ceil(wanted / (accumulation + 1) - _ROUNDING)
    return BatchSplit(min(local, application.max_batch // (replicas * (accumulation + 1))), accumulation)


_CANDIDATES = 50


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """Candidate splits on one placement: samples per GPU, accumulation, total batch, step seconds."""

    local: NDArray[np.int64]
    accumulation: NDArray[np.int64]
    total: NDArray[np.int64]
    seconds: NDArray[np.float64]


class GoodputTable:
    """Goodput of an application by placement and epoch; what was computed once is remembered.

    Parameters
    ----------
    application
        Whose measurements or fitted times count.
    """

    def __init__(self, application: Application) -> None:
        self.application = application
        self._splits: dict[tuple[tuple[int, ...], str], Splits | None] = {}
        self._best: dict[tuple[tuple[int, ...], str, int], tuple[float, BatchSplit] | None] = {}

    def best(self, placement: Sequence[int], gpu_type: str, epoch: int) -> tuple[float, BatchSplit] | None:
        """Return the greatest progress per second and its split; ``None`` where it cannot run."""
        key = (tuple(placement), gpu_type, epoch)
        if key not in self._best:
            self._best[key] = self._maximised(*key)
        return self._best[key]

    def splits(self, placement: tuple[int, ...], gpu_type: str) -> Splits | None:
        """Return the splits that are compared on a placement; ``None`` where it cannot run."""
        if (placement, gpu_type) not in self._splits:
            self._splits[placement, gpu_type] = self._candidates(placement, gpu_type)
        return self._splits[placement, gpu_type]

    def _maximised(
        self, placement: tuple[int, ...], gpu_type: str, epoch: int
    ) -> tuple[float, BatchSplit] | None:
        splits = self.splits(placement, gpu_type)
        if splits is None:
            return None
        rate = self._gain(splits.total, epoch) / splits.seconds
        most = int(np.argmax(rate))
        return float(rate[most]), BatchSplit(int(splits.local[most]), int(splits.accumulation[most]))

    def _gain(self, total: NDArray[np.int64], epoch: int) -> NDArray[np.float64]:
        application = self.application
        sqr = np.interp(total, application.batches, application.grad_sqr[:, epoch])
        var = np.interp(total, application.batches, application.grad_var[:, epoch])
        scale = total / application.initial_batch
        return np.asarray((var + sqr) / (var / scale + sqr))

    def _candidates(self, placement: tuple[int, ...], gpu_type: str) -> Splits | None:
        """Return the splits of geometrically spaced batches that respect every bound."""
        application, replicas = self.application, sum(placement)
        times = application.step_times.get(gpu_type)
        if times is None:
            return None
        highest = min(times.max_local, application.max_local)
        lowest = min(times.min_local, highest)
        least = max(application.initial_batch, replicas * lowest)
        if least > application.max_batch:
            return None
        wished = np.geomspace(least, application.max_batch, _CANDIDATES)
        wanted = np.ceil(wished / replicas - 1e-8).astype(np.int64)
        accumulation = -(-wanted // highest) - 1
        if replicas == 1:
            # a gradient variance cannot be measured from a single pass
            grown = wished > application.initial_batch + 0.5
            accumulation = np.where(grown, np.maximum(accumulation, 1), accumulation)
        local = np.maximum(-(-wanted // (accumulation + 1)), lowest)
        total = replicas * local * (accumulation + 1)
        step, sync = times.curve(placement, local)
        seconds = step + accumulation * (step - sync)
        valid = (total <= application.max_batch) & (local <= highest) & np.isfinite(seconds) & (seconds > 0)
        if not valid.any():
            return None
        return Splits(local[valid], accumulation[valid], total[valid], seconds[valid])


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

"""Seconds of an optimiser step against placement and local batch: measured, or believed from one GPU.

The rule between measurements is the published Pollux simulator's (Qiao et al., OSDI 2021): a measured
placement is interpolated in the local batch; any other by the triangulated means over (nodes, replicas,
local batch).

A scheduler that has measured an application on one GPU of every type believes of scaling what Sia does
(Jayaram Subramanya et al., SOSP 2023, section 3): it is perfect until it was seen on several GPUs; what was
seen on one type is taken over to the others by their speeds on one GPU.

The scale of an application's frozen penalty is learnt from the progress its frozen jobs really make. With
retained progress 1 - theta (1 - psi), an observation is y = 1 - (rate seen) / (rate expected if nothing
were lost), and y = theta x + noise with x = 1 - psi. The estimate is the posterior of a normal prior and
normal noise; what was seen long ago counts less, because theta need not be the same in every phase.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, Problem
from apportion.core.files import number_columns, text_columns

__all__ = [
    "BootstrappedTimes",
    "StepTimes",
    "ThetaEstimate",
    "smallest_rotation",
]

_MAX_NODES = 16
_REMEMBERED = 1 << 18
_TIMES = ("local_bsz", "step_time", "sync_time")


def smallest_rotation(placement: Sequence[int]) -> tuple[int, ...]:
    """Return the lexicographically smallest rotation of the GPU counts per node, zeros left out.

    Examples
    --------
    >>> smallest_rotation([4, 0, 2])
    (2, 4)
    """
    counts = tuple(count for count in placement if count)
    return min((counts[index:] + counts[:index] for index in range(len(counts))), default=())


class StepTimes:
    """Measured step and synchronisation times of one application on one GPU type.

    Parameters
    ----------
    measured
        For every measured placement (GPU counts per node in its smallest rotation) float64 [rows, 3]: local
        batch, step seconds, synchronisation seconds, by increasing local batch.
    scalability
        float64 [rows, 5]: nodes, replicas, local batch, step and synchronisation seconds, in file order (the
        triangulation depends on it); may be empty.

    Attributes
    ----------
    min_local, max_local
        The least and greatest measured local batch, samples per GPU.
    max_replicas
        The greatest measured number of GPUs.
    """

    __slots__ = ("_between", "_known", "_measured", "_scalability", "max_local", "max_replicas", "min_local")

    def __init__(
        self, measured: dict[tuple[int, ...], NDArray[np.float64]], scalability: NDArray[np.float64]
    ) -> None:
        self._measured = measured
        self._scalability = scalability
        self._between: Callable[..., Any] | None = None
        batches = np.concatenate([rows[:, 0] for rows in measured.values()])
        self.min_local, self.max_local = int(batches.min()), int(batches.max())
        replicas = [sum(placement) for placement in measured]
        self.max_replicas = int(max([*replicas, *scalability[:, 1].astype(int).tolist()]))
        self._known: dict[tuple[tuple[int, ...], int], tuple[float, float]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return (StepTimes, (self._measured, self._scalability))

    @property
    def measured(self) -> frozenset[tuple[int, ...]]:
        """The placements that were measured, in their smallest rotations."""
        return frozenset(self._measured)

    def seconds(self, placement: Sequence[int], local_batch: int) -> tuple[float, float]:
        """Return the seconds of a step and, of these, of synchronisation.

        Parameters
        ----------
        placement
            GPU counts of the job's nodes, in the order of its allocation; at least one is positive.
        local_batch
            Samples per GPU; NaN is returned outside the measured range of a placement nobody measured, and
            where measurements lie on one plane.
        """
        asked = (tuple(placement), local_batch)
        if asked not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            # the same few placements and batches are asked for in every round
            self._known[asked] = self._interpolated(smallest_rotation(placement), local_batch)
        return self._known[asked]

    def curve(
        self, placement: Sequence[int], local_batches: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return step and synchronisation seconds, float64 like `local_batches`, for one placement."""
        smallest = smallest_rotation(placement)
        rows = self._measured.get(smallest)
        inside = np.zeros(local_batches.shape, dtype=np.bool_)
        step, sync = np.empty(local_batches.shape), np.empty(local_batches.shape)
        if rows is not None:
            inside = (local_batches >= rows[0, 0]) & (local_batches <= rows[-1, 0])
            step[inside] = np.interp(local_batches[inside], rows[:, 0], rows[:, 1])
            sync[inside] = np.interp(local_batches[inside], rows[:, 0], rows[:, 2])
        outside = ~inside
        if outside.any():
            nodes = np.full(int(outside.sum()), min(len(smallest), _MAX_NODES))
            found = self._means()(nodes, np.full_like(nodes, sum(smallest)), local_batches[outside])
            step[outside], sync[outside] = found[:, 0], found[:, 1]
        return step, sync

    def _interpolated(self, placement: tuple[int, ...], local_batch: int) -> tuple[float, float]:
        rows = self._measured.get(placement)
        if rows is not None and rows[0, 0] <= local_batch <= rows[-1, 0]:
            step = np.interp(local_batch, rows[:, 0], rows[:, 1])
            return float(step), float(np.interp(local_batch, rows[:, 0], rows[:, 2]))
        nodes = min(len(placement), _MAX_NODES)
        step, sync = self._means()(nodes, sum(placement), local_batch).ravel()
        return float(step), float(sync)

    def _means(self) -> Callable[..., Any]:
        if self._between is None:
            self._between = self._triangulated()
        return self._between

    def _triangulated(self) -> Callable[..., Any]:
        from scipy.interpolate import LinearNDInterpolator
        from scipy.spatial import QhullError

        groups: dict[tuple[int, int, int], list[NDArray[np.float64]]] = {}
        for placement, rows in self._measured.items():
            for row in rows:
                groups.setdefault((len(placement), sum(placement), int(row[0])), []).append(row[1:])
        keys = sorted(groups)
        means = [
            [math.fsum(column) / len(groups[key]) for column in zip(*groups[key], strict=True)]
            for key in keys
        ]
        points = np.concatenate((np.array(keys, dtype=np.float64), self._scalability[:, :3]))
        values = np.concatenate((np.array(means, dtype=np.float64), self._scalability[:, 3:]))
        try:
            return LinearNDInterpolator(points, values)
        except QhullError:  # measured on a line or a plane only: there is no between
            return _nowhere

    @classmethod
    def read(cls, placements: Path, scalability: Path | None) -> StepTimes:
        """Read ``placements.csv`` (placement, local_bsz, step_time, sync_time) and ``scalability.csv``.

        Raises
        ------
        InvalidInstance
            If a file cannot be read or a field is wrong.
        """
        times = number_columns(placements, _TIMES)
        digits = text_columns(placements, ("placement",))
        rows: dict[tuple[int, ...], list[NDArray[np.float64]]] = {}
        for (line, (text,)), row in zip(digits, times, strict=True):
            if not text.isdecimal() or not any(map(int, text)):
                message = f"placement must be one digit a node, is {text!r}"
                raise InvalidInstance(Problem(f"{placements}, line {line}", message))
            rows.setdefault(smallest_rotation([int(digit) for digit in text]), []).append(row)
        measured = {
            placement: np.array(sorted(found, key=lambda row: float(row[0])), dtype=np.float64)
            for placement, found in rows.items()
        }
        more = np.empty((0, 5))
        if scalability is not None:
            more = number_columns(scalability, ("num_nodes", "num_replicas", *_TIMES))
        return cls(measured, more)


def _nowhere(nodes: Any, replicas: Any, local_batch: Any) -> NDArray[np.float64]:
    """Return NaN for step and synchronisation time, whatever the placement: nothing was measured."""
    return np.full((np.size(local_batch), 2), np.nan)


@dataclass(slots=True)
class ThetaEstimate:
    """Belief about theta, updated in place.

    Attributes
    ----------
    prior
        Theta believed before anything was seen.
    prior_sd
        Standard deviation of the first estimate.
    noise_sd
        Standard deviation of an observation y.
    memory
        Factor, at most 1, by which every further observation fades the earlier ones.
    """

    prior: float
    prior_sd: float = 0.5
    noise_sd: float = 0.1
    memory: float = 0.98
    _square: float = 0.0
    _product: float = 0.0

    def observe(self, lost: float, penalty: float) -> None:
        """Learn that a job lost the share `lost` of its progress where 1 - psi is `penalty`."""
        self._square = self.memory * self._square + penalty * penalty
        self._product = self.memory * self._product + penalty * lost

    @property
    def mean(self) -> float:
        """The estimate, at least 0."""
        return max(0.0, self._weighted() / self._precision())

    @property
    def sd(self) -> float:
        """Its standard deviation."""
        return float(self._precision() ** -0.5)

    def _precision(self) -> float:
        return float(self.prior_sd**-2 + self._square / self.noise_sd**2)

    def _weighted(self) -> float:
        return float(self.prior * self.prior_sd**-2 + self._product / self.noise_sd**2)


Seen = Mapping[str, frozenset[tuple[int, ...]]]


class BootstrappedTimes(StepTimes):
    """Believed step times on one GPU type.

    A placement that was seen has its true times. One with as many GPUs as were seen on another type takes
    that one's slow-down over one GPU; any other the step of the seen one on its own type whose count is
    nearest; without any, synchronising costs nothing. Where a job cannot run is known.

    Parameters
    ----------
    gpu_type
        The type whose times these are.
    truth
        Measured times by type.
    seen
        Placements of several GPUs that a job has run on, in their smallest rotation, by type.
    """

    __slots__ = ("_seen", "_truth", "_type")

    def __init__(self, gpu_type: str, truth: Mapping[str, StepTimes], seen: Seen) -> None:
        own = truth[gpu_type]
        self._type, self._truth, self._seen = gpu_type, truth, seen
        self.min_local, self.max_local, self.max_replicas = own.min_local, own.max_local, own.max_replicas

    def __reduce__(self) -> tuple[object, ...]:
        return (BootstrappedTimes, (self._type, self._truth, self._seen))

    def seconds(self, placement: Sequence[int], local_batch: int) -> tuple[float, float]:
        """Return the believed seconds of a step and, of these, of synchronisation."""
        step, sync = self.curve(placement, np.array([local_batch]))
        return float(step[0]), float(sync[0])

    def curve(
        self, placement: Sequence[int], local_batches: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return believed step and synchronisation seconds, float64 like `local_batches`."""
        own, asked, gpus = self._truth[self._type], smallest_rotation(placement), sum(placement)
        truth = own.curve(asked, local_batches)
        mine = self._seen.get(self._type, frozenset())
        if gpus == 1 or asked in mine:
            return truth
        alone, _ = own.curve((1,), local_batches)
        elsewhere = self._as_elsewhere(gpus, local_batches)
        if elsewhere is not None:
            step, share = alone * elsewhere[0], elsewhere[1]
        elif mine:
            nearest = min(mine, key=lambda one: (abs(sum(one) - gpus), one))
            step = np.maximum(alone, own.curve(nearest, local_batches)[0])
            share = 1.0 - alone / step
        else:
            step, share = alone, np.zeros_like(alone)
        step = np.where(np.isnan(truth[0]), np.nan, step)
        return step, step * share

    def _as_elsewhere(
        self, gpus: int, local_batches: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return slow-down over one GPU, and share of synchronisation, as seen on another type."""
        for name in sorted(self._seen):
            alike = sorted(one for one in self._seen[name] if sum(one) == gpus)
            if name != self._type and alike:
                times = self._truth[name]
                step, sync = times.curve(alike[0], local_batches)
                slowdown = step / times.curve((1,), local_batches)[0]
                if np.isfinite(slowdown).all():
                    return slowdown, sync / step
        return None

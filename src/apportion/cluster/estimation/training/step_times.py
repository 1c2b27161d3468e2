"""Seconds of an optimiser step against placement and local batch, interpolated between measurements.

The rule is the published Pollux simulator's (Qiao et al., OSDI 2021): a measured placement is interpolated
in the local batch; any other by the triangulated means over (nodes, replicas, local batch).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.training.numeric_csv import number_columns, text_columns
from apportion.core.errors import InvalidInstance, Problem

__all__ = ["StepTimes", "smallest_rotation"]

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

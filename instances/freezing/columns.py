"""A round from arrays, as schedulers hold them: effective progress by job, place and depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.freezing.job import MILLION, FreezingConfiguration, FreezingJob, FreezingRow
from apportion.instances.freezing.schema import FreezingInstance

__all__ = ["from_arrays"]


def from_arrays(
    ids: Sequence[str],
    layers: ArrayLike,
    places: Sequence[tuple[str, int]],
    depths: ArrayLike,
    progress: ArrayLike,
    gpus: Mapping[str, int],
    round_s: float,
    penalty: ArrayLike | None = None,
    current: Sequence[FreezingConfiguration | None] | None = None,
    states: Mapping[str, Sequence[Any]] | None = None,
    **fields: Any,
) -> FreezingInstance:
    """Return the round whose jobs may run on the same places, each at depths of its own.

    Parameters
    ----------
    ids
        Job ids.
    layers
        int64 [jobs].
    places
        GPU type and count of every place.
    depths
        int64 [jobs, depths] or [depths] for all: frozen layers, rising.
    progress
        float64 [jobs, places, depths]: effective progress; NaN is not in the job's menu.
    gpus, round_s
        As in the instance.
    penalty
        float64 [jobs, depths]: frozen penalty, 0 to 1, kept in whole millionths.
    current
        What each job runs on now.
    states
        Further fields of jobs by name, one value a job: ``{"age_s": [..], "budget_frozen_s": [..]}``.
    **fields
        Further fields of the instance: ``power``, ``gpus_per_node``, ...

    Raises
    ------
    InvalidInstance
        If shapes do not fit each other, or any rule of the instance is broken.

    Examples
    --------
    >>> from apportion.instances.freezing.columns import from_arrays
    >>> places, progress = [("v100", 1), ("v100", 2)], [[[10.0, 12.0], [18.0, np.nan]]]
    >>> instance = from_arrays(["a"], [10], places, [0, 5], progress, {"v100": 2}, 60.0)
    >>> [(row.gpus, row.depths, row.effective_progress) for row in instance.jobs[0].menu]
    [(1, (0, 5), (10.0, 12.0)), (2, (0,), (18.0,))]
    """
    rate = np.asarray(progress, dtype=np.float64)
    shape = (len(ids), len(places), rate.shape[-1] if rate.ndim == 3 else 0)
    if rate.shape != shape:
        message = f"shape is {rate.shape}; expected [jobs, places, depths] = {shape[:2]} and the depths"
        raise InvalidInstance(Problem("$.progress", message))
    of_job = (shape[0], shape[2])
    depth = _broadcast("depths", depths, np.int64, of_job)
    lost = None if penalty is None else _broadcast("penalty", penalty, np.float64, of_job)
    count = _broadcast("layers", layers, np.int64, of_job[:1]).tolist()
    given_states = dict(states or {})
    if current is not None:
        given_states["current"] = current
    for name, values in given_states.items():
        if len(values) != len(ids):
            raise InvalidInstance(Problem(f"$.{name}", f"has {len(values)} values for {len(ids)} jobs"))
    if lost is not None and not ((lost >= 0) & (lost <= 1)).all():
        raise InvalidInstance(Problem("$.penalty", "must be from 0 to 1"))
    millionths = None if lost is None else np.rint(MILLION * lost).astype(np.int64)
    whole = np.asarray(~np.isnan(rate).any(axis=(1, 2)))
    jobs = []
    for index, job_id in enumerate(ids):
        costs = None if millionths is None else millionths[index]
        make = _whole_menu if whole[index] else _menu
        jobs.append(
            FreezingJob(
                id=job_id,
                layers=count[index],
                menu=make(places, depth[index], rate[index], costs),
                **{name: values[index] for name, values in given_states.items()},
            )
        )
    return FreezingInstance(schema_version="1", gpus=dict(gpus), round_s=round_s, jobs=tuple(jobs), **fields)


def _whole_menu(places: Any, depth: Any, rate: Any, costs: Any) -> tuple[FreezingRow, ...]:
    """Return the rows of a job that may take every place at every depth: they share their depths."""
    depths = tuple(depth.tolist())
    lost = () if costs is None else tuple(costs.tolist())
    return tuple(
        [
            FreezingRow(gpu_type, gpus, depths, progress_row, lost)
            for (gpu_type, gpus), progress_row in zip(places, map(tuple, rate.tolist()), strict=True)
        ]
    )


def _menu(places: Any, depth: Any, rate: Any, costs: Any) -> tuple[FreezingRow, ...]:
    rows = []
    for (gpu_type, gpus), progress_row in zip(places, rate, strict=True):
        kept = np.flatnonzero(~np.isnan(progress_row))
        lost = () if costs is None else tuple(costs[kept].tolist())
        if kept.size:
            rows.append(
                FreezingRow(
                    gpu_type, gpus, tuple(depth[kept].tolist()), tuple(progress_row[kept].tolist()), lost
                )
            )
    return tuple(rows)


def _broadcast(name: str, values: ArrayLike, dtype: Any, shape: tuple[int, ...]) -> Any:
    array = np.asarray(values)
    if array.dtype.kind not in ("iu" if dtype is np.int64 else "fiu") and array.size:
        raise InvalidInstance(Problem(f"$.{name}", f"must be numbers ({np.dtype(dtype)}), not {array.dtype}"))
    try:
        return np.broadcast_to(array.astype(dtype), shape)
    except ValueError:
        raise InvalidInstance(Problem(f"$.{name}", f"shape is {array.shape}; expected {shape}")) from None

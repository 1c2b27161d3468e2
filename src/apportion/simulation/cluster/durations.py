"""Jobs of a log that are known by GPUs and duration alone: they run at one speed on the GPUs asked for."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, Problem, reason
from apportion.policies.cluster.belief import SpeedBelief
from apportion.simulation.cluster.conditions import Beliefs
from apportion.simulation.cluster.job_states import JobStates
from apportion.simulation.packed import content

__all__ = ["DurationLog", "FixedDurations", "durations_known", "read_durations"]

_COLUMNS = ("timestamp", "duration", "num_gpus")
_SHOWN = 20


@dataclass(frozen=True, slots=True, eq=False)
class DurationLog:
    """Jobs in order of submission.

    Attributes
    ----------
    submitted_s
        float64 [jobs]: seconds since the first submission.
    duration_s
        float64 [jobs]: seconds it takes on the GPUs it asked for.
    gpus
        int64 [jobs].
    """

    submitted_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    gpus: NDArray[np.int64]


def read_durations(path: str | Path) -> DurationLog:
    """Read a CSV (or CSV.gz) with timestamp (``YYYY-MM-DD HH:MM:SS``), duration and num_gpus.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, a column is missing or a field is wrong (with its line).
    """
    path = Path(path)
    try:
        text = content(path).decode("utf-8-sig")
        lines = csv.DictReader(io.StringIO(text, newline=""))
        header = lines.fieldnames or []
        missing = [name for name in _COLUMNS if name not in header]
        if missing:
            raise InvalidInstance(Problem(f"{path}, line 1", f"the header lacks {', '.join(missing)}"))
        problems: list[Problem] = []
        rows: list[tuple[float, float, int]] = []
        for row in lines:
            try:
                at = datetime.strptime(row["timestamp"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
                job = (at.timestamp(), float(row["duration"]), int(row["num_gpus"]))
                if not (0 < job[1] < 1e10 and 1 <= job[2] <= 1_000_000):
                    raise ValueError
            except (TypeError, ValueError):
                message = "needs a timestamp, a positive duration and a positive num_gpus"
                problems.append(Problem(f"{path}, line {lines.line_num}", message))
                continue
            rows.append(job)
    except InvalidInstance:
        raise
    except (OSError, ValueError, csv.Error) as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    if problems or not rows:
        raise InvalidInstance(problems[:_SHOWN] or Problem(str(path), "has no job"))
    rows.sort(key=lambda job: job[0])
    table = np.array(rows, dtype=np.float64)
    return DurationLog(table[:, 0] - table[0, 0], table[:, 1], table[:, 2].astype(np.int64))


class FixedDurations:
    """Jobs of one epoch whose progress is seconds, whatever GPUs they run on.

    Parameters
    ----------
    log
        The jobs.
    """

    def __init__(self, log: DurationLog) -> None:
        self._duration_s = log.duration_s

    def epochs(self, job: int) -> int:
        """Return 1: the work of a job is one epoch."""
        return 1

    def layers(self, job: int) -> int:
        """Return 1: nothing is frozen."""
        return 1

    def progress_at(self, job: int, epoch: int) -> float:
        """Return 0 at the start and the duration at the end."""
        return float(self._duration_s[job]) if epoch else 0.0

    def rate(
        self, job: int, epoch: int, progress: float, placement: tuple[int, ...], gpu_type: str, depth: int
    ) -> float:
        """Return 1 second of progress a second."""
        return 1.0


def durations_known(log: DurationLog, gpu_types: tuple[str, ...]) -> Beliefs:
    """Return beliefs that know every duration."""
    speeds = dict.fromkeys(gpu_types, 1.0)

    def belief(job: int, states: JobStates) -> SpeedBelief:
        return SpeedBelief(speeds, int(log.gpus[job]), float(log.duration_s[job] - states.progress[job]))

    return belief

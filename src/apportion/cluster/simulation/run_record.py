"""One run as it is kept: its summary, its curves over time and its jobs; the last line of a run's log.

The log of a run: JSON Lines, a header, one line per step, and the run's record as the last line.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from apportion.cluster.simulation.replay import Replay
from apportion.cluster.simulation.summary import Summary, summarise
from apportion.cluster.simulation.totals import Step
from apportion.core.errors import InvalidInstance, Problem, reason

__all__ = ["JobTimes", "RunLog", "RunRecord", "read_record", "record_of"]


class JobTimes(msgspec.Struct, frozen=True):
    """When jobs ran, hours since the start of the replay; ``None`` for what has not happened.

    Attributes
    ----------
    ids
        The jobs.
    started_h, completed_h
        Admission, and the step at which the job was seen to be done.
    progress
        Share of its work done, 0 to 1.
    """

    ids: list[str]
    started_h: list[float | None]
    completed_h: list[float | None]
    progress: list[float]


class RunRecord(msgspec.Struct, frozen=True, tag_field="kind", tag="replay"):
    """What one replay produced, as reports need it.

    Attributes
    ----------
    summary
        The figures of the run.
    bin_h
        Width of a bin of the curves, hours.
    curves
        By name (idle, used, running, rate): the average in every bin.
    jobs
        The jobs of the run; ``None`` for an endless workload.
    versions, seed
        Versions of the packages that ran it, and the seed of generated inputs.
    """

    summary: Summary
    bin_h: float
    curves: dict[str, list[float]]
    jobs: JobTimes | None
    versions: dict[str, str]
    seed: int | None = None


def record_of(
    replay: Replay, policy: str, horizon_s: float | None = None, seed: int | None = None
) -> RunRecord:
    """Return the record of a replay as it stands."""
    import platform
    from importlib.metadata import version

    _, curves = replay.series.averages()
    jobs = None
    if not replay.jobs.endless:
        jobs = JobTimes(
            list(replay.jobs.ids),
            _hours(replay.started_s, replay.start_s),
            _hours(replay.completed_s, replay.start_s),
            [round(share, 4) for share in replay.progress().tolist()],
        )
    return RunRecord(
        summary=summarise(replay, policy, horizon_s),
        bin_h=replay.series.width_s / 3600,
        curves={name: [round(value, 4) for value in values.tolist()] for name, values in curves.items()},
        jobs=jobs,
        versions={
            "apportion": version("apportion"),
            "numpy": version("numpy"),
            "python": platform.python_version(),
        },
        seed=seed,
    )


def read_record(path: str | Path) -> RunRecord:
    """Read the record from the last line of a run's log.

    Raises
    ------
    InvalidInstance
        If the file cannot be read or its last line is no record (the run may not have ended).
    """
    path = Path(path)
    try:
        lines = path.read_bytes().rstrip(b"\n")
        return msgspec.json.decode(lines[lines.rfind(b"\n") + 1 :], type=RunRecord)
    except OSError as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"its last line is no record of a run; has the run ended? {error}"
        raise InvalidInstance(Problem(str(path), message)) from error


def as_json(value: Any) -> bytes:
    """Return a record or summary as one line of JSON."""
    return msgspec.json.encode(value)


def _hours(at_s: NDArray[np.float64], start_s: float) -> list[float | None]:
    return [None if math.isnan(at) else round((at - start_s) / 3600, 5) for at in at_s.tolist()]


class RunLog:
    """A log being written; call it with every `Step`, and `close` it with the record.

    Parameters
    ----------
    path
        The file, begun anew unless `resume_at` is given.
    header
        The first line of the log, which says what is run.
    resume_at
        Length in bytes up to which an earlier run's log is kept and continued.
    """

    def __init__(self, path: str | Path, header: dict[str, Any], resume_at: int | None = None) -> None:
        self._encode = msgspec.json.Encoder().encode
        self._names = tuple(field.name for field in dataclasses.fields(Step))
        if resume_at is None:
            self._file: IO[bytes] = Path(path).open("wb")  # noqa: SIM115 - closed by this context manager
            self._file.write(self._encode({"kind": "replay_header", **header}) + b"\n")
        else:
            self._file = Path(path).open("r+b")  # noqa: SIM115
            self._file.truncate(resume_at)
            self._file.seek(resume_at)

    def __call__(self, step: Step) -> None:
        """Write one step."""
        self._file.write(self._encode({name: getattr(step, name) for name in self._names}) + b"\n")

    def position(self) -> int:
        """Return the length of the log so far, in bytes, all of it written."""
        self._file.flush()
        return self._file.tell()

    def finish(self, record: RunRecord) -> None:
        """Write the last line."""
        self._file.write(self._encode(record) + b"\n")

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

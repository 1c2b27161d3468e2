"""What freezing a prefix of an application's layers saves and costs, at tenths of its depth.

What it saves is measured by depth *and* GPUs: on several GPUs less is saved, because synchronisation stays.
What it costs is psi, the share of statistical progress that remains, by phase of the training. Profiles are
files (`freezing_file`); an application without one is never frozen.

Freezing profiles as files: one JSON object an application, written by ``apportion fit --profile``.

A file may lack a part that nobody has measured: without ``penalty`` the application is never frozen; without
``relative_step`` it is frozen only where another application's step times are told to stand in.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, InvalidOption, Problem

__all__ = [
    "LEVELS",
    "FreezingFile",
    "FreezingProfile",
    "FreezingProfiles",
    "Penalty",
    "freezing_profiles",
    "read_freezing",
]


LEVELS = 10
"""Depths are tenths of the layers: 0 to 9 may be frozen."""


@dataclass(frozen=True, slots=True, eq=False)
class FreezingProfile:
    """Savings and costs by depth.

    Attributes
    ----------
    gpus
        int64 [counts]: GPU counts whose steps were measured, rising.
    relative
        float64 [counts, depths]: seconds of a step over those of the same step with nothing frozen.
    deepest
        The deepest depth that was measured; beyond it nothing is frozen.
    phases
        float64 [phases]: progress over the whole training, increasing.
    retained
        float64 [phases, depths]: psi, the share of statistical progress that remains; not rising with depth.
    """

    gpus: NDArray[np.int64]
    relative: NDArray[np.float64]
    deepest: int
    phases: NDArray[np.float64]
    retained: NDArray[np.float64]
    _known: dict[int, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    def relative_step(self, gpus: int) -> NDArray[np.float64]:
        """Return float64 [depths]: relative seconds, linear in the logarithm of the GPUs, constant beyond."""
        if gpus not in self._known:
            at, measured = np.log(gpus), np.log(self.gpus)
            self._known[gpus] = np.array([np.interp(at, measured, column) for column in self.relative.T])
        return self._known[gpus]

    def seconds(self, step: float, sync: float, accumulation: int, gpus: int) -> NDArray[np.float64]:
        """Return float64 [depths]: seconds of an optimiser step by depth.

        Accumulating passes do not synchronise, so they gain what the fewest GPUs gain. Where steps were
        measured on one GPU alone, exposed synchronisation is taken to stay as it is.

        Parameters
        ----------
        step, sync
            Measured seconds of an unfrozen step and, of these, of exposed synchronisation.
        accumulation
            Extra passes without synchronisation.
        gpus
            GPUs of the job.
        """
        passes = (step - sync) * self.relative_step(int(self.gpus[0]))
        alone = int(self.gpus[-1]) == 1 < gpus
        ending = passes + sync if alone else step * self.relative_step(gpus)
        return np.asarray(accumulation * passes + ending)

    def retained_at(self, phase: float) -> NDArray[np.float64]:
        """Return float64 [depths]: psi at a phase, linear between the measured ones, constant beyond them."""
        high = int(np.searchsorted(self.phases, phase))
        if high == 0:
            return np.asarray(self.retained[0])
        if high == self.phases.size:
            return np.asarray(self.retained[-1])
        low = self.phases[high - 1]
        share = (phase - low) / (self.phases[high] - low)
        return np.asarray((1 - share) * self.retained[high - 1] + share * self.retained[high])

    def phase_agnostic(self) -> FreezingProfile:
        """Return the same with the mean psi in every phase: what who does not look at phases believes."""
        return replace(self, phases=np.array([0.5]), retained=self.retained.mean(axis=0, keepdims=True))

    def with_penalty_of(self, other: FreezingProfile) -> FreezingProfile:
        """Return the same savings with the psi of another network."""
        return replace(self, phases=other.phases, retained=other.retained)


_SHOWN = 20
_MOST = 10.0
"""A frozen step may be slower than an unfrozen one, by noise, but not this many times."""


class Penalty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What freezing costs: psi by phase and depth.

    Attributes
    ----------
    phases
        Progress over that of the whole training, rising.
    retained
        Per phase and share of the layers, the statistical progress that remains: from 1, not rising.
    """

    phases: tuple[float, ...]
    retained: tuple[tuple[float, ...], ...]


class FreezingFile(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="freezing_profile"
):
    """A freezing profile as it stands in its file.

    Attributes
    ----------
    schema_version
        ``"1"``.
    application
        The name of the application.
    frozen
        Shares of the layers that may be frozen, rising from 0; nothing is frozen beyond the last.
    gpus
        GPU counts whose steps were measured, rising; empty where no step was.
    relative_step
        Per GPU count and share, seconds of a step over those with nothing frozen; ``None``: not measured.
    penalty
        What freezing costs; ``None``: not measured.
    source
        In words, where every part comes from.
    """

    schema_version: Literal["1"]
    application: str
    frozen: tuple[float, ...]
    gpus: tuple[int, ...] = ()
    relative_step: tuple[tuple[float, ...], ...] | None = None
    penalty: Penalty | None = None
    source: str = ""

    def __post_init__(self) -> None:
        """Check what the types do not say.

        Raises
        ------
        InvalidInstance
            If a table is of the wrong size or holds what cannot be.
        """
        problems: list[Problem] = []
        if not self.application:
            problems.append(Problem("$.application", "must not be empty"))
        if not _rises(self.frozen) or self.frozen[0] != 0 or self.frozen[-1] >= 1 or len(self.frozen) < 2:
            problems.append(Problem("$.frozen", "must rise from 0 to below 1, at least two shares"))
        if self.relative_step is not None:
            if not _rises(self.gpus) or self.gpus[0] < 1:
                problems.append(
                    Problem("$.gpus", "must rise from at least 1, one count per row of relative_step")
                )
            problems += self._rows("$.relative_step", self.relative_step, len(self.gpus), _MOST, falls=False)
        if self.penalty is not None:
            phases = self.penalty.phases
            if not _rises(phases) or not (phases[0] >= 0 and phases[-1] <= 1):
                problems.append(Problem("$.penalty.phases", "must rise within 0 to 1"))
            problems += self._rows("$.penalty.retained", self.penalty.retained, len(phases), 1.0, falls=True)
        if problems:
            raise InvalidInstance(problems[:_SHOWN])

    def _rows(
        self, path: str, rows: tuple[tuple[float, ...], ...], count: int, most: float, falls: bool
    ) -> list[Problem]:
        if len(rows) != count:
            return [Problem(path, f"must have {count} rows, has {len(rows)}")]
        wrong = []
        for index, row in enumerate(rows):
            if len(row) != len(self.frozen):
                wrong.append(
                    Problem(f"{path}[{index}]", f"must have {len(self.frozen)} numbers, has {len(row)}")
                )
            elif row[0] != 1 or not all(0 < value <= most for value in row):
                wrong.append(
                    Problem(f"{path}[{index}]", f"must begin with 1 and stay above 0 up to {most:g}")
                )
            elif falls and any(after > before for before, after in itertools.pairwise(row)):
                wrong.append(Problem(f"{path}[{index}]", "must not rise with the share that is frozen"))
        return wrong

    def profile(self, speeds: FreezingFile | None = None) -> FreezingProfile | None:
        """Return the profile at tenths of the depth, ``None`` if a part of it is missing.

        Parameters
        ----------
        speeds
            Whose step times stand in where this application has none.
        """
        timed = self if self.relative_step is not None else speeds
        if self.penalty is None or timed is None or timed.relative_step is None:
            return None
        shares = np.arange(LEVELS) / LEVELS
        # a share that was written with a rounding error still is the tenth it stands for
        deepest = int(np.floor(min(self.frozen[-1], timed.frozen[-1]) * LEVELS + 1e-6))
        return FreezingProfile(
            gpus=np.array(timed.gpus, dtype=np.int64),
            relative=_at(shares, timed.frozen, timed.relative_step),
            deepest=deepest,
            phases=np.array(self.penalty.phases, dtype=np.float64),
            retained=_at(shares, self.frozen, self.penalty.retained),
        )


FreezingProfiles = Mapping[str, FreezingProfile]
"""By application; one that is not there is never frozen."""


def read_freezing(folder: str | Path) -> Mapping[str, FreezingFile]:
    """Read ``NAME.json`` and ``NAME/freezing.json`` of a folder, by the application each file names.

    Raises
    ------
    InvalidInstance
        If there is no such folder, a file is wrong, or two name one application.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InvalidInstance(Problem(str(folder), "is no folder; expected one JSON file an application"))
    found: dict[str, FreezingFile] = {}
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/freezing.json")]):
        try:
            one = msgspec.json.decode(path.read_bytes(), type=FreezingFile)
        except (OSError, msgspec.MsgspecError) as error:
            raise InvalidInstance(Problem(str(path), f"is no freezing profile: {error}")) from None
        if one.application in found:
            raise InvalidInstance(
                Problem(str(path), f"application {one.application!r} has a profile already")
            )
        found[one.application] = one
    return MappingProxyType(found)


def freezing_profiles(files: Mapping[str, FreezingFile], stand_in: str | None = None) -> FreezingProfiles:
    """Return the freezing profiles of the applications that can be frozen.

    Parameters
    ----------
    files
        By application.
    stand_in
        The application whose step times stand in for those that have none; ``None``: they are not frozen.

    Raises
    ------
    InvalidOption
        If the stand-in has no step times itself.
    """
    speeds = None if stand_in is None else files.get(stand_in)
    if stand_in is not None and (speeds is None or speeds.relative_step is None):
        timed = ", ".join(name for name, one in files.items() if one.relative_step is not None) or "none has"
        raise InvalidOption(f"{stand_in!r} has no measured step times by depth; these have: {timed}")
    made = {name: one.profile(speeds) for name, one in files.items()}
    return MappingProxyType({name: one for name, one in made.items() if one is not None})


def _rises(values: tuple[float, ...]) -> bool:
    return bool(values) and all(before < after for before, after in itertools.pairwise(values))


def _at(
    shares: NDArray[np.float64], frozen: tuple[float, ...], rows: tuple[tuple[float, ...], ...]
) -> NDArray[np.float64]:
    return np.array([np.interp(shares, frozen, row) for row in rows], dtype=np.float64)

"""What freezing a prefix of an application's layers saves and costs, at tenths of its depth.

The sources are measurements by IceFrog's first author (precursor traces: BERT and YOLOv3 step times against
depth, unfrozen shares of parameters and activations, gradient statistics of five CNNs on CIFAR-10). Which
application of the Pollux traces a curve stands for is our assumption, said at each profile: nobody has
published freezing measurements of those six.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVELS", "PROFILES", "FreezingProfile"]

LEVELS = 10
"""Depths are tenths of the layers: 0 to 9 may be frozen."""

_FORWARD = 1 / 3
"""Share of a pass that goes forward; backward costs twice as much."""


@dataclass(frozen=True, slots=True, eq=False)
class FreezingProfile:
    """Savings and costs by depth.

    Attributes
    ----------
    backward
        float64 [depths]: share of the backward pass that remains.
    parameters
        float64 [depths]: share of the parameters that still are synchronised.
    phases
        float64 [phases]: progress over the whole training, increasing.
    retained
        float64 [phases, depths]: psi, the share of statistical progress that remains; not rising with depth.
    overlap
        Exponent gamma by which synchronisation hides behind the backward pass.
    fixed_sync
        Share of the synchronisation that no parameter saves; 0.906 is fitted to the BERT measurements.
    """

    backward: NDArray[np.float64]
    parameters: NDArray[np.float64]
    phases: NDArray[np.float64]
    retained: NDArray[np.float64]
    overlap: float
    fixed_sync: float = 0.906

    def seconds(self, step: float, sync: float, accumulation: int) -> NDArray[np.float64]:
        """Return float64 [depths]: seconds of an optimiser step by depth.

        T(k) = s C(k) + (C(k)^gamma + S(k)^gamma)^(1/gamma), with C and S such that depth 0 costs what was
        measured; C(k) = C (1/3 + 2/3 u(k)), S(k) = S (c + (1 - c) rho(k)).

        Parameters
        ----------
        step, sync
            Measured seconds of an unfrozen step and, of these, of exposed synchronisation.
        accumulation
            Extra passes without synchronisation.
        """
        compute = step - sync
        hidden = max(step**self.overlap - compute**self.overlap, 0.0)
        passes = compute * (_FORWARD + (1 - _FORWARD) * self.backward)
        share = self.fixed_sync + (1 - self.fixed_sync) * self.parameters
        ending = (passes**self.overlap + hidden * share**self.overlap) ** (1 / self.overlap)
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


def _retained(*rows: str) -> NDArray[np.float64]:
    """Read rows of psi at depths .1 to .9; clip to 1 and make them non-increasing."""
    table = np.array([[1.0, *map(float, row.split())] for row in rows])
    return np.minimum.accumulate(np.minimum(table, 1.0), axis=1)


def _profile(
    backward: str, parameters: str, phases: str, rows: tuple[str, ...], overlap: float
) -> FreezingProfile:
    return FreezingProfile(
        np.array([1.0, *map(float, backward.split())]),
        np.array([1.0, *map(float, parameters.split())]),
        np.array([float(phase) for phase in phases.split()]),
        _retained(*rows),
        overlap,
    )


_RESNET18 = (
    ".84 .76 .69 .61 .53 .42 .33 .32 .29",
    ".87 .81 .76 .68 .62 .49 .36 .34 .27",
    ".99 .96 .90 .80 .67 .49 .35 .38 .34",
)
_RESNET50 = (".93 .93 .89 .83 .73 .65 .60 .51 .32", ".92 .92 .89 .85 .74 .66 .68 .59 .35")
_CNN_PARAMETERS = ".998 .984 .972 .954 .899 .829 .759 .559 .28"
_CNN_BACKWARD = ".899 .775 .706 .609 .485 .387 .29 .195 .098"

PROFILES: Mapping[str, FreezingProfile] = MappingProxyType(
    {
        # ResNet18 on CIFAR-10: its own psi; shares of YOLOv3, as of any CNN whose front holds few parameters
        "cifar10": _profile(_CNN_BACKWARD, _CNN_PARAMETERS, ".25 .5 .75", _RESNET18, 2.18),
        # ResNet50 on CIFAR-10 stands for ResNet50 on ImageNet
        "imagenet": _profile(_CNN_BACKWARD, _CNN_PARAMETERS, ".5 .75", _RESNET50, 2.78),
        # YOLOv3's own shares (activations tell its backward work best); psi of ResNet50, its nearest backbone
        "yolov3": _profile(
            ".58 .425 .339 .246 .168 .128 .082 .047 .023", _CNN_PARAMETERS, ".5 .75", _RESNET50, 1.11
        ),
        # BERT's own shares; psi = 1 - .15 f is assumed: no gradient statistics of it were published
        "bert": _profile(
            ".926 .852 .778 .704 .607 .533 .459 .367 .293",
            ".771 .70 .638 .576 .488 .431 .369 .294 .223",
            ".5",
            (".985 .97 .955 .94 .925 .91 .895 .88 .865",),
            2.03,
        ),
    }
)
"""By application of the Pollux traces; those that are not here (ncf, deepspeech2) are never frozen."""

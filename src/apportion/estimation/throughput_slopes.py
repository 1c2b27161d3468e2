"""The logarithm of T(k, g) over many rows, and how it changes with every parameter.

Computation and synchronisation are sums of parameter times column, C = sum_i p_i c_i and S = sum_i q_i s_i
(c + (1 - c) rho). With the shares P = C^gamma / (C^gamma + S^gamma) and Q = 1 - P,

    d log T / d log p_i = P p_i c_i / C,    d log T / d log q_i = Q q_i s_i / S,
    d log T / d c = Q (1 - rho) / (c + (1 - c) rho),    d log T / d gamma = (P log(C/T) + Q log(S/T)) / gamma.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["StepTerms"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class StepTerms:
    """What every parameter is multiplied with, row by row.

    Attributes
    ----------
    compute, synchronise
        float64 [rows, parameters]: the columns c_i and s_i, in the order of their names.
    compute_names, synchronise_names
        The parameters in that order.
    parameters
        float64 [rows]: rho.
    """

    compute: Floats
    synchronise: Floats
    compute_names: tuple[str, ...]
    synchronise_names: tuple[str, ...]
    parameters: Floats

    def log_time(self, values: Mapping[str, float]) -> tuple[Floats, dict[str, Floats]]:
        """Return log T per row, and per parameter its slope: by log p, but by c and gamma themselves.

        Parameters
        ----------
        values
            Every parameter by name, above 0; ``fixed_sync_share`` and ``overlap`` may be absent (1).
        """
        fixed, gamma = values.get("fixed_sync_share", 1.0), values.get("overlap", 1.0)
        p = np.array([values[name] for name in self.compute_names])
        q = np.array([values[name] for name in self.synchronise_names])
        kept = fixed + (1.0 - fixed) * self.parameters
        compute, raw = self.compute @ p, self.synchronise @ q
        sync = raw * kept
        high, low = np.maximum(compute, sync), np.minimum(compute, sync)
        power = (low / high) ** gamma
        time = high * (1.0 + power) ** (1.0 / gamma)
        late = np.where(sync > compute, 1.0, power) / (1.0 + power)  # Q
        early = 1.0 - late
        synced = sync > 0
        safe = np.where(synced, raw, 1.0)
        slopes = {
            name: early * value * column / compute
            for name, value, column in zip(self.compute_names, p, self.compute.T, strict=True)
        }
        for name, value, column in zip(self.synchronise_names, q, self.synchronise.T, strict=True):
            slopes[name] = late * value * column / safe
        slopes["fixed_sync_share"] = late * (1.0 - self.parameters) / np.where(synced, kept, 1.0)
        behind = np.log(np.where(synced, sync / time, 1.0))
        slopes["overlap"] = (early * np.log(compute / time) + late * behind) / gamma
        return np.log(time), slopes

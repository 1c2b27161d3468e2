"""The jobs of a core that still have a choice: those with one option are settled, what they use is gone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .option_table import OptionTable

__all__ = ["Unsettled", "unsettled"]


@dataclass(frozen=True, slots=True, eq=False)
class Unsettled:
    """A core without the jobs that are settled.

    Attributes
    ----------
    menus
        The jobs with several options, under what the others leave; `rows` are places in the core.
    value
        What the options of the settled jobs are worth.
    """

    menus: OptionTable
    value: float
    _jobs: NDArray[np.int64]
    _begins: NDArray[np.int64]

    def inward(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a choice of the core, int64 [jobs], without its settled jobs."""
        return self.menus.locate(choice[self._jobs])

    def outward(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the choice of the core that a choice of the menus stands for."""
        whole = self._begins.copy()
        whole[self._jobs] = self.menus.rows[choice]
        return whole


def unsettled(core: OptionTable) -> Unsettled:
    """Return the part of a core that is open; no menu is empty."""
    sizes, begins = np.diff(core.offsets), core.offsets[:-1]
    alone = begins[sizes == 1]
    jobs = np.flatnonzero(sizes > 1)
    menus = core.part(jobs, core.capacities - core.used(alone))
    return Unsettled(menus, float(core.values[alone].sum()), jobs, begins)

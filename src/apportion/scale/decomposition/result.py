"""What the driver hands back: a plan in parts and what is proven of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Termination, figure, relative_gap
from apportion.scale.decomposition.finishing import Finished, Summed
from apportion.scale.decomposition.sharding import ShardedKnapsack

__all__ = ["Pass", "ShardedSolution", "outward_bound", "summed_value"]


@dataclass(frozen=True, slots=True)
class Pass:
    """One question to all shards.

    Attributes
    ----------
    jobs
        Jobs looked at.
    open_jobs, kept_jobs
        Jobs whose best option is not the same everywhere in the box, and how many of them came back.
    price
        The price per unit of each capacity at which the shards were asked.
    seconds
        Wall-clock, the driver's part included.
    """

    jobs: int
    open_jobs: int
    kept_jobs: int
    price: tuple[float, ...]
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class ShardedSolution:
    """A plan in parts, checked, with its certificate.

    Attributes
    ----------
    problem
        The sharded knapsack that was solved.
    termination
        ``optimal`` within 1e-9, ``gap_reached``, ``node_limit`` where the passes were used up, or
        ``infeasible``.
    objective
        Sum of the chosen values, ``None`` without a plan.
    bound
        The bound that `multipliers` prove by weak duality, rounded outward.
    multipliers
        By capacity name.
    used
        By capacity name, exact.
    parts
        The plan by shards: in files or in memory.
    folder
        The folder that holds the files of the plan; ``None`` if the plan is in memory.
    passes
        The questions asked.
    seconds
        Wall-clock by phase: ``price``, ``plan``, ``finish``, ``total``; and ``workers_cpu``, the
        processor time of all tasks.
    """

    problem: ShardedKnapsack
    termination: Termination
    objective: float | None
    bound: float | None
    multipliers: Mapping[str, float]
    used: Mapping[str, int]
    parts: tuple[Finished, ...]
    folder: str | None
    passes: tuple[Pass, ...]
    seconds: Mapping[str, float]

    def __repr__(self) -> str:
        plan = "no plan" if self.objective is None else f"objective {figure(self.objective)}"
        return f"<ShardedSolution: {self.termination}, {plan}, bound {figure(self.bound)}>"

    @property
    def gap(self) -> float | None:
        """``|bound - objective| / max(|objective|, 1e-9)``, ``None`` where either is absent."""
        if self.objective is None or self.bound is None:
            return None
        return relative_gap(self.objective, self.bound)

    def positions(self) -> NDArray[np.int64]:
        """Return int64 [jobs]: the chosen positions in the menus, -1 for left out, of all shards at once."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(self._positions(part) for part in self.parts)])

    def _positions(self, part: Finished) -> NDArray[np.int64]:
        if part.positions is not None:
            return part.positions.astype(np.int64)
        assert self.folder is not None and part.file is not None
        loaded: NDArray[np.int64] = np.load(Path(self.folder) / part.file).astype(np.int64)
        return loaded


def outward_bound(
    problem: ShardedKnapsack, multipliers: NDArray[np.float64], shares: Sequence[Summed]
) -> float:
    """Return the bound of multipliers from the shards' shares, never tighter than the exact one."""
    paid = [float(price) * float(c) for price, c in zip(multipliers, problem.capacities, strict=True)]
    total = math.fsum([*paid, *(share for share, _ in shares)])
    margin = math.fsum(rounding for _, rounding in shares) + 4 * 2.0**-52 * (math.fsum(paid) + abs(total))
    outward = total if margin == 0.0 else math.nextafter(total + margin, math.inf)
    return outward if problem.maximizes else -outward


def summed_value(parts: Sequence[Finished]) -> float:
    """Return the objective of the plan's parts."""
    return math.fsum(part.value[0] for part in parts)

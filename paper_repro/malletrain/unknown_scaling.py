"""Workloads whose scaling nobody knows beforehand, and what is guessed about it.

MalleTrain (ICPE 2024, arXiv:2404.15668) is evaluated on neural architecture search and hyperparameter
optimisation. Its workloads are not published in numbers; these are seeded stand-ins: HPO is the
published ShuffleNet set with mini-batch speeds that differ from trial to trial, NAS has an architecture,
and with it a speed and a scaling curve, of its own for every job.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.simulation.snapshot import Workload
from apportion.core.errors import InvalidOption
from apportion.instances.gap_filling.schema import PUBLISHED_CURVES

__all__ = ["GUESSES", "guessed_rates", "unknown_workload"]

GUESSES = ("linear", "average", "another job's")
_REACH = 64
_MINUTES_ALONE = 3000.0
"""Work of a job: minutes on one node."""
_BRACKET, _BETWEEN_S = 27, 4 * 3600.0


def unknown_workload(
    seed: int, kind: Literal["hpo", "nas"], count: int = 400, halving: bool = False
) -> Workload:
    """Return jobs with a curve of their own each, each 3000 minutes long on one node, all submitted at once.

    With `halving` they are brackets of 27 trials of a successive halving, one submitted every four hours: 18
    are ended at a ninth of the work, 6 at a third, 3 train it whole; which is drawn beforehand.

    ``hpo``: ShuffleNet's published curve times a factor in U(0.5, 2) per trial (batch size, precision).
    ``nas``: rate on one node log-uniform in 500 to 8000 samples per second, loss of efficiency per doubling
    U(0.01, 0.25) with a random walk of 0.03 per doubling on top.
    """
    if kind not in ("hpo", "nas") or count < 1:
        raise InvalidOption("kind must be hpo or nas, and count at least 1")
    rng = np.random.default_rng(seed)
    nodes = np.arange(_REACH + 1)
    if kind == "hpo":
        curve = PUBLISHED_CURVES["ShuffleNet"]
        base = np.interp(nodes, curve.nodes, curve.rate)
        rates = base * rng.uniform(0.5, 2.0, count)[:, None]
        up, down = np.full(count, 18.0), np.full(count, 12.0)
    else:
        alone = np.exp(rng.uniform(np.log(500), np.log(8000), count))
        drop = rng.uniform(0.01, 0.25, count)[:, None] + rng.normal(0, 0.03, (count, 6))
        grid = np.concatenate((np.zeros((count, 1)), np.cumsum(-drop, axis=1)), axis=1)
        points = alone[:, None] * 2.0 ** np.arange(7) * np.exp(np.minimum(grid, 0.0))
        points = np.maximum.accumulate(points, axis=1)
        rates = np.array([np.interp(nodes, [0, *2 ** np.arange(7)], [0.0, *row]) for row in points])
        up, down = rng.uniform(17, 19, count), rng.uniform(11, 13, count)
    ones = np.ones(count, dtype=np.int64)
    share, submitted_s = np.ones(count), np.zeros(count)
    if halving:
        brackets = -(-count // _BRACKET)
        ends = np.repeat([1 / 9, 1 / 3, 1.0], [18, 6, 3])
        share = np.concatenate([rng.permutation(ends) for _ in range(brackets)])[:count]
        submitted_s = np.arange(count) // _BRACKET * _BETWEEN_S
    return Workload(
        ids=tuple(f"{kind}{job:04d}" for job in range(count)),
        curve=np.arange(count),
        rates=rates,
        believed=rates,
        min_nodes=ones,
        max_nodes=ones * _REACH,
        up_s=up,
        down_s=down,
        work=rates[:, 1] * _MINUTES_ALONE * 60.0 * share,
        submitted_s=submitted_s,
    )


def guessed_rates(jobs: Workload, guess: str, seed: int) -> NDArray[np.float64]:
    """Return a table of speed-ups on one node as somebody would guess them who has not measured.

    ``linear``: proportional to the nodes. ``average``: every job has the mean speed-up. ``another job's``:
    the speed-ups are dealt out at random. ``oracle``: the truth.
    """
    speedup = jobs.rates / jobs.rates[:, 1:2]
    if guess == "oracle":
        return speedup
    if guess == "linear":
        return np.broadcast_to(np.arange(jobs.rates.shape[1], dtype=np.float64), jobs.rates.shape).copy()
    if guess == "average":
        return np.broadcast_to(speedup.mean(axis=0), jobs.rates.shape).copy()
    if guess == "another job's":
        return speedup[np.random.default_rng(seed).permutation(speedup.shape[0])]
    raise InvalidOption(f"guess must be one of oracle, {', '.join(GUESSES)}, not {guess!r}")

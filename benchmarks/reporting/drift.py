"""Two runs of the same cells compared: times by paired ratios with their noise, quality without mercy.

Peers do not change with this package, so the median of their ratios is what the machine did: every ratio is
divided by it. A cell is told slower only if three things hold: the ratio of its medians exceeds `FLOOR`, it
differs by more than `LEAST_S`, and the lower end of a bootstrap interval of that ratio (95 %, resampling each
run's samples) exceeds 1; with fewer than three samples on a side, the ratio must exceed `SINGLE`. All cells
of a solver together are judged by the geometric mean of their ratios with a bootstrap interval over cells,
and a sign test. Nothing of this decides anything but words: wall time never fails a run.

Quality does, where it is not the clock's doing: a proof that took a quarter of its limit or more may be lost
to a slow machine, and a plan that a time limit cut short may be worse by what the gate allows its family.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.reporting.gate import LARGEST_GAP
from benchmarks.reporting.records import FAILED, NOT_RUN, groups_of, relative

__all__ = ["FLOOR", "Drift", "SolverDrift", "drift_of", "sign_test"]

FLOOR = 1.25
SINGLE = 2.0
LEAST_S = 2e-3
_RESAMPLES = 2000
_GAP_SLACK = 1e-6
_AMPLE = 0.25
"""A proof within this share of the limit does not hang on the machine's speed."""
_FEWEST_PEERS = 5


@dataclass(frozen=True, slots=True)
class CellDrift:
    """One cell in both runs: median seconds after over before, over the machine's, and its 95 % interval."""

    key: str
    solver: str
    ratio: float
    low: float | None
    high: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class SolverDrift:
    """All cells of a solver: geometric mean ratio with its 95 % interval, and the sign test's p-value."""

    solver: str
    cells: int
    ratio: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Drift:
    """What changed from one run to another.

    Attributes
    ----------
    machine
        Median ratio of the peers' seconds, after over before; 1 with fewer than five peer cells.
    cells
        Every cell that both runs timed and no limit ended.
    solvers
        Per solver.
    regressions
        Quality lost by our own solvers, in words: these fail.
    changes
        The same of peers, and quality gained: these are reported.
    only_before, only_after
        Keys of one run alone.
    """

    machine: float
    cells: tuple[CellDrift, ...]
    solvers: tuple[SolverDrift, ...]
    regressions: tuple[str, ...]
    changes: tuple[str, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


def drift_of(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], seed: int = 0) -> Drift:
    """Compare two files of rows, cell by cell."""
    rng = np.random.default_rng(seed)
    first, second = _cells(before), _cells(after)
    shared = [key for key in first if key in second]
    gaps_before, gaps_after = _gaps(before, after)
    machine = _machine([(first[key], second[key]) for key in shared])
    cells: list[CellDrift] = []
    regressions: list[str] = []
    changes: list[str] = []
    for key in shared:
        timed = _timed(key, first[key], second[key], machine, rng)
        if timed is not None:
            cells.append(timed)
        worse, excused, better = _quality(first[key], second[key], gaps_before.get(key), gaps_after.get(key))
        lines = [f"{key}: {words}" for words in worse]
        changes += [f"{key}: {words} (a clock decided)" for words in excused]
        (regressions if first[key].get("ours") else changes).extend(lines)
        changes += [f"{key}: {words}" for words in better]
    return Drift(
        machine=machine,
        cells=tuple(cells),
        solvers=tuple(_by_solver(cells, rng)),
        regressions=tuple(regressions),
        changes=tuple(changes),
        only_before=tuple(key for key in first if key not in second),
        only_after=tuple(key for key in second if key not in first),
    )


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p-value of a sign test.

    Examples
    --------
    >>> sign_test(5, 5), round(sign_test(9, 1), 5)
    (1.0, 0.02148)
    """
    count, least = wins + losses, min(wins, losses)
    if count == 0:
        return 1.0
    tail = sum(math.comb(count, k) for k in range(least + 1))
    return min(1.0, 2 * tail / (1 << count))


def _cells(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {str(row["key"]): row for row in rows if row.get("kind") == "cell"}


def _gaps(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return every cell's gap to the best value of either run: one reference for both."""
    best: dict[tuple[Any, ...], tuple[float, bool]] = {}
    for group in (*groups_of(before), *groups_of(after)):
        if group.reference is None or group.maximizes is None:
            continue
        at = (group.set_name, group.instance)
        known = best.get(at)
        better = max if group.maximizes else min
        value = group.reference if known is None else better(known[0], group.reference)
        best[at] = (value, group.maximizes)
    gaps_of: list[dict[str, float]] = []
    for rows in (before, after):
        gaps = {}
        for key, row in _cells(rows).items():
            known = best.get((row["set"], row["instance"]))
            if known is not None and row.get("objective") is not None:
                gaps[key] = relative(float(row["objective"]), *known)
        gaps_of.append(gaps)
    return gaps_of[0], gaps_of[1]


def _timed(
    key: str, before: Mapping[str, Any], after: Mapping[str, Any], machine: float, rng: np.random.Generator
) -> CellDrift | None:
    old, new = _samples(before), _samples(after) / machine
    if not old.size or not new.size or "time_limit" in (before["termination"], after["termination"]):
        return None  # a limit's seconds say nothing
    ratio = float(np.median(new) / np.median(old))
    apart = abs(float(np.median(new) - np.median(old)))
    low = high = None
    if old.size >= 3 and new.size >= 3:
        drawn = _medians(new, rng) / _medians(old, rng)
        low, high = (float(v) for v in np.percentile(drawn, [2.5, 97.5]))
    verdict = "alike"
    if apart > LEAST_S:
        if ratio > FLOOR and (low > 1 if low is not None else ratio > SINGLE):
            verdict = "slower"
        elif ratio < 1 / FLOOR and (high < 1 if high is not None else ratio < 1 / SINGLE):
            verdict = "faster"
    return CellDrift(key, str(after["solver"]), ratio, low, high, verdict)


def _samples(row: Mapping[str, Any]) -> NDArray[np.float64]:
    samples = np.array(row.get("samples") or [], dtype=np.float64)
    return samples if (samples > 0).all() else samples[:0]


def _machine(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> float:
    """Return what the machine did: the median ratio over the peers' cells that no limit ended."""
    ratios = []
    for before, after in pairs:
        old, new = _samples(before), _samples(after)
        ended = "time_limit" not in (before["termination"], after["termination"])
        if not after.get("ours") and ended and old.size and new.size:
            ratios.append(float(np.median(new) / np.median(old)))
    return float(np.median(ratios)) if len(ratios) >= _FEWEST_PEERS else 1.0


def _medians(samples: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    drawn = rng.choice(samples, (_RESAMPLES, samples.size))
    medians: NDArray[np.float64] = np.median(drawn, axis=1)
    return medians


def _by_solver(cells: Sequence[CellDrift], rng: np.random.Generator) -> list[SolverDrift]:
    lines = []
    for solver in dict.fromkeys(cell.solver for cell in cells):
        logs = np.log([cell.ratio for cell in cells if cell.solver == solver])
        means = rng.choice(logs, (_RESAMPLES, logs.size)).mean(axis=1)
        low, high = np.exp(np.percentile(means, [2.5, 97.5]))
        p_value = sign_test(int((logs > 0).sum()), int((logs < 0).sum()))
        lines.append(
            SolverDrift(solver, int(logs.size), float(np.exp(logs.mean())), float(low), float(high), p_value)
        )
    return lines


def _quality(
    before: Mapping[str, Any], after: Mapping[str, Any], gap_before: float | None, gap_after: float | None
) -> tuple[list[str], list[str], list[str]]:
    """Return what got worse, what got worse by the clock, and what got better, in words."""
    worse: list[str] = []
    excused: list[str] = []
    better: list[str] = []
    old, new = str(before["termination"]), str(after["termination"])
    if old in NOT_RUN or new in NOT_RUN:
        if old not in NOT_RUN:
            worse.append(f"was run, now {new}: {after.get('told', '')}")
        return worse, excused, better
    failed_before, failed_after = _failed(before), _failed(after)
    if failed_after and not failed_before:
        worse.append(f"was {old}, now {new}: {after.get('told', '')}")
    elif failed_before and not failed_after:
        better.append(f"was {old}, now {new}")
    if _refused(after) and not _refused(before):
        worse.append("its plan now fails the check")
    if gap_before is not None and gap_after is None and not failed_after:
        worse.append("has no checked plan any more")
    elif gap_before is None and gap_after is not None:
        better.append("has a checked plan now")
    elif gap_before is not None and gap_after is not None:
        slack = max(float(after.get("gap_asked") or 0.0), _GAP_SLACK)
        if gap_after > gap_before + slack:
            cut = new == "time_limit" and gap_after <= LARGEST_GAP.get(str(after["family"]), 0.0)
            words = f"its gap to the best known value rose from {gap_before:.2e} to {gap_after:.2e}"
            (excused if cut else worse).append(words)
        elif gap_before > gap_after + slack:
            better.append(f"its gap to the best known value fell from {gap_before:.2e} to {gap_after:.2e}")
    proven = ("optimal", "gap_reached")
    if old in proven and new not in proven and not failed_after:
        late = new == "time_limit" and float(before.get("seconds") or 0) >= _AMPLE * float(after["limit_s"])
        (excused if late else worse).append(f"was proven, now {new}")
    elif new in proven and old not in proven:
        better.append(f"was {old}, now proven")
    return worse, excused, better


def _failed(row: Mapping[str, Any]) -> bool:
    return row["termination"] in FAILED and row.get("objective") is None


def _refused(row: Mapping[str, Any]) -> bool:
    check = row.get("check")
    return check is not None and not check["feasible"]

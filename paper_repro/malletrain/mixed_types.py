"""What jobs over nodes of two types are worth: ``python -m paper_repro.malletrain.mixed_types``.

Jobs with published curves share eight nodes of a fast type and eight of a slow one. The best that they can
train together, each in units of its own speed on one fast node, where every job is on one type at a time, and
where a job may be on both. Ranks of equal shares wait for the slowest, so that such a job is as fast as on as
many slow nodes; a trainer that shares by speed could at best do as well as on fast nodes that many times
fewer. Standstills are left out: that of a job on two types comes with the departures from both.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.cli.running import in_one_line
from apportion.instances.gap_filling.schema import PUBLISHED_CURVES
from paper_repro.tables import Table, markdown, write_table

__all__ = ["Job", "best_sum", "drawn", "main", "worth"]

NODES = 8
RATIOS = (1.0, 1.25, 1.5, 2.0, 3.0)
JOBS = (1, 2, 3, 4, 6)
_MOST = (2, 4, 8, 16)
Rates = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One job: its rates on 0, 1, 2, ... slow nodes, and the most it runs on."""

    rates: Rates
    most: int


def drawn(chance: np.random.Generator, num: int) -> list[Job]:
    """Return jobs with published curves and most nodes of chance."""
    names = sorted(PUBLISHED_CURVES)
    made = []
    for _ in range(num):
        curve = PUBLISHED_CURVES[names[int(chance.integers(len(names)))]]
        rates = np.interp(np.arange(2 * NODES + 1), curve.nodes, curve.rate)
        made.append(Job(rates, int(chance.choice(_MOST))))
    return made


def worth(job: Job, ratio: float, mixing: str) -> Rates:
    """Return float64 [fast + 1, slow + 1]: what so many nodes of both are worth, -inf where it may not.

    Parameters
    ----------
    job
        Whose.
    ratio
        How many times faster a fast node is.
    mixing
        ``none``, ``equal`` shares, or shares ``by speed``.
    """
    fast, slow = np.arange(NODES + 1)[:, None], np.arange(NODES + 1)[None, :]
    counts = np.arange(job.rates.size)
    either = np.where(slow == 0, ratio * job.rates[fast + 0 * slow], job.rates[slow + 0 * fast])
    mixed = (fast > 0) & (slow > 0)
    if mixing == "equal":
        both = job.rates[fast + slow]
    else:
        both = ratio * np.interp(fast + slow / ratio, counts, job.rates)
    rate = np.where(mixed, -np.inf if mixing == "none" else both, either)
    return np.where(fast + slow <= job.most, rate / (ratio * job.rates[1]), -np.inf)


def best_sum(jobs: Sequence[Job], ratio: float, mixing: str) -> float:
    """Return the most that jobs are worth together, by tables over what is left of both types."""
    best = np.zeros((NODES + 1, NODES + 1))
    for job in jobs:
        values, before = worth(job, ratio, mixing), best
        best = before.copy()
        for fast, slow in zip(*np.nonzero(values > 0), strict=True):
            left = before[: NODES + 1 - fast, : NODES + 1 - slow] + values[fast, slow]
            np.maximum(best[fast:, slow:], left, out=best[fast:, slow:])
    return float(best[-1, -1])


def rows(draws: int, seed: int) -> Iterator[dict[str, float | int]]:
    """Yield what mixing gains, in the mean over draws and at most, by number of jobs and ratio of speeds."""
    for num in JOBS:
        for ratio in RATIOS:
            gained: dict[str, list[float]] = {"equal": [], "by speed": []}
            for draw in range(draws):
                jobs = drawn(np.random.default_rng([seed, num, draw]), num)
                alone = best_sum(jobs, ratio, "none")
                for mixing, found in gained.items():
                    found.append(100.0 * (best_sum(jobs, ratio, mixing) / alone - 1.0))
            yield {
                "jobs": num,
                "fast / slow": ratio,
                "equal shares: mean gain (%)": float(np.mean(gained["equal"])),
                "draws that gain": sum(gain > 1.0 for gain in gained["equal"]),
                "shares by speed: mean gain (%)": float(np.mean(gained["by speed"])),
            }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and write it to ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.malletrain.mixed_types", description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("malletrain-out/mixed_types.json"))
    given = parser.parse_args(arguments)
    made = list(rows(given.draws, given.seed))
    print("\n".join(markdown(made)))
    where = f"{given.draws} draws a row from seed {given.seed}, {NODES} nodes of either type"
    write_table(given.out, Table("paper_repro.malletrain.mixed_types", made, where))


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.malletrain.mixed_types"):
        main()

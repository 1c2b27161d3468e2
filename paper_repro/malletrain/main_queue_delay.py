"""What the main queue waits for the harvest: ``python -m paper_repro.malletrain.main_queue_delay``.

The same jobs of the main queue, of one to four nodes each, one after another on a real Slurm of eight nodes
on this machine: on idle nodes, and where the harvest holds every node before each of them, so that each has
to take nodes back. The two take turns in blocks, so that both see the same machine. Told is the time from
``srun`` to its end, of a job that does nothing. ``--busy K`` runs K busy processes beside it; ``--first``
lets the whole go before all else that this machine does (``SCHED_RR``; root), as on a quiet one. Every turn
on idle nodes waits until the load of a minute is that of the busy processes alone; where nodes are harvested
the trainers add theirs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from apportion.cli.running import in_one_line
from paper_repro.malletrain.harvesting import Harvest, numpy_trainer
from paper_repro.malletrain.one_machine import OneMachineSlurm
from paper_repro.tables import Table, markdown, write_table

__all__ = ["Delays", "hold_every_node", "main", "main_job", "measure"]

NODES = 8
_TRAINERS = 2
_SETTLING_S = 300.0  # the load of a minute has come within 1 % of what runs


def main_job(slurm: OneMachineSlurm, nodes: int = 1, command: str = "true") -> float:
    """Run a job of the main queue; return the seconds until it was over."""
    begun = time.monotonic()
    slurm.run(["srun", "-p", "main", f"-N{nodes}", "sh", "-c", command])
    return time.monotonic() - begun


def hold_every_node(harvest: Harvest) -> None:
    """Start a controller that leaves no node idle, with jobs that never end, and wait until it holds all."""
    harvest.start("--policy", "equal-share")
    for _ in range(_TRAINERS):
        harvest.submit(None, numpy_trainer())
    size = len(harvest.slurm.names)
    harvest.until(lambda jobs: sum(len(job["nodes"]) for job in jobs.values()) == size, "all are harvested")


def held(slurm: OneMachineSlurm) -> bool:
    """Return whether every node is held."""
    return set(slurm.node_states().values()) == {"allocated"}


@dataclass(slots=True)
class Delays:
    """Seconds of the same jobs, in the same order, without the harvest and with it; and the load after each.

    Attributes
    ----------
    without, harvested
        Seconds from ``srun`` to its end.
    loads_without, loads_harvested
        The machine's load over the last minute when each of them had ended.
    """

    without: list[float] = field(default_factory=list)
    harvested: list[float] = field(default_factory=list)
    loads_without: list[float] = field(default_factory=list)
    loads_harvested: list[float] = field(default_factory=list)

    def rows(self) -> Iterator[dict[str, float | str]]:
        """Yield the figures: of either, and of what the harvest adds job by job."""
        without, harvested = np.array(self.without), np.array(self.harvested)
        for name, seconds in (
            ("without", without),
            ("harvested", harvested),
            ("added", harvested - without),
        ):
            yield {
                "jobs": name,
                "median (s)": float(np.median(seconds)),
                "95th percentile (s)": float(np.quantile(seconds, 0.95)),
                "most (s)": float(seconds.max()),
            }


def measure(
    slurm: OneMachineSlurm, folder: Path, jobs: int, blocks: int, before: Callable[[], None] | None = None
) -> Iterator[Delays]:
    """Run `jobs` jobs without and with the harvest, in `blocks` turns; yield what is known after each.

    `before` is called before each turn.
    """
    delays = Delays()
    for block in range(blocks):
        if before is not None:
            before()
        sizes = [1 + number % 4 for number in range(block * jobs // blocks, (block + 1) * jobs // blocks)]
        for size in sizes:
            delays.without.append(main_job(slurm, size))
            delays.loads_without.append(os.getloadavg()[0])
        (own := folder / f"h{block}").mkdir()
        with Harvest(slurm, own) as harvest:
            hold_every_node(harvest)
            for size in sizes:
                slurm.wait_until(lambda: held(slurm), "all nodes are held", 60.0, 0.05)
                delays.harvested.append(main_job(slurm, size))
                delays.loads_harvested.append(os.getloadavg()[0])
            harvest.drain()
            assert harvest.process is not None
            harvest.process.wait(120.0)
        slurm.reset()
        yield delays


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Run processes that do nothing but compute."""
    with ExitStack() as stack:
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def settle(load: float) -> None:
    """Wait, but not for ever, until the load of the last minute is within 5 % and a half of `load`."""
    end = time.monotonic() + _SETTLING_S
    while abs(os.getloadavg()[0] - load) > 0.5 + 0.05 * load and time.monotonic() < end:
        time.sleep(1.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, and write it to ``--out`` as one of several by its name."""
    parser = argparse.ArgumentParser(
        prog="python -m paper_repro.malletrain.main_queue_delay", description=__doc__
    )
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--busy", type=int, default=0, metavar="K", help="busy processes beside it")
    parser.add_argument("--first", action="store_true", help="before all else that this machine does (root)")
    parser.add_argument("--out", type=Path, default=Path("malletrain-out/main_queue_delay.json"))
    given = parser.parse_args(arguments)
    with busy(given.busy), tempfile.TemporaryDirectory(prefix="slurm-") as name:
        if given.first:  # after the busy processes: what is started from here on inherits it
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        with OneMachineSlurm(Path(name) / "c", NODES) as slurm:
            settled = partial(settle, given.busy)
            for delays in measure(slurm, Path(name), given.jobs, given.blocks, settled):
                _tell(delays, given)


def _tell(delays: Delays, given: argparse.Namespace) -> None:
    rows = [dict(row) for row in delays.rows()]
    print("\n".join(markdown(rows)))
    how = f"{given.busy} busy processes" + (", before all else on the machine" if given.first else "")
    apart = f"load {_middle(delays.loads_without)} without and {_middle(delays.loads_harvested)} harvested"
    where = f"{len(delays.without)} jobs of one to four of {NODES} nodes each way, {how}, {apart}"
    print(where, flush=True)
    write_table(given.out, Table("paper_repro.malletrain.main_queue_delay", rows, where))


def _middle(loads: Sequence[float]) -> str:
    """Return the median of loads, and the nine tenths in the middle."""
    least, median, most = np.quantile(loads, (0.05, 0.5, 0.95))
    return f"{median:.1f} ({least:.1f} to {most:.1f})"


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.malletrain.main_queue_delay"):
        main()

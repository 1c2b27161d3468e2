"""A random sequence of faults on a cluster, played to its end; and a process that plays one after another."""

from __future__ import annotations

import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from paper_repro.malletrain.harvesting import Harvest, numpy_trainer
from paper_repro.malletrain.one_machine import OneMachineSlurm, SlurmFailed

from tests.live_slurm.faults import CLOCKS, FAULTS, Site
from tests.live_slurm.machines import Machines
from tests.live_slurm.test_harvest import assert_nothing_is_left, assert_trained
from tests.patience import slower

__all__ = ["Played", "drawn", "play", "play_all"]

_OVER_S = 300.0
_LEASE = ("--lease", "10")
"""What waits for a lease here waits seconds; the order of lease, grace and margin is as ever."""
_STARTS = 5
_MET = ("node_lost", "node_leaves", "failure", "trouble", "orphan", "refused")
_UNHEARD = "its agent is not heard of"


@dataclass(frozen=True, slots=True)
class Played:
    """A sequence that was played.

    Attributes
    ----------
    met
        How often the controller met what faults are to bring about, by the journal's word for it.
    broken
        What broke, ``None`` if nothing did.
    """

    number: int
    site: str
    faults: tuple[str, ...]
    seconds: float
    met: Mapping[str, int]
    broken: str | None = None


def drawn(chance: random.Random, clocks: bool = True) -> list[str]:
    """Return the faults of a sequence: a few of any kind, and a death of the controller."""
    kinds = sorted(FAULTS if clocks else FAULTS.keys() - CLOCKS)
    faults = [*chance.choices(kinds, k=chance.randint(2, 6)), "kill_controller"]
    chance.shuffle(faults)
    return faults


def play(
    slurm: OneMachineSlurm,
    folder: Path,
    faults: Sequence[str],
    chance: random.Random,
    library: Path | None = None,
) -> Counter[str]:
    """Play a sequence to its end; return how often the controller met what.

    Parameters
    ----------
    slurm
        The cluster, every node idle.
    folder
        An empty one.
    faults
        Names of `FAULTS`.
    chance
        Draws moments and places.
    library
        As of `tests.live_slurm.machines.wall_clock`, for faults of `CLOCKS`.

    Raises
    ------
    AssertionError, SlurmFailed
        If something happened that must never happen, or jobs do not end.
    """
    with ExitStack() as stack:
        machines = Machines(folder / "machines", slurm.names, library)
        stack.callback(machines.close)
        variables = {} if machines.controller is None else machines.controller.environment()
        options = (*_LEASE, "--python", str(machines.python))
        harvest = stack.enter_context(Harvest(slurm, folder, *options, variables=variables))
        harvest.start()
        jobs = [harvest.submit(6_000, numpy_trainer()), harvest.submit(5_000, numpy_trainer("1:300,4:700"))]
        harvest.until(lambda held: any(held[job]["samples"] for job in jobs), "they train")
        site = Site(slurm, harvest, machines, chance)
        stack.callback(site.heal)
        for fault in faults:
            FAULTS[fault](site)
            time.sleep(chance.uniform(0.0, 2.0))
        site.end()
        ended = harvest.until_over(_OVER_S)
        for job in jobs:
            assert_trained(ended[job])
        harvest.drain()
        assert_nothing_is_left(harvest)
        return _met(harvest)


def _met(harvest: Harvest) -> Counter[str]:
    told = [str(event.get("event")) for event in harvest.journal()]
    unheard = [event for event in harvest.events("release") if event.get("why") == _UNHEARD]
    return Counter({**{name: told.count(name) for name in _MET}, _UNHEARD: len(unheard)})


def play_all(
    seed: int,
    nodes: int,
    base: Path,
    keep: Path,
    library: Path | None,
    numbers: SimpleQueue[int | None],
    told: SimpleQueue[Played | None],
) -> None:
    """Play the sequences whose numbers come, on a cluster of this process's own, until ``None`` comes.

    All happens in the folder `base`, whose processes the caller's witness looks at. What a broken one leaves
    behind is kept in a folder of `keep`, and the next begins on a new cluster.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when it is over
    number: int | None = None
    over = False
    try:
        while not over:
            with _cluster(nodes, base) as slurm:
                while True:
                    if (number := numbers.get()) is None:
                        over = True
                        break
                    told.put(played := _played(slurm, base, seed, number, keep, library))
                    if played.broken is not None:
                        break
    finally:
        told.put(None)


@contextmanager
def _cluster(nodes: int, base: Path) -> Iterator[OneMachineSlurm]:
    """Start a cluster, again where another one beside it took its ports first."""
    for start in range(_STARTS):
        slurm = OneMachineSlurm(Path(tempfile.mkdtemp(prefix="c", dir=base)), nodes, slowness=slower)
        try:
            slurm.start()
            break
        except SlurmFailed:
            slurm.stop()
            if start == _STARTS - 1:
                raise
    try:
        yield slurm
    finally:
        slurm.stop()


def _played(
    slurm: OneMachineSlurm, base: Path, seed: int, number: int, keep: Path, library: Path | None
) -> Played:
    chance = random.Random(f"{seed} {number}")
    faults, began, broken = drawn(chance, library is not None), time.monotonic(), None
    met = Counter[str]()
    (folder := base / f"s{number}").mkdir()
    try:
        met = play(slurm, folder, faults, chance, library)
        slurm.reset()
    except Exception as error:
        broken = "".join(traceback.format_exception(error, limit=-3))
        kept = keep / f"sequence-{seed}-{number}"
        shutil.copytree(folder, kept, dirs_exist_ok=True)
        with suppress(OSError):
            shutil.copytree(slurm.folder / "log", kept / "slurm-log", dirs_exist_ok=True)
        (kept / "broken.txt").write_text(f"{', '.join(faults)}\n{broken}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    site = f"{base.name}/{folder.name}"
    return Played(number, site, tuple(faults), time.monotonic() - began, met, broken)

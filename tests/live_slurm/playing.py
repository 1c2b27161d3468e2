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
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from paper_repro.malletrain.harvesting import Harvest, numpy_trainer
from paper_repro.malletrain.one_machine import OneMachineSlurm, SlurmFailed

from apportion.live.controller.core import Limits
from apportion.live.controller.observing import fence_s
from tests.live_slurm.faults import CLOCKS, FAULTS, LASTING, SHORT_S, Site
from tests.live_slurm.machines import Machines
from tests.live_slurm.test_harvest import assert_nothing_is_left, assert_trained
from tests.patience import slower

__all__ = ["Course", "Played", "drawn", "play", "play_all"]

_OVER_S = 300.0
_LEASE_S = 10.0
"""What waits for a lease here waits seconds; the order of lease, grace and margin is as ever."""
_FENCE_S = fence_s(Limits(lease_s=_LEASE_S))
_LONG_S = (_FENCE_S + 2.0, _FENCE_S + 15.0)
_LONG_SHARE = 0.4
_GOALS, _LONG_GOALS = (6_000, 5_000), (40_000, 20_000)
"""Samples of the two jobs: some seconds, or about a minute, where nothing goes wrong."""
_STARTS = 5
_MET = ("node_lost", "node_leaves", "failure", "trouble", "orphan", "refused")
_UNHEARD = "its agent is not heard of"


@dataclass(frozen=True, slots=True)
class Course:
    """What is to happen in a sequence.

    Attributes
    ----------
    faults
        Names of `FAULTS`.
    long
        Whether jobs last a minute, and partitions longer than lease, grace and margin together.
    """

    faults: tuple[str, ...]
    long: bool = False


@dataclass(frozen=True, slots=True)
class Played:
    """A sequence that was played.

    Attributes
    ----------
    met
        How often the controller met what faults are to bring about, by the journal's word for it, and how
        many partitions outlasted what.
    broken
        What broke, ``None`` if nothing did.
    """

    number: int
    site: str
    course: Course
    seconds: float
    met: Mapping[str, int]
    broken: str | None = None


def drawn(chance: random.Random, clocks: bool = True) -> Course:
    """Return a sequence: a few faults of any kind, and a death of the controller.

    In a share of them partitions, splits and frozen processes outlast all waits for them; one at least.
    """
    kinds = sorted(FAULTS if clocks else FAULTS.keys() - CLOCKS)
    faults = [*chance.choices(kinds, k=chance.randint(2, 6)), "kill_controller"]
    long = chance.random() < _LONG_SHARE
    faults += [chance.choice(LASTING)] if long else []
    chance.shuffle(faults)
    return Course(tuple(faults), long)


def play(
    slurm: OneMachineSlurm,
    folder: Path,
    course: Course,
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
    course
        What happens.
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
        options = ("--lease", str(_LEASE_S), "--python", str(machines.python))
        harvest = stack.enter_context(Harvest(slurm, folder, *options, variables=variables))
        harvest.start()
        curves = (numpy_trainer(), numpy_trainer("1:300,4:700"))
        goals = _LONG_GOALS if course.long else _GOALS
        jobs = [harvest.submit(goal, curve) for goal, curve in zip(goals, curves, strict=True)]
        harvest.until(lambda held: any(held[job]["samples"] for job in jobs), "they train")
        site = Site(slurm, harvest, machines, chance, _LONG_S if course.long else SHORT_S)
        stack.callback(site.heal)
        for fault in course.faults:
            FAULTS[fault](site)
            time.sleep(chance.uniform(0.0, 2.0))
        site.end(wait=course.long or chance.random() < 0.5)
        ended = harvest.until_over(_OVER_S)
        for job in jobs:
            assert_trained(ended[job])
        harvest.drain()
        assert_nothing_is_left(harvest)
        return _met(harvest) + Counter(
            {
                "partitions longer than a lease": site.outlasted(_LEASE_S),
                "than lease, grace and margin": site.outlasted(_FENCE_S),
            }
        )


def _met(harvest: Harvest) -> Counter[str]:
    """Return how often what was met; a pilot that was lost for a lease had a rank that may have gone on."""
    events = harvest.journal()
    told = [str(event.get("event")) for event in events]
    unheard = [event for event in events if event.get("why") == _UNHEARD]
    lost_s = {event["pilot"]: float(event["time_s"]) for event in events if event.get("event") == "node_lost"}
    waited = [
        float(event["time_s"]) - lost_s[event["pilot"]]
        for event in events
        if event.get("event") == "node_gone" and event.get("pilot") in lost_s
    ]
    return Counter(
        {
            **{name: told.count(name) for name in _MET},
            _UNHEARD: len(unheard),
            "waited for a lease": sum(seconds > _LEASE_S for seconds in waited),
        }
    )


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
    course, began, broken = drawn(chance, library is not None), time.monotonic(), None
    met = Counter[str]()
    (folder := base / f"s{number}").mkdir()
    try:
        met = play(slurm, folder, course, chance, library)
        slurm.reset()
    except Exception as error:
        broken = "".join(traceback.format_exception(error, limit=-3))
        kept = keep / f"sequence-{seed}-{number}"
        shutil.copytree(folder, kept, dirs_exist_ok=True)
        with suppress(OSError):
            shutil.copytree(slurm.folder / "log", kept / "slurm-log", dirs_exist_ok=True)
        (kept / "broken.txt").write_text(f"{', '.join(course.faults)}\n{broken}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    site = f"{base.name}/{folder.name}"
    return Played(number, site, course, time.monotonic() - began, met, broken)

"""A controller on a real cluster: put together, run until it is drained, or asked only what it would do.

What is kept of every step beside the state: the journal with its accounts, and Prometheus's file.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from apportion.cluster.policies.gap_filling_view import Policy
from apportion.core.errors import InvalidOption
from apportion.core.files import private_folder
from apportion.live.cluster import Channel, Cluster, continued
from apportion.live.controller.advisor import LiveAdvisor
from apportion.live.controller.controller import Controller, Stepped
from apportion.live.controller.core import Draft, Limits, Memory
from apportion.live.controller.deciding import Decision, decide
from apportion.live.controller.observing import list_pilots, see_offers
from apportion.live.record import requests
from apportion.live.record.journal import HarvestTotals, Journal
from apportion.live.record.requests import with_requests
from apportion.live.record.state import State
from apportion.live.record.store import Lock, Store, read_state
from apportion.live.slurm.cluster import SlurmCluster, require_commands
from apportion.live.slurm.commands import TimedCluster

if TYPE_CHECKING:
    from apportion.live.controller.monitoring import HarvestMetrics

__all__ = ["Keeping", "Settings", "cancel_pilots", "harvest", "make_policy", "rehearse"]


class Keeping:
    """Looks on at every step; nothing of the controller depends on it.

    Parameters
    ----------
    folder
        The state folder, with its lock held.
    cluster
        The scheduler; `cluster` of this object is to be used in its place.
    journal_bytes, journal_files
        Of the journal.
    account_s
        How often an account is closed.
    metrics
        Prometheus's file, ``None`` for none.
    then
        Called after every step.
    """

    def __init__(
        self,
        folder: Path,
        cluster: Cluster,
        journal_bytes: int,
        journal_files: int,
        account_s: float,
        metrics: HarvestMetrics | None,
        then: Callable[[Controller, Stepped], None],
    ) -> None:
        self.journal, self.ledger = Journal(folder, journal_bytes, journal_files), HarvestTotals()
        self.cluster = TimedCluster(cluster, self._answered)
        self._account_s, self._metrics, self._then = account_s, metrics, then
        self._due_s: float | None = None
        self._decided_s: float | None = None
        self._last: Controller | None = None

    def __call__(self, controller: Controller, stepped: Stepped) -> None:
        """Keep a step."""
        now_s = controller.clock()
        self._last = controller
        self.ledger.step(controller.state, self.cluster.idle, now_s)
        self.journal.write(stepped.events)
        if self._metrics is not None:
            kinds = [str(event["event"]) for event in stepped.events]
            decided_s, self._decided_s = self._decided_s, controller.core.memory.decided_s
            decided = self._decided_s is not None and self._decided_s != decided_s
            self._metrics.stepped(kinds, decided, stepped.trouble is not None)
        if self._due_s is None or now_s >= self._due_s:
            self._due_s = now_s + self._account_s
            self._close(controller, now_s)
        self._then(controller, stepped)

    def close(self) -> None:
        """Close the account and the journal."""
        if self._last is not None:
            self._close(self._last, self._last.clock())
        self.journal.close()

    def _answered(self, asked: str, seconds: float, answered: bool) -> None:
        if self._metrics is not None:
            self._metrics.answered(asked, seconds, answered)

    def _close(self, controller: Controller, now_s: float) -> None:
        account = self.ledger.close()
        if account.seconds > 0:
            self.journal.write([account.event(now_s)])
        if self._metrics is not None:
            with contextlib.suppress(OSError):  # no reason to leave the nodes
                self._metrics.write(controller.state, self.ledger.nodes, account)


_SPOOL_S = 0.5
_BREATH_S = 0.05
"""Rest between two steps, so that reports which come in a row are taken in together."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a controller is told.

    Attributes
    ----------
    folder
        The state folder.
    partition
        Slurm's partition for pilots.
    host, port
        Where the report channel listens; without a port, the one chosen first is kept.
    policy
        A name of `apportion.cluster.policies.names.POLICIES`.
    limits
        Times and limits.
    python
        The interpreter on the nodes.
    options
        Further options for ``sbatch``.
    output
        How Slurm is asked: ``auto``, ``json`` or ``text``.
    gres
        What pilots take one by one, such as ``gpu``; ``None``: whole nodes.
    types
        Features of nodes by which jobs tell their types apart, in words of `types_of`.
    journal_mb, journal_files
        The journal's files are of about so many MiB each, and so many are kept.
    account_s
        How often what nodes and jobs did is added up in the journal and in the metrics.
    metrics
        Prometheus's text file, ``None`` for none.
    """

    folder: Path
    partition: str
    host: str = "127.0.0.1"
    port: int | None = None
    policy: str = "malletrain"
    limits: Limits = field(default_factory=Limits)
    python: str = sys.executable
    options: tuple[str, ...] = ()
    output: str = "auto"
    gres: str | None = None
    types: tuple[str, ...] = ()
    journal_mb: int = 16
    journal_files: int = 8
    account_s: float = 15.0
    metrics: Path | None = None


def make_policy(name: str, horizon_s: float, limits: Limits, advisor: LiveAdvisor) -> Policy:
    """Return a policy; one that profiles shares its estimator with the advisor.

    MalleTrain's decision maximises speed-ups on one node here: samples of unlike jobs do not compare, and a
    job cannot win nodes by exaggerating its speed as a whole.
    """
    from apportion.cluster.policies.malletrain import MalleTrain
    from apportion.cluster.policies.names import policy

    made = policy(name, horizon_s)
    if name == "malletrain":
        measure_s = limits.warm_up_s + limits.measure_s
        return MalleTrain(horizon_s, relative=True, measure_s=measure_s, advisor=advisor.profiling)
    return made


def harvest(
    settings: Settings,
    at: Callable[[str], None] = lambda point: None,
    on_step: Callable[[Controller, Stepped], None] = lambda controller, stepped: None,
) -> None:
    """Run a controller until it is drained; SIGINT and SIGTERM drain it, a second one ends it at once.

    Parameters
    ----------
    settings
        What it is told.
    at
        Called at every point of a step (`apportion.live.controller.controller.POINTS`), for tests.
    on_step
        Called after every step.

    Raises
    ------
    InUse
        If another controller works on the folder.
    EncryptionMissing
        If no certificate for the report channel can be made.
    SchedulerMissing, ClusterUnreachable, InvalidOption
        If Slurm, or its partition, is not there when it begins.
    """
    from apportion.live.channel.reports import ReportServer, controllers_certificate

    folder = private_folder(settings.folder)
    with Lock(folder):
        require_commands()  # before a port or a certificate is thought of
        store = Store(folder)
        try:
            state = store.load()
            certificate = controllers_certificate(folder, keep=_held(state))
            server = _listening(settings, state, partial(ReportServer, certificate))
            try:
                state.port = int(server.address.rpartition(":")[2])
                clock, state.boot, state.ahead_s = continued(state.boot, state.ahead_s, state.newest_s)
                store.commit(state, clock())
                cluster = SlurmCluster(
                    settings.partition,
                    state.instance,
                    folder,
                    server.address,
                    certificate.fingerprint,
                    settings.python,
                    settings.options,
                    settings.output,
                    gres=settings.gres,
                    types=settings.types,
                )
                warning = cluster.check()
                with closing(_keeping(settings, folder, cluster, on_step)) as kept:
                    _run(settings, folder, store, kept.cluster, server, clock, warning, at, kept)
            finally:
                server.close()
        finally:
            store.close()


def _keeping(
    settings: Settings, folder: Path, cluster: Cluster, on_step: Callable[[Controller, Stepped], None]
) -> Keeping:
    metrics: HarvestMetrics | None = None
    if settings.metrics is not None:
        from apportion.live.controller.monitoring import HarvestMetrics

        metrics = HarvestMetrics(settings.metrics)
    size = settings.journal_mb * 2**20
    return Keeping(folder, cluster, size, settings.journal_files, settings.account_s, metrics, on_step)


def _held(state: State) -> bool:
    return any(pilot.live for pilot in state.pilots.values())


def _listening(settings: Settings, state: State, server: Callable[..., Channel]) -> Channel:
    port = state.port if settings.port is None else settings.port
    pulse_s = max(min(5.0, settings.limits.lease_s / 4), 0.05)
    try:
        return server(settings.host, port or 0, lease_s=settings.limits.lease_s, pulse_s=pulse_s)
    except OSError as error:
        held = _held(state)
        if settings.port is None and port is not None and not held:
            return server(settings.host, 0, lease_s=settings.limits.lease_s, pulse_s=pulse_s)
        hint = f"; pilots of an earlier controller look for it at port {port}" if held else ""
        raise InvalidOption(f"cannot listen on {settings.host} port {port}: {error}{hint}") from None


def _run(
    settings: Settings,
    folder: Path,
    store: Store,
    cluster: Cluster,
    channel: Channel,
    clock: Callable[[], float],
    warning: str | None,
    at: Callable[[str], None],
    on_step: Callable[[Controller, Stepped], None],
) -> None:
    limits = settings.limits
    advisor = LiveAdvisor(limits.warm_up_s, limits.measure_s)
    policies = partial(make_policy, settings.policy, limits.horizon_s, limits)
    parts = store, cluster, channel, policies(advisor), advisor, limits, folder, clock, at
    controller = Controller(*parts, policies)
    began: dict[str, object] = {
        "time_s": round(clock(), 3),
        "event": "began",
        "instance": controller.state.instance,
        "address": channel.address,
        "state": str(folder),
        "policy": settings.policy,
    }
    if warning is not None:
        began["warning"] = warning
    if controller.state.draining:
        began["draining"] = "an earlier drain was cut off and goes on"
    on_step(controller, Stepped([began]))
    with _draining_on_signals() as asked:
        while True:
            if asked.is_set():
                controller.drain()
            stepped = controller.step(min(_SPOOL_S, limits.interval_s))
            on_step(controller, stepped)
            if stepped.finished:
                controller.finish_drain()
                return
            time.sleep(_BREATH_S)


@contextmanager
def _draining_on_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set; a second one raises `KeyboardInterrupt`."""
    asked = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def rehearse(settings: Settings, cluster: Cluster | None = None) -> Decision:
    """Return what a controller would decide now; nothing is written, taken, told or given back."""
    folder = Path(settings.folder).expanduser().absolute()
    asked_for = [waiting.request for waiting in requests.waiting(folder)[0]]  # first: else one may be missed
    state = read_state(folder) or State(instance="00000000")
    now_s = continued(state.boot, state.ahead_s, state.newest_s)[0]()
    with_requests(state, asked_for, now_s)
    if cluster is None:
        cluster = SlurmCluster(
            *(settings.partition, state.instance, folder, "nowhere:1", ""),
            output=settings.output,
            gres=settings.gres,
            types=settings.types,
        )
        cluster.check()
    seen = cluster.look()
    draft = Draft(state, Memory(), settings.limits, now_s)
    list_pilots(draft, seen, ())
    see_offers(draft, seen)
    advisor = LiveAdvisor(settings.limits.warm_up_s, settings.limits.measure_s)
    advisor.recall(state.jobs.values())
    limits = settings.limits
    policies = partial(make_policy, settings.policy, limits.horizon_s, limits)
    asked = policies, advisor, limits, now_s, frozenset(state.pilots)
    return decide(state, draft.memory.idle.known(now_s), *asked)


def cancel_pilots(folder: Path) -> int:
    """End every pilot of a folder that no controller works on; return how many there were.

    Their trainers fall back to their last checkpoints. The records catch up when a controller starts.
    """
    with Lock(folder):
        state = read_state(folder)
        if state is None:
            return 0
        cluster = SlurmCluster("none", state.instance, folder, "nowhere:1", "")
        pilots = [pilot for pilot in cluster.pilots() if pilot.state.value in ("pending", "running")]
        for pilot in pilots:
            cluster.release(pilot.handle)
        return len(pilots)

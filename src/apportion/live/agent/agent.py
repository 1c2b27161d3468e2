"""The agent: runs on a node under a pilot job, starts and stops one rank at a time, and reports.

It does what its controller says and nothing else; it knows the controller by its certificate's fingerprint.
The node is Slurm's: at SIGTERM the rank has a twentieth of a second, then it and the agent are gone. The
pilot job starts it as
``python -m apportion.live.agent.agent --controller HOST:PORT --certificate SHA256 --pilot ID`` with the
pilot's secret in ``APPORTION_PILOT_TOKEN``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeVar

from apportion.live.agent.local_reports import LocalReports
from apportion.live.agent.rank import Rank, adopt_orphans, hear_of_parents_end
from apportion.live.channel.link import ControllerLink
from apportion.live.channel.messages import (
    Acknowledge,
    AgentMessage,
    ControllerMessage,
    Exited,
    Hello,
    Leave,
    Leaving,
    Progress,
    RankRefused,
    Ready,
    Run,
    Running,
    Stop,
    TrainerLine,
    Welcome,
    grace_after_lease,
)
from apportion.live.cluster import steady_s

__all__ = ["Agent", "main"]

FIRST_LEASE_S = 120.0
"""How long to look for the controller before it has said what the lease is."""
PREEMPT_GRACE_S = 0.05
"""slurmd looks after a job that it ends at growing intervals: one that is gone within a tenth of a second
costs the main queue about as much, one that takes two tenths costs seven."""
REMEMBERED = 256

Name = tuple[str, int]
Kept = TypeVar("Kept")


class Agent:
    """One node's agent.

    Parameters
    ----------
    host, port
        The controller.
    fingerprint
        SHA-256 of its certificate, in hexadecimal digits.
    pilot
        This pilot's id.
    token
        Its secret.
    preempt_grace_s
        Seconds a rank has from SIGTERM to SIGKILL when the scheduler wants the node back.
    """

    def __init__(
        self,
        host: str,
        port: int,
        fingerprint: str,
        pilot: str,
        token: str,
        preempt_grace_s: float = PREEMPT_GRACE_S,
    ) -> None:
        self.pilot, self.preempt_grace_s, self._token = pilot, preempt_grace_s, token
        self.node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        self._selector = selectors.DefaultSelector()
        self._reports = LocalReports(self._selector)
        self._link = ControllerLink(self._selector, host, port, fingerprint, self._hello)
        self._here = ""
        self._kept_port: socket.socket | None = None
        self._rank: Rank | None = None
        self._exits: OrderedDict[Name, Exited] = OrderedDict()
        self._unacknowledged: set[Name] = set()
        self._never: OrderedDict[Name, None] = OrderedDict()
        self._relayed_s = 0.0
        self._relayed: TrainerLine | None = None
        self._pulse_due_s = 0.0
        self._leaving: str | None = None
        self._terminated = False
        self._parent = os.getppid()

    # -- the loop ------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Serve until the controller, the scheduler or the lease says otherwise; return the exit code."""
        adopt_orphans()
        reading, writing = socket.socketpair()
        for end in (reading, writing):
            end.setblocking(False)
        before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, self._signalled)
        hear_of_parents_end()
        self._selector.register(reading, selectors.EVENT_READ)
        try:
            while not (self._leaving is not None and self._rank is None):
                self._turn(reading)
            self._link.flush(0.1)
        finally:
            if self._rank is not None:
                self._rank.stop(0.0)
                self._rank.look()
            signal.set_wakeup_fd(before)
        return 0

    def _turn(self, wakeups: socket.socket) -> None:
        for key, events in self._selector.select(self._wait_s()):
            if key.data is self._link:
                for message in self._link.handle(events):
                    self._obey(message)
            elif key.data is self._reports:
                self._reports.handle(key)
            elif key.data is self._rank and self._rank is not None:
                if not self._rank.read_output():
                    self._selector.unregister(self._rank.output)
            elif key.fileobj is wakeups:
                with contextlib.suppress(BlockingIOError):
                    while wakeups.recv(4096):
                        pass
        self._reports.resume()
        if self._terminated and self._leaving is None:
            self._leave("the scheduler ends the pilot", self.preempt_grace_s)
        if os.getppid() != self._parent and self._leaving is None:
            self._leave("the scheduler's process that started it is gone", self.preempt_grace_s)
        self._look_at_the_rank()
        self._relay()
        self._link.tend()
        self._keep_time()

    def _wait_s(self) -> float:
        now = time.monotonic()
        leased_s = now + self._link.leased_s + self._lease_s() - steady_s()
        dues = [self._link.due_s(), self._pulse_due_s, leased_s]
        if (resume := self._reports.resume_at_s()) is not None:
            dues.append(resume)
        if self._rank is not None:
            if self._rank.kill_at_s is not None:
                dues.append(self._rank.kill_at_s)
            if self._reports.newest is not self._relayed:
                dues.append(self._relayed_s + self._rank.run.report_every_s)
        return min(max(0.0, min(dues) - now) + 0.001, 5.0)

    def _signalled(self, number: int, frame: object) -> None:
        if number != signal.SIGCHLD:
            self._terminated = True

    # -- what the controller says --------------------------------------------------------------------------

    def _obey(self, message: ControllerMessage) -> None:
        if isinstance(message, Welcome):
            self._pulse_due_s = 0.0  # how often to say so is known only now
            self._say_again()
        elif isinstance(message, Run):
            self._start(message)
        elif isinstance(message, Stop):
            self._stop(message)
        elif isinstance(message, Acknowledge):
            self._unacknowledged.discard((message.job, message.generation))
        elif isinstance(message, Leave):
            self._leave("told to leave", message.grace_s)

    def _start(self, run: Run) -> None:
        name = (run.job, run.generation)
        if self._rank is not None and name == (self._rank.run.job, self._rank.run.generation):
            return
        if name in self._exits:
            self._say(self._exits[name])
        elif name in self._never:
            self._say(RankRefused(*name, reason="it was told to stop before it began"))
        elif self._leaving is not None:
            self._say(RankRefused(*name, reason=f"leaving: {self._leaving}"))
        elif self._rank is not None:
            other = self._rank.run
            self._say(RankRefused(*name, reason=f"{other.job}, generation {other.generation}, runs here"))
        else:
            self._begin(run)

    def _begin(self, run: Run) -> None:
        self._reports.expect(run.token)
        self._relayed, self._relayed_s = None, 0.0
        if run.rank == 0 and self._kept_port is not None:
            self._kept_port.close()  # the trainer binds it now
            self._kept_port = None
        try:
            end_s = self._link.leased_s + self._lease_s() + grace_after_lease(self._lease_s())
            self._rank = Rank(run, os.environ, self._reports.port, end_s)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            said = f"cannot start {run.command[0] if run.command else 'nothing'}: {error}"
            self._book(Exited(run.job, run.generation, run.rank, run.token, None, False, None, said[:1000]))
        else:
            self._selector.register(self._rank.output, selectors.EVENT_READ, self._rank)
        if run.rank == 0:
            self._say(Ready(self._keep_port()))

    def _stop(self, stop: Stop) -> None:
        name = (stop.job, stop.generation)
        if self._rank is not None and name == (self._rank.run.job, self._rank.run.generation):
            self._rank.stop(stop.grace_s)
        elif name in self._exits:
            self._say(self._exits[name])
        else:
            self._never[name] = None
            _forget_oldest(self._never)
            self._say(RankRefused(*name, reason="it never ran here, and will not"))

    def _leave(self, reason: str, grace_s: float) -> None:
        if self._leaving is None:
            self._leaving = reason
            self._say(Leaving(reason))
        if self._rank is not None:
            self._rank.stop(grace_s)

    # -- the rank ------------------------------------------------------------------------------------------

    def _look_at_the_rank(self) -> None:
        rank = self._rank
        if rank is None or not rank.look():
            return
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(rank.output)
        self._reports.drain()
        run = rank.run
        last = self._progress(rank, self._reports.newest, self._reports.at_s)
        self._rank = None
        code, asked = rank.code, rank.asked
        self._book(Exited(run.job, run.generation, run.rank, run.token, code, asked, last, rank.tail()))

    def _relay(self) -> None:
        """Pass the newest report on, not more often than asked; the first and the last at once."""
        newest, rank = self._reports.newest, self._rank
        if rank is None or newest is None or newest is self._relayed:
            return
        now, before = time.monotonic(), self._relayed
        at_once = before is None or (newest.done and not before.done)
        if at_once or now >= self._relayed_s + rank.run.report_every_s:
            self._relayed, self._relayed_s = newest, now
            if (message := self._progress(rank, newest, self._reports.at_s)) is not None:
                self._say(message)

    def _progress(self, rank: Rank, line: TrainerLine | None, at_s: float) -> Progress | None:
        if line is None:
            return None
        run = rank.run
        return Progress(
            job=run.job,
            generation=run.generation,
            rank=run.rank,
            token=run.token,
            elapsed_s=max(0.0, at_s - rank.started_s),
            samples=line.samples,
            step=line.step,
            durable=line.durable,
            rate=line.rate,
            loss=line.loss,
            done=line.done,
            dropped=self._reports.dropped,
        )

    def _book(self, exited: Exited) -> None:
        name = (exited.job, exited.generation)
        self._exits[name] = exited
        _forget_oldest(self._exits)
        self._unacknowledged = (self._unacknowledged | {name}) & self._exits.keys()
        self._say(exited)

    # -- saying --------------------------------------------------------------------------------------------

    def _hello(self, here: str) -> Hello:
        self._here = here
        rank = self._rank
        running = Running(rank.run.job, rank.run.generation, rank.run.rank) if rank is not None else None
        return Hello(self.pilot, self._token, here, self._keep_port(), self.node, running)

    def _keep_port(self) -> int:
        """Return a port of this node that stays free for the next rendezvous: bound, not listened on."""
        if self._kept_port is None:
            family = socket.AF_INET6 if ":" in self._here else socket.AF_INET
            self._kept_port = socket.socket(family)
            self._kept_port.bind((self._here, 0))
        port: int = self._kept_port.getsockname()[1]
        return port

    def _say(self, message: AgentMessage) -> None:
        self._link.send(message)

    def _say_again(self) -> None:
        for name in sorted(self._unacknowledged):
            self._say(self._exits[name])
        if self._leaving is not None:
            self._say(Leaving(self._leaving))
        if self._rank is not None:
            self._relayed = None  # the controller may be a new one

    def _lease_s(self) -> float:
        return self._link.welcome.lease_s if self._link.welcome is not None else FIRST_LEASE_S

    def _keep_time(self) -> None:
        now = time.monotonic()
        end_s, grace_s = self._link.leased_s + self._lease_s(), grace_after_lease(self._lease_s())
        if self._rank is not None:
            self._rank.watch(end_s + grace_s)
        if steady_s() > end_s and self._leaving is None:
            self._leave("nothing heard of the controller", grace_s)
        if now >= self._pulse_due_s:
            self._pulse_due_s = now + (self._link.welcome.pulse_s if self._link.welcome is not None else 1.0)
            self._link.pulse()
            for name in sorted(self._unacknowledged):
                self._say(self._exits[name])


def _forget_oldest(names: OrderedDict[Name, Kept]) -> None:
    while len(names) > REMEMBERED:
        names.popitem(last=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an agent until it is told to leave; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m apportion.live.agent.agent", description="Runs on a node."
    )
    parser.add_argument("--controller", required=True, metavar="HOST:PORT")
    parser.add_argument("--certificate", required=True, metavar="SHA256", help="the controller's, 64 digits")
    parser.add_argument("--pilot", required=True)
    parser.add_argument("--preempt-grace", type=float, default=PREEMPT_GRACE_S, metavar="S")
    given = parser.parse_args(arguments)
    token = os.environ.pop("APPORTION_PILOT_TOKEN", "")
    host, _, port = given.controller.rpartition(":")
    complete = 16 <= len(token) <= 128 and host and port.isdecimal()
    if not complete or not re.fullmatch("[0-9a-fA-F]{64}", given.certificate):
        said = "APPORTION_PILOT_TOKEN, --controller or --certificate is missing or wrong"
        print(f"apportion.live.agent.agent: {said}", file=sys.stderr)
        return 2
    at = (host.strip("[]"), int(port))
    return Agent(*at, given.certificate.lower(), given.pilot, token, given.preempt_grace).run()


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the main queue waits: there is nothing to tidy up that the end does not

"""One rank of a trainer as a process group of its own: started, told to stop, ended for good.

A watchdog beside it (`apportion.live.agent.watching`) is a process of its own that shares nothing with the
agent but a pipe, and ends the rank's processes at a deadline. The agent moves the deadline on for as long as
its controller renews the lease; an agent that is stopped, hangs or dies moves it on no more. The kernel is
asked to take children along when their parent ends, or to tell them (Linux).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from apportion.live.agent import watching
from apportion.live.agent.watching import children_of
from apportion.live.channel.messages import Run
from apportion.live.trainer_protocol import claim

__all__ = ["Rank", "Watchdog", "adopt_orphans", "die_with_parent", "environment_of", "hear_of_parents_end"]


_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def adopt_orphans() -> None:
    """Become the parent of what a trainer's processes leave behind, so that it can be ended."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have this process killed when its parent ends."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def hear_of_parents_end() -> None:
    """Have this process told by SIGCHLD when its parent ends, or a thread of it: whoever hears it looks."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGCHLD)


_LEAST_STEP_S = 0.2


class Watchdog:
    """The watchdog of one rank.

    Parameters
    ----------
    group
        The process group of the rank, led by the process it began with.
    deadline_s
        When to end it, by `apportion.live.cluster.steady_s`.

    Attributes
    ----------
    deadline_s
        When it ends the rank now.

    Raises
    ------
    OSError
        If it cannot be started.
    """

    def __init__(self, group: int, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        command = [sys.executable, "-I", "-S", watching.__file__]
        self._process = subprocess.Popen(
            [*command, str(group), str(os.getpid()), str(os.getppid()), repr(deadline_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        os.set_blocking(self._pipe, False)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def move(self, deadline_s: float) -> None:
        """Set a later deadline; an earlier one, or one that differs by next to nothing, is passed over."""
        assert self._process.stdin is not None
        if self._process.stdin.closed or deadline_s < self.deadline_s + _LEAST_STEP_S:
            return
        with contextlib.suppress(OSError):  # a watchdog that is gone, or does not read, keeps its deadline
            os.write(self._pipe, watching.DEADLINE.pack(deadline_s))
            self.deadline_s = deadline_s

    def close(self) -> None:
        """End the watchdog, then its pipe: to a watchdog a closed pipe means that the agent is gone."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()


TAIL = 2000
"""Characters of a trainer's output that are kept; six bytes each at worst, it fits a line."""
_NICE = 5
_DEVICES = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
_READ_AT_ONCE = 256 * 1024


def environment_of(run: Run, base: Mapping[str, str], report_port: int) -> dict[str, str]:
    """Return a rank's environment: this process's without the scheduler's, the job's, the protocol's.

    Slurm's variables describe the pilot, a job of one task; libraries that find them take over. Which GPU is
    the pilot's it says by variables of other names: those stay, whatever the job's own environment holds.
    """
    kept = {
        name: value for name, value in base.items() if not name.startswith(("SLURM", "SBATCH", "APPORTION_"))
    }
    kept.update(run.environment)
    if "SLURM_JOB_GPUS" in base:
        kept.update({name: base[name] for name in _DEVICES if name in base})
    kept.update(
        APPORTION_JOB=run.job,
        APPORTION_GENERATION=str(run.generation),
        APPORTION_RANK=str(run.rank),
        APPORTION_WORLD_SIZE=str(len(run.nodes)),
        APPORTION_NODES=",".join(run.nodes),
        APPORTION_RENDEZVOUS=run.rendezvous,
        APPORTION_CHECKPOINT=run.checkpoint,
        APPORTION_REPORT=f"127.0.0.1:{report_port}",
        APPORTION_REPORT_TOKEN=run.token,
        APPORTION_REPORT_EVERY_S=repr(run.report_every_s),
    )
    if run.samples is not None:
        kept["APPORTION_SAMPLES"] = str(run.samples)
    return kept


class Rank:
    """A started rank.

    Parameters
    ----------
    run
        What to start.
    base
        The environment to start from.
    report_port
        Where on 127.0.0.1 its reports are heard.
    deadline_s
        When its watchdog ends it, by `apportion.live.cluster.steady_s`, unless `watch` says later.

    Raises
    ------
    OSError, ValueError, subprocess.SubprocessError
        If the command cannot be started.
    """

    def __init__(self, run: Run, base: Mapping[str, str], report_port: int, deadline_s: float) -> None:
        self.run = run
        self.asked = False
        self.code: int | None = None
        self._kill_at_s: float | None = None
        self._killed = False
        self._tail = bytearray()
        folder = Path(run.checkpoint)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        newest = claim(folder, run.generation)
        if newest > run.generation:
            raise ValueError(f"generation {newest} of {run.job} has begun; {run.generation} is over")
        self._process = subprocess.Popen(
            list(run.command),
            cwd=run.directory,
            env=environment_of(run, base, report_port),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_prepare,
        )
        self.started_s = time.monotonic()
        assert self._process.stdout is not None
        self.output = self._process.stdout
        os.set_blocking(self.output.fileno(), False)
        self._watchdog = Watchdog(self._process.pid, deadline_s)

    @property
    def ended(self) -> bool:
        """Whether the rank's leader has ended and everything it started was killed."""
        return self.code is not None

    @property
    def kill_at_s(self) -> float | None:
        """When the rank will be killed, by `time.monotonic`; ``None`` if it was not told to stop."""
        return None if self._killed else self._kill_at_s

    def watch(self, deadline_s: float) -> None:
        """Have the watchdog wait until this time, by `apportion.live.cluster.steady_s`."""
        self._watchdog.move(deadline_s)

    def stop(self, grace_s: float) -> None:
        """Send SIGTERM once; SIGKILL comes after `grace_s`. Told again, only an earlier end counts."""
        at = time.monotonic() + grace_s
        self._kill_at_s = at if self._kill_at_s is None else min(at, self._kill_at_s)
        if not self.asked:
            self.asked = True
            self._signal(signal.SIGTERM)

    def look(self) -> bool:
        """Reap, kill what is due, and return whether the leader has ended."""
        if self.code is not None:
            return True
        if self._kill_at_s is not None and not self._killed and time.monotonic() >= self._kill_at_s:
            self._killed = True
            self._signal(signal.SIGKILL)
        leader = self._process.pid
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == leader:
                self._process.returncode = os.waitstatus_to_exitcode(status)
            elif pid == self._watchdog.pid:
                self._guard_again()
        if self._process.returncode is None:
            return False
        self._end_the_rest()
        self._watchdog.close()
        self.read_output()
        self.output.close()
        self.code = self._process.returncode
        return True

    def read_output(self) -> bool:
        """Take what the rank has printed; return whether more may come."""
        for _ in range(_READ_AT_ONCE // 65536):
            try:
                data = os.read(self.output.fileno(), 65536)
            except BlockingIOError:
                return True
            except (OSError, ValueError):
                return False
            if not data:
                return False
            self._tail += data
            del self._tail[: -4 * TAIL]
        return True

    def tail(self) -> str:
        """Return the end of what the rank printed, without control characters: people see it on terminals."""
        text = self._tail.decode(errors="replace")[-TAIL:]
        return "".join(one if one.isprintable() or one == "\n" else " " for one in text)

    def _guard_again(self) -> None:
        """Start a watchdog in place of one that is gone; a rank that cannot have one is killed."""
        self._watchdog.close()
        try:
            self._watchdog = Watchdog(self._process.pid, self._watchdog.deadline_s)
        except OSError:
            self.stop(0.0)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _end_the_rest(self) -> None:
        """Kill the process group and every orphan of the rank that has come to this process."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        end = time.monotonic() + 2.0
        while (left := children_of(os.getpid())) and time.monotonic() < end:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if left == children_of(os.getpid()):
                time.sleep(0.002)


def _prepare() -> None:
    """Have the kernel kill the leader when its agent dies (Linux), and let agent and slurmd go first."""
    os.nice(_NICE)
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())

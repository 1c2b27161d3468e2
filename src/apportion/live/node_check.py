"""Ask a node: run the probe there as a pilot would be run, and say what is in order and what to do if not."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from apportion.core import __version__
from apportion.core.errors import ClusterUnreachable, SchedulerRefused
from apportion.live.channel.peer import listen
from apportion.live.slurm.commands import EXPORTED, TOKEN, answer_of

__all__ = ["Asked", "Finding", "Verdict", "judged", "questioned"]


class Verdict(StrEnum):
    """What came of a check."""

    OK = "ok"
    MEND = "mend"
    UNKNOWN = "unknown"
    """It could not be checked; that proves nothing either way."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes
    ----------
    check
        Which check.
    message
        What was seen.
    advice
        What to mend, or how to check it; empty if all is well.
    node
        The node it was seen from, ``None`` for this machine.
    """

    check: str
    verdict: Verdict
    message: str
    advice: str = ""
    node: str | None = None

    @classmethod
    def of(cls, check: str, well: bool, message: str, advice: str, node: str | None = None) -> Finding:
        """Return a finding whose advice counts only if it is not in order."""
        return cls(check, Verdict.OK if well else Verdict.MEND, message, "" if well else advice, node)


_PROBE = Path(__file__).with_name("probe.py")
_SKEW_S = 5.0
_OLDEST = (3, 11)
_SEEN_S = 10.0
"""How long a file of a node may take to show here: network file systems look again after seconds."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a node is asked with.

    Attributes
    ----------
    partition, python, options
        As `apportion.live.slurm.cluster.SlurmCluster` has them.
    host, port
        Where agents would report, ``None`` to leave it out. At port 0 any is listened on for the probe.
    listening
        Whether a controller listens there already.
    shared
        The folder for checkpoints, ``None`` to leave it out.
    timeout_s
        Longest time the probe may take.
    """

    partition: str
    python: str
    options: tuple[str, ...]
    host: str | None
    port: int
    listening: bool
    shared: Path | None
    timeout_s: float = 60.0


def questioned(node: str, asked: Asked) -> Iterator[Finding]:
    """Run the probe on a node and say what it found."""
    seal = {"text": secrets.token_hex(16), "file": "", "back": ""}
    seal["file"], seal["back"] = (f".apportion-doctor-{secrets.token_hex(8)}" for _ in range(2))
    listener: socket.socket | None = None
    try:
        if asked.shared is not None:
            (asked.shared / seal["file"]).write_text(seal["text"])
        if asked.host is not None and not asked.listening:
            listener = listen(asked.host, asked.port)
        port = asked.port if listener is None else int(listener.getsockname()[1])
        began_s = time.time()
        said = _said(_run(node, asked, port, seal), seal["text"])
        yield from judged(node, said, (began_s, time.time()), asked)
        if asked.shared is not None and said is not None and said.get("shared") is None:
            yield _seen_back(node, asked.shared / seal["back"], seal["text"])
    except SchedulerRefused as error:
        yield _no_answer(node, asked, str(error))
    except ClusterUnreachable as error:
        advice = "the node did not answer in time: look at its slurmd, or try another one"
        yield Finding("node", Verdict.UNKNOWN, str(error), advice, node)
    finally:
        if listener is not None:
            listener.close()
        if asked.shared is not None:
            for name in (seal["file"], seal["back"], seal["back"] + ".new", seal["back"] + ".link"):
                (asked.shared / name).unlink(missing_ok=True)


def _run(node: str, asked: Asked, port: int, seal: dict[str, str]) -> str:
    question = {
        "host": asked.host,
        "port": port,
        "shared": None if asked.shared is None else str(asked.shared),
        "seal": seal,
    }
    exported = [name for name in EXPORTED if name != TOKEN and name in os.environ]
    command = [
        *("srun", f"--partition={asked.partition}", f"--nodelist={node}", "--nodes=1", "--ntasks=1"),
        *("--immediate=20", "--time=2", "--job-name=apportion-doctor", "--chdir=/", "--quiet"),
        f"--export={','.join(exported)}",
        *asked.options,
        *(asked.python, "-c", _PROBE.read_text(), msgspec.json.encode(question).decode()),
    ]
    return answer_of(command, asked.timeout_s)


def _said(printed: str, text: str) -> dict[str, Any] | None:
    """Return the object that the probe printed, whatever else a node's start-up files print."""
    for line in reversed(printed.splitlines()):
        try:
            said = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        if isinstance(said, dict) and said.get("marker") == text:
            return said
    return None


def judged(
    node: str, said: dict[str, Any] | None, between_s: Sequence[float], asked: Asked
) -> Iterator[Finding]:
    """Judge what a node said, asked and answered between two times of this machine's clock."""
    if said is None:
        advice = f"--python names what is no Python there: {asked.python}"
        yield Finding("python", Verdict.MEND, "the probe printed nothing", advice, node)
        return
    version = tuple(map(int, said["python"].split(".")))
    advice = "name a Python of 3.11 or newer by --python"
    yield Finding.of("python", version >= _OLDEST, f"Python {said['python']}", advice, node)
    yield _package(node, said, asked)
    off_s = max(between_s[0] - said["time"], said["time"] - between_s[1], 0.0)
    message = f"clocks differ by {off_s:.0f} s at least" if off_s > 0 else "clocks agree, as far as seen"
    yield Finding.of("clock", off_s <= _SKEW_S, message, "let chrony or NTP set both clocks", node)
    if asked.host is not None:
        yield _port(node, said["reached"], asked)
    if asked.shared is not None and said.get("shared") is not None:
        step, why = said["shared"]
        advice = _MENDING[step].format(folder=asked.shared)
        yield Finding("shared folder", Verdict.MEND, f"{step}: {why}", advice, node)


def _port(node: str, why: str | None, asked: Asked) -> Finding:
    way = f"{asked.host} port {asked.port}" if asked.port else str(asked.host)
    message = f"{way} is reached" if why is None else f"{way} is not reached: {why}"
    advice = "--address must be an address of this machine that nodes reach, at a port no firewall closes"
    return Finding.of("port", why is None, message, advice, node)


_MENDING = {
    "read": "{folder} must be the same folder, at the same path, on this machine and on every node",
    "write": "the user must be able to write {folder} on the nodes: see its mode, and how it is mounted",
    "link": "checkpoints are published by hard links: take a file system that has them (NFS, Lustre, GPFS)",
    "rename": "the user must be able to rename files in {folder}",
}


def _package(node: str, said: dict[str, Any], asked: Asked) -> Finding:
    found = said["package"]
    if found is None:
        message = f"the package cannot be imported: {said['missing']}"
    else:
        message = (
            f"apportion {found}" if found == __version__ else f"apportion {found}; here it is {__version__}"
        )
    advice = f"install the same version for {asked.python} on the nodes, or name another --python"
    return Finding.of("package", found == __version__, message, advice, node)


def _seen_back(node: str, path: Path, text: str) -> Finding:
    end_s, seen = time.monotonic() + _SEEN_S, False
    while not seen and time.monotonic() < end_s:
        list(path.parent.iterdir())  # a look into the folder makes network file systems ask anew
        seen = path.is_file() and path.read_text() == text
        if not seen:
            time.sleep(0.2)
    message = (
        "written, linked, renamed there and seen here" if seen else "what the node wrote is not seen here"
    )
    return Finding.of("shared folder", seen, message, _MENDING["read"].format(folder=path.parent), node)


def _no_answer(node: str, asked: Asked, error: str) -> Finding:
    lower = error.lower()
    if "execve" in lower or "no such file" in lower or "permission denied" in lower:
        advice = f"there is no {asked.python} to be run there: install it, or name another by --python"
        return Finding("python", Verdict.MEND, error, advice, node)
    if "unable to allocate" in lower or "immediate" in lower or "busy" in lower or "preempt" in lower:
        advice = "the main queue was quicker; come again when a node is idle"
        return Finding("node", Verdict.UNKNOWN, error, advice, node)
    advice = "pilots would be refused likewise: see --sbatch, and who may use the partition"
    return Finding("node", Verdict.MEND, error, advice, node)

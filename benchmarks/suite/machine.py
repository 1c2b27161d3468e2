"""What ran where: the processor, memory in use and versions. No host name, no path."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["ChildrenClock", "commit", "load", "machine", "peak_mib", "versions"]


def machine() -> dict[str, str | int | None]:
    """Return processor, cores, memory and operating system."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def load() -> float | None:
    """Return the load average of the last minute: what else the machine did; ``None`` if it does not say."""
    try:
        return round(os.getloadavg()[0], 1)
    except OSError:
        return None


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Return versions of Python, this package, numpy and others; ``None`` where not installed."""
    named: dict[str, str | None] = {"python": platform.python_version()}
    for name in dict.fromkeys(("apportion", "numpy", *packages)):
        try:
            named[name] = version(name)
        except PackageNotFoundError:
            named[name] = None
    if named["apportion"] is None:  # run from the sources, not installed
        from apportion.core import __version__

        named["apportion"] = __version__
    return named


def commit() -> str | None:
    """Return the short commit of the checkout, with a ``+`` if tracked files differ; ``None`` without git."""
    root = Path(__file__).parents[2]
    try:
        asked = {"cwd": root, "capture_output": True, "text": True, "timeout": 20, "check": True}
        short = subprocess.run(["git", "rev-parse", "--short", "HEAD"], **asked).stdout.strip()  # type: ignore[call-overload]
        changed = subprocess.run(["git", "status", "--porcelain", "-uno"], **asked).stdout.strip()  # type: ignore[call-overload]
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{short}+" if changed else str(short)


@dataclass(frozen=True, slots=True)
class ChildrenClock:
    """Processor seconds of this process's descendants at one moment: general solvers run in a child.

    Where the system has no clock of another process, living descendants are left out.

    Attributes
    ----------
    ended_s
        Of children that ended and were waited for.
    living_s
        Of every living descendant.
    """

    ended_s: float
    living_s: Mapping[int, float]

    @classmethod
    def now(cls) -> ChildrenClock:
        """Return it as it is."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        living = {pid: _clock_s(pid) for pid in _descendants(os.getpid())}
        return cls(ended.ru_utime + ended.ru_stime, living)

    def since(self, before: ChildrenClock) -> float:
        """Return the seconds that descendants took since then, whether they began or ended meanwhile."""
        living = sum(seconds - before.living_s.get(pid, 0.0) for pid, seconds in self.living_s.items())
        known = sum(seconds for pid, seconds in before.living_s.items() if pid not in self.living_s)
        return living + max(self.ended_s - before.ended_s - known, 0.0)


def _clock_s(pid: int) -> float:
    try:
        return time.clock_gettime(~pid << 3 | 2)  # Linux: clock_getcpuclockid(3)
    except (AttributeError, OSError):
        return 0.0


def peak_mib() -> float | None:
    """Return the peak resident memory of this process and of its living descendants, MiB.

    Each one's own peak, added up: at most a little more than they ever held together. ``None`` where the
    system does not tell.
    """
    peaks = [_high_water_kib(pid) for pid in (os.getpid(), *_descendants(os.getpid()))]
    known = [peak for peak in peaks if peak is not None]
    return round(sum(known) / 1024, 1) if known else None


def _high_water_kib(pid: int) -> int | None:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    except OSError:
        return None
    return None


def _descendants(pid: int) -> list[int]:
    """Return the processes below one, by the parents that all name: not every kernel lists children."""
    below: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = status.read_text().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue  # it has ended
        below.setdefault(int(parent), []).append(int(status.parent.name))
    found, left = [], [pid]
    while left:
        children = below.get(left.pop(), [])
        found += children
        left += children
    return found


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_gib() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (ValueError, OSError):
        return None

"""What ran where: the processor, memory in use and versions. No host name, no path."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["commit", "load", "machine", "peak_mib", "versions"]


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
        from apportion.version import __version__

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
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_descendants(int(child))]
    except OSError:
        pass
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

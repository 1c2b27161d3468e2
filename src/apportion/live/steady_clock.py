"""A clock that only goes forward: leases are kept by it, because the wall's may be set at any moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from apportion.live.agent.watching import clock_s as steady_s

__all__ = ["boot_id", "continued", "steady_s"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str | None:
    """Return what tells this start of the machine from any other, ``None`` where that is not known."""
    try:
        return _BOOT_ID.read_text().strip() or None
    except OSError:
        return None


def continued(
    boot: str | None,
    ahead_s: float,
    newest_s: float,
    wall: Callable[[], float] = time.time,
    steady: Callable[[], float] = steady_s,
    now_boot: Callable[[], str | None] = boot_id,
) -> tuple[Callable[[], float], str | None, float]:
    """Return a clock that goes on where the one on record stood, with what to put on record of it.

    Within one boot the clock is the record's. After another boot it begins at the wall's time, or at the
    newest time on record if the wall's clock was set back.

    Parameters
    ----------
    boot, ahead_s
        As on record: the boot the clock was made in, and how far it is ahead of `steady`.
    newest_s
        The latest time on record, in seconds of the clock.
    wall, steady, now_boot
        Where the time and the boot come from; tests set them.

    Returns
    -------
    clock, boot, ahead_s
        Seconds that look like the wall's at the first start and then only go forward.
    """
    current = now_boot()
    if boot is None or current is None or boot != current:
        ahead_s = max(wall(), newest_s) - steady()
    return (lambda: ahead_s + steady()), current, ahead_s

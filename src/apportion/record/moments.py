"""Moments as people say them: ``14:05``, ``2026-11-22 14:05``, ``2h`` ago, ``now``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from apportion.errors import InvalidOption

__all__ = ["moment", "said"]

_AGO = re.compile(r"\A(\d+(?:\.\d+)?)\s*([smhdw])\Z")
_CLOCK = re.compile(r"\A(\d{1,2}):(\d{2})(?::(\d{2}))?\Z")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str, now: datetime) -> float:
    """Return a moment as seconds since 1970.

    Parameters
    ----------
    text
        A clock time (the last time that it was so late), a date with or without a time (ISO 8601, the time
        zone of `now` unless it names one), a span ago (``90s``, ``15m``, ``2h``, ``1d``, ``1w``), ``now``,
        ``today`` or ``yesterday`` (their midnights).
    now
        The present, with its time zone.

    Raises
    ------
    InvalidOption
        If it is none of these.

    Examples
    --------
    >>> from datetime import datetime, timezone
    >>> now = datetime(2026, 11, 22, 15, 0, tzinfo=timezone.utc)
    >>> now.timestamp() - moment("14:05", now), now.timestamp() - moment("2h", now)
    (3300.0, 7200.0)
    """
    word = text.strip().lower()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}
    if word in days:
        return days[word].timestamp()
    try:
        if ago := _AGO.match(word):
            return (now - timedelta(**{_UNITS[ago[2]]: float(ago[1])})).timestamp()
        if clock := _CLOCK.match(word):
            then = midnight.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0))
            return (then if then <= now else then - timedelta(days=1)).timestamp()
        when = datetime.fromisoformat(text.strip())
        return (when if when.tzinfo else when.replace(tzinfo=now.tzinfo)).timestamp()
    except (ValueError, OverflowError):
        raise InvalidOption(
            f"{text!r} is no moment; say 14:05, 2026-11-22T14:05, 2h (ago), today or yesterday"
        ) from None


def said(at_s: float) -> str:
    """Return a moment in local time, as `moment` reads it."""
    return datetime.fromtimestamp(at_s).astimezone().isoformat(sep=" ", timespec="seconds")

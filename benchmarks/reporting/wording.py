"""Numbers as people read them."""

from __future__ import annotations

import math

__all__ = ["gap_text", "log_ticks", "ratio_text", "seconds_text"]

ABSENT = "–"


def seconds_text(seconds: float | None) -> str:
    """Return seconds with a unit.

    Examples
    --------
    >>> seconds_text(0.00234), seconds_text(2.5), seconds_text(None)
    ('2.34 ms', '2.5 s', '–')
    """
    if seconds is None:
        return ABSENT
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s"


def gap_text(gap: float | None) -> str:
    """Return a relative gap in per cent, ``0`` below a billionth."""
    if gap is None:
        return ABSENT
    if gap < 1e-9:
        return "0"
    return f"{100 * gap:.2g} %"


def ratio_text(ratio: float | None) -> str:
    """Return a factor.

    Examples
    --------
    >>> ratio_text(0.263), ratio_text(12.34), ratio_text(753.2)
    ('0.26', '12.3', '753')
    """
    if ratio is None:
        return ABSENT
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"


def log_ticks(low: float, high: float, seconds: bool = False) -> list[tuple[float, str]]:
    """Return powers of ten between two ends, thinned to at most eight."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    step = max(1, math.ceil((last - first) / 8))
    sentences = []
    for power in range(first, last + 1, step):
        value = 10.0**power
        if low * (1 - 1e-9) <= value <= high * (1 + 1e-9):
            sentences.append(
                (value, seconds_text(value) if seconds else f"{value:,.0f}" if power >= 0 else f"{value:g}")
            )
    return sentences

"""Colours that people with any colour vision tell apart.

Six of Okabe and Ito (2008), without their yellow, which is faint as an outline; two dark ones of Paul Tol's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["COLORS", "FAINT", "IDLE", "INK", "NIGHT", "OTHERS", "color", "ink_on"]

INK = "#1f2328"
FAINT = "#59636e"
IDLE = "#e4e7eb"
"""Nodes and capacity that nobody uses."""
OTHERS = "#9aa4af"
"""Jobs that are drawn together."""
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#332288", "#56b4e9", "#d55e00", "#882255")
NIGHT: Mapping[str, str] = MappingProxyType(
    {
        INK: "#e6edf3",
        FAINT: "#9aa7b4",
        IDLE: "#2b323b",
        "#332288": "#7d6fdc",
        "#882255": "#c4568f",
    }
)
"""What stands for a colour on dark paper, where it would be lost."""


def color(position: int) -> str:
    """Return the fill of the job at a position; neighbours differ, and so do any eight in a row."""
    return COLORS[position % len(COLORS)]


def ink_on(fill: str) -> str:
    """Return black or white, whichever reads better on a fill (relative luminance, WCAG 2)."""
    red, green, blue = (int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#ffffff"

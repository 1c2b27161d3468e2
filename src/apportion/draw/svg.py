"""A small SVG writer: rectangles, text and shapes, every word escaped; as a page, as PNG or as PDF.

Colours are those that people with any colour vision tell apart: six of Okabe and Ito (2008), without their
yellow, which is faint as an outline, and two dark ones of Paul Tol's. Jobs that stand side by side never look
alike, however many there are (`neighbourly`). PNG and PDF are set by Typst.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Literal

__all__ = [
    "COLORS",
    "FAINT",
    "IDLE",
    "INK",
    "NIGHT",
    "OTHERS",
    "Svg",
    "clipped",
    "color",
    "escaped",
    "ink_on",
    "neighbourly",
    "page",
    "rendered",
    "text_width",
]


_DOTS_PER_INCH = 192.0
_PAGE = '#set page(width: auto, height: auto, margin: 0pt)\n#image("drawing.svg")\n'


def rendered(svg: str, form: Literal["png", "pdf"]) -> bytes:
    """Return a drawing as a picture.

    Parameters
    ----------
    svg
        The drawing.
    form
        ``png`` (2,000 pixels for a drawing of 1,000) or ``pdf``.

    Raises
    ------
    ImportError
        If Typst is not installed; `apportion.draw.check_name` says so before any work is done.
    """
    import typst

    with tempfile.TemporaryDirectory(prefix="apportion-") as folder:
        Path(folder, "drawing.svg").write_text(svg, encoding="utf-8")
        page = Path(folder, "page.typ")
        page.write_text(_PAGE, encoding="utf-8")
        return typst.compile(str(page), format=form, ppi=_DOTS_PER_INCH)


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


def neighbourly(jobs: int, rows: Iterable[Sequence[int]]) -> list[str]:
    """Return a fill per job, by its number.

    A job keeps the colour of its place in the list unless a job beside it has that colour already; then it
    takes the next one that no neighbour has.

    Parameters
    ----------
    jobs
        How many jobs there are.
    rows
        The jobs of each bar, by number, in the order in which they are drawn.
    """
    beside: list[set[int]] = [set() for _ in range(jobs)]
    for row in rows:
        for one, other in pairwise(row):
            if one != other:
                beside[one].add(other)
                beside[other].add(one)
    fills: list[str] = []
    for job in range(jobs):
        taken = {fills[other] for other in beside[job] if other < job}
        order = [color(job + step) for step in range(len(COLORS))]
        fills.append(next((fill for fill in order if fill not in taken), order[0]))
    return fills


_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
_CHARACTER = 0.6
"""Width of an average character as a share of the font size; wide fonts stay inside."""
_DARK = "@media (prefers-color-scheme: dark) {{ {} .paper {{ fill: #0d1117; }} }}".format(
    " ".join(
        f'[{paint}="{light}"] {{ {paint}: {dark}; }}'
        for light, dark in NIGHT.items()
        for paint in ("fill", "stroke")
    )
)
"""Ink and paper change places where the reader prefers it."""


def escaped(text: str) -> str:
    """Return text for XML: markup escaped, characters that XML forbids replaced."""
    allowed = "".join(
        char
        if (char >= " " or char in "\t\n")
        and not "\ud800" <= char <= "\udfff"
        and char not in "\ufffe\uffff\x7f"
        else "\ufffd"
        for char in text
    )
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        allowed = allowed.replace(char, entity)
    return allowed


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is at a font size, in pixels."""
    return len(text) * _CHARACTER * size


def clipped(text: str, width: float, size: float) -> str:
    """Return a text that fits a width, its end replaced by an ellipsis where needed."""
    room = int(width / (_CHARACTER * size))
    if len(text) <= room:
        return text
    return text[: max(room - 1, 1)] + "…"


class Svg:
    """The parts of a drawing in the order they are painted.

    Parameters
    ----------
    width
        Width in pixels; the height is given to `finish`.
    """

    def __init__(self, width: float) -> None:
        self._width = width
        self._parts: list[str] = []

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        *,
        stroke: str | None = None,
        hatched: bool = False,
    ) -> None:
        """Paint a rectangle; `hatched` lays white stripes over it."""
        place = f'x="{_n(x)}" y="{_n(y)}" width="{_n(max(width, 0))}" height="{_n(height)}"'
        outline = f' stroke="{stroke}" stroke-width="1"' if stroke else ""
        self._parts.append(f'<rect {place} fill="{fill}"{outline}/>')
        if hatched:
            self._parts.append(f'<rect {place} fill="url(#hatch)"/>')

    def text(
        self,
        x: float,
        y: float,
        content: str,
        *,
        size: float = 13,
        anchor: str = "start",
        fill: str = INK,
        bold: bool = False,
    ) -> None:
        """Write a line of text; `y` is its baseline."""
        weight = ' font-weight="600"' if bold else ""
        style = f'font-size="{_n(size)}" text-anchor="{anchor}" fill="{fill}"{weight}'
        self._parts.append(f'<text x="{_n(x)}" y="{_n(y)}" {style}>{escaped(content)}</text>')

    def polygon(self, points: Sequence[tuple[float, float]], fill: str, opacity: float) -> None:
        """Paint a filled shape."""
        corners = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._parts.append(f'<polygon points="{corners}" fill="{fill}" fill-opacity="{_n(opacity)}"/>')

    def line(
        self,
        points: Sequence[tuple[float, float]],
        stroke: str,
        width: float,
        opacity: float,
        *,
        dashed: bool = False,
    ) -> None:
        """Paint a line through points."""
        corners = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{corners}" fill="none" stroke="{stroke}" stroke-width="{_n(width)}"'
            f' stroke-opacity="{_n(opacity)}" stroke-linejoin="round"{dashes}/>'
        )

    def separators(self, x: float, y: float, height: float, step: float, count: int) -> None:
        """Paint thin white lines every `step` pixels, `count` of them."""
        if count > 0:
            lines = "".join(f"M{_n(x + k * step)} {_n(y)}v{_n(height)}" for k in range(1, count + 1))
            self._parts.append(f'<path d="{lines}" stroke="#ffffff" stroke-width="1"/>')

    def open_group(self, tooltip: str) -> None:
        """Begin a group that shows a tooltip; end it with `close_group`."""
        self._parts.append(f"<g><title>{escaped(tooltip)}</title>")

    def close_group(self) -> None:
        """End the group begun last."""
        self._parts.append("</g>")

    def finish(self, height: float, title: str, description: str) -> str:
        """Return the drawing, named and described for readers who cannot see it."""
        size = f'width="{_n(self._width)}" height="{_n(height)}" viewBox="0 0 {_n(self._width)} {_n(height)}"'
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc"'
            f' font-family="{_FONT}">',
            f'<title id="title">{escaped(title)}</title>',
            f'<desc id="desc">{escaped(description)}</desc>',
            '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"'
            ' patternTransform="rotate(45)"><rect width="2.4" height="6" fill="#ffffff" fill-opacity="0.75"/>'
            "</pattern></defs>",
            f"<style>{_DARK}</style>",
            f'<rect class="paper" width="{_n(self._width)}" height="{_n(height)}" fill="#ffffff"/>',
        ]
        return "\n".join([*head, *self._parts, "</svg>", ""])


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def page(svg: str, name: str) -> str:
    """Return a complete page that shows a drawing; nothing is loaded from anywhere."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escaped(name or 'apportion')}</title>",
            "<style>",
            ":root { color-scheme: light dark; }",
            "body { margin: 0; background: #f6f8fa; }",
            "main { max-width: 1040px; margin: 24px auto; background: #fff; border: 1px solid #d1d9e0; }",
            "svg { display: block; width: 100%; height: auto; }",
            "@media (prefers-color-scheme: dark) {",
            "body { background: #010409; } main { background: #0d1117; border-color: #30363d; }",
            "}",
            "</style>",
            "</head>",
            f"<body><main>\n{svg}</main></body>",
            "</html>",
            "",
        ]
    )

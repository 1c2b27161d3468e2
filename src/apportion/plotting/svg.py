"""A small SVG writer: rectangles, text and shapes, every word escaped."""

from __future__ import annotations

from collections.abc import Sequence

from apportion.plotting.palette import INK, NIGHT

__all__ = ["Svg", "clipped", "escaped", "text_width"]

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

"""What a report is made of: tables and charts, told once and written as HTML or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Axis", "Chart", "Curve", "Section", "Table"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text; the first column names the row.

    Attributes
    ----------
    title
        What it shows.
    heads, rows
        Cells as text.
    note
        How to read it.
    folded
        Whether HTML shows it only when asked to, and Markdown leaves it out.
    text_columns
        Columns besides the first that hold words, not figures.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    folded: bool = False
    text_columns: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its label, whether logarithmic, its ends and its ticks (place, text)."""

    label: str
    log: bool
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Curve:
    """A named curve; `style` is its place among the colours, the same for a solver in every chart."""

    name: str
    points: Sequence[tuple[float, float]]
    style: int
    stepped: bool = False
    dotted: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with words for those who cannot see it, and the figures behind it."""

    title: str
    description: str
    x: Axis
    y: Axis
    curves: Sequence[Curve]
    figures: Table
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report."""

    anchor: str
    title: str
    lead: str
    blocks: Sequence[Table | Chart] = field(default_factory=tuple)

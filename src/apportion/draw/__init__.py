"""Drawings of plans as SVG, written by hand without a plotting library; Typst makes PNG and PDF of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from msgspec import UNSET

from apportion.core.errors import InvalidOption
from apportion.core.extension_points import loaded
from apportion.instances.kinds import kind_of

__all__ = ["DRAWINGS", "check_name", "drawing", "encoded", "on_page"]

_SUFFIXES = (".svg", ".html", ".htm", ".png", ".pdf")

DRAWINGS: Mapping[str, str] = MappingProxyType(
    {
        "gap_filling": "apportion.draw.allocation_svg:allocation_svg",
        "matching": "apportion.draw.gantt_svg:gantt_svg",
        "freezing": "apportion.draw.freezing_svg:freezing_svg",
        "placement": "apportion.draw.placement_svg:placement_svg",
    }
)
"""The drawing of a kind that has one of its own: ``"module:function"``, loaded on first use and called with
the instance, its plan, the prices by capacity and the bound (``None`` where there are none)."""
_ANY_KIND = "apportion.draw.menu_svg:menu_svg"


def check_name(file_name: str) -> None:
    """Raise `InvalidOption` unless the name ends in .svg, .html, .htm, .png or .pdf, and that can be made."""
    if PurePath(file_name).suffix.lower() not in _SUFFIXES:
        raise InvalidOption(f"a drawing is written to FILE.svg, .html, .png or .pdf, not {file_name!r}")
    if PurePath(file_name).suffix.lower() in (".png", ".pdf") and find_spec("typst") is None:
        raise InvalidOption(
            f"{file_name!r} needs Typst: pip install 'apportion[pictures]', or name FILE.svg or FILE.html"
        )


def encoded(drawn: str, file_name: str) -> bytes:
    """Return the contents of the file a drawing is meant for: as it is, or set as PNG or PDF.

    Raises
    ------
    InvalidOption
        If the suffix is none of them, or Typst is needed and not installed.
    """
    check_name(file_name)
    suffix = PurePath(file_name).suffix.lower()
    if suffix not in (".png", ".pdf"):
        return drawn.encode()
    from apportion.draw.svg import rendered

    return rendered(drawn, "png" if suffix == ".png" else "pdf")


def drawing(
    instance: Any,
    plan: Any,
    file_name: str,
    multipliers: Mapping[str, float] | None = None,
    bound: float | None = None,
) -> str:
    """Return the drawing of a feasible plan as SVG, or as an HTML page around it, as the file's name asks.

    For a name that ends in .png or .pdf it is SVG, too: `encoded` makes the picture of it.

    Parameters
    ----------
    instance
        The instance.
    plan
        Its plan, as it stands in JSON.
    file_name
        The file it is meant for; only its suffix matters.
    multipliers
        The certificate's prices by capacity, drawn where a drawing has a place for them.
    bound
        The solution's bound, drawn where a drawing has a place for it.

    Raises
    ------
    InvalidOption
        If the suffix is neither, or there is no drawing of this kind of instance.
    """
    check_name(file_name)
    try:
        kind = kind_of(instance)
    except TypeError:  # a bare model
        raise InvalidOption(f"there is no drawing of a {type(instance).__name__}") from None
    drawn = DRAWINGS.get(kind.name, _ANY_KIND)
    if getattr(instance, "tenants", UNSET) is not UNSET:
        drawn = "apportion.draw.fairness_svg:tenants_svg"
    svg: str = loaded(drawn)(instance, plan, multipliers, bound)
    return on_page(svg, file_name, instance.name)


def on_page(svg: str, file_name: str, title: str) -> str:
    """Return a drawing as it is, or in an HTML page where the file's name asks for one."""
    if PurePath(file_name).suffix.lower() not in (".html", ".htm"):
        return svg
    from apportion.draw.svg import page

    return page(svg, title)

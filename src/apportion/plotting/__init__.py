"""Drawings of plans as SVG, written by hand: no plotting library is needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from apportion.errors import InvalidOption
from apportion.references import loaded

__all__ = ["DRAWINGS", "check_name", "drawing"]

DRAWINGS: Mapping[str, str] = MappingProxyType(
    {
        "GapFillingInstance": "apportion.plotting.allocation_svg:allocation_svg",
        "MultipleChoiceKnapsackInstance": "apportion.plotting.menu_svg:menu_svg",
        "MatchingInstance": "apportion.plotting.gantt_svg:gantt_svg",
        "FreezingInstance": "apportion.plotting.freezing_svg:freezing_svg",
    }
)
"""The drawing of every kind, by the name of its type: ``"module:function"``, loaded on first use and called
with the instance, its plan, the prices by capacity and the bound (``None`` where there are none)."""


def check_name(file_name: str) -> None:
    """Raise `InvalidOption` unless the name ends in ``.svg``, ``.html`` or ``.htm``."""
    if PurePath(file_name).suffix.lower() not in (".svg", ".html", ".htm"):
        raise InvalidOption(f"a drawing is written to FILE.svg or FILE.html, not {file_name!r}")


def drawing(
    instance: Any,
    plan: Any,
    file_name: str,
    multipliers: Mapping[str, float] | None = None,
    bound: float | None = None,
) -> str:
    """Return the drawing of a feasible plan as SVG, or as an HTML page around it, as the file's name asks.

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
    if type(instance).__name__ not in DRAWINGS:
        raise InvalidOption(f"there is no drawing of a {type(instance).__name__}")
    svg: str = loaded(DRAWINGS[type(instance).__name__])(instance, plan, multipliers, bound)
    if PurePath(file_name).suffix.lower() == ".svg":
        return svg
    from apportion.plotting.page import page

    return page(svg, instance.name)

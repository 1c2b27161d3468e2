"""Drawings of plans as SVG, written by hand: no plotting library is needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from apportion.errors import InvalidOption

__all__ = ["check_name", "drawing"]


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
    from apportion.instances import (
        FreezingInstance,
        GapFillingInstance,
        MatchingInstance,
        MultipleChoiceKnapsackInstance,
    )

    if isinstance(instance, GapFillingInstance):
        from apportion.plotting.allocation_svg import allocation_svg

        svg = allocation_svg(instance, plan)
    elif isinstance(instance, MultipleChoiceKnapsackInstance):
        from apportion.plotting.menu_svg import menu_svg

        svg = menu_svg(instance, plan)
    elif isinstance(instance, MatchingInstance):
        from apportion.plotting.gantt_svg import gantt_svg

        svg = gantt_svg(instance, plan, bound)
    elif isinstance(instance, FreezingInstance):
        from apportion.plotting.freezing_svg import freezing_svg

        svg = freezing_svg(instance, plan, multipliers)
    else:
        raise InvalidOption(f"there is no drawing of a {type(instance).__name__}")
    if PurePath(file_name).suffix.lower() == ".svg":
        return svg
    from apportion.plotting.page import page

    return page(svg, instance.name)

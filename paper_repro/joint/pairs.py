"""Ratios of two cases, seed by seed, that the page quotes beside those to the base."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from paper_repro.joint.tables import COLUMNS, estimate, figures
from paper_repro.joint.tasks import Result

__all__ = ["PAIRS", "pair_rows"]

_SHORTEST, _LONGEST = "shortest first, oracle", "longest first, alone"

PAIRS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "matching": (
            ("shortest first, by similarity", _SHORTEST),
            ("shortest first, similarity + observed", _SHORTEST),
            ("shortest first, one profile", _SHORTEST),
            ("shortest first, profile + observed", _SHORTEST),
            ("shortest first, agnostic", _SHORTEST),
            ("shortest first, agnostic + observed", _SHORTEST),
            (_SHORTEST, "Gavel max-min, oracle"),
            ("longest first, oracle", "Gavel makespan, oracle"),
        ),
        "packing": (
            ("longest first, packed by measured pairs", _LONGEST),
            ("longest first, packed by predicted pairs", _LONGEST),
        ),
        "rounds": (
            ("by similarity, rounds", "by similarity, in turn"),
            ("oracle, rounds", "oracle, in turn"),
            ("oracle, rounds", "oracle, one knapsack over who waits"),
        ),
    }
)
"""By part: a case, and the case that it is compared with under every setting that has both."""


def pair_rows(part: str, results: Sequence[Result]) -> Iterator[dict[str, Any]]:
    """Yield a row of the part's table for every pair and setting."""
    for setting in dict.fromkeys(one.task.setting for one in results):
        for case, other in PAIRS.get(part, ()):
            cells: dict[str, Any] = {"setting": setting, "case": case, "over": other}
            for name, figure in COLUMNS:
                own, base = (figures(results, setting, one, figure) for one in (case, other))
                if own.size and base.size:
                    ratio = estimate(own / base)
                    cells |= {"runs": own.size, f"{name[:-3]} over it": ratio.mean}
                    cells |= {f"± {name[:-3]} over it": ratio.half}
            if "runs" in cells:
                yield cells

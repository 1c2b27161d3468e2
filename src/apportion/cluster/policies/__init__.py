"""What to do next, decided from a view of a cluster that cannot see the future: plain callables.

Names are imported when they are first used, so that commands can list the policies at no cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.core.extension_points import loaded

if TYPE_CHECKING:
    from apportion.cluster.policies.freetrain import FreeTrain as FreeTrain
    from apportion.cluster.policies.freetrain import FreeTrainPublished as FreeTrainPublished
    from apportion.cluster.policies.gap_filling_view import FREE as FREE
    from apportion.cluster.policies.gap_filling_view import GapFillingView as GapFillingView
    from apportion.cluster.policies.gap_filling_view import InvalidPlan as InvalidPlan
    from apportion.cluster.policies.gap_filling_view import Plan as Plan
    from apportion.cluster.policies.gap_filling_view import Policy as Policy
    from apportion.cluster.policies.gap_filling_view import check_plan as check_plan
    from apportion.cluster.policies.heuristics import EqualShare as EqualShare
    from apportion.cluster.policies.heuristics import Greedy as Greedy
    from apportion.cluster.policies.heuristics import Static as Static

_HOME = {
    "FREE": "gap_filling_view",
    "EqualShare": "heuristics",
    "FreeTrain": "freetrain",
    "FreeTrainPublished": "freetrain",
    "GapFillingView": "gap_filling_view",
    "Greedy": "heuristics",
    "InvalidPlan": "gap_filling_view",
    "Plan": "gap_filling_view",
    "Policy": "gap_filling_view",
    "Static": "heuristics",
    "check_plan": "gap_filling_view",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'apportion.cluster.policies' has no attribute {name!r}")
    return loaded(f"apportion.cluster.policies.{_HOME[name]}:{name}")

"""What to do next, decided from a view of a cluster that cannot see the future: plain callables.

Names are imported when they are first used, so that commands can list the policies at no cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.references import loaded

if TYPE_CHECKING:
    from apportion.policies.equal_share import EqualShare as EqualShare
    from apportion.policies.freetrain import FreeTrain as FreeTrain
    from apportion.policies.freetrain import FreeTrainPublished as FreeTrainPublished
    from apportion.policies.gap_filling_view import FREE as FREE
    from apportion.policies.gap_filling_view import GapFillingView as GapFillingView
    from apportion.policies.gap_filling_view import InvalidPlan as InvalidPlan
    from apportion.policies.gap_filling_view import Plan as Plan
    from apportion.policies.gap_filling_view import Policy as Policy
    from apportion.policies.gap_filling_view import check_plan as check_plan
    from apportion.policies.greedy import Greedy as Greedy
    from apportion.policies.static import Static as Static

_HOME = {
    "FREE": "gap_filling_view",
    "EqualShare": "equal_share",
    "FreeTrain": "freetrain",
    "FreeTrainPublished": "freetrain",
    "GapFillingView": "gap_filling_view",
    "Greedy": "greedy",
    "InvalidPlan": "gap_filling_view",
    "Plan": "gap_filling_view",
    "Policy": "gap_filling_view",
    "Static": "static",
    "check_plan": "gap_filling_view",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'apportion.policies' has no attribute {name!r}")
    return loaded(f"apportion.policies.{_HOME[name]}:{name}")

"""What to do next, decided from a view of a cluster that cannot see the future: plain callables."""

from apportion.policies.equal_share import EqualShare
from apportion.policies.freetrain import FreeTrain, FreeTrainPublished
from apportion.policies.greedy import Greedy
from apportion.policies.static import Static
from apportion.policies.view import FREE, GapFillingView, InvalidPlan, Plan, Policy, check_plan

__all__ = [
    "FREE",
    "EqualShare",
    "FreeTrain",
    "FreeTrainPublished",
    "GapFillingView",
    "Greedy",
    "InvalidPlan",
    "Plan",
    "Policy",
    "Static",
    "check_plan",
]

"""The policies that fill idle nodes, by the name that commands know them by, imported when made."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from apportion.choices import one_of
from apportion.errors import InvalidOption
from apportion.policies.named import NamedPolicy

if TYPE_CHECKING:
    from apportion.policies.gap_filling_view import Policy

__all__ = ["POLICIES", "policy"]

_HERE = "apportion.policies"
_HORIZON = "horizon_s"

POLICIES: Mapping[str, NamedPolicy] = MappingProxyType(
    {
        "freetrain": NamedPolicy(f"{_HERE}.freetrain:FreeTrain", _HORIZON, live=True),
        "freetrain-waking": NamedPolicy(f"{_HERE}.freetrain:FreeTrain", _HORIZON, options={"wakes": True}),
        "freetrain-published": NamedPolicy(f"{_HERE}.freetrain:FreeTrainPublished", _HORIZON),
        "freetrain-literal": NamedPolicy(f"{_HERE}.literal:FreeTrainLiteral", _HORIZON),
        "equal-share": NamedPolicy(f"{_HERE}.equal_share:EqualShare", live=True),
        "equal-share-published": NamedPolicy(
            f"{_HERE}.equal_share:EqualShare", options={"as_published": True}
        ),
        "greedy": NamedPolicy(f"{_HERE}.greedy:Greedy", live=True),
        "static": NamedPolicy(f"{_HERE}.static:Static", live=True),
        "adaptive": NamedPolicy(f"{_HERE}.adaptive:Adaptive", live=True),
        "malletrain": NamedPolicy(f"{_HERE}.malletrain:MalleTrain", _HORIZON, live=True),
    }
)
"""What is given to `NamedPolicy.make` is the forward-looking time in seconds."""


def policy(name: str, horizon_s: float = 120.0) -> Policy:
    """Return a fresh policy by name.

    Raises
    ------
    InvalidOption
        If there is none of that name, or the horizon is not positive.
    """
    one_of("policy", name, POLICIES)
    if not 0 < horizon_s < 1e12:
        raise InvalidOption(f"the horizon must be positive seconds, not {horizon_s}")
    made: Policy = POLICIES[name].make(horizon_s)
    return made

"""Policies by the name the command line knows them by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from apportion.errors import InvalidOption
from apportion.policies.equal_share import EqualShare
from apportion.policies.freetrain import FreeTrain, FreeTrainPublished
from apportion.policies.greedy import Greedy
from apportion.policies.static import Static
from apportion.policies.view import Policy

__all__ = ["POLICIES", "policy"]


def _adaptive(horizon_s: float) -> Policy:
    from apportion.policies.adaptive import Adaptive

    return Adaptive()


def _literal(horizon_s: float) -> Policy:
    from apportion.policies.literal import FreeTrainLiteral

    return FreeTrainLiteral(horizon_s)


def _malletrain(horizon_s: float) -> Policy:
    from apportion.policies.malletrain import MalleTrain

    return MalleTrain(horizon_s)


POLICIES: Mapping[str, Callable[[float], Policy]] = MappingProxyType(
    {
        "freetrain": FreeTrain,
        "freetrain-published": FreeTrainPublished,
        "freetrain-literal": _literal,
        "equal-share": lambda _: EqualShare(),
        "equal-share-published": lambda _: EqualShare(as_published=True),
        "greedy": lambda _: Greedy(),
        "static": lambda _: Static(),
        "adaptive": _adaptive,
        "malletrain": _malletrain,
    }
)
"""Makers of policies, given the forward-looking time in seconds (which only some of them use)."""


def policy(name: str, horizon_s: float = 120.0) -> Policy:
    """Return a fresh policy by name.

    Raises
    ------
    InvalidOption
        If there is none of that name, or the horizon is not positive.
    """
    if name not in POLICIES:
        raise InvalidOption(f"policy must be one of {', '.join(POLICIES)}, not {name!r}")
    if not 0 < horizon_s < 1e12:
        raise InvalidOption(f"the horizon must be positive seconds, not {horizon_s}")
    return POLICIES[name](horizon_s)

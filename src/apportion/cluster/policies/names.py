"""The policies that fill idle nodes, by the name that commands know them by, imported when made.

A policy under a name: where it stands and how it is made, without importing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from apportion.core.errors import InvalidOption, one_of
from apportion.core.extension_points import loaded

if TYPE_CHECKING:
    from apportion.cluster.policies.gap_filling_view import Policy

__all__ = ["POLICIES", "NamedPolicy", "policy"]


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """How a policy is made, and how its jobs train.

    Attributes
    ----------
    reference
        ``"module:name"`` of a policy class, or of a function that is the policy itself.
    parameter
        The parameter of the class that takes the number of `make`; ``None`` if it takes none.
    options
        Further keyword arguments of the class.
    adaptive
        Whether its jobs choose their batch by themselves; otherwise they keep their user's.
    elastic
        Whether it chooses GPU counts for jobs that keep their user's batch.
    freezes
        Whether its jobs may be frozen.
    priced
        Whether it goes by prices of work: it says why jobs get what they get, and limits finish-time ratios.
    live
        Whether it may decide for real jobs.
    round_s
        Seconds between two decisions as its authors set them.
    remaining
        What it is told of remaining work unless somebody says otherwise; see `rounds.remaining_work`.
    """

    reference: str
    parameter: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    adaptive: bool = False
    elastic: bool = False
    freezes: bool = False
    priced: bool = False
    live: bool = False
    round_s: float = 60.0
    remaining: str = "true"

    def make(self, number: float) -> Any:
        """Return a fresh policy; `number` is the forward-looking time in seconds, or a seed."""
        found = loaded(self.reference)
        if not isinstance(found, type):
            return found
        given = {} if self.parameter is None else {self.parameter: number}
        return found(**given, **self.options)


_HORIZON = "horizon_s"

POLICIES: Mapping[str, NamedPolicy] = MappingProxyType(
    {
        "freetrain": NamedPolicy("apportion.cluster.policies.freetrain:FreeTrain", _HORIZON, live=True),
        "freetrain-waking": NamedPolicy(
            "apportion.cluster.policies.freetrain:FreeTrain", _HORIZON, options={"wakes": True}
        ),
        "freetrain-published": NamedPolicy(
            "apportion.cluster.policies.freetrain:FreeTrainPublished", _HORIZON
        ),
        "freetrain-literal": NamedPolicy("apportion.cluster.policies.freetrain:FreeTrainLiteral", _HORIZON),
        "equal-share": NamedPolicy("apportion.cluster.policies.heuristics:EqualShare", live=True),
        "equal-share-published": NamedPolicy(
            "apportion.cluster.policies.heuristics:EqualShare", options={"as_published": True}
        ),
        "greedy": NamedPolicy("apportion.cluster.policies.heuristics:Greedy", live=True),
        "static": NamedPolicy("apportion.cluster.policies.heuristics:Static", live=True),
        "adaptive": NamedPolicy("apportion.cluster.policies.adaptive:Adaptive", live=True),
        "costate": NamedPolicy("apportion.cluster.policies.adaptive:Priced", live=True),
        "malletrain": NamedPolicy("apportion.cluster.policies.malletrain:MalleTrain", _HORIZON, live=True),
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

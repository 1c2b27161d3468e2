"""Cluster policies by the name the command line knows them by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from apportion.errors import InvalidOption
from apportion.policies.cluster.afs import afs
from apportion.policies.cluster.fifo import fifo, srtf
from apportion.policies.cluster.gavel import Gavel
from apportion.policies.cluster.icefrog import IceFrog
from apportion.policies.cluster.joint import Joint
from apportion.policies.cluster.learning_icefrog import LearningIceFrog
from apportion.policies.cluster.matching import Matching, longest_first
from apportion.policies.cluster.optimus import optimus
from apportion.policies.cluster.pollux import Pollux
from apportion.policies.cluster.pollux_genetic import PolluxGenetic
from apportion.policies.cluster.sia import Sia
from apportion.policies.cluster.tiresias import Tiresias
from apportion.policies.cluster.titan import Titan
from apportion.policies.cluster.view import ClusterPolicy

__all__ = ["CLUSTER_POLICIES", "NamedPolicy", "cluster_policy"]


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """How a policy is made, and how its jobs train.

    Attributes
    ----------
    make
        Return a fresh policy, given a seed (which only some use).
    adaptive
        Whether its jobs choose their batch by themselves; otherwise they keep their user's.
    freezes
        Whether its jobs may be frozen.
    """

    make: Callable[[int], ClusterPolicy]
    adaptive: bool = False
    freezes: bool = False


CLUSTER_POLICIES: Mapping[str, NamedPolicy] = MappingProxyType(
    {
        "fifo": NamedPolicy(lambda _: fifo),
        "srtf": NamedPolicy(lambda _: srtf),
        "optimus": NamedPolicy(lambda _: optimus),
        "tiresias": NamedPolicy(lambda _: Tiresias()),
        "gavel-max-min": NamedPolicy(lambda _: Gavel("max_min")),
        "gavel-makespan": NamedPolicy(lambda _: Gavel("makespan")),
        "matching": NamedPolicy(lambda _: Matching()),
        "matching-makespan": NamedPolicy(lambda _: Matching(longest_first, gap=0.05)),
        "afs": NamedPolicy(lambda _: afs, adaptive=True),
        "titan": NamedPolicy(lambda _: Titan(), adaptive=True),
        "pollux": NamedPolicy(lambda _: Pollux(), adaptive=True),
        "pollux-genetic": NamedPolicy(PolluxGenetic, adaptive=True),
        "sia": NamedPolicy(lambda _: Sia(), adaptive=True),
        "icefrog": NamedPolicy(lambda _: IceFrog(), adaptive=True, freezes=True),
        "icefrog-learning": NamedPolicy(lambda _: LearningIceFrog(), adaptive=True, freezes=True),
        "joint": NamedPolicy(lambda _: Joint(), adaptive=True, freezes=True),
    }
)


def cluster_policy(name: str) -> NamedPolicy:
    """Return a policy by name.

    Raises
    ------
    InvalidOption
        If there is none of that name.
    """
    if name not in CLUSTER_POLICIES:
        raise InvalidOption(f"policy must be one of {', '.join(CLUSTER_POLICIES)}, not {name!r}")
    return CLUSTER_POLICIES[name]

"""Policies for a cluster of training jobs by the name that commands know them by; see `policies.named`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from apportion.choices import one_of
from apportion.policies.named import NamedPolicy

__all__ = ["CLUSTER_POLICIES", "NamedPolicy", "cluster_policy"]

_HERE = "apportion.policies.cluster"


def _gavel(objective: str) -> NamedPolicy:
    return NamedPolicy(f"{_HERE}.gavel:Gavel", options={"objective": objective}, round_s=360.0)


CLUSTER_POLICIES: Mapping[str, NamedPolicy] = MappingProxyType(
    {
        "fifo": NamedPolicy(f"{_HERE}.fifo:fifo"),
        "srtf": NamedPolicy(f"{_HERE}.fifo:srtf"),
        "optimus": NamedPolicy(f"{_HERE}.optimus:optimus", elastic=True),
        "tiresias": NamedPolicy(f"{_HERE}.tiresias:Tiresias"),
        "gavel-max-min": _gavel("max_min"),
        "gavel-makespan": _gavel("makespan"),
        "gavel-water-filling": _gavel("water_filling"),
        "gavel-hierarchical": _gavel("hierarchical"),
        "gavel-finish-time": _gavel("finish_time"),
        "gavel-cost": _gavel("cost"),
        "themis": NamedPolicy(f"{_HERE}.themis:Themis"),
        "shockwave": NamedPolicy(f"{_HERE}.shockwave:Shockwave"),
        "kueue-tournament": NamedPolicy(f"{_HERE}.kueue_tournament:KueueTournament"),
        "kai-division": NamedPolicy(f"{_HERE}.kai_queues:KaiQueues"),
        "matching": NamedPolicy(f"{_HERE}.matching:Matching"),
        "matching-makespan": NamedPolicy(f"{_HERE}.matching:matching_makespan"),
        "afs": NamedPolicy(f"{_HERE}.afs:afs", adaptive=True),
        "titan": NamedPolicy(f"{_HERE}.titan:Titan", adaptive=True, round_s=120.0),
        "pollux": NamedPolicy(f"{_HERE}.pollux:Pollux", adaptive=True),
        "genetic": NamedPolicy(f"{_HERE}.genetic_search:GeneticSearch", "seed", adaptive=True),
        "sia": NamedPolicy(f"{_HERE}.sia:Sia", adaptive=True),
        "icefrog": NamedPolicy(f"{_HERE}.icefrog:IceFrog", adaptive=True, freezes=True),
        "icefrog-learning": NamedPolicy(
            f"{_HERE}.learning_icefrog:LearningIceFrog", adaptive=True, freezes=True
        ),
        "joint": NamedPolicy(f"{_HERE}.joint:Joint", adaptive=True, freezes=True),
    }
)
"""What is given to `NamedPolicy.make` is a seed."""


def cluster_policy(name: str) -> NamedPolicy:
    """Return a policy by name.

    Raises
    ------
    InvalidOption
        If there is none of that name.
    """
    one_of("policy", name, CLUSTER_POLICIES)
    return CLUSTER_POLICIES[name]

"""Policies for a cluster of training jobs by the name that commands know them by; see `policies.named`.

What a policy may be told of the speeds of GPU types, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from apportion.cluster.policies.names import NamedPolicy
from apportion.cluster.policies.rounds.cluster_view import ClusterPolicy
from apportion.core.errors import one_of

__all__ = ["BELIEFS", "CLUSTER_POLICIES", "REMAINING", "NamedPolicy", "believing", "cluster_policy"]


BELIEFS = ("true", "similar", "fitted", "none", "bootstrapped")
"""The truth; what similar applications do; nothing at first, then what is seen; nothing; one-GPU profiles."""


REMAINING = ("true", "asked", "by-application", "attained")
"""What is known of remaining work: the truth; what users asked for, and how much of it others took; what jobs
of the same application took; what all jobs took."""


def believing(
    belief: str, policy: ClusterPolicy, similar: Callable[[], Mapping[str, Mapping[str, float]]]
) -> ClusterPolicy:
    """Return a policy that is told no more of GPU types than a belief allows.

    How a job scales over GPUs of one type, and how quick it is on an average one, is known in each of them
    but ``bootstrapped``.

    Parameters
    ----------
    belief
        ``true``: the measured speeds. ``similar``: the types differ as predicted from other applications.
        ``none``: all types are alike. ``fitted``: alike at first, then as the jobs of the application are
        seen to run. ``bootstrapped``: the speed on one GPU of every type is known, and scaling is believed
        perfect until it is seen, as Sia does.
    policy
        Who decides.
    similar
        Makes what `SimilarSpeeds` needs; only called for ``similar``.

    Raises
    ------
    InvalidOption
        If there is no belief of that name.
    """
    one_of("belief", belief, BELIEFS)
    if belief == "true":
        return policy
    if belief == "similar":
        from apportion.cluster.policies.rounds.learned_speeds import SimilarSpeeds

        return SimilarSpeeds(policy, similar())
    if belief == "bootstrapped":
        from apportion.cluster.policies.rounds.learned_speeds import Bootstrapped

        return Bootstrapped(policy)
    from apportion.cluster.policies.rounds.learned_speeds import TypeAgnostic

    if belief == "none":
        return TypeAgnostic(policy)
    from apportion.cluster.policies.rounds.learned_speeds import ObservedSpeeds

    return TypeAgnostic(ObservedSpeeds(policy))


def _gavel(objective: str) -> NamedPolicy:
    return NamedPolicy(
        "apportion.cluster.policies.rounds.gavel:Gavel", options={"objective": objective}, round_s=360.0
    )


def _costate(remaining: str = "true", freezes: bool = False, fairness: float = 0.0) -> NamedPolicy:
    return NamedPolicy(
        "apportion.cluster.policies.rounds.costate:Costate",
        options={"freezes": freezes, "fairness": fairness},
        adaptive=True,
        freezes=freezes,
        priced=True,
        remaining=remaining,
    )


CLUSTER_POLICIES: Mapping[str, NamedPolicy] = MappingProxyType(
    {
        "fifo": NamedPolicy("apportion.cluster.policies.rounds.queue_order:fifo"),
        "srtf": NamedPolicy("apportion.cluster.policies.rounds.queue_order:srtf"),
        "optimus": NamedPolicy("apportion.cluster.policies.rounds.marginal_gain:optimus", elastic=True),
        "tiresias": NamedPolicy("apportion.cluster.policies.rounds.queue_order:Tiresias"),
        "gavel-max-min": _gavel("max_min"),
        "gavel-makespan": _gavel("makespan"),
        "gavel-water-filling": _gavel("water_filling"),
        "gavel-hierarchical": _gavel("hierarchical"),
        "gavel-finish-time": _gavel("finish_time"),
        "gavel-cost": _gavel("cost"),
        "themis": NamedPolicy("apportion.cluster.policies.rounds.finish_time_fairness:Themis"),
        "shockwave": NamedPolicy("apportion.cluster.policies.rounds.finish_time_fairness:Shockwave"),
        "kueue-tournament": NamedPolicy("apportion.cluster.policies.rounds.kueue_tournament:KueueTournament"),
        "kai-division": NamedPolicy("apportion.cluster.policies.rounds.kai_queues:KaiQueues"),
        "matching": NamedPolicy("apportion.cluster.policies.rounds.matching:Matching"),
        "matching-makespan": NamedPolicy("apportion.cluster.policies.rounds.matching:matching_makespan"),
        "afs": NamedPolicy("apportion.cluster.policies.rounds.marginal_gain:afs", adaptive=True),
        "titan": NamedPolicy("apportion.cluster.policies.rounds.sia:Titan", adaptive=True, round_s=120.0),
        "pollux": NamedPolicy("apportion.cluster.policies.rounds.pollux:Pollux", adaptive=True),
        "genetic": NamedPolicy(
            "apportion.cluster.policies.rounds.pollux:GeneticSearch", "seed", adaptive=True
        ),
        "costate": _costate("attained"),
        "costate-fair": _costate(fairness=2.0),
        "costate-freezing": _costate("attained", freezes=True),
        "sia": NamedPolicy("apportion.cluster.policies.rounds.sia:Sia", adaptive=True),
        "icefrog": NamedPolicy(
            "apportion.cluster.policies.rounds.icefrog:IceFrog", adaptive=True, freezes=True
        ),
        "icefrog-learning": NamedPolicy(
            "apportion.cluster.policies.rounds.learning_icefrog:LearningIceFrog", adaptive=True, freezes=True
        ),
        "joint": NamedPolicy("apportion.cluster.policies.rounds.joint:Joint", adaptive=True, freezes=True),
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

"""The policies by the name that commands know them by, imported when made: of idle nodes and of clusters.

What a policy may be told of the speeds of GPU types and of remaining work has names as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from apportion.core.errors import InvalidOption, one_of
from apportion.core.extension_points import loaded

if TYPE_CHECKING:
    from apportion.cluster.policies.gap_filling_view import Policy
    from apportion.cluster.policies.rounds.cluster_view import ClusterPolicy

__all__ = [
    "BELIEFS",
    "CLUSTER_POLICIES",
    "POLICIES",
    "REMAINING",
    "NamedPolicy",
    "believing",
    "cluster_policy",
    "policy",
]


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
        "fifo": NamedPolicy("apportion.cluster.policies.rounds.baselines:fifo"),
        "srtf": NamedPolicy("apportion.cluster.policies.rounds.baselines:srtf"),
        "optimus": NamedPolicy("apportion.cluster.policies.rounds.baselines:optimus", elastic=True),
        "tiresias": NamedPolicy("apportion.cluster.policies.rounds.baselines:Tiresias"),
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
        "afs": NamedPolicy("apportion.cluster.policies.rounds.baselines:afs", adaptive=True),
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
            "apportion.cluster.policies.rounds.icefrog:LearningIceFrog", adaptive=True, freezes=True
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

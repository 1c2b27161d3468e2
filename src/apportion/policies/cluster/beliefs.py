"""What a policy may be told of the speeds of GPU types, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from apportion.choices import one_of
from apportion.policies.cluster.cluster_view import ClusterPolicy

__all__ = ["BELIEFS", "believing"]

BELIEFS = ("true", "similar", "fitted", "none", "bootstrapped")
"""The truth; what similar applications do; nothing at first, then what is seen; nothing; one-GPU profiles."""


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
        from apportion.policies.cluster.similar_speeds import SimilarSpeeds

        return SimilarSpeeds(policy, similar())
    if belief == "bootstrapped":
        from apportion.policies.cluster.bootstrapped import Bootstrapped

        return Bootstrapped(policy)
    from apportion.policies.cluster.type_agnostic import TypeAgnostic

    if belief == "none":
        return TypeAgnostic(policy)
    from apportion.policies.cluster.observed_speeds import ObservedSpeeds

    return TypeAgnostic(ObservedSpeeds(policy))

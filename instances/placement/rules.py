"""The rules that a placement keeps.

Words used below: *at* is a pod's node in the plan, *now* its node before; a pod *runs* if it has a node now,
it is *moved* if it runs and is not at that node any more (one that is stopped is moved, one that is admitted
is not). A place holds the pods at its nodes. `by` groups pods by ``"job"`` or by the value of a label of
their jobs; the pods of jobs without that label are in no group. `pods` names jobs, all of whose pods are
meant, or ``"job/pods"``.

The rules are those of a survey of Meta's Rebalancer (`facebook/rebalancer`), in our own words.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from apportion.instances.fields import Count, Name, Proportion, Use

__all__ = [
    "ApartRule",
    "AtLeastRule",
    "AvoidRule",
    "ClosedRule",
    "DrainRule",
    "ExclusiveRule",
    "KeepFreeRule",
    "LeastUseRule",
    "LimitRule",
    "MaxMovesRule",
    "MaxStopsRule",
    "MovingRule",
    "RatioRule",
    "RequireRule",
    "Rule",
    "ShareRule",
    "SpareRule",
    "SpreadRule",
    "StandbyRule",
    "StayRule",
    "TogetherRule",
]


class _Rule(Struct, frozen=True, forbid_unknown_fields=True, tag_field="rule", kw_only=True):
    """A rule."""


class LimitRule(_Rule, frozen=True, tag="limit", kw_only=True):
    """The listed places hold no more than so much of a resource, or so many pods.

    ``when`` says which pods count: those there after the change, those there before or after it
    (``"during"``, so that a pod on its way counts at both ends), or those that come to the place
    (``"new"``).

    Attributes
    ----------
    level
        On which level the places are.
    resource
        Which resource; ``"pods"`` counts pods.
    limits
        By place, how much at most.
    when
        Which pods count.
    """

    level: Name
    resource: Name
    limits: dict[Name, Use]
    when: Literal["after", "during", "new"] = "after"


class SpreadRule(_Rule, frozen=True, tag="spread", kw_only=True):
    """No place of the level holds more than so many pods of a group.

    Attributes
    ----------
    level
        On which level the places are.
    by
        What groups pods: ``"job"``, or a label of jobs.
    max
        How many at most.
    of
        By group, how many instead.
    """

    level: Name
    by: Name
    max: Count
    of: dict[str, Count] = {}


class ShareRule(_Rule, frozen=True, tag="share", kw_only=True):
    """No place of the level holds more than this fraction of the pods that a group has at most.

    Attributes
    ----------
    level
        On which level the places are.
    by
        What groups pods: ``"job"``, or a label of jobs.
    fraction
        From 0 to 1.
    """

    level: Name
    by: Name
    fraction: Proportion


class AtLeastRule(_Rule, frozen=True, tag="at_least", kw_only=True):
    """A place of the level holds none of a group's pods, or at least so many.

    Attributes
    ----------
    level
        On which level the places are.
    by
        What groups pods: ``"job"``, or a label of jobs.
    min
        How many at least.
    """

    level: Name
    by: Name
    min: Count


class TogetherRule(_Rule, frozen=True, tag="together", kw_only=True):
    """A group's pods lie in no more than so many places of the level.

    Attributes
    ----------
    level
        On which level the places are.
    by
        What groups pods: ``"job"``, or a label of jobs.
    max_places
        How many places at most.
    of
        By group, how many instead.
    """

    level: Name
    by: Name
    max_places: Count = 1
    of: dict[str, Count] = {}


class ExclusiveRule(_Rule, frozen=True, tag="exclusive", kw_only=True):
    """No place of the level holds pods of more than so many groups.

    Attributes
    ----------
    level
        On which level the places are.
    by
        What groups pods: ``"job"``, or a label of jobs.
    max_groups
        How many groups at most.
    """

    level: Name
    by: Name
    max_groups: Count = 1


class ApartRule(_Rule, frozen=True, tag="apart", kw_only=True):
    """Of two places only one is used, by anybody or, with ``by``, by the same group.

    Attributes
    ----------
    level
        On which level the places are.
    pairs
        Two places each.
    by
        What groups pods: ``"job"``, or a label of jobs.
    """

    level: Name
    pairs: tuple[tuple[Name, Name], ...]
    by: Name | UnsetType = UNSET


class AvoidRule(_Rule, frozen=True, tag="avoid", kw_only=True):
    """These pods lie in none of these places.

    Attributes
    ----------
    pods
        Jobs, or ``"job/pods"``.
    level
        On which level the places are.
    places
        The places.
    """

    pods: tuple[Name, ...]
    level: Name
    places: tuple[Name, ...]


class RequireRule(_Rule, frozen=True, tag="require", kw_only=True):
    """These pods lie in these places, if anywhere.

    Attributes
    ----------
    pods
        Jobs, or ``"job/pods"``.
    level
        On which level the places are.
    places
        The places.
    """

    pods: tuple[Name, ...]
    level: Name
    places: tuple[Name, ...]


class DrainRule(_Rule, frozen=True, tag="drain", kw_only=True):
    """No pod is left on these nodes, and none comes.

    Attributes
    ----------
    nodes
        Names of nodes.
    """

    nodes: tuple[Name, ...]


class ClosedRule(_Rule, frozen=True, tag="closed", kw_only=True):
    """No pod comes to these places that was not there; those that are there may stay, or move within.

    Attributes
    ----------
    level
        On which level the places are.
    places
        The places.
    """

    level: Name
    places: tuple[Name, ...]


class StayRule(_Rule, frozen=True, tag="stay", kw_only=True):
    """These pods stay as they are: those that run where they are, the others without a node.

    Attributes
    ----------
    pods
        Jobs, or ``"job/pods"``.
    """

    pods: tuple[Name, ...]


class MovingRule(_Rule, frozen=True, tag="moving", kw_only=True):
    """All of these pods, by name, are at the given node in the plan.

    Attributes
    ----------
    to
        By pods, their node.
    """

    to: dict[Name, Name]


class MaxMovesRule(_Rule, frozen=True, tag="max_moves", kw_only=True):
    """No more than so many pods are moved, or so much of a resource by pods; with ``by``, of every group.

    Attributes
    ----------
    limit
        How much at most.
    resource
        Which resource; ``"pods"`` counts pods.
    by
        What groups pods: ``"job"``, or a label of jobs.
    of
        By group, how much instead.
    """

    limit: Use
    resource: Name = "pods"
    by: Name | UnsetType = UNSET
    of: dict[str, Use] = {}


class MaxStopsRule(_Rule, frozen=True, tag="max_stops", kw_only=True):
    """No more than so many jobs are stopped; with ``by``, of every group.

    Attributes
    ----------
    limit
        How much at most.
    by
        What groups pods: ``"job"``, or a label of jobs.
    """

    limit: Count
    by: Name | UnsetType = UNSET


class SpareRule(_Rule, frozen=True, tag="spare", kw_only=True):
    """What the spare place has of other groups makes up for what the main place loses with any one group.

    For every group g: pods of g in both places are no more than all pods in the spare place, plus ``slack``.

    Attributes
    ----------
    level
        On which level the places are.
    by
        What groups pods: ``"job"``, or a label of jobs.
    main
        The place that may be lost.
    spare
        The place that makes up for it.
    slack
        How many pods may be lacking.
    """

    level: Name
    by: Name
    main: Name
    spare: Name
    slack: Count = 0


class StandbyRule(_Rule, frozen=True, tag="standby", kw_only=True):
    """No place is over its limit when any one place of the level is lost and standbys take over.

    A pod in ``pairs`` takes its ``amount`` of the limit of its place; when that place is lost, the first of
    its standbys that is not there takes its own amount in place of it, where the standby is. One that has no
    node takes nothing over, and ends the search.

    Attributes
    ----------
    level
        On which level the places are.
    pairs
        By pod its standbys, in order.
    amount
        By pod, how much it takes.
    limits
        By place, how much at most.
    """

    level: Name
    pairs: dict[Name, tuple[Name, ...]]
    amount: dict[Name, Use]
    limits: dict[Name, Use]


class KeepFreeRule(_Rule, frozen=True, tag="keep_free", kw_only=True):
    """Every place of the level keeps so much of a resource free; or the cluster so many places without a pod.

    With ``amount`` the first, with ``places`` the second; ``resource`` then says which places count: those
    that have some of it.

    Attributes
    ----------
    level
        On which level the places are.
    resource
        Which resource; ``"pods"`` counts pods.
    amount
        How much every place keeps free.
    places
        How many places keep without a pod.
    """

    level: Name
    resource: Name
    amount: Use = 0
    places: Count = 0


class LeastUseRule(_Rule, frozen=True, tag="least_use", kw_only=True):
    """A place of the level holds no pod, or this fraction of a resource is in use there, by others too.

    Nodes that are not ready do not count.

    Attributes
    ----------
    level
        On which level the places are.
    resource
        Which resource; ``"pods"`` counts pods.
    fraction
        From 0 to 1, of what the nodes of a place have.
    places
        Which places; every one where none is named.
    """

    level: Name
    resource: Name
    fraction: Proportion
    places: tuple[Name, ...] = ()


class RatioRule(_Rule, frozen=True, tag="ratio", kw_only=True):
    """In every place of the level, pods use no more of a resource than ``times`` their use of another.

    Attributes
    ----------
    level
        On which level the places are.
    resource
        Which resource; ``"pods"`` counts pods.
    times
        How many times.
    other
        The other resource.
    """

    level: Name
    resource: Name
    times: Count
    other: Name


Rule = (
    LimitRule
    | SpreadRule
    | ShareRule
    | AtLeastRule
    | TogetherRule
    | ExclusiveRule
    | ApartRule
    | AvoidRule
    | RequireRule
    | DrainRule
    | ClosedRule
    | StayRule
    | MovingRule
    | MaxMovesRule
    | MaxStopsRule
    | SpareRule
    | StandbyRule
    | KeepFreeRule
    | LeastUseRule
    | RatioRule
)
"""Any rule."""

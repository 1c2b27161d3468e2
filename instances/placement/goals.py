"""The goals that a placement follows, in strict order; its words are those of `rules`."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from apportion.instances.fields import Amount, Count, Name, Use
from apportion.instances.tenants.schema import Priority

__all__ = [
    "BalanceGoal",
    "Goal",
    "Goals",
    "JobsStoppedGoal",
    "LeftGoal",
    "LevelsClimbedGoal",
    "PodsMovedGoal",
    "PodsStoppedGoal",
    "SpreadExcessGoal",
    "StrandedGoal",
    "TogetherExcessGoal",
    "UsedGoal",
    "ValueGoal",
    "is_all_value",
    "is_much",
    "name_of",
    "names_of",
    "parts_of",
]

Weight = Annotated[int, Meta(ge=0, le=1_000_000)]


class _Goal(Struct, frozen=True, forbid_unknown_fields=True, tag_field="goal", kw_only=True):
    """A goal; in a sum of several it counts ``weight`` times."""

    weight: Weight = 1


class ValueGoal(_Goal, frozen=True, tag="value", kw_only=True):
    """As much as possible of what options, pods and their nodes are worth, less what changes count.

    With ``per_stop`` and ``per_move`` nobody is stopped or moved unless the plan gains more by it.

    Attributes
    ----------
    weight
        How often it counts in a sum.
    per_stop
        What stopping a job costs, for every one of its ``stop_cost``.
    per_move
        What moving or stopping a pod costs, for every one of its ``move_cost``.
    least_priority
        The jobs of this priority or a greater one alone are worth anything; the others count in a goal after
        it. A job has its own ``priority``, or that of its tenant, or 0.
    """

    per_stop: Amount = 0.0
    per_move: Amount = 0.0
    least_priority: Priority | UnsetType = UNSET


class JobsStoppedGoal(_Goal, frozen=True, tag="jobs_stopped", kw_only=True):
    """As few as possible of the jobs that run now are stopped, by their ``stop_cost``.

    A job is stopped that runs and gets none of its options, or its present one with fewer pods than it has.

    Attributes
    ----------
    weight
        How often it counts in a sum.
    """


class PodsStoppedGoal(_Goal, frozen=True, tag="pods_stopped", kw_only=True):
    """As few as possible of the pods that run now have no node any more.

    Attributes
    ----------
    weight
        How often it counts in a sum.
    """


class PodsMovedGoal(_Goal, frozen=True, tag="pods_moved", kw_only=True):
    """As few pods as possible are moved or stopped, by their ``move_cost``.

    Attributes
    ----------
    weight
        How often it counts in a sum.
    """


class UsedGoal(_Goal, frozen=True, tag="used", kw_only=True):
    """As few places of the level as possible hold a pod, by ``cost`` (1 where none is given).

    Attributes
    ----------
    weight
        How often it counts in a sum.
    level
        On which level the places are.
    cost
        By place, what using it counts.
    """

    level: Name
    cost: dict[Name, Use] = {}


class LevelsClimbedGoal(_Goal, frozen=True, tag="levels_climbed", kw_only=True):
    """As few levels as possible at which pods are in several places, from the one that they prefer up.

    None where all pods of a name lie in one place of their preferred level.

    Attributes
    ----------
    weight
        How often it counts in a sum.
    """


class LeftGoal(_Goal, frozen=True, tag="left", kw_only=True):
    """As few pods as possible, or nodes that hold any, are left on these nodes.

    Attributes
    ----------
    weight
        How often it counts in a sum.
    nodes
        Names of nodes.
    count
        What is counted.
    """

    nodes: tuple[Name, ...]
    count: Literal["pods", "nodes"] = "pods"


class SpreadExcessGoal(_Goal, frozen=True, tag="spread_excess", kw_only=True):
    """As few pods of a group as possible beyond so many in a place of the level.

    Attributes
    ----------
    weight
        How often it counts in a sum.
    level
        On which level the places are.
    by
        What groups pods: ``"job"``, or a label of jobs.
    max
        How many at most.
    """

    level: Name
    by: Name
    max: Count


class StrandedGoal(_Goal, frozen=True, tag="stranded", kw_only=True):
    """As much room as possible is left for pods like these.

    Counted are the pods of which the level's places hold fewer than they would without the plan, by what the
    nodes of a place have free together; a pod also takes one of ``pods``.

    Attributes
    ----------
    weight
        How often it counts in a sum.
    level
        On which level the places are.
    needs
        What such a pod needs of every resource.
    """

    level: Name
    needs: dict[Name, Use]


class TogetherExcessGoal(_Goal, frozen=True, tag="together_excess", kw_only=True):
    """As few places of the level as possible beyond so many in which a group lies.

    Attributes
    ----------
    weight
        How often it counts in a sum.
    level
        On which level the places are.
    by
        What groups pods: ``"job"``, or a label of jobs.
    max_places
        How many places at most.
    """

    level: Name
    by: Name
    max_places: Count = 1


class BalanceGoal(_Goal, frozen=True, tag="balance", kw_only=True):
    """The loads of the level's places, in hundred-thousandths of what they have, are as little as possible.

    Of a load only what is beyond ``threshold`` times the mean load counts, that of the present placement, or
    0 if no threshold is given. ``"max"``: the largest such load, ``"sum"``: all of them. Each is rounded up.

    Attributes
    ----------
    weight
        How often it counts in a sum.
    level
        On which level the places are.
    resource
        Which resource; ``"pods"`` counts pods.
    form
        The largest load, or the sum of all.
    threshold
        How many mean loads are free of charge.
    """

    level: Name
    resource: Name
    form: Literal["max", "sum"] = "max"
    threshold: Annotated[float, Meta(ge=0.0, le=1000.0)] = 0.0


Goal = (
    ValueGoal
    | JobsStoppedGoal
    | PodsStoppedGoal
    | PodsMovedGoal
    | UsedGoal
    | LevelsClimbedGoal
    | LeftGoal
    | SpreadExcessGoal
    | StrandedGoal
    | TogetherExcessGoal
    | BalanceGoal
)
"""Any goal."""
Goals = tuple[Goal | tuple[Goal, ...], ...]
"""Goals in strict order; several in one place are a sum by their weights."""


def parts_of(goal: Goal | tuple[Goal, ...]) -> tuple[Goal, ...]:
    """Return the goals of a sum, or the one that stands alone."""
    return tuple(goal) if isinstance(goal, tuple | list) else (goal,)


def is_much(goal: Goal | tuple[Goal, ...]) -> bool:
    """Return whether much of a goal is wanted, not little."""
    return isinstance(goal, ValueGoal)


def is_all_value(goal: Goal | tuple[Goal, ...], *, running: bool = True) -> bool:
    """Return whether a goal is the value of all jobs, of which changes of those that run cost nothing."""
    return (
        isinstance(goal, ValueGoal)
        and goal.least_priority is UNSET
        and not (running and (goal.per_stop or goal.per_move))
    )


def name_of(goal: Goal | tuple[Goal, ...]) -> str:
    """Return what a goal is called: ``used(rack)``, or ``3 used(rack) + 2 pods_moved``."""
    names = []
    for one in parts_of(goal):
        tag = str(one.__struct_config__.tag)
        about = [getattr(one, field) for field in ("level", "by", "resource") if hasattr(one, field)]
        if isinstance(one, ValueGoal) and one.least_priority is not UNSET:
            about.append(f"priority {one.least_priority} or more")
        times = f"{one.weight} " if one.weight != 1 else ""
        names.append(f"{times}{tag}({', '.join(about)})" if about else f"{times}{tag}")
    return " + ".join(names)


def names_of(wanted: Goals) -> list[str]:
    """Return what goals are called, those of one name made different by numbers."""
    seen, found = Counter[str](), list[str]()
    for name in map(name_of, wanted):
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found

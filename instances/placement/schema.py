"""The placement instance: a cluster of places, jobs with menus of pods, rules, and goals in strict order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from apportion.core.errors import Problem
from apportion.instances.fields import Count, Name, Number, Use, refuse
from apportion.instances.placement.goals import Goals, JobsStoppedGoal, PodsMovedGoal, ValueGoal
from apportion.instances.placement.rules import Rule
from apportion.instances.tenants.schema import OwnedJob, Tenanted
from apportion.instances.tenants.tree import tree_of

__all__ = [
    "PODS",
    "WAITS",
    "PlacementInstance",
    "PlacementJob",
    "PlacementNodes",
    "PlacementOption",
    "PlacementPods",
    "PlacementRunning",
]

PODS = "pods"
"""The resource of which every pod takes one, limited where nodes say so."""
WAITS = "waits"
"""What the option of having no option is called; no option of a job is."""


class PlacementNodes(Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that are alike.

    Attributes
    ----------
    names
        One name, or a list as Slurm writes it: ``n[000-127]``.
    capacity
        What each has of every resource, ``pods`` among them where their number is limited.
    at
        By level above the nodes, of every tree, the places they lie in, a list as well: the nodes lie in them
        in order, as many in each. A place is named below that of the level above in its tree: racks may be
        called alike in two blocks.
    labels
        Of every node.
    taints
        Pods come here only if they tolerate all of these.
    ready
        Whether pods may be here at all.
    used
        What others use on each.
    """

    names: Name
    capacity: dict[Name, Use]
    at: dict[Name, Name] = {}
    labels: dict[Name, str] = {}
    taints: tuple[Name, ...] = ()
    ready: bool = True
    used: dict[Name, Use] = {}


class PlacementPods(Struct, frozen=True, forbid_unknown_fields=True):
    """Pods of an option that are alike.

    Attributes
    ----------
    needs
        What each needs of every resource; every pod also takes one of ``pods``.
    count
        How many there are.
    least
        How many at least have a node if the job gets the option; all of them by default.
    name
        Unique in the option; pods of the same name are the same pods in every option of a job.
    required
        All of them lie in one place of this level.
    preferred
        That all of them lie in one place of this level, or of a level little above it, is a goal.
    slices
        By level, of how many of them every place holds a multiple.
    selector
        Labels that a node must have.
    tolerates
        Taints that a node may have.
    value
        What each adds to the value.
    value_at
        What each adds at a node beside that.
    move_cost
        What moving or stopping one counts.
    """

    needs: dict[Name, Use]
    count: Count = 1
    least: Count | UnsetType = UNSET
    name: Name = "pods"
    required: Name | UnsetType = UNSET
    preferred: Name | UnsetType = UNSET
    slices: dict[Name, Count] = {}
    selector: dict[Name, str] = {}
    tolerates: tuple[Name, ...] = ()
    value: Number = 0.0
    value_at: dict[Name, Number] = {}
    move_cost: Use = 1

    @property
    def fewest(self) -> int:
        """How many of them have a node at least."""
        return self.count if self.least is UNSET else self.least

    def takes(self, resource: str) -> int:
        """Return what each takes of a resource."""
        return 1 if resource == PODS else self.needs.get(resource, 0)


class PlacementOption(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a job's menu.

    Attributes
    ----------
    id
        Unique within the job.
    pods
        Its pods.
    value
        What choosing it is worth.
    required
        The pods of all names lie in one place of this level.
    """

    id: Name
    pods: tuple[PlacementPods, ...]
    value: Number = 0.0
    required: Name | UnsetType = UNSET


class PlacementRunning(Struct, frozen=True, forbid_unknown_fields=True):
    """What a job has now.

    Attributes
    ----------
    option
        Which of its options.
    on
        By the name of pods, how many are at every node; nodes that are gone may stand here.
    """

    option: Name
    on: dict[Name, dict[Name, Count]]


class PlacementJob(OwnedJob, frozen=True, forbid_unknown_fields=True):
    """A job and its menu.

    Attributes
    ----------
    id
        Unique name.
    options
        The menu.
    labels
        By which rules group jobs.
    required
        Whether it must get one of its options.
    current
        What it has now, if it runs.
    stop_cost
        What stopping it counts.
    fixed
        Whether nothing of it may change, as long as all nodes on which it runs are there and admit its pods:
        they are ready, and their taints and labels are such as these pods may have.
    pinned, forbidden
        The option it must get; options it must not get.
    tenant, preemptible, running_s, submitted_s, priority, finish, best_rate
        What belongs to its tenant; see `apportion.instances.tenants.schema.TenantedJob`. A job that may not
        be stopped or moved is `fixed` while it runs.
    """

    id: Name
    options: tuple[PlacementOption, ...]
    labels: dict[Name, str] = msgspec.field(default_factory=dict)
    required: bool = False
    current: PlacementRunning | None = None
    stop_cost: Use = 1
    fixed: bool = False
    pinned: Name | None = None
    forbidden: tuple[Name, ...] = ()

    def admits(self, option: str) -> bool:
        """Return whether it may get an option of its menu, wherever the pods lie."""
        stays = option if not self.fixed else None if self.current is None else self.current.option
        return option not in self.forbidden and self.pinned in (None, option) and stays == option

    @property
    def may_wait(self) -> bool:
        """Whether it may get nothing."""
        stays = self.fixed and self.current is not None
        return not (self.required or self.pinned is not None or stays)

    @property
    def most_pods(self) -> int:
        """How many pods it has at most, options that it may not get included."""
        return max((sum(pods.count for pods in option.pods) for option in self.options), default=0)


class PlacementInstance(
    Tenanted, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="placement", dict=True
):
    """Jobs whose pods lie on the nodes of a cluster; every semantic rule is checked on construction.

    Attributes
    ----------
    schema_version
        ``"1"``.
    levels
        Names of the levels from the top down; the last is that of the nodes.
    trees
        Further trees over the same nodes, as of power feeds beside switches: the names of the levels of each
        from the top down, without that of the nodes. All that speaks of a level may speak of these.
    nodes
        The nodes, in groups of alike ones or one by one.
    jobs
        The jobs.
    rules
        What every plan keeps.
    goals
        What is wanted, in strict order: the next never costs the one before. Value, fewest jobs stopped,
        fewest pods moved by default.
    name
        A name for reports.
    tenants, fairness
        Whose jobs they are and what is shared out fairly; see `apportion.instances.tenants.schema.Tenanted`.
        What is shared is what all nodes together have free of every resource.

    Raises
    ------
    InvalidInstance
        If any rule is broken; all problems are listed with their JSON paths.
    """

    schema_version: Literal["1"]
    levels: tuple[Name, ...]
    nodes: tuple[PlacementNodes, ...]
    jobs: tuple[PlacementJob, ...]
    rules: tuple[Rule, ...] = ()
    goals: Goals | UnsetType = UNSET
    name: str = ""
    trees: tuple[tuple[Name, ...], ...] | UnsetType = UNSET

    if TYPE_CHECKING:

        @property
        def _planned(self) -> Mapping[str, Mapping[str, Any]]: ...

    def __repr__(self) -> str:
        return (
            f"<PlacementInstance {self.name!r}: {len(self.jobs)} jobs, {len(self.nodes)} groups of nodes, "
            f"{len(self.rules)} rules>"
        )

    def __post_init__(self) -> None:
        def consistent(problems: list[Problem]) -> None:
            from apportion.instances.placement.consistency import noted

            noted(self, problems)

        refuse(self, [consistent])

    @property
    def branches(self) -> tuple[tuple[Name, ...], ...]:
        """The levels above the nodes of every tree."""
        return (self.levels[:-1], *(() if self.trees is UNSET else self.trees))

    @property
    def wanted(self) -> Goals:
        """The goals, those of an instance that states none included."""
        return _DEFAULT if self.goals is UNSET else self.goals

    @cached_property
    def displaced(self) -> frozenset[str]:
        """The jobs of which pods run where they may not be: on nodes that are gone, or admit them no more."""
        running = [job for job in self.jobs if job.current is not None]
        if not running:
            return frozenset()
        from apportion.instances.placement.site import site_of

        site = site_of(self)
        return frozenset(job.id for job in running if not site.keeps(job))

    def counts(self, goal: ValueGoal, job: PlacementJob) -> bool:
        """Return whether a goal counts what a job is worth."""
        return job.id in self.counted(goal, (job,))

    def counted(self, goal: ValueGoal, jobs: Iterable[PlacementJob] | None = None) -> set[str]:
        """Return which jobs, of all by default, a goal counts what they are worth of."""
        some, least = self.jobs if jobs is None else jobs, goal.least_priority
        if least is UNSET:
            return {job.id for job in some}
        tree = tree_of(() if self.tenants is UNSET else self.tenants)
        given = {name: node.priority for name, node in tree.nodes.items()}
        own = (
            (job, given.get(str(job.tenant), 0) if job.priority is UNSET else job.priority) for job in some
        )
        return {job.id for job, priority in own if priority >= least}


_DEFAULT: Goals = (ValueGoal(), JobsStoppedGoal(), PodsMovedGoal())

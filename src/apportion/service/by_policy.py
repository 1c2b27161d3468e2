"""Decide by a policy: show it the instance, check its answer, bound how far that is from the optimum."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from apportion.core.errors import InvalidOption, one_of
from apportion.core.extension_points import loaded
from apportion.core.options import SolveOptions, Start
from apportion.core.outcome import Outcome, Termination
from apportion.core.solution import Solution
from apportion.instances.kinds import Instance, kind_of
from apportion.solving import registry
from apportion.solving.call import Call
from apportion.solving.compiled_model import CompiledModel
from apportion.solving.judge import Attempt, checked_plan
from apportion.solving.pipeline import conclude, known_prices

__all__ = ["OPTIMUM", "PolicyRunner", "asked_policy", "name_of", "policies_of"]


class ViewAdapter(Protocol):
    """How instances of a kind are shown to policies; it may remember what it has seen."""

    def view(self, instance: Any, time_s: float) -> Any:
        """Return what a policy is shown at a time."""
        ...

    def plan(self, view: Any, policy: Callable[[Any], Any], instance: Any) -> dict[str, Any]:
        """Return the plan of a policy's answer as it stands in JSON."""
        ...


_VIEW_ADAPTERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "gap_filling": (
            "apportion.service.view_adapters:GapFillingViewAdapter",
            "apportion.cluster.policies.names:POLICIES",
        ),
        "freezing": (
            "apportion.service.view_adapters:ClusterViewAdapter",
            "apportion.cluster.policies.names:CLUSTER_POLICIES",
        ),
        "placement": (
            "apportion.service.view_adapters:PlacementViewAdapter",
            "apportion.cluster.policies.rounds.greedy_placing:PLACEMENT_POLICIES",
        ),
    }
)
"""By kind of instance: what shows it to policies, and the table of their names."""


def policies_of(kind: str) -> tuple[str, ...]:
    """Return the names of the policies that can decide instances of a kind; none for most kinds."""
    return tuple(loaded(_VIEW_ADAPTERS[kind][1])) if kind in _VIEW_ADAPTERS else ()


OPTIMUM = "optimal"
"""What stands for the optimum where an answer or a record names a policy."""
_BACKEND = "policy:"
"""What stands before a policy's name where a solution names its backend."""


def asked_policy(policy: Any) -> Any:
    """Return the policy that a name of an answer means, ``None`` for the optimum; a policy as it is."""
    if not isinstance(policy, str):
        return policy
    name = policy.removeprefix(_BACKEND)
    return None if name == OPTIMUM else name


def name_of(policy: str | Callable[[Any], Any]) -> str:
    """Return what a policy is called: its name in the table, or that of the function or class."""
    if isinstance(policy, str):
        return policy
    return str(getattr(policy, "__name__", type(policy).__name__))


class PolicyRunner:
    """The policies of one session, each made when it is first asked and kept with what it learns."""

    def __init__(self) -> None:
        self._adapter: ViewAdapter | None = None
        self._made: dict[str, Any] = {}

    def decide(
        self,
        policy: str | Callable[[Any], Any],
        instance: Instance,
        structure: CompiledModel,
        last: Solution | None,
        options: SolveOptions,
        time_s: float | None,
    ) -> Solution:
        """Return the checked plan of a policy.

        Parameters
        ----------
        policy
            A name, or a policy itself: ``policy(view) -> plan`` with the view of the kind.
        instance, structure
            What is decided, and its structured model.
        last
            An earlier solution, whose prices bound the optimum.
        options
            Seed and the like.
        time_s
            Now, in seconds; the clock of this machine by default.

        Raises
        ------
        InvalidOption
            If there is no such policy, or it cannot decide this instance.
        InvalidPlan, InvalidClusterPlan
            If its answer breaks a rule of its view.
        """
        kind = kind_of(instance)
        if kind.name not in _VIEW_ADAPTERS:
            raise InvalidOption(
                f"there are no policies for {kind.name}; there are for {', '.join(_VIEW_ADAPTERS)}"
            )
        name = name_of(policy)
        called = self._named(name, instance, options.seed) if isinstance(policy, str) else policy
        if not callable(called):
            raise InvalidOption(f"a policy must be a name or a function of a view, not {policy!r:.60}")
        if self._adapter is None:
            self._adapter = loaded(_VIEW_ADAPTERS[kind.name][0])()
        call = Call(instance, kind, options)
        view = self._adapter.view(instance, time.time() if time_s is None else time_s)
        plan = self._adapter.plan(view, called, instance)
        call.log.lap("solve")
        prices = None if last is None else known_prices(structure, last.certificate.multipliers or {})
        if prices is None:
            prices = structure.greedy(call.seconds_left).hint
        outcome = Outcome(termination=Termination.SOLUTION_LIMIT, raw_status=f"the plan of policy {name}")
        checked = checked_plan(call, plan, None)
        tried = Attempt(outcome, structure, Start(hint=prices), checked=checked)
        by = registry.Backend(f"{_BACKEND}{name}", "knapsack", "", description="a policy")
        return conclude(call, by, "the policy that was asked for", tried, frozenset())

    def _named(self, name: str, instance: Any, seed: int) -> Callable[[Any], Any]:
        if name not in self._made:
            if kind_of(instance).name == "gap_filling":
                from apportion.cluster.policies.names import policy

                self._made[name] = policy(name, instance.horizon_s)
            elif kind_of(instance).name == "placement":
                table = loaded(_VIEW_ADAPTERS["placement"][1])
                one_of("policy", name, table)
                self._made[name] = table[name](seed)
            else:
                from apportion.cluster.policies.names import cluster_policy

                self._made[name] = cluster_policy(name).make(seed)
        made: Callable[[Any], Any] = self._made[name]
        return made

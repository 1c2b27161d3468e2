"""Decide what each deep-learning job of a cluster runs on: exact, checked and certified.

Names are imported when they are first used, so that ``import apportion`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from apportion.core import __version__

if TYPE_CHECKING:
    from apportion.cluster.estimation.model_similarity import ReferenceSpeeds as ReferenceSpeeds
    from apportion.cluster.estimation.model_similarity import TrainingJob as TrainingJob
    from apportion.cluster.estimation.model_similarity import model_similarity as model_similarity
    from apportion.cluster.estimation.similarity import ModelSignature as ModelSignature
    from apportion.core.errors import ApportionError as ApportionError
    from apportion.core.errors import BackendUnavailable as BackendUnavailable
    from apportion.core.errors import InvalidInstance as InvalidInstance
    from apportion.core.errors import InvalidOption as InvalidOption
    from apportion.core.errors import NoPlan as NoPlan
    from apportion.core.options import Incumbent as Incumbent
    from apportion.core.outcome import Report as Report
    from apportion.core.outcome import Termination as Termination
    from apportion.core.solution import Solution as Solution
    from apportion.explanation.explain import explain as explain
    from apportion.explanation.what_if import what_if as what_if
    from apportion.instances import FreezingConfiguration as FreezingConfiguration
    from apportion.instances import FreezingInstance as FreezingInstance
    from apportion.instances import FreezingJob as FreezingJob
    from apportion.instances import FreezingRow as FreezingRow
    from apportion.instances import GapFillingInstance as GapFillingInstance
    from apportion.instances import GapFillingJob as GapFillingJob
    from apportion.instances import KnapsackGoal as KnapsackGoal
    from apportion.instances import KnapsackJob as KnapsackJob
    from apportion.instances import KnapsackOption as KnapsackOption
    from apportion.instances import MatchingEntry as MatchingEntry
    from apportion.instances import MatchingInstance as MatchingInstance
    from apportion.instances import MatchingJob as MatchingJob
    from apportion.instances import MatchingMachine as MatchingMachine
    from apportion.instances import MultipleChoiceKnapsackInstance as MultipleChoiceKnapsackInstance
    from apportion.instances import PlacementInstance as PlacementInstance
    from apportion.instances import PlacementJob as PlacementJob
    from apportion.instances import PlacementNodes as PlacementNodes
    from apportion.instances import PlacementOption as PlacementOption
    from apportion.instances import PlacementPods as PlacementPods
    from apportion.instances import PlacementRunning as PlacementRunning
    from apportion.instances import ScalingCurve as ScalingCurve
    from apportion.instances.placement.goals import BalanceGoal as BalanceGoal
    from apportion.instances.placement.goals import JobsStoppedGoal as JobsStoppedGoal
    from apportion.instances.placement.goals import LeftGoal as LeftGoal
    from apportion.instances.placement.goals import LevelsClimbedGoal as LevelsClimbedGoal
    from apportion.instances.placement.goals import PodsMovedGoal as PodsMovedGoal
    from apportion.instances.placement.goals import PodsStoppedGoal as PodsStoppedGoal
    from apportion.instances.placement.goals import SpreadExcessGoal as SpreadExcessGoal
    from apportion.instances.placement.goals import StrandedGoal as StrandedGoal
    from apportion.instances.placement.goals import TogetherExcessGoal as TogetherExcessGoal
    from apportion.instances.placement.goals import UsedGoal as UsedGoal
    from apportion.instances.placement.goals import ValueGoal as ValueGoal
    from apportion.instances.placement.rules import ApartRule as ApartRule
    from apportion.instances.placement.rules import AtLeastRule as AtLeastRule
    from apportion.instances.placement.rules import AvoidRule as AvoidRule
    from apportion.instances.placement.rules import ClosedRule as ClosedRule
    from apportion.instances.placement.rules import DrainRule as DrainRule
    from apportion.instances.placement.rules import ExclusiveRule as ExclusiveRule
    from apportion.instances.placement.rules import KeepFreeRule as KeepFreeRule
    from apportion.instances.placement.rules import LeastUseRule as LeastUseRule
    from apportion.instances.placement.rules import LimitRule as LimitRule
    from apportion.instances.placement.rules import MaxMovesRule as MaxMovesRule
    from apportion.instances.placement.rules import MaxStopsRule as MaxStopsRule
    from apportion.instances.placement.rules import MovingRule as MovingRule
    from apportion.instances.placement.rules import RatioRule as RatioRule
    from apportion.instances.placement.rules import RequireRule as RequireRule
    from apportion.instances.placement.rules import ShareRule as ShareRule
    from apportion.instances.placement.rules import SpareRule as SpareRule
    from apportion.instances.placement.rules import SpreadRule as SpreadRule
    from apportion.instances.placement.rules import StandbyRule as StandbyRule
    from apportion.instances.placement.rules import StayRule as StayRule
    from apportion.instances.placement.rules import TogetherRule as TogetherRule
    from apportion.instances.tenants.schema import Fairness as Fairness
    from apportion.instances.tenants.schema import FinishTime as FinishTime
    from apportion.instances.tenants.schema import Quota as Quota
    from apportion.instances.tenants.schema import Tenant as Tenant
    from apportion.io.builders import Freezing as Freezing
    from apportion.io.builders import GapFilling as GapFilling
    from apportion.io.builders import Knapsack as Knapsack
    from apportion.io.builders import Matching as Matching
    from apportion.io.read import read as read
    from apportion.models import LinearModelBuilder as LinearModelBuilder
    from apportion.models import MultipleChoiceKnapsack as MultipleChoiceKnapsack
    from apportion.models.assignment import Assignment as Assignment
    from apportion.models.implicit_menus import Menu as Menu
    from apportion.models.implicit_menus import MenuOption as MenuOption
    from apportion.models.implicit_menus import Span as Span
    from apportion.models.implicit_menus import SpanMenu as SpanMenu
    from apportion.proofs.verifying import verify as verify
    from apportion.scale.executors import solve_many as solve_many
    from apportion.service.session import Session as Session
    from apportion.solving.api import check as check
    from apportion.solving.api import solve as solve
    from apportion.solving.api import solve_in_order as solve_in_order
    from apportion.solving.implicit_menus import solve_menus as solve_menus
    from apportion.solving.registry import Backend as Backend

_HOME = {
    "ApartRule": "apportion.instances.placement.rules",
    "ApportionError": "apportion.core.errors",
    "Assignment": "apportion.models.assignment",
    "AtLeastRule": "apportion.instances.placement.rules",
    "AvoidRule": "apportion.instances.placement.rules",
    "Backend": "apportion.solving.registry",
    "BackendUnavailable": "apportion.core.errors",
    "BalanceGoal": "apportion.instances.placement.goals",
    "ClosedRule": "apportion.instances.placement.rules",
    "DrainRule": "apportion.instances.placement.rules",
    "ExclusiveRule": "apportion.instances.placement.rules",
    "Fairness": "apportion.instances.tenants.schema",
    "FinishTime": "apportion.instances.tenants.schema",
    "Freezing": "apportion.io.builders",
    "FreezingConfiguration": "apportion.instances",
    "FreezingInstance": "apportion.instances",
    "FreezingJob": "apportion.instances",
    "FreezingRow": "apportion.instances",
    "GapFilling": "apportion.io.builders",
    "GapFillingInstance": "apportion.instances",
    "GapFillingJob": "apportion.instances",
    "Incumbent": "apportion.core.options",
    "InvalidInstance": "apportion.core.errors",
    "InvalidOption": "apportion.core.errors",
    "JobsStoppedGoal": "apportion.instances.placement.goals",
    "KeepFreeRule": "apportion.instances.placement.rules",
    "LeastUseRule": "apportion.instances.placement.rules",
    "Knapsack": "apportion.io.builders",
    "KnapsackGoal": "apportion.instances",
    "KnapsackJob": "apportion.instances",
    "KnapsackOption": "apportion.instances",
    "LeftGoal": "apportion.instances.placement.goals",
    "LevelsClimbedGoal": "apportion.instances.placement.goals",
    "LimitRule": "apportion.instances.placement.rules",
    "LinearModelBuilder": "apportion.models",
    "Matching": "apportion.io.builders",
    "MatchingEntry": "apportion.instances",
    "MatchingInstance": "apportion.instances",
    "MatchingJob": "apportion.instances",
    "MatchingMachine": "apportion.instances",
    "MaxMovesRule": "apportion.instances.placement.rules",
    "MaxStopsRule": "apportion.instances.placement.rules",
    "Menu": "apportion.models.implicit_menus",
    "MenuOption": "apportion.models.implicit_menus",
    "ModelSignature": "apportion.cluster.estimation.similarity",
    "MovingRule": "apportion.instances.placement.rules",
    "MultipleChoiceKnapsack": "apportion.models",
    "MultipleChoiceKnapsackInstance": "apportion.instances",
    "NoPlan": "apportion.core.errors",
    "PlacementInstance": "apportion.instances",
    "PlacementJob": "apportion.instances",
    "PlacementNodes": "apportion.instances",
    "PlacementOption": "apportion.instances",
    "PlacementPods": "apportion.instances",
    "PlacementRunning": "apportion.instances",
    "PodsMovedGoal": "apportion.instances.placement.goals",
    "PodsStoppedGoal": "apportion.instances.placement.goals",
    "Quota": "apportion.instances.tenants.schema",
    "RatioRule": "apportion.instances.placement.rules",
    "ReferenceSpeeds": "apportion.cluster.estimation.model_similarity",
    "Report": "apportion.core.outcome",
    "RequireRule": "apportion.instances.placement.rules",
    "ScalingCurve": "apportion.instances",
    "Session": "apportion.service.session",
    "ShareRule": "apportion.instances.placement.rules",
    "Solution": "apportion.core.solution",
    "Span": "apportion.models.implicit_menus",
    "SpanMenu": "apportion.models.implicit_menus",
    "SpareRule": "apportion.instances.placement.rules",
    "SpreadExcessGoal": "apportion.instances.placement.goals",
    "SpreadRule": "apportion.instances.placement.rules",
    "StandbyRule": "apportion.instances.placement.rules",
    "StayRule": "apportion.instances.placement.rules",
    "StrandedGoal": "apportion.instances.placement.goals",
    "Tenant": "apportion.instances.tenants.schema",
    "Termination": "apportion.core.outcome",
    "TogetherExcessGoal": "apportion.instances.placement.goals",
    "TogetherRule": "apportion.instances.placement.rules",
    "TrainingJob": "apportion.cluster.estimation.model_similarity",
    "UsedGoal": "apportion.instances.placement.goals",
    "ValueGoal": "apportion.instances.placement.goals",
    "check": "apportion.solving.api",
    "explain": "apportion.explanation.explain",
    "model_similarity": "apportion.cluster.estimation.model_similarity",
    "read": "apportion.io.read",
    "solve": "apportion.solving.api",
    "solve_in_order": "apportion.solving.api",
    "solve_many": "apportion.scale.executors",
    "solve_menus": "apportion.solving.implicit_menus",
    "verify": "apportion.proofs.verifying",
    "what_if": "apportion.explanation.what_if",
}

__all__ = [*sorted(_HOME), "__version__"]

if find_spec("apportion.instances") is None:
    raise ImportError(
        "apportion.instances is missing: src/apportion/{instances,formulations,solvers} must be links to the "
        "folders at the top of the repository. Clone with git (git config core.symlinks true), or install "
        "the package with pip instead of using a ZIP of the sources."
    )


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'apportion' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)

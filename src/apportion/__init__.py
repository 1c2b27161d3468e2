"""Decide what each deep-learning job of a cluster runs on: exact, checked and certified.

Names are imported when they are first used, so that ``import apportion`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from apportion.version import __version__

if TYPE_CHECKING:
    from apportion.api import check as check
    from apportion.api import solve as solve
    from apportion.batch import solve_many as solve_many
    from apportion.building.kinds import Freezing as Freezing
    from apportion.building.kinds import GapFilling as GapFilling
    from apportion.building.kinds import Knapsack as Knapsack
    from apportion.building.kinds import Matching as Matching
    from apportion.errors import ApportionError as ApportionError
    from apportion.errors import BackendUnavailable as BackendUnavailable
    from apportion.errors import InvalidInstance as InvalidInstance
    from apportion.errors import InvalidOption as InvalidOption
    from apportion.errors import NoPlan as NoPlan
    from apportion.estimation.model_signature import ModelSignature as ModelSignature
    from apportion.estimation.reference_speeds import ReferenceSpeeds as ReferenceSpeeds
    from apportion.explanation.explain import explain as explain
    from apportion.explanation.what_if import what_if as what_if
    from apportion.formulations.matching.model_similarity import TrainingJob as TrainingJob
    from apportion.formulations.matching.model_similarity import model_similarity as model_similarity
    from apportion.instances import FreezingConfiguration as FreezingConfiguration
    from apportion.instances import FreezingInstance as FreezingInstance
    from apportion.instances import FreezingJob as FreezingJob
    from apportion.instances import FreezingRow as FreezingRow
    from apportion.instances import GapFillingInstance as GapFillingInstance
    from apportion.instances import GapFillingJob as GapFillingJob
    from apportion.instances import KnapsackJob as KnapsackJob
    from apportion.instances import KnapsackOption as KnapsackOption
    from apportion.instances import MatchingEntry as MatchingEntry
    from apportion.instances import MatchingInstance as MatchingInstance
    from apportion.instances import MatchingJob as MatchingJob
    from apportion.instances import MatchingMachine as MatchingMachine
    from apportion.instances import MultipleChoiceKnapsackInstance as MultipleChoiceKnapsackInstance
    from apportion.instances import ScalingCurve as ScalingCurve
    from apportion.instances.tenants.schema import Fairness as Fairness
    from apportion.instances.tenants.schema import FinishTime as FinishTime
    from apportion.instances.tenants.schema import Quota as Quota
    from apportion.instances.tenants.schema import Tenant as Tenant
    from apportion.models import LinearModelBuilder as LinearModelBuilder
    from apportion.models import MultipleChoiceKnapsack as MultipleChoiceKnapsack
    from apportion.models.assignment import Assignment as Assignment
    from apportion.options import Incumbent as Incumbent
    from apportion.outcome import Termination as Termination
    from apportion.proofs.verifying import verify as verify
    from apportion.reading.read import read as read
    from apportion.registry import Backend as Backend
    from apportion.report import Report as Report
    from apportion.session.session import Session as Session
    from apportion.solution import Solution as Solution

_HOME = {
    "ApportionError": "apportion.errors",
    "Assignment": "apportion.models.assignment",
    "Backend": "apportion.registry",
    "BackendUnavailable": "apportion.errors",
    "Fairness": "apportion.instances.tenants.schema",
    "FinishTime": "apportion.instances.tenants.schema",
    "Freezing": "apportion.building.kinds",
    "FreezingConfiguration": "apportion.instances",
    "FreezingInstance": "apportion.instances",
    "FreezingJob": "apportion.instances",
    "FreezingRow": "apportion.instances",
    "GapFilling": "apportion.building.kinds",
    "GapFillingInstance": "apportion.instances",
    "GapFillingJob": "apportion.instances",
    "Incumbent": "apportion.options",
    "InvalidInstance": "apportion.errors",
    "InvalidOption": "apportion.errors",
    "Knapsack": "apportion.building.kinds",
    "KnapsackJob": "apportion.instances",
    "KnapsackOption": "apportion.instances",
    "LinearModelBuilder": "apportion.models",
    "Matching": "apportion.building.kinds",
    "MatchingEntry": "apportion.instances",
    "MatchingInstance": "apportion.instances",
    "MatchingJob": "apportion.instances",
    "MatchingMachine": "apportion.instances",
    "ModelSignature": "apportion.estimation.model_signature",
    "MultipleChoiceKnapsack": "apportion.models",
    "MultipleChoiceKnapsackInstance": "apportion.instances",
    "NoPlan": "apportion.errors",
    "Quota": "apportion.instances.tenants.schema",
    "ReferenceSpeeds": "apportion.estimation.reference_speeds",
    "Report": "apportion.report",
    "ScalingCurve": "apportion.instances",
    "Session": "apportion.session.session",
    "Solution": "apportion.solution",
    "Tenant": "apportion.instances.tenants.schema",
    "Termination": "apportion.outcome",
    "TrainingJob": "apportion.formulations.matching.model_similarity",
    "check": "apportion.api",
    "explain": "apportion.explanation.explain",
    "model_similarity": "apportion.formulations.matching.model_similarity",
    "read": "apportion.reading.read",
    "solve": "apportion.api",
    "solve_many": "apportion.batch",
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
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

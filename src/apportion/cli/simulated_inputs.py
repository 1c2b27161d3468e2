"""What `apportion simulate` reads, once for all policies compared: a log, or measured applications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from apportion.cluster.policies.names import CLUSTER_POLICIES, NamedPolicy
from apportion.core.errors import InvalidOption

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.cluster.estimation.training.application import Application
    from apportion.cluster.estimation.training.freezing_profile import FreezingProfiles
    from apportion.cluster.policies.rounds.cluster_view import Claims, Nodes
    from apportion.cluster.simulation.rounds.completion_bound import CompletionBound
    from apportion.cluster.simulation.rounds.job_states import Beliefs, GroundTruth, RoundRules
    from apportion.cluster.simulation.rounds.simulator import ClusterRun

__all__ = ["DurationInputs", "MeasuredInputs", "UnderPolicy", "inputs_of", "rules_of"]


@dataclass(frozen=True, slots=True, eq=False)
class UnderPolicy:
    """What differs by policy.

    Attributes
    ----------
    ground_truth
        What the jobs really do.
    beliefs
        What the policy believes of them.
    unfreezable
        Jobs by application that the policy would freeze and cannot, for want of a profile.
    """

    ground_truth: GroundTruth
    beliefs: Beliefs
    unfreezable: Mapping[str, int]


def inputs_of(given: Mapping[str, Any]) -> DurationInputs | MeasuredInputs:
    """Read the workload, and the profiles where they are given.

    Raises
    ------
    InvalidInstance
        If a file is wrong.
    InvalidOption
        If options do not fit each other or the machines.
    """
    from apportion.cluster.estimation.training import HOMOGENEOUS
    from apportion.cluster.simulation.rounds.scenario import homogeneous, parse_nodes

    if given["machines"]:
        nodes = parse_nodes(given["machines"])
    else:
        nodes = homogeneous(given["nodes"], given["gpus_per_node"], given["gpu_type"] or HOMOGENEOUS)
    if given["models"] is not None and given["belief"] != "similar":
        raise InvalidOption("--models tells of --belief similar only")
    return DurationInputs(given, nodes) if given["profiles"] is None else MeasuredInputs(given, nodes)


class DurationInputs:
    """A log of durations: jobs whose progress is seconds, and that belong to nobody."""

    claims: Claims | None = None

    def __init__(self, given: Mapping[str, Any], nodes: Nodes) -> None:
        from apportion.cluster.simulation.rounds.workload_files import read_durations

        if given["slowdowns"]:
            raise InvalidOption("--slowdown needs --profiles: a log has no applications")
        if given["belief"] != "true":
            raise InvalidOption(f"--belief {given['belief']} needs --profiles: a log knows no speeds")
        if given["bound"] or given["bound_of"] is not None:
            raise InvalidOption(
                "--bound needs --profiles: a log does not say how jobs run on other GPU counts"
            )
        if given["tenants"] is not None:
            raise InvalidOption("--tenants needs --profiles: a log of durations has no column tenant")
        self.nodes = nodes
        self._log = read_durations(given["workload"])
        most = int(self._log.gpus.max())
        if most > nodes.total_gpus:
            raise InvalidOption(f"a job asks for {most} GPUs, the cluster has {nodes.total_gpus}")
        self.names = [str(job) for job in range(self._log.gpus.size)]
        self.submitted_s: NDArray[np.float64] = self._log.submitted_s
        self.gpus: NDArray[np.int64] = self._log.gpus

    @property
    def similar(self) -> dict[str, dict[str, float]]:
        """Speeds by likeness of models: a log knows none."""
        return {}

    def bound(self, runs: Sequence[tuple[str, ClusterRun]]) -> CompletionBound | None:
        """Return none: a log's jobs run on the GPUs that they ran on."""

    def under(self, policy: NamedPolicy) -> UnderPolicy:
        """Return truth and beliefs for one policy, both new."""
        from apportion.cluster.simulation.rounds.workload_files import FixedDurations, durations_known

        unfreezable = {"jobs of known durations": int(self.gpus.size)} if policy.freezes else {}
        return UnderPolicy(
            FixedDurations(self._log), durations_known(self._log, self.nodes.types), unfreezable
        )


class MeasuredInputs:
    """A workload of applications that were measured."""

    def __init__(self, given: Mapping[str, Any], nodes: Nodes) -> None:
        from apportion.cluster.estimation.training import read_applications
        from apportion.cluster.simulation.rounds.scenario import Scenario, read_workload
        from apportion.cluster.simulation.rounds.workload_files import read_claims

        self.nodes = nodes
        self._given = given
        self._slowdowns = dict(_slowdown(text) for text in given["slowdowns"])
        self._profiles: Mapping[str, Application] = read_applications(given["profiles"])
        self._scenario = Scenario.of(read_workload(given["workload"], self._profiles), self._profiles, nodes)
        self.names = [job.name for job in self._scenario.jobs]
        self.submitted_s: NDArray[np.float64] = self._scenario.submitted_s
        self.gpus: NDArray[np.int64] = self._scenario.requested_gpus
        self.claims: Claims | None = read_claims(given["workload"], given["tenants"], nodes, self.submitted_s)

    @cached_property
    def similar(self) -> dict[str, dict[str, float]]:
        """Speeds that are believed by likeness of models."""
        from apportion.cli.source import text_of
        from apportion.cluster.estimation.model_similarity import read_signatures
        from apportion.cluster.policies.rounds.learned_speeds import similar_speeds

        models = self._given["models"]
        known = {} if models is None else read_signatures(text_of(models))
        return similar_speeds(self._profiles, self.nodes.types, known)

    @cached_property
    def _freezing(self) -> FreezingProfiles:
        from apportion.cluster.estimation.training.application import training_folder
        from apportion.cluster.estimation.training.freezing_profile import freezing_profiles, read_freezing

        folder = self._given["freezing"] or training_folder(self._given["profiles"])
        return freezing_profiles(read_freezing(folder), self._given["stand_in"])

    def under(self, policy: NamedPolicy) -> UnderPolicy:
        """Return truth and beliefs for one policy, both new; freezing profiles are read where it freezes.

        Raises
        ------
        InvalidInstance
            If the policy keeps what users asked for and a job cannot run like that, or a profile is wrong.
        """
        theta, scenario = self._given["theta"], self._scenario
        if not (policy.adaptive or policy.elastic):
            scenario.check_requests()
        believed = theta if self._given["believed_theta"] is None else self._given["believed_theta"]
        freezing = self._freezing if policy.freezes else {}
        return UnderPolicy(
            scenario.ground_truth(policy.adaptive, freezing, theta, self._slowdowns),
            scenario.beliefs(policy.adaptive, freezing, believed),
            scenario.unfreezable(freezing) if policy.freezes else {},
        )

    def bound(self, runs: Sequence[tuple[str, ClusterRun]]) -> CompletionBound | None:
        """Return what no policy undercuts, where it is asked for.

        Raises
        ------
        InvalidInstance
            If an earlier answer holds no prices.
        InvalidOption
            If jobs are slowed down, or the prices do not fit the machines.
        """
        if not (self._given["bound"] or self._given["bound_of"]):
            return None
        if self._slowdowns:
            raise InvalidOption("--bound is that of the profiles: it goes without --slowdown")
        from apportion.cli.source import text_of
        from apportion.cluster.simulation.rounds.completion_bound import (
            bound_at,
            completion_bound,
            prices_of,
        )

        rules = [rules_of(self._given, CLUSTER_POLICIES[policy]) for policy, _ in runs]
        if (answer := self._given["bound_of"]) is not None:
            return bound_at(self._scenario, rules, *prices_of(text_of(answer), self.nodes.types))
        return completion_bound(self._scenario, rules, runs[0][1].completed_s)


def rules_of(given: Mapping[str, Any], policy: NamedPolicy) -> RoundRules:
    """Return the rules of the rounds of one policy."""
    from apportion.cluster.simulation.rounds.job_states import RoundRules

    return RoundRules(
        round_s=policy.round_s if given["round_s"] is None else given["round_s"],
        restart_s=given["restart_s"],
        rebuild_s=given["rebuild_s"],
        interference=given["interference"],
    )


def _slowdown(text: str) -> tuple[str, float]:
    name, _, factor = text.partition("=")
    try:
        return name, float(factor)
    except ValueError:
        raise InvalidOption(f"--slowdown must be APPLICATION=FACTOR, as imagenet=1.2; got {text!r}") from None

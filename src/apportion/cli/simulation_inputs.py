"""What `apportion simulate` reads, once for all the policies that it compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from apportion.errors import InvalidOption
from apportion.policies.cluster.names import NamedPolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.estimation.training.application import Application
    from apportion.estimation.training.freezing_file import FreezingProfiles
    from apportion.policies.cluster.claims import Claims
    from apportion.policies.cluster.cluster_view import Nodes
    from apportion.simulation.cluster.conditions import Beliefs
    from apportion.simulation.cluster.nature import Nature

__all__ = ["UnderPolicy", "inputs_of"]


@dataclass(frozen=True, slots=True, eq=False)
class UnderPolicy:
    """What differs by policy.

    Attributes
    ----------
    nature
        What the jobs really do.
    beliefs
        What the policy believes of them.
    unfreezable
        Jobs by application that the policy would freeze and cannot, for want of a profile.
    """

    nature: Nature
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
    from apportion.estimation.training import HOMOGENEOUS
    from apportion.simulation.cluster.scenario import homogeneous, parse_nodes

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
        from apportion.simulation.cluster.durations import read_durations

        if given["slowdowns"]:
            raise InvalidOption("--slowdown needs --profiles: a log has no applications")
        if given["belief"] != "true":
            raise InvalidOption(f"--belief {given['belief']} needs --profiles: a log knows no speeds")
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

    def under(self, policy: NamedPolicy) -> UnderPolicy:
        """Return truth and beliefs for one policy, both new."""
        from apportion.simulation.cluster.durations import FixedDurations, durations_known

        unfreezable = {"jobs of known durations": int(self.gpus.size)} if policy.freezes else {}
        return UnderPolicy(
            FixedDurations(self._log), durations_known(self._log, self.nodes.types), unfreezable
        )


class MeasuredInputs:
    """A workload of applications that were measured."""

    def __init__(self, given: Mapping[str, Any], nodes: Nodes) -> None:
        from apportion.estimation.training import read_applications
        from apportion.simulation.cluster.scenario import Scenario
        from apportion.simulation.cluster.tenants_file import read_claims
        from apportion.simulation.cluster.workload import read_workload

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
        from apportion.estimation.reference_table import read_signatures
        from apportion.policies.cluster.similar_speeds import similar_speeds

        models = self._given["models"]
        known = {} if models is None else read_signatures(text_of(models))
        return similar_speeds(self._profiles, self.nodes.types, known)

    @cached_property
    def _freezing(self) -> FreezingProfiles:
        from apportion.estimation.training.freezing_file import freezing_profiles, read_freezing
        from apportion.estimation.training.profiles import training_folder

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
            scenario.nature(policy.adaptive, freezing, theta, self._slowdowns),
            scenario.beliefs(policy.adaptive, freezing, believed),
            scenario.unfreezable(freezing) if policy.freezes else {},
        )


def _slowdown(text: str) -> tuple[str, float]:
    name, _, factor = text.partition("=")
    try:
        return name, float(factor)
    except ValueError:
        raise InvalidOption(f"--slowdown must be APPLICATION=FACTOR, as imagenet=1.2; got {text!r}") from None

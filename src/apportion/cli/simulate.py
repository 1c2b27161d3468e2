"""``apportion simulate``: a workload of training jobs on a cluster under a policy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import emit, say
from apportion.errors import InvalidOption
from apportion.policies.cluster.names import CLUSTER_POLICIES, NamedPolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.policies.cluster.view import ClusterView

__all__ = ["command"]


@click.command("simulate")
@click.option(
    "--profiles",
    metavar="DIR",
    help="Measured applications, a sub-folder each: placements.csv, scalability.csv, validation-BATCH.csv. "
    "Without it the workload is a log of durations: timestamp, duration, num_gpus (.csv or .csv.gz).",
)
@click.option(
    "--workload",
    required=True,
    metavar="FILE.csv",
    help="Jobs: name, time, application, num_replicas, batch_size.",
)
@click.option("--policy", "policy_name", required=True, type=click.Choice([*CLUSTER_POLICIES]))
@click.option("--nodes", type=click.IntRange(min=1), default=16, show_default=True)
@click.option("--gpus-per-node", type=click.IntRange(min=1), default=4, show_default=True)
@click.option("--gpu-type", metavar="TYPE", help="Of the nodes; default: the profiles' untyped measurements.")
@click.option(
    "--machines",
    metavar="TYPE:NODESxGPUS,...",
    help="Several GPU types, for instance aws:6x4,rtx:3x8; replaces --nodes, --gpus-per-node and --gpu-type.",
)
@click.option("--round-s", type=float, default=60.0, show_default=True, help="Seconds between decisions.")
@click.option("--restart-s", type=float, default=30.0, show_default=True, help="Standstill after a restart.")
@click.option(
    "--rebuild-s", type=float, default=5.0, show_default=True, help="Standstill where depth changes."
)
@click.option(
    "--interference",
    type=float,
    default=0.0,
    show_default=True,
    help="Share of its speed a distributed job loses beside another one on a node.",
)
@click.option(
    "--theta",
    type=click.FloatRange(0.0, 10.0),
    default=1.0,
    show_default=True,
    help="True scale of what frozen layers cost; 1 is pessimistic.",
)
@click.option(
    "--believed-theta",
    type=click.FloatRange(0.0, 10.0),
    help="What the policy believes of it; default: the truth.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of policies that draw.")
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
def command(**given: Any) -> None:
    """Simulate a cluster of training jobs and say what the policy came to.

    Exit code 0 when every job completed, 2 for a wrong option, 3 for wrong profiles or a wrong workload.
    """
    import platform
    from importlib.metadata import version

    import msgspec

    from apportion.cli.progress import Progress
    from apportion.simulation.cluster.cluster_summary import summarise_cluster
    from apportion.simulation.cluster.run import run_cluster

    named = CLUSTER_POLICIES[given["policy_name"]]
    nodes, nature, submitted_s, gpus, beliefs, unfreezable = _inputs(given, named)
    _tell_unfreezable(given["policy_name"], unfreezable)
    begun = time.perf_counter()
    with Progress(not given["as_json"], "simulating") as progress:
        run = run_cluster(
            named.make(given["seed"]),
            nodes,
            nature,
            submitted_s,
            gpus,
            beliefs,
            round_s=given["round_s"],
            restart_s=given["restart_s"],
            rebuild_s=given["rebuild_s"],
            interference=given["interference"],
            observe=lambda view, plan: progress.say(_progress(view, submitted_s)),
        )
    summary = summarise_cluster(run, given["policy_name"], time.perf_counter() - begun)
    if given["as_json"]:
        versions = {name: version(name) for name in ("apportion", "numpy", "scipy")}
        versions["python"] = platform.python_version()
        answer = msgspec.to_builtins(summary)
        answer |= {"cannot_freeze": unfreezable, "seed": given["seed"], "versions": versions}
        emit(msgspec.json.encode(answer))
        return
    say("\n".join(f"{name:22} {_shown(value)}" for name, value in msgspec.to_builtins(summary).items()))


def _inputs(given: dict[str, Any], named: NamedPolicy) -> tuple[Any, ...]:
    """Return machines, truth, submissions, requested GPUs, beliefs, and jobs by what cannot be frozen."""
    from apportion.estimation.training import HOMOGENEOUS, read_applications
    from apportion.simulation.cluster.scenario import Scenario, homogeneous, parse_nodes

    if given["machines"]:
        nodes = parse_nodes(given["machines"])
    else:
        nodes = homogeneous(given["nodes"], given["gpus_per_node"], given["gpu_type"] or HOMOGENEOUS)
    if given["profiles"] is None:
        from apportion.simulation.cluster.durations import FixedDurations, durations_known, read_durations

        log = read_durations(given["workload"])
        if int(log.gpus.max()) > nodes.total_gpus:
            raise InvalidOption(f"a job asks for {log.gpus.max()} GPUs, the cluster has {nodes.total_gpus}")
        unfreezable = {"jobs of known durations": int(log.gpus.size)} if named.freezes else {}
        known = durations_known(log, nodes.types)
        return nodes, FixedDurations(log), log.submitted_s, log.gpus, known, unfreezable
    from apportion.simulation.cluster.workload import read_workload

    profiles = read_applications(given["profiles"])
    scenario = Scenario.of(read_workload(given["workload"], profiles), profiles, nodes)
    believed = given["theta"] if given["believed_theta"] is None else given["believed_theta"]
    nature = scenario.nature(named.adaptive, named.freezes, given["theta"])
    beliefs = scenario.oracle(named.adaptive, named.freezes, believed)
    unfreezable = scenario.unfreezable() if named.freezes else {}
    return nodes, nature, scenario.submitted_s, scenario.requested_gpus, beliefs, unfreezable


def _tell_unfreezable(policy: str, jobs: Mapping[str, int]) -> None:
    if jobs:
        listed = ", ".join(f"{name} ({count} jobs)" for name, count in jobs.items())
        click.echo(f"simulate: {policy} runs unfrozen, for want of a freezing profile: {listed}", err=True)


def _progress(view: ClusterView, submitted_s: NDArray[np.float64]) -> str:
    arrived = int((submitted_s <= view.time_s).sum())
    return f"hour {view.time_s / 3600:.1f}: {arrived - view.num_jobs} of {submitted_s.size} jobs done"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)

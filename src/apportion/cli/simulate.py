"""``apportion simulate``: a workload of training jobs on a cluster under a policy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import emit, say
from apportion.cli.simulation_inputs import DurationInputs, MeasuredInputs, inputs_of
from apportion.cli.simulation_output import answer, drawn, jobs_table, page, picture, shown, tenants_table
from apportion.policies.cluster.beliefs import BELIEFS
from apportion.policies.cluster.names import CLUSTER_POLICIES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.policies.cluster.cluster_view import ClusterView
    from apportion.simulation.cluster.cluster_page import Simulated

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
@click.option(
    "--policy",
    "policies",
    required=True,
    multiple=True,
    type=click.Choice([*CLUSTER_POLICIES]),
    help="Repeatable: the first is what the answer is about, the others are compared with it.",
)
@click.option("--nodes", type=click.IntRange(min=1), default=16, show_default=True)
@click.option("--gpus-per-node", type=click.IntRange(min=1), default=4, show_default=True)
@click.option("--gpu-type", metavar="TYPE", help="Of the nodes; default: the profiles' untyped measurements.")
@click.option(
    "--machines",
    metavar="TYPE:NODESxGPUS,...",
    help="Several GPU types, for instance aws:6x4,rtx:3x8; replaces --nodes, --gpus-per-node and --gpu-type.",
)
@click.option(
    "--round-s",
    type=float,
    help="Seconds between decisions; default: what the policy's authors set, 60 but for Gavel's and Titan's.",
)
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
@click.option(
    "--belief",
    type=click.Choice(BELIEFS),
    default="true",
    show_default=True,
    help="What the policy knows of GPU types: their true speeds; how they differ for similar applications; "
    "nothing but what it sees its jobs do; nothing; their speed on one GPU, and on several what it sees.",
)
@click.option(
    "--slowdown",
    "slowdowns",
    multiple=True,
    metavar="APPLICATION=FACTOR",
    help="Jobs of it run slower than was measured, as in Sia's calibration; no policy knows. Repeatable.",
)
@click.option(
    "--models",
    metavar="FILE.csv",
    help="For --belief similar, what is known of the applications: model, family, infer_gmacs, infer_macts, "
    "param_count, batch. Without it they are known by their initial batch.",
)
@click.option(
    "--freezing",
    metavar="DIR",
    help="Freezing profiles: NAME.json or NAME/freezing.json. Default: the folder of --profiles.",
)
@click.option(
    "--stand-in",
    metavar="APPLICATION",
    help="Whose step times stand in for an application that has a penalty and no step times by depth.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of policies that draw.")
@click.option(
    "--tenants",
    metavar="FILE.json",
    help="Tenants with weights and guarantees; the workload's column tenant says whose a job is.",
)
@click.option("--plot", metavar="FILE", help="How the cluster was shared over time: .svg, .html, .png, .pdf.")
@click.option(
    "--compare",
    multiple=True,
    type=click.Choice([*CLUSTER_POLICIES]),
    help="The same as one more --policy: on the same workload; repeatable.",
)
@click.option("--report", metavar="FILE.html", help="Write a self-contained page, policies side by side.")
@click.option("--jobs", "jobs_path", metavar="FILE.csv", help="Write a line per policy and job.")
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
def command(**given: Any) -> None:
    """Simulate a cluster of training jobs and say what the policy came to.

    Exit code 0 when every job completed, 2 for a wrong option, 3 for wrong profiles or a wrong workload.
    """
    import msgspec

    from apportion.cli.output import check_target, write_file
    from apportion.cli.tables import table
    from apportion.plotting import check_name

    if given["plot"] is not None:
        check_name(given["plot"])
    for target in ("plot", "report", "jobs_path"):
        check_target(given[target])
    given["policy_name"], *compared = dict.fromkeys((*given.pop("policies"), *given["compare"]))
    inputs = inputs_of(given)
    done = [_simulated(given, inputs, policy) for policy in (given["policy_name"], *compared)]
    first = done[0][0]
    if given["plot"] is not None:
        write_file(given["plot"], picture(given["plot"], first))
    if given["jobs_path"] is not None:
        write_file(given["jobs_path"], jobs_table([simulated for simulated, _ in done], inputs.names))
    if given["report"] is not None:
        write_file(given["report"], page(given, [simulated for simulated, _ in done]))
    if given["as_json"]:
        first_one, *others = (answer(given, simulated, unfrozen) for simulated, unfrozen in done)
        emit(msgspec.json.encode(first_one | ({"compared": others} if others else {})))
        return
    lines = msgspec.to_builtins(first.summary) | msgspec.to_builtins(first.fairness)
    tenants = lines.pop("tenants")
    width = max(map(len, lines))
    say("\n".join(f"{name:{width}} {shown(value)}" for name, value in lines.items()))
    if len(tenants) > 1:
        say(tenants_table(tenants))
    if len(done) > 1:
        from apportion.simulation.cluster.cluster_page import comparison

        say("\n" + "\n".join(table(comparison([simulated for simulated, _ in done]), "<>>>>>>>>")))


def _simulated(
    given: dict[str, Any], inputs: DurationInputs | MeasuredInputs, policy: str
) -> tuple[Simulated, Mapping[str, int]]:
    """Run one policy; return what came of it, and its jobs by application that could not be frozen."""
    from apportion.cli.progress import Progress
    from apportion.policies.cluster.beliefs import believing
    from apportion.simulation.cluster.cluster_page import Simulated
    from apportion.simulation.cluster.cluster_summary import summarise_cluster
    from apportion.simulation.cluster.conditions import RoundRules, SimulatedJobs
    from apportion.simulation.cluster.fairness_account import FairnessAccount
    from apportion.simulation.cluster.fairness_summary import summarise_fairness
    from apportion.simulation.cluster.rounds import run_cluster

    named = CLUSTER_POLICIES[policy]
    under = inputs.under(named)
    account = FairnessAccount(inputs.nodes, under.beliefs, inputs.gpus, inputs.claims)
    _tell_unfreezable(policy, under.unfreezable)
    begun = time.perf_counter()
    with Progress(not given["as_json"], f"simulating {policy}") as progress:
        run = run_cluster(
            believing(given["belief"], named.make(given["seed"]), lambda: inputs.similar),
            inputs.nodes,
            SimulatedJobs(under.nature, inputs.submitted_s, inputs.gpus, under.beliefs, claims=inputs.claims),
            RoundRules(
                round_s=named.round_s if given["round_s"] is None else given["round_s"],
                restart_s=given["restart_s"],
                rebuild_s=given["rebuild_s"],
                interference=given["interference"],
            ),
            observe=lambda view, plan: progress.say(f"{policy}, {_progress(view, inputs.submitted_s)}"),
            account=account,
        )
    summary = summarise_cluster(run, policy, time.perf_counter() - begun)
    looked_at = given["plot"] is not None or given["report"] is not None
    drawing = drawn(policy, account, run) if looked_at else None
    return Simulated(run, summary, summarise_fairness(run, account), drawing), under.unfreezable


def _tell_unfreezable(policy: str, jobs: Mapping[str, int]) -> None:
    if jobs:
        listed = ", ".join(f"{name} ({count} jobs)" for name, count in jobs.items())
        click.echo(f"simulate: {policy} runs unfrozen, for want of a freezing profile: {listed}", err=True)


def _progress(view: ClusterView, submitted_s: NDArray[np.float64]) -> str:
    arrived = int((submitted_s <= view.time_s).sum())
    return f"hour {view.time_s / 3600:.1f}: {arrived - view.num_jobs} of {submitted_s.size} jobs done"

"""``apportion simulate``: a workload of training jobs on a cluster under a policy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import emit, say
from apportion.errors import InvalidOption
from apportion.policies.cluster.beliefs import BELIEFS
from apportion.policies.cluster.names import CLUSTER_POLICIES, NamedPolicy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.estimation.training.freezing_file import FreezingProfiles
    from apportion.policies.cluster.claims import Claims
    from apportion.policies.cluster.cluster_view import ClusterView, Nodes
    from apportion.simulation.cluster.cluster_page import Simulated
    from apportion.simulation.cluster.fairness_account import FairnessAccount
    from apportion.simulation.cluster.rounds import ClusterRun

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
    "nothing but what it sees its jobs do; nothing.",
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
    help="Simulate this policy too, on the same workload; repeatable.",
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
    policies = [given["policy_name"], *(name for name in given["compare"] if name != given["policy_name"])]
    done = [_simulated(given, policy) for policy in dict.fromkeys(policies)]
    first = done[0][0]
    if given["plot"] is not None:
        write_file(given["plot"], _picture(given["plot"], first))
    if given["jobs_path"] is not None:
        write_file(given["jobs_path"], _jobs_table([simulated for simulated, _ in done]))
    if given["report"] is not None:
        write_file(given["report"], _page(given, [simulated for simulated, _ in done]))
    if given["as_json"]:
        answer, *others = (_answer(given, simulated, unfrozen) for simulated, unfrozen in done)
        emit(msgspec.json.encode(answer | ({"compared": others} if others else {})))
        return
    lines = msgspec.to_builtins(first.summary) | msgspec.to_builtins(first.fairness)
    tenants = lines.pop("tenants")
    say("\n".join(f"{name:22} {_shown(value)}" for name, value in lines.items()))
    if len(tenants) > 1:
        say(_tenants_table(tenants))
    if len(done) > 1:
        from apportion.simulation.cluster.cluster_page import comparison

        say("\n" + "\n".join(table(comparison([simulated for simulated, _ in done]), "<>>>>>>>>")))


def _simulated(given: dict[str, Any], policy: str) -> tuple[Simulated, Mapping[str, int]]:
    """Run one policy; return what came of it, and its jobs by application that could not be frozen."""
    from apportion.cli.progress import Progress
    from apportion.policies.cluster.beliefs import believing
    from apportion.simulation.cluster.cluster_page import Simulated
    from apportion.simulation.cluster.cluster_summary import summarise_cluster
    from apportion.simulation.cluster.fairness_account import FairnessAccount
    from apportion.simulation.cluster.fairness_summary import summarise_fairness
    from apportion.simulation.cluster.rounds import run_cluster

    named = CLUSTER_POLICIES[policy]
    nodes, nature, submitted_s, gpus, beliefs, unfreezable = _inputs(given, named)
    claims = _claims(given, nodes, submitted_s)
    account = FairnessAccount(nodes, beliefs, gpus, claims)
    _tell_unfreezable(policy, unfreezable)
    begun = time.perf_counter()
    with Progress(not given["as_json"], f"simulating {policy}") as progress:
        run = run_cluster(
            believing(given["belief"], named.make(given["seed"]), lambda: _similar(given, nodes)),
            nodes,
            nature,
            submitted_s,
            gpus,
            beliefs,
            round_s=named.round_s if given["round_s"] is None else given["round_s"],
            restart_s=given["restart_s"],
            rebuild_s=given["rebuild_s"],
            interference=given["interference"],
            observe=lambda view, plan: progress.say(f"{policy}, {_progress(view, submitted_s)}"),
            claims=claims,
            account=account,
        )
    summary = summarise_cluster(run, policy, time.perf_counter() - begun)
    looked_at = given["plot"] is not None or given["report"] is not None
    drawing = _drawn(policy, account, run) if looked_at else None
    return Simulated(run, summary, summarise_fairness(run, account), drawing), unfreezable


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import version

    versions = {name: version(name) for name in ("apportion", "numpy", "scipy")}
    return {**versions, "python": platform.python_version()}


def _answer(given: dict[str, Any], one: Simulated, unfrozen: Mapping[str, int]) -> dict[str, Any]:
    import msgspec

    answer: dict[str, Any] = msgspec.to_builtins(one.summary)
    answer |= {"fairness": msgspec.to_builtins(one.fairness)}
    return answer | {"cannot_freeze": unfrozen, "seed": given["seed"], "versions": _versions()}


def _jobs_table(done: list[Simulated]) -> bytes:
    """Return one line per policy and job, in the order of the workload; empty where a job never completed."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            "policy",
            "job",
            "submitted_s",
            "completed_s",
            "gpu_hours",
            "hours_with_gpus",
            "frozen_fraction",
            "restarts",
        ]
    )
    for one in done:
        run = one.run
        for job in range(run.submitted_s.size):
            held, ended = float(run.attained_s[job]), float(run.completed_s[job])
            frozen = float(run.frozen_s[job]) / held if held else 0.0
            figures = (float(run.attained_gpu_s[job]) / 3600, held / 3600, frozen)
            writer.writerow(
                [
                    one.summary.policy,
                    job,
                    f"{run.submitted_s[job]:.10g}",
                    "" if ended != ended else f"{ended:.10g}",
                    *(f"{figure:.6g}" for figure in figures),
                    max(int(run.restarts[job]) - 1, 0),
                ]
            )
    return text.getvalue().encode()


def _page(given: dict[str, Any], done: list[Simulated]) -> bytes:
    from apportion.simulation.cluster.cluster_page import cluster_page

    cluster = given["machines"] or f"{given['nodes']} nodes of {given['gpus_per_node']} GPUs"
    made = ", ".join(f"{name} {version}" for name, version in _versions().items())
    return cluster_page(done, cluster, f"{made}; seed {given['seed']}").encode()


def _inputs(given: dict[str, Any], named: NamedPolicy) -> tuple[Any, ...]:
    """Return machines, truth, submissions, requested GPUs, beliefs, and jobs by what cannot be frozen."""
    from apportion.estimation.training import HOMOGENEOUS, read_applications
    from apportion.simulation.cluster.scenario import Scenario, homogeneous, parse_nodes

    if given["machines"]:
        nodes = parse_nodes(given["machines"])
    else:
        nodes = homogeneous(given["nodes"], given["gpus_per_node"], given["gpu_type"] or HOMOGENEOUS)
    if given["models"] is not None and given["belief"] != "similar":
        raise InvalidOption("--models tells of --belief similar only")
    if given["profiles"] is None:
        if given["belief"] != "true":
            raise InvalidOption(f"--belief {given['belief']} needs --profiles: a log knows no speeds")
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
    freezing = _freezing(given) if named.freezes else {}
    nature = scenario.nature(named.adaptive, freezing, given["theta"])
    beliefs = scenario.beliefs(named.adaptive, freezing, believed)
    unfreezable = scenario.unfreezable(freezing) if named.freezes else {}
    return nodes, nature, scenario.submitted_s, scenario.requested_gpus, beliefs, unfreezable


def _similar(given: dict[str, Any], nodes: Nodes) -> dict[str, dict[str, float]]:
    from apportion.cli.source import text_of
    from apportion.estimation.reference_table import read_signatures
    from apportion.estimation.training import read_applications
    from apportion.policies.cluster.similar_speeds import similar_speeds

    known = {} if given["models"] is None else read_signatures(text_of(given["models"]))
    return similar_speeds(read_applications(given["profiles"]), nodes.types, known)


def _freezing(given: dict[str, Any]) -> FreezingProfiles:
    from apportion.estimation.training.freezing_file import freezing_profiles, read_freezing
    from apportion.estimation.training.profiles import training_folder

    folder = given["freezing"] or training_folder(given["profiles"])
    return freezing_profiles(read_freezing(folder), given["stand_in"])


def _claims(given: dict[str, Any], nodes: Nodes, submitted_s: NDArray[np.float64]) -> Claims | None:
    """Return what tenants claim; a log of durations knows none."""
    if given["profiles"] is None:
        if given["tenants"] is not None:
            raise InvalidOption("--tenants needs --profiles: a log of durations has no column tenant")
        return None
    from apportion.simulation.cluster.tenants_file import read_claims

    return read_claims(given["workload"], given["tenants"], nodes, submitted_s)


def _drawn(policy: str, account: FairnessAccount, run: ClusterRun) -> str:
    from apportion.plotting.fairness_svg import FairnessPicture, fairness_svg

    course = account.course()
    picture = FairnessPicture(
        f"How {policy} shared the cluster",
        account.tenants,
        course.end_s,
        course.held,
        course.due,
        course.jain,
        run.completed_s,
        account.ratios(run.submitted_s, run.completed_s),
        account.tenant,
    )
    return fairness_svg(picture)


def _picture(file_name: str, one: Simulated) -> bytes:
    from apportion.plotting import encoded, on_page

    assert one.drawing is not None
    return encoded(on_page(one.drawing, file_name, f"How {one.summary.policy} shared the cluster"), file_name)


def _tenants_table(tenants: list[dict[str, Any]]) -> str:
    """Return a line for every tenant below a line of headings."""
    names = [*tenants[0]]
    width = max(len("tenant"), *(len(str(one["tenant"])) for one in tenants))
    rows = ["  ".join([f"{'tenant':{width}}", *names[1:]])]
    for one in tenants:
        cells = [f"{_shown(one[name]):>{len(name)}}" for name in names[1:]]
        rows.append("  ".join([f"{one['tenant']:{width}}", *cells]))
    return "\n" + "\n".join(rows)


def _tell_unfreezable(policy: str, jobs: Mapping[str, int]) -> None:
    if jobs:
        listed = ", ".join(f"{name} ({count} jobs)" for name, count in jobs.items())
        click.echo(f"simulate: {policy} runs unfrozen, for want of a freezing profile: {listed}", err=True)


def _progress(view: ClusterView, submitted_s: NDArray[np.float64]) -> str:
    arrived = int((submitted_s <= view.time_s).sum())
    return f"hour {view.time_s / 3600:.1f}: {arrived - view.num_jobs} of {submitted_s.size} jobs done"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)

"""``apportion simulate``: a workload of training jobs on a cluster under a policy, printed and written."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import emit, say
from apportion.cli.simulated_inputs import DurationInputs, MeasuredInputs, inputs_of, rules_of
from apportion.cluster.policies.names import BELIEFS, CLUSTER_POLICIES, REMAINING
from apportion.core.errors import InvalidOption, one_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.cluster.policies.rounds.cluster_view import ClusterView
    from apportion.cluster.simulation.rounds.accounts import FairnessAccount
    from apportion.cluster.simulation.rounds.completion_bound import CompletionBound
    from apportion.cluster.simulation.rounds.simulator import ClusterRun
    from apportion.draw.cluster_page import Simulated

__all__ = [
    "answer",
    "command",
    "drawn",
    "jobs_table",
    "page",
    "picture",
    "shown",
    "tenants_table",
]


def answer(given: dict[str, Any], one: Simulated, unfrozen: Mapping[str, int]) -> dict[str, Any]:
    """Return the object of one policy."""
    import msgspec

    answer: dict[str, Any] = msgspec.to_builtins(one.summary)
    answer |= {"fairness": msgspec.to_builtins(one.fairness)}
    return answer | {"cannot_freeze": unfrozen, "seed": given["seed"], "versions": _versions()}


def jobs_table(done: list[Simulated], names: Sequence[str]) -> bytes:
    """Return one line per policy and job, in the order of the workload; empty where a job never completed."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = "policy job submitted_s completed_s gpu_hours hours_with_gpus frozen_fraction restarts"
    writer.writerow(columns.split())
    for one in done:
        run = one.run
        for job in range(run.submitted_s.size):
            held, ended = float(run.attained_s[job]), float(run.completed_s[job])
            frozen = float(run.frozen_s[job]) / held if held else 0.0
            figures = (float(run.attained_gpu_s[job]) / 3600, held / 3600, frozen)
            writer.writerow(
                [
                    one.summary.policy,
                    names[job],
                    f"{run.submitted_s[job]:.10g}",
                    "" if ended != ended else f"{ended:.10g}",
                    *(f"{figure:.6g}" for figure in figures),
                    max(int(run.restarts[job]) - 1, 0),
                ]
            )
    return text.getvalue().encode()


def page(given: dict[str, Any], done: list[Simulated]) -> bytes:
    """Return the page of all policies."""
    from apportion.draw.cluster_page import cluster_page

    cluster = given["machines"] or f"{given['nodes']} nodes of {given['gpus_per_node']} GPUs"
    made = ", ".join(f"{name} {version}" for name, version in _versions().items())
    return cluster_page(done, cluster, f"{made}; seed {given['seed']}").encode()


def drawn(policy: str, account: FairnessAccount, run: ClusterRun) -> str:
    """Return how the cluster was shared over time, as SVG."""
    from apportion.draw.fairness_svg import FairnessPicture, fairness_svg

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


def picture(file_name: str, one: Simulated) -> bytes:
    """Return the drawing of one policy in the format that the name of its file says."""
    from apportion.draw import encoded, on_page

    assert one.drawing is not None
    return encoded(on_page(one.drawing, file_name, f"How {one.summary.policy} shared the cluster"), file_name)


def tenants_table(tenants: list[dict[str, Any]]) -> str:
    """Return a line for every tenant below a line of headings."""
    from apportion.cli.summary import aligned

    rows = [[*tenants[0]], *([shown(value) for value in one.values()] for one in tenants)]
    return "\n" + "\n".join(aligned(rows, "<" + ">" * (len(rows[0]) - 1)))


def shown(value: Any) -> str:
    """Return a figure as people read it."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import version

    versions = {name: version(name) for name in ("apportion", "numpy", "scipy")}
    return {**versions, "python": platform.python_version()}


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
    help="Jobs: name, time, application, num_replicas, batch_size; perhaps epochs, where a job ends after "
    "fewer than its application's, and work, how many times its application's progress an epoch takes.",
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
    "--remaining",
    type=click.Choice(REMAINING),
    help="What a policy that uses it knows of jobs' remaining work: the truth; what users asked for, and how "
    "much of that jobs take; what jobs of the same application take; what all jobs take. Default: attained "
    "for costate, the truth for others.",
)
@click.option(
    "--ratio-limit",
    type=click.FloatRange(0.0, min_open=True),
    help="Under costate, who is about to end later than so many times what an equal part of the cluster "
    "would take comes before all others.",
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
@click.option(
    "--bound",
    is_flag=True,
    help="Also the mean completion time that no policy undercuts, not even one that knows the future, "
    "and the prices of GPUs that show it. Policies that freeze are not held to it.",
)
@click.option(
    "--bound-of",
    metavar="ANSWER.json",
    help="The bound of the prices in an earlier answer of --bound --json, computed from them alone.",
)
@click.option(
    "--why",
    metavar="JOB",
    help="Say under costate why a job gets the GPUs that it gets, whenever they change, in prices of work.",
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
    from apportion.cli.summary import table
    from apportion.draw import check_name

    if given["plot"] is not None:
        check_name(given["plot"])
    for target in ("plot", "report", "jobs_path"):
        check_target(given[target])
    given["policy_name"], *compared = dict.fromkeys((*given.pop("policies"), *given["compare"]))
    inputs = inputs_of(given)
    if given["why"] is not None:
        one_of("why", given["why"], inputs.names)
        if given["as_json"]:
            raise InvalidOption("--why tells in words: it goes without --json")
    for option in ("why", "ratio_limit"):
        priced = (CLUSTER_POLICIES[name].priced for name in (given["policy_name"], *compared))
        if given[option] is not None and not any(priced):
            raise InvalidOption(f"--{option.replace('_', '-')} is for --policy costate and its like")
    done = [_simulated(given, inputs, policy) for policy in (given["policy_name"], *compared)]
    first = done[0][0]
    bound = inputs.bound([(one.summary.policy, one.run) for one, _ in done])
    if given["plot"] is not None:
        write_file(given["plot"], picture(given["plot"], first))
    if given["jobs_path"] is not None:
        write_file(given["jobs_path"], jobs_table([simulated for simulated, _ in done], inputs.names))
    if given["report"] is not None:
        write_file(given["report"], page(given, [simulated for simulated, _ in done]))
    if given["as_json"]:
        first_one, *others = (answer(given, simulated, unfrozen) for simulated, unfrozen in done)
        least = {} if bound is None else {"bound": bound.document(inputs.nodes.types)}
        emit(msgspec.json.encode(first_one | ({"compared": others} if others else {}) | least))
        return
    lines = msgspec.to_builtins(first.summary) | msgspec.to_builtins(first.fairness)
    tenants = lines.pop("tenants")
    width = max(map(len, lines))
    say("\n".join(f"{name:{width}} {shown(value)}" for name, value in lines.items()))
    if len(tenants) > 1:
        say(tenants_table(tenants))
    if len(done) > 1:
        from apportion.draw.cluster_page import comparison

        say("\n" + "\n".join(table(comparison([simulated for simulated, _ in done]), "<>>>>>>>>")))
    if bound is not None:
        say(f"\n{bound_in_words(bound, [simulated for simulated, _ in done])}")


def bound_in_words(bound: CompletionBound, done: Sequence[Simulated]) -> str:
    """Return what no policy undercuts, and how far above it those are that it holds for."""
    above = [
        f"{one.summary.policy} ends {one.summary.avg_jct_s / bound.mean_s - 1.0:.1%} above it"
        for one in done
        if one.summary.avg_jct_s is not None
        and one.summary.jobs_done == one.summary.jobs
        and not CLUSTER_POLICIES[one.summary.policy].freezes
    ]
    least = (
        f"No policy without freezing ends jobs sooner than {bound.mean_s:.6g} s after submission on average"
    )
    return "; ".join((least, *above)) + "."


def _simulated(
    given: dict[str, Any], inputs: DurationInputs | MeasuredInputs, policy: str
) -> tuple[Simulated, Mapping[str, int]]:
    """Run one policy; return what came of it, and its jobs by application that could not be frozen."""
    from apportion.cli.running import Progress
    from apportion.cluster.policies.names import believing
    from apportion.cluster.policies.rounds.remaining_work import knowing
    from apportion.cluster.simulation.rounds.accounts import (
        FairnessAccount,
        summarise_cluster,
        summarise_fairness,
    )
    from apportion.cluster.simulation.rounds.job_states import SimulatedJobs
    from apportion.cluster.simulation.rounds.simulator import run_cluster
    from apportion.draw.cluster_page import Simulated

    named = CLUSTER_POLICIES[policy]
    made, reasons = named.make(given["seed"]), None
    if given["why"] is not None:
        from apportion.cluster.policies.rounds.costate import Reasons

        if named.priced:
            reasons = Reasons(inputs.names.index(given["why"]))
            made = replace(made, note=reasons)
    if named.priced and given["ratio_limit"] is not None:
        made = replace(made, ratio_limit=given["ratio_limit"])
    under = inputs.under(named)
    account = FairnessAccount(inputs.nodes, under.beliefs, inputs.gpus, inputs.claims)
    _tell_unfreezable(policy, under.unfreezable)
    begun = time.perf_counter()
    with Progress(not given["as_json"], f"simulating {policy}") as progress:
        run = run_cluster(
            knowing(
                given["remaining"] or named.remaining,
                believing(given["belief"], made, lambda: inputs.similar),
            ),
            inputs.nodes,
            SimulatedJobs(
                under.ground_truth, inputs.submitted_s, inputs.gpus, under.beliefs, claims=inputs.claims
            ),
            rules_of(given, named),
            observe=lambda view, plan: progress.say(f"{policy}, {_progress(view, inputs.submitted_s)}"),
            account=account,
        )
    summary = summarise_cluster(run, policy, time.perf_counter() - begun)
    looked_at = given["plot"] is not None or given["report"] is not None
    drawing = drawn(policy, account, run) if looked_at else None
    if reasons is not None:
        say("\n".join(reasons.lines) + "\n")
    return Simulated(run, summary, summarise_fairness(run, account), drawing), under.unfreezable


def _tell_unfreezable(policy: str, jobs: Mapping[str, int]) -> None:
    if jobs:
        listed = ", ".join(f"{name} ({count} jobs)" for name, count in jobs.items())
        click.echo(f"simulate: {policy} runs unfrozen, for want of a freezing profile: {listed}", err=True)


def _progress(view: ClusterView, submitted_s: NDArray[np.float64]) -> str:
    arrived = int((submitted_s <= view.time_s).sum())
    return f"hour {view.time_s / 3600:.1f}: {arrived - view.num_jobs} of {submitted_s.size} jobs done"

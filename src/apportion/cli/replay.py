"""``apportion replay`` and ``report``: a log of idle nodes under a policy, and a page of several.

``apportion snapshot``: one instant of a trace of idle nodes as an instance.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import check_target, emit, say, stop_clock
from apportion.cluster.policies.names import POLICIES

if TYPE_CHECKING:
    from apportion.cluster.simulation.replay import Replay
    from apportion.cluster.simulation.run_record import RunRecord

__all__ = [
    "command",
    "report",
    "snapshot",
]

_CHUNK = 250
"""Steps between two looks at the progress bar and the checkpoint clock."""
_CHECKPOINT_S = 30.0


@click.command("replay")
@click.option(
    "--trace",
    "trace_path",
    required=True,
    metavar="FILE",
    help="Idle nodes: .npz, a job log (.swf, .swf.gz) or sacct -P text; or 'generated', see --seed.",
)
@click.option(
    "--jobs",
    "jobs_path",
    required=True,
    metavar="FILE",
    help="CSV table of jobs; or 'generated' (ImageNet mix), 'generated-hpo'.",
)
@click.option(
    "--curves",
    "curves_path",
    metavar="FILE",
    help="JSON of throughput curves; the published ones by default.",
)
@click.option(
    "--curve", metavar="NAME", help="All jobs have this curve; by default the one after the first - of an id."
)
@click.option("--nodes", type=click.IntRange(min=1), metavar="FIRST_N", help="Only the trace's first nodes.")
@click.option(
    "--trainers", type=click.IntRange(min=1), default=10, show_default=True, help="Most jobs at a time."
)
@click.option("--horizon-s", type=float, default=120.0, show_default=True, help="Forward-looking time T_fwd.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice([*POLICIES]),
    default=["freetrain"],
    show_default=True,
    help="Repeatable: the first is what the answer is about, the others are compared with it.",
)
@click.option(
    "--compare",
    multiple=True,
    type=click.Choice([*POLICIES]),
    help="The same as one more --policy; repeatable.",
)
@click.option(
    "--objective",
    type=click.Choice(["throughput", "speedup"]),
    default="throughput",
    show_default=True,
    help="What the freetrain policies maximise: samples per second, or speed-up on one node.",
)
@click.option(
    "--start-s", type=float, help="Default: the first submission if the trace covers it, else its begin."
)
@click.option("--end-s", type=float, help="Default: the end of the trace.")
@click.option("--endless", is_flag=True, help="Submit the jobs again and again: a backlog that never ends.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of generated traces and jobs.")
@click.option(
    "--machine-nodes",
    type=click.IntRange(min=1),
    help="Nodes of a generated machine, or of a job log's: sacct does not say.",
)
@click.option("--days", type=float, default=14.0, show_default=True, help="Length of a generated trace.")
@click.option("--cores-per-node", type=click.IntRange(min=1), metavar="C", help="Of a log that counts cores.")
@click.option(
    "--most-cut",
    type=click.FloatRange(0, 1),
    metavar="X",
    help="Of a log's node hours: what need not fit; 0.01.",
)
@click.option("--log", "log_path", metavar="FILE.jsonl", help="Write the run's log: JSON Lines.")
@click.option("--checkpoint", "checkpoint_path", metavar="FILE.npz", help="Save the state now and then.")
@click.option("--resume", is_flag=True, help="Go on from --checkpoint.")
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
@click.option("--report", "report_path", metavar="FILE.html", help="Write a self-contained page.")
def command(**given: Any) -> None:
    """Replay a log of idle nodes with a backlog of malleable jobs.

    Exit code 0 when the replay ran, 2 for a wrong option, 3 for a wrong input file.
    """
    for target in ("log_path", "checkpoint_path", "report_path"):
        check_target(given[target])
    if given["resume"] and not given["checkpoint_path"]:
        raise click.UsageError("--resume needs --checkpoint FILE")
    names = [*dict.fromkeys((*given.pop("policies"), *given["compare"]))]
    given["policy_name"] = names[0]
    make = _inputs(given)
    records = [_run(make, name, given, first=name == names[0]) for name in names]
    if given["report_path"]:
        from apportion.draw.report_page import report_page

        emit(report_page(records).encode(), given["report_path"])
    if as_json := given["as_json"]:
        import msgspec

        answer = msgspec.to_builtins(records[0].summary)
        answer["versions"] = records[0].versions
        answer["seed"] = records[0].seed
        if len(records) > 1:
            answer["compared"] = [msgspec.to_builtins(record.summary) for record in records[1:]]
        emit(msgspec.json.encode(answer))
    if not as_json:
        from apportion.draw.report_page import table

        say(table([record.summary for record in records]))


def _inputs(given: dict[str, Any]) -> Any:
    """Read trace and jobs once; return a maker of fresh replays."""
    from apportion.cluster.policies.names import policy
    from apportion.cluster.simulation.idle_trace import generated_trace, node_changes
    from apportion.cluster.simulation.job_table import generated_jobs, read_job_table
    from apportion.cluster.simulation.replay import Replay
    from apportion.cluster.simulation.snapshot import read_curves, read_trace, workload
    from apportion.instances.gap_filling.schema import PUBLISHED_CURVES

    seed, jobs_path = given["seed"], given["jobs_path"]
    if given["trace_path"] == "generated":
        trace = generated_trace(seed, given["machine_nodes"] or 1024, given["days"])
    else:
        trace = read_trace(
            *(given[name] for name in ("trace_path", "machine_nodes", "cores_per_node", "most_cut"))
        )
    if jobs_path in ("generated", "generated-hpo"):
        table: Any = generated_jobs(seed, mix="hpo" if jobs_path.endswith("hpo") else "imagenet")
    else:
        table = read_job_table(jobs_path)
    curves = read_curves(given["curves_path"]) if given["curves_path"] else PUBLISHED_CURVES
    jobs = workload(table, curves, given["endless"], given["curve"])
    start_s, end_s = given["start_s"], given["end_s"]
    if start_s is None:
        first = float(jobs.submitted_s[0])
        start_s = first if trace.first_s <= first < (trace.last_s if end_s is None else end_s) else None
    changes = node_changes(trace, given["nodes"], start_s, end_s)

    shown = jobs.believing(jobs.speedups()) if given["objective"] == "speedup" else jobs

    def make(name: str, observers: tuple[Any, ...]) -> Replay:
        known = shown if name.startswith("freetrain") else jobs
        return Replay(changes, known, policy(name, given["horizon_s"]), given["trainers"], observers)

    return make


def _run(make: Any, name: str, given: dict[str, Any], first: bool) -> RunRecord:
    from apportion.cluster.simulation.replay import load_checkpoint, save_checkpoint
    from apportion.cluster.simulation.run_record import RunLog, record_of
    from apportion.core.interruption import defer_interrupt

    checkpoint = given["checkpoint_path"] if first else None
    replay: Replay = make(name, ())
    log_bytes = None
    if checkpoint and given["resume"] and Path(checkpoint).is_file():
        log_bytes = load_checkpoint(replay, checkpoint, name)
    log: RunLog | None = None
    if first and given["log_path"]:
        header = {key: value for key, value in given.items() if value not in (None, (), False)}
        log = RunLog(given["log_path"], header, log_bytes)
        replay.observers = (log,)

    def save() -> None:
        if checkpoint:
            save_checkpoint(replay, checkpoint, name, log.position() if log else None)

    try:
        _advance(replay, name, save)
    except KeyboardInterrupt:
        if replay.whole:  # otherwise the last checkpoint stands
            with defer_interrupt():
                save()
        raise
    finally:
        if log is not None:
            log.position()
    horizon_s = given["horizon_s"] if name.startswith("freetrain") else None
    generated = "generated" in f"{given['trace_path']} {given['jobs_path']}"
    record = record_of(replay, name, horizon_s, given["seed"] if generated else None)
    if log is not None:
        with log:
            log.finish(record)
    return record


def _advance(replay: Replay, name: str, save: Any) -> None:
    """Run in chunks, so that the bar moves and checkpoints are written; on no terminal there is no bar."""
    import time

    from apportion.core.interruption import raise_if_interrupted

    bar: Any = None
    total = replay.changes.num_rows if replay.jobs.endless else replay.jobs.num_jobs
    if sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        bar = Progress(console=Console(stderr=True), transient=True)
        stop_clock()
        bar.start()
        task = bar.add_task(name, total=total)
    saved = time.monotonic()
    try:
        while replay.advance(_CHUNK):
            if bar is not None:
                done = replay.totals.events if replay.jobs.endless else replay.totals.finished
                bar.update(task, completed=done)
            if time.monotonic() - saved > _CHECKPOINT_S:
                save()
                saved = time.monotonic()
            raise_if_interrupted()
        save()
    finally:
        if bar is not None:
            bar.stop()


@click.command("report")
@click.argument("logs", nargs=-1, required=True, metavar="LOG.jsonl...")
@click.option("-o", "--out", default="-", metavar="FILE.html", help="Standard output by default.")
def report(logs: tuple[str, ...], out: str) -> None:
    """Write a self-contained page with the replays of these logs side by side."""
    from apportion.cluster.simulation.run_record import read_record
    from apportion.draw.report_page import report_page

    check_target(out)
    emit(report_page([read_record(path) for path in logs]).encode(), out)


@click.command("snapshot")
@click.option(
    "--trace",
    required=True,
    metavar="FILE",
    help="Idle intervals of a machine's nodes (.npz), or a job log (.swf, .swf.gz, sacct -P text).",
)
@click.option("--jobs", required=True, metavar="FILE.csv", help="The submitted jobs.")
@click.option("--at", "at_s", required=True, type=float, metavar="SECONDS", help="Since the trace's t0.")
@click.option("--trainers", required=True, type=int, metavar="N", help="How many jobs are admitted at most.")
@click.option("--horizon-s", type=float, default=120.0, show_default=True, help="Forward-looking time.")
@click.option(
    "--curves", metavar="FILE.json", help="Throughput curves by name; the published ones by default."
)
@click.option("--machine-nodes", type=click.IntRange(min=1), help="Nodes of a job log's machine.")
@click.option("--cores-per-node", type=click.IntRange(min=1), metavar="C", help="Of a log that counts cores.")
@click.option(
    "--most-cut",
    type=click.FloatRange(0, 1),
    metavar="X",
    help="Of a log's node hours: what need not fit; 0.01.",
)
@click.option("-o", "--out", default="-", metavar="FILE", help="Standard output by default.")
def snapshot(
    trace: str,
    jobs: str,
    at_s: float,
    trainers: int,
    horizon_s: float,
    curves: str | None,
    machine_nodes: int | None,
    cores_per_node: int | None,
    most_cut: float | None,
    out: str,
) -> None:
    """Write the gap-filling instance that an allocator would face at one instant of a trace."""
    import msgspec

    from apportion.cluster.simulation.snapshot import snapshot_from_files

    check_target(out)
    made = snapshot_from_files(
        trace, jobs, at_s, trainers, horizon_s, curves, machine_nodes, cores_per_node, most_cut
    )
    emit(msgspec.json.encode(made), out)

"""``apportion snapshot``: one instant of a trace of idle nodes as an instance."""

from __future__ import annotations

import click

from apportion.cli.output import check_target, emit

__all__ = ["command"]


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
def command(
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

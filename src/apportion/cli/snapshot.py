"""``apportion snapshot``: one instant of a trace of idle nodes as an instance."""

from __future__ import annotations

import click

from apportion.cli.output import emit

__all__ = ["command"]


@click.command("snapshot")
@click.option("--trace", required=True, metavar="FILE.npz", help="Idle intervals of the nodes of a machine.")
@click.option("--jobs", required=True, metavar="FILE.csv", help="The submitted jobs.")
@click.option("--at", "at_s", required=True, type=float, metavar="SECONDS", help="Since the trace's t0.")
@click.option("--trainers", required=True, type=int, metavar="N", help="How many jobs are admitted at most.")
@click.option("--horizon-s", type=float, default=120.0, show_default=True, help="Forward-looking time.")
@click.option(
    "--curves", metavar="FILE.json", help="Throughput curves by name; the published ones by default."
)
@click.option("-o", "--out", default="-", metavar="FILE", help="Standard output by default.")
def command(
    trace: str, jobs: str, at_s: float, trainers: int, horizon_s: float, curves: str | None, out: str
) -> None:
    """Write the gap-filling instance that an allocator would face at one instant of a trace."""
    import msgspec

    from apportion.simulation.snapshot import snapshot_from_files

    emit(msgspec.json.encode(snapshot_from_files(trace, jobs, at_s, trainers, horizon_s, curves)), out)

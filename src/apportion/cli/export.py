"""``apportion export``: the compiled model as an LP or MPS file, or a plan as Kueue's decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import check_target, emit
from apportion.cli.source import FORMULATION, foreign_options, instance_of, json_of

if TYPE_CHECKING:
    from apportion.instances import Instance

__all__ = ["command"]


@click.command("export")
@click.argument("path", metavar="INSTANCE|-")
@foreign_options
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Choice(["lp", "mps", "kueue"]),
    help="lp, mps: the compiled model; kueue: decisions on the workloads that convert --from kueue read.",
)
@click.option("--formulation", type=FORMULATION, metavar="F", help="The kind's first one by default.")
@click.option(
    "--solution", metavar="FILE", help="For kueue: a stored result; the instance is solved without."
)
@click.option("--time-limit", type=click.FloatRange(min=0), default=10.0, show_default=True, metavar="S")
@click.option("-o", "--out", default="-", metavar="FILE", help="Standard output by default.")
def command(
    path: str,
    format: str | None,
    index: int,
    sense: str | None,
    target: str,
    formulation: str | None,
    solution: str | None,
    time_limit: float,
    out: str,
) -> None:
    """Write the compiled model for any other solver, names kept; or what Kueue is to do."""
    from apportion.solving.pipeline import exported

    check_target(out)
    instance = instance_of(path, format, index, sense)
    if target != "kueue":
        if solution is not None:
            raise click.UsageError(f"--solution has no part in --to {target}: a model is exported, no plan")
        text = exported(instance, target, formulation).rstrip(b"\n")
        for line in text[:1000].splitlines():
            if line[2:].startswith(b"A RELAXATION"):
                click.echo(f"export: {line[2:].decode()}", err=True)
        emit(text, out)
        return
    import msgspec

    from apportion.explanation.kueue_decision import decisions

    plan = _solved(instance, formulation, time_limit) if solution is None else _stored(solution)
    emit(msgspec.json.format(msgspec.json.encode(decisions(instance, plan)), indent=2), out)


def _solved(instance: Instance, formulation: str | None, time_limit: float) -> Any:
    from apportion.solving.api import solve

    return solve(instance, formulation=formulation, time_limit=time_limit).require()


def _stored(path: str) -> Any:
    from apportion.core.errors import InvalidInstance, Problem

    record = json_of(path, "solution")
    plan = record.get("plan") if isinstance(record, dict) else None
    if not isinstance(plan, dict) or not any(
        isinstance(plan.get(one), dict) for one in ("choice", "placement")
    ):
        raise InvalidInstance(Problem("solution $.plan", "has no plan with a choice for its jobs"))
    return plan

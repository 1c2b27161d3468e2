"""``apportion init``, ``schema``, ``convert`` and ``export``: instances as files, in and out.

An instance to start from, what one holds, one as JSON; the compiled model as an LP or MPS file, or a plan as
Kueue's decisions.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import check_target, emit, say
from apportion.cli.source import FORMULATION, KIND, Source, bytes_of, json_of, takes_instance
from apportion.core.errors import one_of

if TYPE_CHECKING:
    from apportion.instances import Instance
    from apportion.instances.readers.kueue import Dump

__all__ = [
    "command",
    "convert",
    "export",
    "schema",
]


@click.command("init")
@click.argument("kind", type=KIND)
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    default="-",
    show_default=True,
    help="Where to write it: .yaml, .json, or .csv for a table of menus or of machines.",
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def command(kind: str, out: str, force: bool) -> None:
    """Write a small instance of KIND, ready to be solved and to be changed; as YAML it is commented."""
    from apportion.instances.kinds import kinds

    one_of("kind", kind, kinds())
    check_target(out)
    text = _starter(kind, Path(out).suffix.lower())
    if out != "-" and not force and Path(out).exists():
        raise click.UsageError(f"{out} is there already; --force writes over it")
    emit(text.rstrip(b"\n"), out)


def _starter(kind: str, suffix: str) -> bytes:
    """Return the instance to start from in the form that the name of a file asks for."""
    from apportion.instances.kinds import kinds

    folder = resources.files(kinds()[kind].schemas)
    if suffix == ".csv":
        table = folder.joinpath(f"{kind}.starter.csv")
        if not table.is_file():
            raise click.UsageError(f"no table says all of {kind}: write it to FILE.yaml or FILE.json")
        return table.read_bytes()
    starter = folder.joinpath(f"{kind}.starter.yaml")
    if not starter.is_file():
        raise click.UsageError(
            f"{kind} has nothing to start from; apportion schema {kind} says what it holds"
        )
    text = starter.read_bytes()
    if suffix != ".json":
        return text
    from apportion.io.text import tree_of

    return json.dumps(tree_of(text), indent=2).encode()


@click.command("schema")
@click.argument("kind", type=KIND)
def schema(kind: str) -> None:
    """Print the JSON Schema (draft 2020-12) of instances of KIND, for instance gap_filling."""
    from apportion.io.schemas import committed_text

    say(committed_text(kind).rstrip("\n"))


@click.command("convert")
@takes_instance("IN|-")
@click.option(
    "--from",
    "cluster",
    type=click.Choice(["kueue", "slurm"]),
    help="Objects of a cluster: kueue, what kubectl get clusterqueues,cohorts,... -A -o json prints; slurm, "
    "what scontrol show topology, scontrol --details show node and scontrol show job print.",
)
@click.option("-o", "--out", default="-", metavar="OUT.json", help="Standard output by default.")
def convert(source: Source, cluster: str | None, out: str) -> None:
    """Read an instance in any format, or a cluster's objects, and write it as JSON.

    What of the objects the instance does not say is named on standard error.
    """
    import msgspec

    check_target(out)
    if Path(out).suffix.lower() not in ("", ".json"):
        raise click.UsageError(f"{out}: an instance is written as JSON; name FILE.json")
    if cluster is not None:
        if source.format is not None:
            raise click.UsageError("--format is for files; --from says already what the objects are")
        dump = _dump(cluster, bytes_of(source.path))
        from apportion.cli.settings import is_quiet

        for note in () if is_quiet() else dump.notes:
            click.echo(f"convert: {note}", err=True)
        emit(msgspec.json.encode(dump.instance), out)
        return
    emit(msgspec.json.encode(source.instance()), out)


def _dump(cluster: str, raw: bytes) -> Dump[Any]:
    """Return what a cluster's objects are read as; no reader but theirs is imported."""
    if cluster == "slurm":
        from apportion.instances.readers.slurm import read_slurm
        from apportion.instances.readers.slurm_topology import split_topology
        from apportion.io.text import tree_of

        topology, records = split_topology(raw)
        return read_slurm(records, topology=tree_of(topology) if topology else None)
    from apportion.instances.readers.kueue import read_dump

    return read_dump(raw)


@click.command("export")
@takes_instance("INSTANCE|-")
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
def export(
    source: Source,
    target: str,
    formulation: str | None,
    solution: str | None,
    time_limit: float,
    out: str,
) -> None:
    """Write the compiled model for any other solver, names kept; or what Kueue is to do."""
    from apportion.solving.api import exported

    check_target(out)
    instance = source.instance()
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

"""``apportion submit``: put a malleable job into the queue of a live cluster."""

from __future__ import annotations

import shlex
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import say

if TYPE_CHECKING:
    from apportion.live.record.jobs import JobSpec

__all__ = ["command"]


@click.command("submit", context_settings={"allow_interspersed_args": False})
@click.option("--state", "folder", metavar="DIR", help="State folder; default: the user's own.")
@click.option("--min", "min_nodes", type=int, help="Fewest nodes it runs on; 1 by default.")
@click.option("--max", "max_nodes", type=int, help="Most nodes, or GPUs, it can use.")
@click.option(
    "--counts",
    metavar="N,N,...",
    help="The only counts it runs on, such as 1,2,4,8; instead of --min and --max.",
)
@click.option("--cpus-per-rank", type=int, help="CPUs that a rank needs; default: an even share.")
@click.option("--memory-mib-per-rank", type=int, help="Memory that a rank needs; default: an even share.")
@click.option("--samples", type=int, help="Total of samples to train on; default: until the command ends.")
@click.option("--name", default="", help="For people.")
@click.option("--directory", metavar="DIR", help="Where it runs, on every node; default: here.")
@click.option(
    "--checkpoint",
    metavar="DIR",
    help="Folder of its checkpoints, shared by all nodes; default: apportion-checkpoints/JOB where it runs.",
)
@click.option("--env", "variables", metavar="NAME=VALUE", multiple=True, help="For the trainer; repeatable.")
@click.option(
    "--curve",
    "curves",
    metavar="[TYPE=]N:RATE,...",
    multiple=True,
    help="Samples per second by count, where known; with TYPE=, repeatable, it runs on these types only.",
)
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    folder: str | None,
    min_nodes: int | None,
    max_nodes: int | None,
    counts: str | None,
    cpus_per_rank: int | None,
    memory_mib_per_rank: int | None,
    samples: int | None,
    name: str,
    directory: str | None,
    checkpoint: str | None,
    variables: tuple[str, ...],
    curves: tuple[str, ...],
    as_json: bool,
    words: tuple[str, ...],
) -> int:
    """Queue COMMAND, an argument list that no shell sees, as a job on MIN to MAX idle nodes or GPUs, or none.

    Prints the job's id. Exit code 2 for a wrong option, 3 for a job that is not valid or fits no node.
    """
    import msgspec

    from apportion.core.errors import InvalidInstance
    from apportion.core.files import private_folder
    from apportion.live.offers import misfit
    from apportion.live.record.jobs import JobSpec
    from apportion.live.record.requests import Submit, leave, new_id
    from apportion.live.record.store import default_folder, in_use, read_state

    id = new_id()
    where = Path(directory or ".").absolute()
    saved = Path(checkpoint).absolute() if checkpoint else where / "apportion-checkpoints" / id
    spec = JobSpec(
        command=words,
        **_counts(min_nodes, max_nodes, counts),
        directory=str(where),
        checkpoint=str(saved),
        samples=samples,
        name=name,
        environment=_variables(variables),
        **_curves(curves),
        cpus_per_rank=cpus_per_rank,
        memory_mib_per_rank=memory_mib_per_rank,
    )
    state = private_folder(folder or default_folder())
    known = read_state(state)
    if known is not None and (problem := misfit(spec, known.sizes)) is not None:
        raise InvalidInstance(problem)
    for doubt in _doubts(spec):
        click.echo(f"submit: {doubt}", err=True)
    leave(state, Submit(id, time.time(), spec))
    if as_json:
        say(msgspec.json.encode({"id": id, "state": str(state), "controller": in_use(state)}).decode())
    else:
        say(id)
        if not in_use(state):
            here = "" if folder is None else f" --state {shlex.quote(str(state))}"
            said = f"queued in {state}; no controller runs there yet: apportion harvest{here}"
            click.echo(said, err=True)
    return 0


def _counts(least: int | None, most: int | None, counts: str | None) -> dict[str, Any]:
    if counts is None:
        if most is None:
            raise click.UsageError("give --max, the most nodes it can use, or --counts, such as 1,2,4,8")
        return {"min_nodes": 1 if least is None else least, "max_nodes": most}
    if least is not None or most is not None:
        raise click.UsageError("--counts stands instead of --min and --max")
    try:
        listed = tuple(sorted({int(count) for count in counts.split(",")}))
    except ValueError:
        raise click.UsageError(f"--counts takes N,N,..., not {counts!r}") from None
    return {"min_nodes": listed[0], "max_nodes": listed[-1], "allowed_counts": listed}


def _doubts(spec: JobSpec) -> list[str]:
    """Return what is odd about the curves of a job; it is submitted all the same."""
    found = []
    for type, curve in {"": spec.curve, **spec.curves}.items():
        of = f"the curve of {type}" if type else "the curve"
        points = sorted(curve)
        if points and points[-1][0] < spec.max_nodes:
            ends = f"{of} ends at {points[-1][0]}, before --max {spec.max_nodes}"
            found.append(f"{ends}: of more nothing is known until it is measured")
        for (fewer, before), (more, after) in pairwise(points):
            if after < before:
                found.append(f"{of} falls from {before:g} at {fewer} to {after:g} at {more}")
    return found


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    wrong = [word for word in given if "=" not in word]
    if wrong:
        raise click.UsageError(f"--env takes NAME=VALUE, not {wrong[0]!r}")
    return dict(word.split("=", 1) for word in given)


def _curves(given: tuple[str, ...]) -> dict[str, Any]:
    if len(given) == 1 and "=" not in given[0]:
        return {"curve": _points(given[0])}
    named = dict(one.partition("=")[::2] for one in given)
    if not all("=" in one for one in given) or len(named) < len(given):
        raise click.UsageError("several --curve take a type each: --curve a100=1:190 --curve v100=1:100")
    return {"curves": {type: _points(points) for type, points in named.items()}} if named else {}


def _points(given: str) -> tuple[tuple[int, float], ...]:
    try:
        pairs = [pair.split(":") for pair in given.split(",")] if given else []
        return tuple((int(count), float(rate)) for count, rate in pairs)
    except ValueError:
        raise click.UsageError(f"--curve takes NODES:RATE,NODES:RATE,..., not {given!r}") from None

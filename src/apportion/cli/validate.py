"""``apportion validate``: everything that is wrong with an instance, or with another file a command reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import click

from apportion.cli.output import counted, say
from apportion.cli.source import Source, takes_instance

__all__ = ["INPUTS", "Input", "command", "judged"]


@dataclass(frozen=True, slots=True)
class Input:
    """One kind of file besides instances.

    Attributes
    ----------
    reader
        Which commands read it.
    description
        Reads a path and says in one line what is in it; raises what the command would raise.
    suffixes
        Names that end so are taken for it.
    columns
        A CSV table with all these columns is taken for it.
    """

    reader: str
    description: Callable[[Path], str]
    suffixes: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()


def judged(path: str) -> str:
    """Return the kind of input that a path seems to be: a key of `INPUTS`, or ``instance``."""
    if path == "-":
        return "instance"
    place = Path(path)
    if place.is_dir():
        return "freezing-profiles" if [*place.glob("*/freezing.json")] else "profiles"
    name = place.name.lower().removesuffix(".gz")
    for kind, known in INPUTS.items():
        if name.endswith(known.suffixes):
            return kind
    if name.endswith((".json", ".yaml", ".yml")) or not place.is_file():
        return "instance"
    from apportion.core.files import unpacked

    first = unpacked(place.read_bytes()).decode("utf-8", "replace").lstrip("\ufeff").partition("\n")[0]
    header = {cell.strip().strip('"') for cell in re.split(r"[,|]", first)}
    if first.startswith(";") or header >= {"Start", "End"}:
        return "trace"  # a job log: SWF, or the output of sacct
    if not name.endswith(".csv"):
        return "instance"
    fitting = (kind for kind, known in INPUTS.items() if known.columns and known.columns <= header)
    return next(fitting, "instance")


def _jobs(path: Path) -> str:
    from apportion.cluster.simulation.job_table import read_job_table

    return f"{len(read_job_table(path))} jobs"


def _trace(path: Path) -> str:
    from apportion.cluster.simulation.snapshot import read_trace

    trace = read_trace(path)
    return f"{trace!r}".strip("<>")


def _curves(path: Path) -> str:
    from apportion.cluster.simulation.snapshot import read_curves

    return f"{len(read_curves(path))} throughput curves"


def _durations(path: Path) -> str:
    from apportion.cluster.simulation.rounds.workload_files import read_durations

    return f"{read_durations(path).submitted_s.size} jobs"


def _workload(path: Path) -> str:
    from apportion.cluster.estimation.training.application import read_applications
    from apportion.cluster.simulation.rounds.scenario import read_workload
    from apportion.core.errors import InvalidOption

    beside = path.parent / "profiles"
    if not beside.is_dir():
        raise InvalidOption(
            f"{path} names applications, and there is no folder profiles beside it: "
            f"`apportion simulate --profiles FOLDER --workload {path}` reads both"
        )
    return f"{len(read_workload(path, read_applications(beside)))} jobs"


def _steps(path: Path) -> str:
    from apportion.cluster.estimation.measured_steps import read_steps
    from apportion.core.files import file_text

    return f"{read_steps(file_text(path)).seconds.size} measured steps"


def _layers(path: Path) -> str:
    from apportion.cluster.estimation.measured_steps import read_layers
    from apportion.core.files import file_text

    return f"{read_layers(file_text(path)).depths.size} depths"


def _profiles(path: Path) -> str:
    from apportion.cluster.estimation.training.application import read_applications

    return f"applications {', '.join(read_applications(path))}"


def _freezing(path: Path) -> str:
    from apportion.cluster.estimation.training.freezing_profile import read_freezing

    return f"applications {', '.join(read_freezing(path))}"


INPUTS: Mapping[str, Input] = MappingProxyType(
    {
        "trace": Input("replay and snapshot", _trace, (".npz", ".swf")),
        "jobs": Input("replay and snapshot", _jobs, columns=frozenset({"Tcup", "Tcdw"})),
        "curves": Input("replay", _curves),
        "durations": Input("simulate", _durations, columns=frozenset({"timestamp", "duration", "num_gpus"})),
        "workload": Input("simulate", _workload, columns=frozenset({"name", "time", "application"})),
        "profiles": Input("simulate", _profiles),
        "freezing-profiles": Input("simulate", _freezing),
        "steps": Input("fit", _steps, columns=frozenset({"local_bsz", "step_time"})),
        "layers": Input("fit", _layers, columns=frozenset({"frozen_layers", "param_frac_unfrozen"})),
    }
)
"""By what `validate --as` calls them; a new one is one entry."""


@click.command("validate")
@takes_instance("PATH|-")
@click.option(
    "--as",
    "what",
    type=click.Choice(["instance", *INPUTS]),
    help="What PATH is; by default judged by its name and first line.",
)
@click.option("--json", "as_json", is_flag=True, help="One object: valid, kind, name and problems.")
def command(source: Source, what: str | None, as_json: bool) -> int:
    """List every problem of the file at PATH with its place; exit code 3 if there is any.

    PATH is an instance, or what another command reads: a trace of idle nodes, a table of jobs, throughput
    curves, a log of durations, a folder of profiles, measured steps or layers.
    """
    from apportion.core.errors import InvalidInstance, Problem

    kind = what or ("instance" if source.format else judged(source.path))
    try:
        verdict: dict[str, object] = _instance(source) if kind == "instance" else _input(source.path, kind)
        problems: tuple[Problem, ...] = ()
    except InvalidInstance as error:
        problems = source.named(error).problems if kind == "instance" else error.problems
        verdict = {"valid": False, "kind": None if kind == "instance" else kind, "name": None}
    if as_json:
        say(json.dumps({**verdict, "problems": [problem.as_json() for problem in problems]}))
    elif problems:
        say(
            "\n".join(
                [*(_one_line(problem.located()) for problem in problems), counted(len(problems), "problem")]
            )
        )
    else:
        say(f"valid: {verdict['kind']}, {_one_line(str(verdict['name'])) or 'without a name'}")
    return InvalidInstance.exit_code if problems else 0


def _instance(source: Source) -> dict[str, object]:
    from apportion.instances import kind_of
    from apportion.instances.tenants.check import ledger_of
    from apportion.instances.tenants.ledger import is_tenanted

    instance = source.instance()
    kind = kind_of(instance)
    if is_tenanted(instance):
        list(ledger_of(kind, instance).rows)  # refused where these are too many
    return {"valid": True, "kind": kind.name, "name": instance.name}


def _input(path: str, kind: str) -> dict[str, object]:
    if path == "-":
        raise click.UsageError(f"{kind} is read from a file, not from standard input")
    if not Path(path).exists():
        raise FileNotFoundError(None, "No such file or directory", path)
    return {"valid": True, "kind": kind, "name": INPUTS[kind].description(Path(path))}


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)

"""``apportion validate``: everything that is wrong with an instance, or another file that is read."""

from __future__ import annotations

import json
from pathlib import Path

import click

from apportion.cli.inputs import INPUTS, judged
from apportion.cli.output import counted, say
from apportion.cli.source import foreign_options, instance_of

__all__ = ["command"]


@click.command("validate")
@click.argument("path", metavar="PATH|-")
@foreign_options
@click.option(
    "--as",
    "what",
    type=click.Choice(["instance", *INPUTS]),
    help="What PATH is; by default judged by its name and first line.",
)
@click.option("--json", "as_json", is_flag=True, help="One object: valid, kind, name and problems.")
def command(
    path: str, format: str | None, index: int, sense: str | None, what: str | None, as_json: bool
) -> int:
    """List every problem of the file at PATH with its place; exit code 3 if there is any.

    PATH is an instance, or what another command reads: a trace of idle nodes, a table of jobs, throughput
    curves, a log of durations, a folder of profiles, measured steps or layers.
    """
    from apportion.errors import InvalidInstance, Problem

    kind = what or ("instance" if format else judged(path))
    try:
        verdict: dict[str, object] = (
            _instance(path, format, index, sense) if kind == "instance" else _input(path, kind)
        )
        problems: tuple[Problem, ...] = ()
    except InvalidInstance as error:
        problems = error.problems
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


def _instance(path: str, format: str | None, index: int, sense: str | None) -> dict[str, object]:
    from apportion.instances import kind_of

    instance = instance_of(path, format, index, sense)
    return {"valid": True, "kind": kind_of(instance).name, "name": instance.name}


def _input(path: str, kind: str) -> dict[str, object]:
    if path == "-":
        raise click.UsageError(f"{kind} is read from a file, not from standard input")
    if not Path(path).exists():
        raise FileNotFoundError(None, "No such file or directory", path)
    return {"valid": True, "kind": kind, "name": INPUTS[kind].told(Path(path))}


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)

"""``apportion validate``: everything that is wrong with an instance."""

from __future__ import annotations

import json

import click

from apportion.cli.output import say
from apportion.cli.source import foreign_options, instance_of

__all__ = ["command"]


@click.command("validate")
@click.argument("path", metavar="PATH|-")
@foreign_options
@click.option("--json", "as_json", is_flag=True, help="One object: valid, kind, name and problems.")
def command(path: str, format: str | None, index: int, sense: str | None, as_json: bool) -> int:
    """List every problem of the instance at PATH with its JSON path; exit code 3 if there is any."""
    from apportion.errors import InvalidInstance

    try:
        instance = instance_of(path, format, index, sense)
    except InvalidInstance as error:
        problems = error.problems
        verdict: dict[str, object] = {"valid": False, "kind": None, "name": None}
    else:
        from apportion.instances import kind_of

        problems = ()
        verdict = {"valid": True, "kind": kind_of(instance).name, "name": instance.name}
    if as_json:
        say(json.dumps({**verdict, "problems": [problem.as_json() for problem in problems]}))
    elif problems:
        count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        say("\n".join([*(_one_line(problem.located()) for problem in problems), count]))
    else:
        say(f"valid: {verdict['kind']}, {_one_line(str(verdict['name'])) or 'without a name'}")
    return InvalidInstance.exit_code if problems else 0


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)

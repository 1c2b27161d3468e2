"""``apportion check``: re-verify a stored result against its instance, exactly, without any solver."""

from __future__ import annotations

import json

import click

from apportion.cli.output import say
from apportion.cli.source import foreign_options, instance_of, json_of

__all__ = ["command"]


@click.command("check")
@click.argument("instance_path", metavar="INSTANCE")
@click.argument("solution_path", metavar="SOLUTION")
@foreign_options
@click.option("--json", "as_json", is_flag=True, help="One object: verified and the checks.")
def command(
    instance_path: str, solution_path: str, format: str | None, index: int, sense: str | None, as_json: bool
) -> int:
    """Recompute plan, objective, bounds and digest of SOLUTION from INSTANCE in exact arithmetic.

    Exit code 0 if every claim holds, 3 if one does not or a file is malformed. One of the two may be -.
    """
    from apportion.errors import InvalidInstance
    from apportion.stored import verify

    if instance_path == solution_path == "-":
        raise click.UsageError("only one of INSTANCE and SOLUTION can be standard input")
    instance = instance_of(instance_path, format, index, sense)
    verification = verify(instance, json_of(solution_path, "solution"))
    if as_json:
        checks = [{"name": name, "ok": ok, "message": message} for name, ok, message in verification.checks]
        say(json.dumps({"verified": verification.ok, "checks": checks}))
    else:
        say(
            "\n".join(f"{'ok  ' if ok else 'FAIL'}  {name}: {told}" for name, ok, told in verification.checks)
        )
        say("verified" if verification.ok else "NOT verified")
    return 0 if verification.ok else InvalidInstance.exit_code

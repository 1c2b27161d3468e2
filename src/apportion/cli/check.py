"""``apportion check``: re-verify a stored result against its instance, exactly, without any solver."""

from __future__ import annotations

import json
from pathlib import Path

import click

from apportion.cli.output import say
from apportion.cli.source import foreign_options, instance_of, json_of

__all__ = ["command"]


@click.command("check")
@click.argument("instance_path", metavar="INSTANCE")
@click.argument("solution_path", metavar="SOLUTION")
@foreign_options
@click.option("--proof", "proof_path", metavar="FILE", help="The proof of its claim, to be walked as well.")
@click.option("--json", "as_json", is_flag=True, help="One object: verified and the checks.")
def command(
    instance_path: str,
    solution_path: str,
    format: str | None,
    index: int,
    sense: str | None,
    proof_path: str | None,
    as_json: bool,
) -> int:
    """Recompute plan, objective, bounds and digest of SOLUTION from INSTANCE in exact arithmetic.

    With --proof the search behind ``optimal`` or ``infeasible`` is walked again, without any solver.

    Exit code 0 if every claim holds, 3 if one does not or a file is malformed. One of the two may be -.
    """
    from apportion.errors import InvalidInstance
    from apportion.stored import verify

    if instance_path == solution_path == "-":
        raise click.UsageError("only one of INSTANCE and SOLUTION can be standard input")
    instance = instance_of(instance_path, format, index, sense)
    proof = None if proof_path is None else Path(proof_path).read_bytes()
    verification = verify(instance, json_of(solution_path, "solution"), proof)
    if as_json:
        checks = [{"name": name, "ok": ok, "message": why} for name, ok, why in verification.checks]
        say(json.dumps({"verified": verification.ok, "checks": checks}))
    else:
        say("\n".join(f"{'ok  ' if ok else 'FAIL'}  {name}: {why}" for name, ok, why in verification.checks))
        say("verified" if verification.ok else "NOT verified")
    return 0 if verification.ok else InvalidInstance.exit_code

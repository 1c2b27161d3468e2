"""``apportion check``: re-verify a stored result against its instance, exactly, without any solver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import check_target, emit, say
from apportion.cli.source import Source, json_of, takes_instance

if TYPE_CHECKING:
    from apportion.io.stored import Verification

__all__ = ["command"]


@click.command("check")
@takes_instance("INSTANCE")
@click.argument("solution_path", metavar="SOLUTION")
@click.option(
    "--proof",
    "proof_path",
    metavar="FILE",
    help="The proof of its claim, to be walked as well; the one that SOLUTION names, if that lies beside it.",
)
@click.option(
    "--statement",
    "statement_path",
    metavar="FILE",
    help="Write what the proof is about as plain JSON, for checkers that share nothing with this package.",
)
@click.option("--json", "as_json", is_flag=True, help="One object: verified, what is not, and the claims.")
def command(
    source: Source,
    solution_path: str,
    proof_path: str | None,
    statement_path: str | None,
    as_json: bool,
) -> int:
    """Say of every claim of SOLUTION by what it is derived from INSTANCE, in exact arithmetic.

    A line a claim: derived (ok), somebody's word (word), nothing claimed (-), or refused (FAIL). With a proof
    the search behind ``optimal`` or ``infeasible`` is walked again, without any solver.

    Exit code 0 if every claim is derived or marked as a word, 3 if one is refused or a file is malformed. One
    of the two may be -.
    """
    from apportion.core.errors import InvalidInstance
    from apportion.io.stored import verify

    if source.path == solution_path == "-":
        raise click.UsageError("only one of INSTANCE and SOLUTION can be standard input")
    instance = source.instance()
    solution = json_of(solution_path, "solution")
    path = _beside(solution, solution_path) if proof_path is None else Path(proof_path)
    check_target(statement_path)
    found = verify(instance, solution, None if path is None else _proof_at(path))
    if statement_path is not None:
        emit(_statement(instance, solution), statement_path)
    if as_json:
        claims = [
            {"name": one.claim, "verdict": one.verdict, "ok": ok, "message": one.how}
            for one, (_, ok, _) in zip(found.claims, found.checks, strict=True)
        ]
        say(json.dumps({"verified": found.verified, "words": found.words, "checks": claims}))
    else:
        say("\n".join(f"{_SIGNS[one.verdict]:4}  {one.claim}: {one.how}" for one in found.claims))
        say(_conclusion(found))
    return 0 if found.ok else InvalidInstance.exit_code


def _proof_at(path: Path) -> bytes:
    """Return a proof, of a file that is longer than any just so much that its length is seen."""
    from apportion.proofs.certificate import LARGEST_DOCUMENT

    with path.open("rb") as file:
        return file.read(LARGEST_DOCUMENT + 1)


def _statement(instance: Any, solution: Any) -> bytes:
    """Return the statement of an instance under the shares that a result keeps, with its plan."""
    from apportion.instances.tenants.ledger import under_floors
    from apportion.proofs.statement import statement_of

    under = under_floors(instance, solution.get("floors"))
    return json.dumps(statement_of(under, solution["plan"]), separators=(",", ":")).encode()


_SIGNS = {"derived": "ok", "word": "word", "nothing": "-", "refused": "FAIL"}


def _conclusion(found: Verification) -> str:
    if not found.ok:
        return "NOT verified"
    if {"termination", "bound"} & set(found.words) and {"plan", "objective"}.isdisjoint(found.words):
        return (
            "plan and objective are right; that nothing is better was not checked: solve with --proof "
            f"(somebody's word: {', '.join(found.words)})"
        )
    if found.words:
        return f"nothing is refused; not verified, somebody's word: {', '.join(found.words)}"
    return "verified"


def _beside(solution: Any, solution_path: str) -> Path | None:
    """Return the proof that a result names, if it lies beside the result."""
    name = solution.get("proof") if isinstance(solution, dict) else None
    if not isinstance(name, str) or solution_path == "-" or Path(name).name != name:
        return None
    path = Path(solution_path).parent / name
    return path if path.is_file() else None

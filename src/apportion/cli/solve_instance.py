"""``solve-instance``: one instance in, one checked and certified plan out."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import click

from apportion import __version__
from apportion.cli.commands import epilog_of
from apportion.cli.output import OutputClosed, check_target, emit, quiet_stdout, say, write_file
from apportion.cli.running import run
from apportion.cli.source import BACKEND, FORMULATION, Source, json_of, takes_instance

if TYPE_CHECKING:
    from apportion.core.solution import Solution

__all__ = ["command", "main"]


class _Limit(click.ParamType[Any]):
    """A number of seconds or of work units, or ``none``."""

    name = "number or none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        """Return the number, ``None`` for ``none``."""
        if value is None or (isinstance(value, str) and value.lower() == "none"):
            return None
        try:
            return float(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is neither a number nor none", param, ctx)


@click.command(
    "solve-instance", context_settings={"help_option_names": ["-h", "--help"]}, epilog=epilog_of("solve")
)
@takes_instance("PATH|-", required=False)
@click.option(
    "--backend",
    type=BACKEND,
    default="auto",
    show_default=True,
    help="auto, exact, highs, cp-sat, scip or pyomo:NAME; `apportion backends` lists them.",
)
@click.option("--formulation", type=FORMULATION, metavar="NAME", help="The kind's first one by default.")
@click.option(
    "--time-limit", type=_Limit(), default=10.0, show_default=True, metavar="S", help="Seconds, or none."
)
@click.option(
    "--gap", type=float, default=0.0, show_default=True, metavar="G", help="Relative gap to stop at."
)
@click.option(
    "--threads",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Of a general solver, and of the exact search over several capacities or machines.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Random seed.")
@click.option("--deterministic", is_flag=True, help="No clock decides anything; bound it with --work-limit.")
@click.option("--work-limit", type=_Limit(), metavar="W", help="In the solver's own deterministic units.")
@click.option(
    "--keep-running/--no-keep-running",
    default=True,
    show_default=True,
    help="Among equal plans one that stops, then moves the fewest jobs.",
)
@click.option("--warm-start", metavar="FILE", help="An earlier result, or a plan, as JSON.")
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    help="Write the result as JSON to FILE, or the plan as a table to FILE.csv, whole or not at all.",
)
@click.option("--json", "as_json", is_flag=True, help="Write the result as one JSON object, nothing else.")
@click.option(
    "--stream", is_flag=True, help="Answer standard input line by line: one JSON instance, one JSON result."
)
@click.option(
    "--proof",
    metavar="FILE",
    help="Write a proof of the claim, checked before; with --stream, a folder that takes one file a line.",
)
@click.option("--plot", metavar="FILE", help="Draw the plan: FILE.svg, .html, .png or .pdf.")
@click.option(
    "--beside",
    "policies",
    multiple=True,
    metavar="POLICY",
    help="Say what a policy would have decided is worth: for placement kueue, kueue-balanced, kai; for gap "
    "filling and freezing those of replay and simulate. Repeatable.",
)
@click.version_option(__version__, prog_name="solve-instance")
def command(
    source: Source,
    backend: str,
    formulation: str | None,
    warm_start: str | None,
    out: str | None,
    as_json: bool,
    stream: bool,
    proof: str | None,
    plot: str | None,
    policies: tuple[str, ...],
    **options: Any,
) -> int:
    """Decide what every job of the instance at PATH (- for standard input) gets, and prove it.

    Exit codes: 0 a solution within the asked gap or a limit's incumbent, 1 internal error, 2 usage, 3 invalid
    instance, 4 proven infeasible, 5 limit reached with no solution, 7 backend unavailable, 130 interrupted
    (the incumbent is still written).
    """
    if stream:
        if source.path not in ("", "-") or out or plot or warm_start or source.format or policies:
            raise click.UsageError(
                "--stream reads JSON lines from standard input and writes to standard output"
            )
        return _answer_lines(backend=backend, formulation=formulation, proofs=proof, **options)
    if not source.path:
        raise click.UsageError("Missing argument 'PATH|-': name an instance, or - for standard input.")
    if policies and (as_json or out == "-"):
        raise click.UsageError("--beside says it in words: it goes without --json.")
    if plot is not None:
        from apportion.draw import check_name

        check_name(plot)
    for target in (out, plot, proof):
        check_target(target)
    from apportion.core.interruption import defer_interrupt

    with quiet_stdout():
        began = time.perf_counter()
        instance = source.instance()
        if policies:
            _check_known(policies, instance)
        earlier = None if warm_start is None else _plan_of(warm_start)
        read_seconds = time.perf_counter() - began
        options["proof"] = proof is not None
    with defer_interrupt(yields=True):  # the answer to Ctrl-C is written, too
        with quiet_stdout():
            solution = _solve(instance, as_json, backend, formulation, earlier, options)
        _write(solution, read_seconds, source.path, out, as_json, plot, proof)
        if policies:
            with quiet_stdout():
                lines = _beside(solution, policies, options["seed"])
            say("\n" + "\n".join(lines))
        return _exit_code(solution)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run ``solve-instance`` and leave the process with its exit code."""
    from apportion.cli.commands import COMMANDS
    from apportion.cli.main import prepared
    from apportion.cli.running import clocked
    from apportion.cli.settings import configured

    solve = prepared(clocked(command, "reading"), COMMANDS["solve"])
    settings = {"auto_envvar_prefix": "APPORTION_SOLVE"}
    sys.exit(
        run(
            solve,
            "solve-instance",
            arguments,
            lambda: {**settings, "default_map": configured(solve, "solve")},
        )
    )


def _plan_of(path: str) -> Any:
    """Return the stored result, or the plan, that the file is."""
    from apportion.core.errors import InvalidInstance, Problem

    earlier = json_of(path, "warm start")
    if not isinstance(earlier, dict):
        said = "must be a stored result or a plan, both JSON objects"
    elif {"schema_version", "jobs"} <= earlier.keys():
        said = "is an instance; a warm start is a stored result or a plan"
    else:
        return earlier
    raise InvalidInstance(Problem("warm start $", said), None if path == "-" else path)


def _solve(
    instance: Any, as_json: bool, backend: str, formulation: str | None, earlier: Any, options: dict[str, Any]
) -> Solution:
    from apportion.cli.running import Progress
    from apportion.solving.api import solve

    with Progress(not as_json) as progress:
        return solve(
            instance,
            backend,
            warm_start=earlier,
            formulation=formulation,
            on_incumbent=progress.callback,
            **options,
        )


def _write(
    solution: Solution,
    read_seconds: float,
    path: str,
    out: str | None,
    as_json: bool,
    plot: str | None,
    proof: str | None,
) -> None:
    from apportion.io import stored

    named = None if solution.proof is None or proof is None else Path(proof).name
    document = stored.document(solution, read_seconds, named)
    encoded = stored.encode(document)
    try:
        if out is not None and out.lower().endswith(".csv"):
            _write_table(solution, out)
        elif out is not None:
            emit(encoded, out)
    finally:  # a full disk must not lose the answer
        if as_json and out != "-":
            emit(encoded)
        elif out != "-":
            from apportion.cli.summary import summary

            say(summary(solution.instance, document, path))
    if plot is not None:
        _plot(solution, plot)
    if proof is not None:
        _write_proof(solution, proof)


def _write_table(solution: Solution, out: str) -> None:
    if solution.plan is None:
        click.echo(f"solve-instance: there is no plan to write to {out}", err=True)
        return
    from apportion.cli.summary import plan_csv

    emit(plan_csv(solution.instance, solution.plan), out)


def _write_proof(solution: Solution, proof: str) -> None:
    if solution.proof is None:
        click.echo("solve-instance: no proof was written; the notes of the result say why", err=True)
        return
    from apportion.proofs.certificate import encode

    write_file(proof, encode(solution.proof))


def _plot(solution: Solution, plot: str) -> None:
    if solution.plan is None:
        click.echo("solve-instance: there is no plan to draw", err=True)
        return
    from apportion.draw import drawing, encoded

    prices = solution.certificate.multipliers
    drawn = drawing(solution.instance, solution.plan, plot, prices, solution.bound)
    write_file(plot, encoded(drawn, plot))


def _check_known(policies: Sequence[str], instance: Any) -> None:
    from apportion.core.errors import InvalidOption, one_of
    from apportion.instances.kinds import kind_of
    from apportion.service.by_policy import policies_of

    kind = kind_of(instance).name
    if not policies_of(kind):
        raise InvalidOption(f"--beside: there are no policies for {kind}")
    for policy in policies:
        one_of("beside", policy, policies_of(kind))


def _beside(solution: Solution, policies: Sequence[str], seed: int) -> list[str]:
    """Return the lines of a table: what the plans of policies are worth beside this one and its bound."""
    from apportion.cli.summary import table
    from apportion.service.session import Session

    session = Session(solution.instance)
    rows, refused = [("policy", "objective", "beside this plan")], []
    for policy in policies:
        decided, best = session.decide(policy, seed=seed).solution, solution.objective
        found = decided.objective
        if found is None:  # policies know little of what an instance may ask for
            why = "; ".join(note.partition(": ")[2] for note in decided.notes)
            refused.append(f"{policy}: its plan is not allowed: {why}")
        more = f"{(found - best) / abs(best):+.1%}" if found is not None and best else "-"
        rows.append((policy, "-" if found is None else f"{found:.6g}", more))
    return [*table(rows, "<>>"), *refused]


def _exit_code(solution: Solution) -> int:
    from apportion.core.outcome import Termination

    ended = solution.termination
    if ended is Termination.INTERRUPTED:
        return 130
    if ended in (Termination.ERROR, Termination.NUMERICAL_ERROR):
        for note in solution.notes:
            click.echo(f"solve-instance: {note}", err=True)
        return 1
    if solution.plan is not None:
        return 0
    if ended is Termination.INFEASIBLE:
        return 4
    limits = (
        Termination.TIME_LIMIT,
        Termination.NODE_LIMIT,
        Termination.MEMORY_LIMIT,
        Termination.SOLUTION_LIMIT,
    )
    return 5 if ended in limits else 1


def _answer_lines(**options: Any) -> int:
    """Answer standard input line by line until it ends, the process kept warm; returns exit code 0.

    Parameters
    ----------
    **options
        Passed to every `solve` call.
    """
    from apportion.service.stream import serve

    with _answers() as out:

        def write(answer: bytes) -> None:
            try:
                out.write(answer)
                out.flush()
            except OSError as error:
                why = "" if isinstance(error, BrokenPipeError) else f"standard output: {error.strerror}"
                raise OutputClosed(why) from None

        serve(sys.stdin.buffer, write, **options)
    return 0


@contextmanager
def _answers() -> Iterator[BinaryIO]:
    """Yield what standard output was, while anything else printed on it goes to standard error."""
    if sys.stdout is None or sys.stdin is None:
        raise OutputClosed("standard input or output is closed")
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    out = os.fdopen(saved, "wb", closefd=False)
    try:
        yield out
    finally:
        os.dup2(saved, 1)
        os.close(saved)


if __name__ == "__main__":
    main()

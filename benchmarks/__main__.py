"""``python -m benchmarks``: run the suite, report on it, compare two runs, gate on quality, list it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from apportion.cli.output import check_target
from apportion.cli.running import in_one_line

__all__ = ["main"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_NEW = click.Path(dir_okay=False, path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure apportion beside what people use today, and say so honestly."""


def _selected(command: Any) -> Any:
    """Add the options that select cells."""
    for option in (
        click.option("--quick", is_flag=True, help="The pilot: under three minutes on two cores."),
        click.option(
            "--only",
            multiple=True,
            metavar="PATTERN",
            help="Family, set, set/instance or solver; repeatable.",
        ),
        click.option(
            "--data",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="Folder of published instances.",
        ),
        click.option("--limit", "limit_s", type=click.FloatRange(min=0.01), help="Seconds per call."),
        click.option("--seeds", type=click.IntRange(min=1), help="Instances per point of a grid."),
        click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True),
        click.option(
            "--memory", "memory_mib", type=click.IntRange(min=256), help="MiB of address space a cell."
        ),
    ):
        command = option(command)
    return command


@main.command("list")
@_selected
def list_cells(**selection: Any) -> None:
    """Say what would be run, and nothing more."""
    cells, missing = _cells(selection)
    for cell in cells:
        click.echo(cell.key)
    click.echo(_how_many(cells, missing), err=True)


@main.command()
@_selected
@click.option("--out", type=_NEW, default=Path("benchmarks.jsonl"), show_default=True, help="Rows, appended.")
@click.option("--resume", is_flag=True, help="Go on with a file; cells that it has are skipped.")
@click.option(
    "--executor", default="process", show_default=True, help="process, dask (embedded) or dask://HOST:PORT."
)
@click.option("--workers", type=click.IntRange(min=1), help="Cells at a time; 1, with --quick up to 2.")
@click.option("--check", is_flag=True, help="Gate the file afterwards.")
def run(out: Path, resume: bool, executor: str, workers: int | None, check: bool, **selection: Any) -> None:
    """Run cells and append their rows to a file of JSON Lines."""
    cells, missing = _cells(selection)
    at_once = workers or (min(2, os.cpu_count() or 1) if selection["quick"] else 1)
    about = {
        "quick": selection["quick"],
        "arguments": _arguments(selection),
        "workers": at_once,
        "executor": executor.split("://")[0],
        "missing_data": missing,
    }
    _measure(cells, out, executor, at_once, resume=resume, about=about)
    if check:
        _gate(out, complete=False)


@main.command()
@click.option(
    "--data", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path), help="As of run."
)
@click.option("--limit", "limit_s", type=click.FloatRange(min=0.01), default=60.0, show_default=True)
@click.option(
    "--proof-limit",
    "proof_s",
    type=click.FloatRange(min=0.01),
    default=120.0,
    show_default=True,
    help="Seconds for the proof of an answer, and for checking it.",
)
@click.option("--only", multiple=True, metavar="PATTERN", help="Set or set/instance; repeatable.")
@click.option("--out", type=_NEW, default=Path("records.jsonl"), show_default=True, help="Rows, appended.")
@click.option("--markdown", "page", type=_NEW, help="The page, docs/records.md.")
def records(
    data: Path, limit_s: float, proof_s: float, only: tuple[str, ...], out: Path, page: Path | None
) -> None:
    """Solve and prove every published instance, check the proofs, and list what came of it."""
    from dataclasses import replace

    from apportion.core.files import write_whole
    from benchmarks.reporting.markdown import markdown
    from benchmarks.reporting.record_list import record_sections
    from benchmarks.suite.published import PUBLISHED
    from benchmarks.suite.solvers import OURS
    from benchmarks.timing import provenance

    files = [name for name in PUBLISHED if name.endswith("-files") or name.startswith("orlib-")]
    patterns = only or tuple(f"{name}/*" for name in files)
    cells, missing = _cells({"only": (*patterns, OURS), "data": data, "limit_s": limit_s})
    cells = [replace(cell, repeats=1, proof_s=proof_s) for cell in cells]
    about = {"arguments": f"records --limit {limit_s:g} --proof-limit {proof_s:g}", "missing_data": missing}
    _measure(cells, out, "process", 1, resume=out.exists(), about=about)
    if page is not None:
        lead = (
            f"Run with `python -m benchmarks records --data FOLDER --limit {limit_s:g} "
            f"--proof-limit {proof_s:g}`: {provenance()}. Every proof was walked by the "
            "checker, without a solver; CPU seconds of one thread: of the whole call, of finding the proof, "
            "of checking it."
        )
        text = markdown("Records", (lead,), record_sections(_rows(out)))
        write_whole(page, text.encode())


@main.command()
@click.argument("files", type=_FILE, nargs=-1, required=True)
@click.option("--out", type=_NEW, help="The page.")
@click.option("--markdown", "as_markdown", type=_NEW, help="The tables as Markdown.")
def report(files: tuple[Path, ...], out: Path | None, as_markdown: Path | None) -> None:
    """Write what files of rows say as one HTML page, as Markdown, or both."""
    from apportion.core.files import write_whole
    from benchmarks.reporting.markdown import markdown
    from benchmarks.reporting.page import page
    from benchmarks.reporting.report import TITLE
    from benchmarks.reporting.report import report as report_of

    if out is None and as_markdown is None:
        raise click.UsageError("name --out, --markdown or both")
    lead, sections = report_of([row for file in files for row in _rows(file)])
    if out is not None:
        write_whole(out, page(TITLE, lead, sections).encode())
    if as_markdown is not None:
        write_whole(as_markdown, markdown(TITLE, lead, sections).encode())


@main.command()
@click.argument("name")
@click.option("--only", multiple=True, metavar="PATTERN", help="Set, set/instance or solver; repeatable.")
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--limit", "limit_s", type=click.FloatRange(min=0.01), help="Seconds per call.")
@click.option("--seeds", type=click.IntRange(min=1), help="Instances per point of a grid.")
def preset(name: str, **selection: Any) -> None:
    """Print what README and docs quote as a table; without a known NAME, which there are."""
    from benchmarks.presets import PRESETS, printed

    if name not in PRESETS:
        listed = "\n".join(f"{known}: {one.about}" for known, one in PRESETS.items())
        raise click.UsageError(f"there is no preset {name!r}, but\n{listed}")
    printed(name, **selection)


@main.command()
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
def compare(before: Path, after: Path) -> None:
    """Compare two runs of the same cells; fails only if quality of our solvers got worse."""
    from benchmarks.reporting.drift import drift_of
    from benchmarks.reporting.drift_text import drift_text

    drift = drift_of(_rows(before), _rows(after))
    click.echo(drift_text(drift))
    if drift.regressions:
        raise SystemExit(1)


@main.command()
@click.argument("file", type=_FILE)
@click.option("--complete", is_flag=True, help="Every family and solver of the registry must have a row.")
def gate(file: Path, complete: bool) -> None:
    """Fail (exit code 1) if quality is not what it must be; wall time decides nothing."""
    _gate(file, complete)


def _gate(file: Path, complete: bool) -> None:
    from benchmarks.reporting.gate import failures, remarks

    rows = _rows(file)
    for remark in remarks(rows):
        click.echo(f"a peer: {remark}")
    wrong = failures(rows, complete)
    for line in wrong:
        click.echo(f"FAILS: {line}")
    count = sum(row.get("kind") == "cell" for row in rows)
    click.echo(f"{count} cells, {len(wrong)} failures")
    if wrong:
        raise SystemExit(1)


def _measure(
    cells: list[Any], out: Path, executor: str, at_once: int, *, resume: bool, about: dict[str, Any]
) -> None:
    """Run cells and append their rows to a file."""
    from benchmarks.suite.executing import CannotExecute, opened
    from benchmarks.suite.rows import BadRows
    from benchmarks.suite.run_cells import run as run_cells

    check_target(str(out))
    click.echo(_how_many(cells, about["missing_data"]), err=True)
    try:
        with opened(executor, at_once) as pool:
            run_cells(cells, out, pool, resume=resume, about=about, on_row=_progress)
    except (BadRows, CannotExecute) as error:
        raise click.UsageError(str(error)) from error


def _cells(selection: dict[str, Any]) -> tuple[list[Any], list[str]]:
    from benchmarks.suite.registry import Selection, UnknownPattern, cells_of, missing_data

    chosen = Selection(**{**selection, "only": tuple(selection["only"])})
    try:
        return cells_of(chosen), missing_data(chosen)
    except UnknownPattern as error:
        raise click.UsageError(str(error)) from error


def _arguments(selection: dict[str, Any]) -> str:
    """Return the selection as it is typed, the data folder without its place."""
    words = ["--quick"] if selection["quick"] else []
    for name in ("limit_s", "seeds", "threads", "memory_mib"):
        value = selection[name]
        if value is not None and (name, value) != ("threads", 1):
            words.append(f"--{name.split('_')[0]} {value:g}")
    words += [f"--only '{pattern}'" for pattern in selection["only"]]
    return " ".join([*words, *(["--data FOLDER"] if selection["data"] is not None else [])])


def _how_many(cells: list[Any], missing: list[str]) -> str:
    counted = f"{len(cells)} cells"
    return counted + (f"; without files, so not run: {', '.join(missing)}" if missing else "")


def _rows(file: Path) -> list[dict[str, Any]]:
    from benchmarks.suite.rows import BadRows, read_rows

    try:
        return read_rows(file)
    except BadRows as error:
        raise click.UsageError(str(error)) from error


def _progress(row: dict[str, Any], done: int, count: int) -> None:
    seconds = row.get("seconds")
    took = "" if seconds is None else f", {seconds:.4g} s"
    click.echo(f"{done}/{count} {row['key']}: {row['termination']}{took}", err=True)


if __name__ == "__main__":
    with in_one_line("python -m benchmarks"):
        main(prog_name="python -m benchmarks", standalone_mode=False)

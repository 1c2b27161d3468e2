"""``apportion history``: commands on what was decided, and the options that choose decisions on record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from apportion.cli.commands import Listed
from apportion.cli.main import LazyGroup
from apportion.cli.output import check_target, counted, emit, quiet_stdout, say, write_file
from apportion.cli.summary import aligned

if TYPE_CHECKING:
    from apportion.service.record import Entry, History

__all__ = [
    "SUBCOMMANDS",
    "check",
    "chosen",
    "command",
    "entries_of",
    "explain",
    "export",
    "from_to",
    "list_decisions",
    "moment_of",
    "one",
    "opened",
    "prune",
    "replay",
    "show",
    "where",
]


_F = TypeVar("_F", bound=Callable[..., Any])


def where(command: _F) -> _F:
    """Add ``--record`` and ``--session`` to a command."""
    command = click.option("--session", metavar="NAME", help="Of one session only.")(command)
    return click.option(
        "--record", "folder", metavar="DIR", help="Folder of the record; default: the user's own."
    )(command)


def from_to(command: _F) -> _F:
    """Add ``--since``, ``--until`` and ``--last`` to a command, and what `where` adds."""
    for option in (
        click.option("--last", type=click.IntRange(min=1), metavar="N", help="The newest N only."),
        click.option("--until", metavar="WHEN", help="Made before then."),
        click.option(
            "--since", metavar="WHEN", help="Made since then: 14:05, 2026-11-22T14:05, 2h (ago), yesterday."
        ),
    ):
        command = option(command)
    return where(command)


def one(command: _F) -> _F:
    """Add ``[ID]`` and ``--at`` to a command, and what `where` adds."""
    command = click.option("--at", metavar="WHEN", help="The decision in force then, instead of ID.")(command)
    return where(click.argument("number", metavar="[ID]", type=int, required=False)(command))


def opened(folder: str | None) -> History:
    """Open the record of a folder to be read."""
    from apportion.service.record import History, record_file

    return History(record_file(folder))


def moment_of(text: str | None) -> float | None:
    """Return a moment as seconds since 1970, ``None`` for none."""
    from datetime import datetime

    from apportion.service.record.entries import moment

    return None if text is None else moment(text, datetime.now().astimezone())


def chosen(history: History, number: int | None, at: str | None, session: str | None) -> Entry:
    """Return the decision that ``ID`` or ``--at`` names, the newest one without either."""
    if number is not None and at is not None:
        raise click.UsageError("name a decision by ID or by --at, not by both")
    if number is not None:
        return history.entry(number)
    moment_s = moment_of("now" if at is None else at)
    assert moment_s is not None
    return history.at(moment_s, session)


def entries_of(
    history: History, session: str | None, since: str | None, until: str | None, last: int | None
) -> list[Entry]:
    """Return the decisions that the options of `from_to` choose."""
    return history.entries(session=session, since_s=moment_of(since), until_s=moment_of(until), last=last)


@click.command("check")
@from_to
@click.option("--json", "as_json", is_flag=True, help="One object: checked, failed and problems of the file.")
def check(
    folder: str | None,
    session: str | None,
    since: str | None,
    until: str | None,
    last: int | None,
    as_json: bool,
) -> int:
    """Check the file, and every stored plan, bound, digest and proof again, without any solver.

    Exit code 0 if everything holds, 3 if a decision has become uncheckable or the file is damaged.
    """
    import msgspec

    from apportion.core.errors import InvalidInstance
    from apportion.service.record.replaying import check_record as check

    with opened(folder) as history:
        problems = history.problems()
        entries = entries_of(history, session, since, until, last)
        failed = {
            checked.entry.id: list(checked.failures) for checked in check(history, entries) if not checked.ok
        }
    if as_json:
        result = {"checked": len(entries), "failed": failed, "problems": problems}
        say(msgspec.json.encode(result).decode())
    else:
        for problem in problems:
            say(f"FAIL  file: {problem}")
        for number, failures in failed.items():
            for failure in failures:
                say(f"FAIL  decision {number}: {failure}")
        state = "damaged" if problems else "whole"
        say(f"{counted(len(entries), 'decision')} checked, {len(failed)} uncheckable; the file is {state}")
    return InvalidInstance.exit_code if failed or problems else 0


@click.command("explain")
@one
@click.option("--job", metavar="JOB", help="This job only, with exact figures.")
@click.option("--option", metavar="OPTION", help="An option of JOB to ask about; - for leaving it out.")
@click.option("--time-limit", type=float, default=30.0, show_default=True, help="Seconds for everything.")
@click.option("--json", "as_json", is_flag=True, help="One object with every figure.")
def explain(
    number: int | None,
    at: str | None,
    folder: str | None,
    session: str | None,
    job: str | None,
    option: str | None,
    time_limit: float,
    as_json: bool,
) -> None:
    """Say why the plan of decision ID was as it was: prices, runners-up, what one more node was worth.

    The instance is the one of that moment, and the plan explained is the one that was answered then.
    """
    import json

    from apportion.explanation import explain
    from apportion.service.record.entries import said
    from apportion.service.record.replaying import restored

    with opened(folder) as history:
        entry = chosen(history, number, at, session)
        instance = history.instance(entry.session, entry.revision)
        document = json.loads(history.result(entry.id))
    with quiet_stdout():
        solution = restored(instance, document)
        explanation = explain(instance, solution, job, option, time_limit=time_limit)
    if as_json:
        say(json.dumps({"decision": entry.id, **explanation.to_dict()}, allow_nan=False))
        return
    say(f"decision {entry.id} of session {entry.session}, {said(entry.at_s)}, policy {entry.policy}")
    say(str(explanation))


@click.command("export")
@click.argument("numbers", metavar="[ID]...", type=int, nargs=-1)
@from_to
@click.option(
    "--part",
    type=click.Choice(["all", "instance", "result", "proof"]),
    default="all",
    show_default=True,
    help="What of a decision; an instance is what `apportion solve` reads, a result what `check` does.",
)
@click.option("-o", "--output", metavar="FILE", default="-", help="Standard output by default.")
def export(
    numbers: tuple[int, ...],
    folder: str | None,
    session: str | None,
    since: str | None,
    until: str | None,
    last: int | None,
    part: str,
    output: str,
) -> None:
    """Write decisions as JSON, one per line: those of the IDs, else all that the options choose."""
    from apportion.service.record.reading import exported

    check_target(output)
    if part == "proof" and len(numbers) != 1:
        raise click.UsageError("--part proof needs one ID: a proof is a file of its own")
    with opened(folder) as history:
        entries = (
            [history.entry(number) for number in numbers]
            if numbers
            else entries_of(history, session, since, until, last)
        )
        if part == "proof":
            proof = history.proof(entries[0].id)
            if proof is None:
                raise click.UsageError(f"decision {entries[0].id} has no proof")
            if output == "-":
                raise click.UsageError("a proof is no text: name a file with -o")
            write_file(output, proof)
            return
        lines = [exported(history, entry, part) for entry in entries]
    emit(b"\n".join(lines), output)


@click.command("list")
@from_to
@click.option("--json", "as_json", is_flag=True, help="A list of objects.")
def list_decisions(
    folder: str | None,
    session: str | None,
    since: str | None,
    until: str | None,
    last: int | None,
    as_json: bool,
) -> None:
    """List the decisions on record, the oldest first."""
    import msgspec

    from apportion.service.record.entries import said

    with opened(folder) as history:
        entries = entries_of(history, session, since, until, last)
    if as_json:
        say(msgspec.json.encode(entries).decode())
        return
    rows = [
        ("ID", "MADE", "SESSION", "REVISION", "POLICY", "ENDED", "OBJECTIVE", "GAP", "SECONDS", "ASKED BY")
    ]
    rows += [
        (
            str(entry.id),
            said(entry.at_s),
            entry.session,
            str(entry.revision),
            entry.policy,
            entry.termination if entry.status == "decided" else f"{entry.status}: {entry.termination}",
            "-" if entry.objective is None else f"{entry.objective:.10g}",
            "-" if entry.gap is None else f"{entry.gap:.2g}",
            f"{entry.seconds:.3f}",
            entry.asked_by,
        )
        for entry in entries
    ]
    for line in aligned(rows, "<" * len(rows[0])) if entries else []:
        say(line)
    say(counted(len(entries), "decision"))


@click.command("prune")
@click.option(
    "--before", metavar="WHEN", required=True, help="Decisions made before then: 30d (ago), a date."
)
@click.option("--record", "folder", metavar="DIR", help="Folder of the record; default: the user's own.")
@click.option("--dry-run", is_flag=True, help="Only say how many.")
def prune(before: str, folder: str | None, dry_run: bool) -> None:
    """Forget decisions made before a moment; what is kept stays checkable. A service may run.

    The last decision of every open session is kept, however old it is.
    """
    from apportion.service.record import Record

    before_s = moment_of(before)
    assert before_s is not None
    with opened(folder) as history:
        old, path = len(history.entries(until_s=before_s)), history.path
    if dry_run:
        say(f"{counted(old, 'decision')} made before then")
        return
    size = path.stat().st_size
    with Record(path) as record:
        gone = record.prune(before_s)
    say(
        f"{counted(gone, 'decision')} forgotten, {old - gone} older ones kept; "
        f"{size:,} -> {path.stat().st_size:,} bytes"
    )


@click.command("replay")
@click.option("--policy", metavar="NAME", help="The other policy; without it, the optimum.")
@from_to
@click.option("--time-limit", type=float, default=10.0, show_default=True, help="Seconds for every decision.")
@click.option("--json", "as_json", is_flag=True, help="A list of objects.")
def replay(
    policy: str | None,
    folder: str | None,
    session: str | None,
    since: str | None,
    until: str | None,
    last: int | None,
    time_limit: float,
    as_json: bool,
) -> None:
    """Decide every round on record again under another policy, and compare.

    Every round starts from what was really there: it says what the policy would have done at that moment, not
    what would have come of it later; `apportion replay` and `apportion simulate` follow that.
    """
    import msgspec

    from apportion.service.record.entries import said
    from apportion.service.record.replaying import replay

    with opened(folder) as history, quiet_stdout():
        replayed = list(replay(history, entries_of(history, session, since, until, last), policy, time_limit))
    if as_json:
        say(msgspec.json.encode(replayed).decode())
        return
    name = policy or "optimal"
    for one in replayed:
        if one.skipped is not None:
            say(f"{one.entry.id}  {said(one.entry.at_s)}  {one.entry.policy}  skipped: {one.skipped}")
            continue
        then, now = _worth(one.entry.objective), _worth(one.objective)
        changed = f"{len(one.changed)} jobs differ" if one.changed else "the same plan"
        say(f"{one.entry.id}  {said(one.entry.at_s)}  {one.entry.policy} {then}  {name} {now}  {changed}")
    both = [
        (one.entry.objective, one.objective)
        for one in replayed
        if one.objective is not None and one.entry.objective is not None
    ]
    before, after = (sum(column) for column in zip(*both, strict=True)) if both else (0.0, 0.0)
    left_out = sum(one.skipped is not None for one in replayed)
    rounds = counted(len(replayed) - left_out, "round") + (f" ({left_out} skipped)" if left_out else "")
    say(f"{rounds}; together {_worth(before)} as decided, {_worth(after)} under {name}")


def _worth(objective: float | None) -> str:
    return "no plan" if objective is None else f"{objective:.10g}"


@click.command("show")
@one
@click.option("--json", "as_json", is_flag=True, help="One object: decision, deltas and result.")
def show(number: int | None, at: str | None, folder: str | None, session: str | None, as_json: bool) -> None:
    """Show decision ID, or the one in force at a moment, or the newest one."""
    import msgspec

    from apportion.service.record.entries import said

    with opened(folder) as history:
        entry = chosen(history, number, at, session)
        result, deltas = history.result(entry.id), history.deltas(entry.session, entry.revision)
    if as_json:
        shown = {"decision": entry, "deltas": deltas, "result": msgspec.Raw(result)}
        say(msgspec.json.encode(shown).decode())
        return
    document = msgspec.json.decode(result)
    say(f"decision {entry.id}: session {entry.session}, revision {entry.revision}, {said(entry.at_s)}")
    say(f"asked by {entry.asked_by}; policy {entry.policy}; {entry.status} after {entry.seconds:.3f} s")
    bound = "no bound" if entry.bound is None else f"bound {entry.bound!r}"
    worth = "no plan" if entry.objective is None else f"objective {entry.objective!r}"
    say(f"{entry.termination}: {worth}, {bound}, evidence {document.get('evidence') or 'none'}")
    say(f"digest {entry.digest or 'none'}; proof {entry.proof_digest or 'none'}")
    for delta in deltas:
        say(f"changed: {msgspec.json.encode(delta).decode()}")
    for group in (document["plan"] or {}).values():
        for job, got in group.items() if isinstance(group, dict) else ():
            say(f"{job}: {' '.join(map(str, got)) or '-' if isinstance(got, list) else got}")
    for note in document["notes"]:
        say(f"note: {note}")


SUBCOMMANDS: Mapping[str, Listed] = MappingProxyType(
    {
        "list": Listed(
            "history",
            "List decisions.",
            ("history list --last 20", "history list --since 2h --json"),
            "history:list_decisions",
            doing="reading",
        ),
        "show": Listed(
            "history",
            "Show one decision: who asked, the plan, the bound, what changed.",
            ("history show 17", "history show --at 14:05 --json"),
            "history:show",
            doing="reading",
        ),
        "explain": Listed(
            "history",
            "Say why a job got what it got, or waited.",
            ("history explain 17 --job j0003", "history explain --at 14:05 --job j0003"),
            "history:explain",
            doing="explaining",
        ),
        "replay": Listed(
            "history",
            "Say what another policy would have done.",
            (
                "history replay --policy greedy --since yesterday",
                "history replay --policy equal-share --last 50 --json",
            ),
            "history:replay",
            doing="replaying",
        ),
        "check": Listed(
            "history",
            "Check stored decisions again; list those that fail.",
            ("history check", "history check --since yesterday --json"),
            "history:check",
            doing="checking",
        ),
        "export": Listed(
            "history",
            "Write decisions as JSON, one per line.",
            (
                "history export --since yesterday -o day.jsonl",
                "history export 17 --part instance -o round.json",
            ),
            "history:export",
            doing="reading",
        ),
        "prune": Listed(
            "history",
            "Forget old decisions.",
            ("history prune --before 30d", "history prune --before 2026-11-01 --dry-run"),
            "history:prune",
        ),
    }
)


class _Subcommands(LazyGroup):
    """The commands of ``apportion history``."""

    table = SUBCOMMANDS

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, one full line each."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, listed.line) for name, listed in SUBCOMMANDS.items()])


@click.group("history", cls=_Subcommands, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Look into the decisions on record: `apportion serve`, and `solve --stream --record`, write them."""

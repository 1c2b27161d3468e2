"""``apportion doctor`` and ``backends``: what to mend before nodes can be harvested; what is installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from apportion.cli.harvest import PARTITION, address_of
from apportion.cli.output import counted, say

if TYPE_CHECKING:
    from apportion.live.node_check import Finding

__all__ = [
    "backends_command",
    "command",
]


@click.command("doctor")
@click.option(
    "--partition", default=PARTITION, show_default=True, help="Slurm's preemptible partition for pilots."
)
@click.option("--state", "folder", metavar="DIR", help="State folder; default: the user's own.")
@click.option(
    "--address", default="127.0.0.1", show_default=True, metavar="HOST[:PORT]", help="As for harvest."
)
@click.option("--python", default=sys.executable, help="The interpreter on the nodes; default: this one.")
@click.option("--sbatch", "options", multiple=True, metavar="--NAME=VALUE", help="For pilots; repeatable.")
@click.option("--shared", metavar="DIR", help="Folder that this machine and the nodes share; default: here.")
@click.option("--nodes", type=click.IntRange(0), default=1, show_default=True, help="Idle nodes to ask.")
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
def command(
    partition: str,
    folder: str | None,
    address: str,
    python: str,
    options: tuple[str, ...],
    shared: str | None,
    nodes: int,
    as_json: bool,
) -> int:
    """Look at all that harvesting needs, and say what to mend.

    A small job on idle nodes looks at Python, the package, the shared folder, clocks and ports from there.
    Exit code 0 if all is well, 1 if something is to be mended, 5 if something could not be checked.
    """
    import msgspec

    from apportion.live.examination import examined
    from apportion.live.node_check import Asked, Verdict
    from apportion.live.record.store import default_folder, in_use, read_state

    host, port = address_of(address)
    where = Path(folder or default_folder()).expanduser().absolute()
    listening = in_use(where)
    state = read_state(where)
    known = 0 if state is None or state.port is None or not listening else state.port
    asked = Asked(partition, python, options, host, port or known, listening, Path(shared or ".").absolute())
    found: list[Finding] = []
    for finding in examined(asked, nodes):
        found.append(finding)
        if not as_json:
            say(_line(finding))
    verdicts = [finding.verdict for finding in found]
    wrong, unknown = verdicts.count(Verdict.MEND), verdicts.count(Verdict.UNKNOWN)
    if as_json:
        findings = [_fields(finding) for finding in found]
        say(msgspec.json.encode({"well": not wrong and not unknown, "findings": findings}).decode())
    else:
        rest = f", {unknown} not checked" if unknown else ""
        say(f"{counted(len(found), 'check')}, {wrong} to be mended{rest}")
    return 1 if wrong else 5 if unknown else 0


def _fields(finding: Finding) -> dict[str, str | None]:
    """Return a finding by the names that its JSON has had from the beginning."""
    return {
        "check": finding.check,
        "verdict": finding.verdict.value,
        "told": finding.message,
        "advice": finding.advice,
        "node": finding.node,
    }


def _line(finding: Finding) -> str:
    place = f" on {finding.node}" if finding.node is not None else ""
    head = f"{finding.verdict.value:<8}{finding.check}{place}: {finding.message}"
    return f"{head}\n        {finding.advice}" if finding.advice else head


@click.command("backends")
@click.option("--json", "as_json", is_flag=True, help="One array of objects.")
def backends_command(as_json: bool) -> None:
    """List the backends: whether each is available, its packages and what it accepts."""
    from apportion.solving.registry import backends, compiled_parts

    rows = backends()
    if as_json:
        say(json.dumps(rows))
        return
    wide = max(len(row["name"]) for row in rows)
    for row in rows:
        packages = ", ".join(f"{name} {found or 'missing'}" for name, found in row["packages"].items())
        state = "available  " if row["available"] else "unavailable"
        why = "" if row["available"] else f" ({row['why']})"
        accepts = f"accepts {row['accepts']:<8}"
        say(f"{row['name']:<{wide}}  {state}  {accepts}  {packages}; {row['description']}{why}")
        for defect in row["defects"]:
            say(f"{'':<{wide}}  known defect: {defect}")
    say(compiled_parts())

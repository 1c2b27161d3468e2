"""``apportion backends``: what is installed and what each backend accepts."""

from __future__ import annotations

import json

import click

from apportion.cli.output import say

__all__ = ["command"]


@click.command("backends")
@click.option("--json", "as_json", is_flag=True, help="One array of objects.")
def command(as_json: bool) -> None:
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

"""``apportion init``: a commented instance to start from."""

from __future__ import annotations

from importlib import resources

import click

from apportion.choices import one_of
from apportion.cli.completing import KIND
from apportion.cli.output import check_target, emit

__all__ = ["command"]


@click.command("init")
@click.argument("kind", type=KIND)
@click.option("-o", "--out", metavar="FILE", default="-", show_default=True, help="Where to write it.")
def command(kind: str, out: str) -> None:
    """Write a small instance of KIND as commented YAML, ready to be solved and to be changed."""
    from apportion.instances.kinds import kinds

    one_of("kind", kind, kinds())
    check_target(out)
    text = resources.files("apportion.cli").joinpath("starters", f"{kind}.yaml").read_bytes()
    emit(text.rstrip(b"\n"), out)

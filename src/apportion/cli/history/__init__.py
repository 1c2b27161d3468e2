"""``apportion history``: a group of commands on what was decided; each is loaded when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

from apportion.cli.commands import Listed
from apportion.cli.lazy_group import LazyGroup

__all__ = ["SUBCOMMANDS", "command"]

SUBCOMMANDS: Mapping[str, Listed] = MappingProxyType(
    {
        "list": Listed(
            "history",
            "List decisions.",
            ("history list --last 20", "history list --since 2h --json"),
            "listing",
            doing="reading",
        ),
        "show": Listed(
            "history",
            "Show one decision: who asked, the plan, the bound, what changed.",
            ("history show 17", "history show --at 14:05 --json"),
            doing="reading",
        ),
        "explain": Listed(
            "history",
            "Say why a job got what it got, or waited.",
            ("history explain 17 --job j0003", "history explain --at 14:05 --job j0003"),
            doing="explaining",
        ),
        "replay": Listed(
            "history",
            "Say what another policy would have done.",
            (
                "history replay --policy greedy --since yesterday",
                "history replay --policy equal-share --last 50 --json",
            ),
            "replaying",
            doing="replaying",
        ),
        "check": Listed(
            "history",
            "Check stored decisions again; list those that fail.",
            ("history check", "history check --since yesterday --json"),
            "checking",
            doing="checking",
        ),
        "export": Listed(
            "history",
            "Write decisions as JSON, one per line.",
            (
                "history export --since yesterday -o day.jsonl",
                "history export 17 --part instance -o round.json",
            ),
            doing="reading",
        ),
        "prune": Listed(
            "history",
            "Forget old decisions.",
            ("history prune --before 30d", "history prune --before 2026-11-01 --dry-run"),
        ),
    }
)


class _Subcommands(LazyGroup):
    """The commands of ``apportion history``."""

    table = SUBCOMMANDS
    package = "apportion.cli.history"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, one full line each."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, listed.line) for name, listed in SUBCOMMANDS.items()])


@click.group("history", cls=_Subcommands, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Look into the decisions on record: `apportion serve`, and `solve --stream --record`, write them."""

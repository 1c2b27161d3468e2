"""``apportion history replay``."""

from __future__ import annotations

import click

from apportion.cli.history.choosing import entries_of, from_to, opened
from apportion.cli.output import counted, quiet_stdout, say

__all__ = ["command"]


@click.command("replay")
@click.option("--policy", metavar="NAME", help="The other policy; without it, the optimum.")
@from_to
@click.option("--time-limit", type=float, default=10.0, show_default=True, help="Seconds for every decision.")
@click.option("--json", "as_json", is_flag=True, help="A list of objects.")
def command(
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

    from apportion.record.moments import said
    from apportion.record.replaying import replay

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

"""A comparison in words: the objective, who wins, who loses, and the prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apportion.explanation.comparison import Comparison, JobChange
from apportion.explanation.words import Words, amount, plain, words_of

__all__ = ["told"]

_ROWS = 30
_NODES = 6


def told(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of a comparison."""
    words = words_of(comparison.kind, comparison.sense, comparison.measure)
    timed = comparison.measure == "makespan"
    yield f"{comparison.kind} {plain(comparison.name)}".rstrip()
    yield from (f"  what if: {plain(edit)}" for edit in comparison.edits)
    yield ""
    yield from _objective(comparison, words)
    titles = ("ends earlier", "ends later") if timed else ("gains", "loses")
    for title, jobs in zip(titles, (comparison.winners, comparison.losers), strict=True):
        yield from _jobs(title, jobs, words)
    rest = "otherwise changed" if timed else "same worth, other option"
    yield from _jobs(rest, [job for job in comparison.jobs if job.gain == 0], words)
    if comparison.change is not None and comparison.unchanged:
        yield f"{comparison.unchanged} other jobs do not change"
    if not timed:  # a makespan weighs its pools, it does not price them
        yield from _prices(comparison, words)
    yield from (f"note: {plain(note)}" for note in comparison.notes)


def _objective(comparison: Comparison, words: Words) -> Iterator[str]:
    before = _or_none(comparison.objective_before, comparison.termination_before)
    after = _or_none(comparison.objective_after, comparison.termination_after)
    yield f"{comparison.measure}: {before} -> {after}"
    gain = comparison.gain
    if gain is None:
        return
    if gain.exact is not None:
        better = "better" if gain.exact > 0 else "worse"
        size = f"{amount(abs(gain.exact))}{words.value} {better}" if gain.exact else "no change"
        yield f"  {size} (both optima are proven)"
    elif comparison.change is not None:
        sign = "+" if comparison.change >= 0 else "-"
        change = f"{sign}{amount(abs(comparison.change))}{words.value}"
        yield f"  {change} between plans that are not both proven optimal"


def _jobs(title: str, jobs: Sequence[JobChange], words: Words) -> Iterator[str]:
    if not jobs:
        return
    yield ""
    yield f"{title}:"
    for job in jobs[:_ROWS]:
        change = f" by {amount(abs(job.gain))}{words.value}" if job.gain else ""
        moved = _moved(job)
        yield f"  {plain(job.job)}: {_option(job, words)}{change}{moved}"
    if len(jobs) > _ROWS:
        yield f"  and {len(jobs) - _ROWS} more"


def _option(job: JobChange, words: Words) -> str:
    before = "new" if job.presence == "new" else words.option(job.before)
    after = "gone" if job.presence == "gone" else words.option(job.after)
    return f"stays at {after}" if before == after else f"{before} -> {after}"


def _moved(job: JobChange) -> str:
    parts = [
        f"{sign}{', '.join(plain(node) for node in nodes[:_NODES])}"
        + (f" and {len(nodes) - _NODES} more" if len(nodes) > _NODES else "")
        for sign, nodes in (("+ ", job.nodes_gained), ("- ", job.nodes_lost))
        if nodes
    ]
    return f" ({'; '.join(parts)})" if parts else ""


def _prices(comparison: Comparison, words: Words) -> Iterator[str]:
    before, after = comparison.prices_before or {}, comparison.prices_after or {}
    if before or after:
        yield ""
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        shown = " -> ".join("none" if price is None else amount(price) for price in (old, new))
        yield f"price of a {words.unit(name)}: {shown}{words.value}"


def _or_none(objective: float | None, termination: str) -> str:
    return f"no plan ({termination})" if objective is None else amount(objective)

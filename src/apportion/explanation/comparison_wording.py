"""The parts of a comparison in words: the objective, who wins, who loses, and the prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from apportion.explanation.parts import Difference, JobChange
from apportion.explanation.words import Words, amount, plain

__all__ = ["gain_lines", "job_lines", "objective_text", "price_lines"]

_ROWS = 30
_NODES = 6


def objective_text(objective: float | None, termination: str) -> str:
    """Return an objective, or why there is none."""
    return f"no plan ({termination})" if objective is None else amount(objective)


def gain_lines(gain: Difference | None, change: float | None, words: Words) -> Iterator[str]:
    """Yield by how much the optimum gets better, or the change between two plans where that is not proven."""
    if gain is None:
        return
    if gain.exact is not None:
        better = "better" if gain.exact > 0 else "worse"
        size = f"{amount(abs(gain.exact))}{words.value} {better}" if gain.exact else "no change"
        yield f"  {size} (both optima are proven)"
    elif change is not None:
        sign = "+" if change >= 0 else "-"
        size = f"{sign}{amount(abs(change))}{words.value}"
        yield f"  {size} between plans that are not both proven optimal"


def job_lines(title: str, jobs: Sequence[JobChange], words: Words) -> Iterator[str]:
    """Yield a title and what changes for some jobs; nothing if there are none."""
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


def price_lines(before: Mapping[str, float], after: Mapping[str, float], words: Words) -> Iterator[str]:
    """Yield the price of every capacity before and after."""
    if before or after:
        yield ""
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        shown = " -> ".join("none" if price is None else amount(price) for price in (old, new))
        yield f"price of a {words.unit(name)}: {shown}{words.value}"

"""The figures of a few replays as a table of text."""

from __future__ import annotations

from collections.abc import Sequence

from apportion.simulation.summary import Summary

__all__ = ["cells", "heads", "table"]

_HEADS = (
    "policy",
    "makespan h, or jobs",
    "to dedicated",
    "eq. nodes",
    "lost to pre-emption",
    "lost to rescaling",
    "lost past the end",
    "rescales",
    "events",
    "seconds",
)


def cells(summary: Summary) -> tuple[str, ...]:
    """Return the figures of one replay as text, in the order of the table's heads."""
    unfinished = (
        f"{summary.jobs_done} done" if summary.jobs is None else f"{summary.jobs_done}/{summary.jobs}"
    )
    return (
        summary.policy,
        unfinished if summary.makespan_h is None else f"{summary.makespan_h:.2f}",
        "-" if summary.to_dedicated is None else f"{summary.to_dedicated:.3f}",
        f"{summary.equivalent_nodes:.1f}",
        f"{100 * summary.lost_preemption:.2f} %",
        f"{100 * summary.lost_rescale:.2f} %",
        f"{100 * summary.lost_excess:.2f} %",
        f"{summary.rescales:,}",
        f"{summary.events:,}",
        f"{summary.seconds:.2f}",
    )


def heads() -> tuple[str, ...]:
    """Return the heads of the table."""
    return _HEADS


def table(summaries: Sequence[Summary]) -> str:
    """Return one line per replay under a line of heads."""
    rows = [_HEADS, *(cells(summary) for summary in summaries)]
    wide = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, wide, strict=True))
        )
        for row in rows
    )

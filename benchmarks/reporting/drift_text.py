"""What changed between two runs, in words."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.reporting.drift import FLOOR, CellDrift, Drift

__all__ = ["drift_text"]

_SHOWN = 30


def drift_text(drift: Drift) -> str:
    """Return the whole comparison as text: quality first, then time."""
    lines = []
    for title, entries in (
        ("Quality got worse (fails)", drift.regressions),
        ("Other changes of quality", drift.changes),
        ("Only in the first", drift.only_before),
        ("Only in the second", drift.only_after),
    ):
        if entries:
            lines += [f"{title}: {len(entries)}", *_first(entries)]
    slower = [cell for cell in drift.cells if cell.verdict == "slower"]
    faster = [cell for cell in drift.cells if cell.verdict == "faster"]
    for title, cells in (("Slower (told, never fails)", slower), ("Faster", faster)):
        if cells:
            lines += [f"{title}: {len(cells)}", *_first([_cell(cell) for cell in cells])]
    lines.append(
        f"Seconds after over before, {len(drift.cells)} cells, divided by the machine's {drift.machine:.2f} "
        f"(median of the peers); a cell is told beyond {FLOOR:g} and its noise"
    )
    for solver in drift.solvers:
        lines.append(
            f"  {solver.solver:<24} {solver.ratio:6.2f}  [{solver.low:.2f}, {solver.high:.2f}]  "
            f"{solver.cells} cells, sign test p = {solver.p_value:.3f}"
        )
    return "\n".join(lines)


def _first(entries: Sequence[str]) -> list[str]:
    shown = [f"  {entry}" for entry in entries[:_SHOWN]]
    return [*shown, f"  and {len(entries) - _SHOWN} more"] if len(entries) > _SHOWN else shown


def _cell(cell: CellDrift) -> str:
    noise = "single" if cell.low is None else f"[{cell.low:.2f}, {cell.high:.2f}]"
    return f"{cell.key}: {cell.ratio:.2f} {noise}"

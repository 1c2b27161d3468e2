"""What changed between two runs, in words."""

from __future__ import annotations

from benchmarks.reporting.drift import FLOOR, CellDrift, Drift

__all__ = ["told"]


def told(drift: Drift) -> str:
    """Return the whole comparison as text: quality first, then time."""
    lines = []
    for title, entries in (
        ("Quality got worse (fails)", drift.regressions),
        ("Other changes of quality", drift.changes),
        ("Only in the first", drift.only_before),
        ("Only in the second", drift.only_after),
    ):
        if entries:
            lines += [f"{title}: {len(entries)}", *(f"  {entry}" for entry in entries)]
    slower = [cell for cell in drift.cells if cell.verdict == "slower"]
    faster = [cell for cell in drift.cells if cell.verdict == "faster"]
    for title, cells in (("Slower (told, never fails)", slower), ("Faster", faster)):
        if cells:
            lines += [f"{title}: {len(cells)}", *(f"  {_cell(cell)}" for cell in cells)]
    lines.append(
        f"Seconds after over before, {len(drift.cells)} cells; a cell is told beyond {FLOOR:g} and noise"
    )
    for solver in drift.solvers:
        lines.append(
            f"  {solver.solver:<24} {solver.ratio:6.2f}  [{solver.low:.2f}, {solver.high:.2f}]  "
            f"{solver.cells} cells, sign test p = {solver.p_value:.3f}"
        )
    return "\n".join(lines)


def _cell(cell: CellDrift) -> str:
    noise = "single" if cell.low is None else f"[{cell.low:.2f}, {cell.high:.2f}]"
    return f"{cell.key}: {cell.ratio:.2f} {noise}"

"""How much of a machine is idle, and for how long: ``python -m paper_repro.freetrain.idle_logs LOG...``.

Every LOG is what ``apportion replay --trace`` reads. Prints and writes ``idle_logs.json``. Where a log says
how many nodes a job had and not which, the rule of `apportion.cluster.simulation.placement` decides which,
and drops maintenance and spells under 70 s. The length of spells depends on that rule, the idle share on what
it drops.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from apportion.cli.running import in_one_line
from apportion.cluster.simulation.idle_trace import IdleTrace
from apportion.cluster.simulation.snapshot import read_trace
from paper_repro.tables import Table, markdown, write_table

__all__ = ["idle"]

_DAY_S, _HOUR_S = 86_400.0, 3600.0


def idle(trace: IdleTrace) -> dict[str, Any]:
    """Return the idle share of a trace, and its spells."""
    begin = np.maximum(trace.start_s, trace.first_s)
    spells_s = np.minimum(trace.end_s, trace.last_s) - begin
    spells_s = spells_s[spells_s > 0]
    whole_s = trace.last_s - trace.first_s
    return {
        "log": trace.name,
        "nodes": len(trace.names),
        "days": whole_s / _DAY_S,
        "changes a day": trace.event_s.size / (whole_s / _DAY_S),
        "idle, %": 100 * float(spells_s.sum()) / (whole_s * len(trace.names)),
        "median spell, min": float(np.median(spells_s)) / 60,
        "idle time in spells under an hour, %": 100
        * float(spells_s[spells_s < _HOUR_S].sum() / spells_s.sum()),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Read every log, print and write the table."""
    parser = argparse.ArgumentParser(prog="paper_repro.freetrain.idle_logs", description=__doc__)
    parser.add_argument("logs", type=Path, nargs="+", metavar="LOG")
    parser.add_argument("--cores-per-node", type=int, default=1, help="of logs that count cores")
    parser.add_argument("--out", type=Path, default=Path("freetrain-out"))
    given = parser.parse_args(arguments)
    rows = [idle(read_trace(log, cores_per_node=given.cores_per_node, most_cut=1.0)) for log in given.logs]
    print("\n".join(markdown(rows)))
    told = f"none: the logs decide; {given.cores_per_node} cores a node"
    write_table(given.out / "idle_logs.json", Table("paper_repro.freetrain.idle_logs", rows, told))


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.freetrain.idle_logs"):
        main()

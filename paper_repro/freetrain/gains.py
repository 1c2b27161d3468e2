"""What `adaptive` brings, place by place: ``python -m paper_repro.freetrain.gains TABLE [--rule RULE]``.

TABLE is what ``paper_repro.freetrain.parts`` wrote. Prints and writes ``gains.json``: by how much `adaptive`,
or another rule, is done earlier than every other, and by how much every rule is above the lower bound, paired
by place, with 95 % intervals over places. No replay is made again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from apportion.cli.running import in_one_line
from paper_repro.intervals import Mean
from paper_repro.tables import Table, markdown, write_table

__all__ = ["gains"]

_OURS = "adaptive"


def gains(rows: Sequence[Mapping[str, Any]], ours: str = _OURS) -> Iterator[dict[str, Any]]:
    """Yield a row for every rule and number of trainers.

    A place counts where both rules finished their jobs within the record.
    """
    for trainers in dict.fromkeys(row["trainers"] for row in rows):
        own = [row for row in rows if row["trainers"] == trainers and row["makespan, h"] is not None]
        bounds = {row["place"]: row["bound, h"] for row in own}
        ends = {(row["rule"], row["place"]): row["makespan, h"] for row in own}
        for rule in dict.fromkeys(row["rule"] for row in own):
            shared = [place for place in bounds if (rule, place) in ends and (ours, place) in ends]
            if not shared:
                continue
            less = [100 * (1 - ends[ours, place] / ends[rule, place]) for place in shared]
            above = [100 * (ends[rule, place] / bounds[place] - 1) for place in shared]
            mean, over = Mean.of(less), Mean.of(above)
            found = {"trainers": trainers, "rule": rule, "places": len(shared)}
            if rule != ours:
                found |= {f"{ours} is less, %": mean.value, "half-width": mean.half}
                found |= {"least": min(less), "most": max(less)}
            yield found | {"above the bound, %": over.value, "± above the bound, %": over.half}


def main(arguments: Sequence[str] | None = None) -> None:
    """Read a table of parts, print and write the gains."""
    parser = argparse.ArgumentParser(prog="paper_repro.freetrain.gains", description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--rule", default=_OURS, help="that is set beside the others")
    parser.add_argument("--out", type=Path, default=Path("freetrain-out"))
    given = parser.parse_args(arguments)
    read = json.loads(given.table.read_text(encoding="utf-8"))
    rows = list(gains(read["rows"], given.rule))
    print("\n".join(markdown([row for row in rows if row["rule"] != given.rule])))
    made = read["made"]
    told = f"{made['seeds']}; from {given.table.name}, made by the code of {made['commit']}"
    write_table(given.out / "gains.json", Table("paper_repro.freetrain.gains", rows, told))


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.freetrain.gains"):
        main()

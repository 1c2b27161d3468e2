"""Join two timm benchmark files on model and image size into a table for ``apportion predict``.

``python examples/join_timm.py TARGET.csv BASE.csv > TABLE.csv``: one row a model (its first image size that
stands in both), the speeds in the columns ``target_speed`` and ``base_speed``.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

FEATURES = ("infer_gmacs", "infer_macts", "param_count")
SPEED = "infer_samples_per_sec"


def joined(target: Path, base: Path) -> Iterator[dict[str, str]]:
    """Yield one row per model that both files have at the same image size."""
    speeds = {(row["model"], row["infer_img_size"]): row[SPEED] for row in _rows(base)}
    seen: set[str] = set()
    for row in _rows(target):
        key = (row["model"], row["infer_img_size"])
        if key in speeds and row["model"] not in seen:
            seen.add(row["model"])
            yield {
                "model": row["model"],
                **{name: row[name] for name in FEATURES},
                "target_speed": row[SPEED],
                "base_speed": speeds[key],
            }


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def main() -> None:
    """Write the joined table of two files to standard output."""
    writer = csv.DictWriter(sys.stdout, ("model", *FEATURES, "target_speed", "base_speed"))
    writer.writeheader()
    writer.writerows(joined(Path(sys.argv[1]), Path(sys.argv[2])))


if __name__ == "__main__":
    main()

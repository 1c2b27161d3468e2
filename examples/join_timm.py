"""Join two timm benchmark files on model and image size into a table for ``apportion predict``.

``python examples/join_timm.py TARGET.csv BASE.csv > TABLE.csv``: one row a model (its first image size that
stands in both), the speeds in the columns ``target_speed`` and ``base_speed``. Any two of timm's
``benchmark-infer-*`` and ``benchmark-train-*`` files do; what neither file says of a model stays empty.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

FEATURES = ("infer_gmacs", "infer_macts", "param_count")
COLUMNS = ("model", *FEATURES, "target_speed", "base_speed")


def joined(target: Path, base: Path) -> Iterator[dict[str, str]]:
    """Yield one row per model that both files have at the same image size."""
    known = {(row["model"], row["size"]): row for row in reversed(list(rows(base)))}
    seen: set[str] = set()
    for row in rows(target):
        other = known.get((row["model"], row["size"]))
        if other is not None and row["model"] not in seen:
            seen.add(row["model"])
            features = {name: row[name] or other[name] for name in FEATURES}
            speeds = {"target_speed": row["speed"], "base_speed": other["speed"]}
            yield {"model": row["model"], **features, **speeds}


def rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield model, image size, speed and features of every row of an inference or training file."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        mode = next((mode for mode in ("infer", "train") if f"{mode}_samples_per_sec" in columns), None)
        if "model" not in columns or mode is None:
            raise SystemExit(
                f"{path}: no timm benchmark file; its columns are {', '.join(columns) or 'none'}"
            )
        for row in reader:
            yield {
                "model": row["model"],
                "size": row.get(f"{mode}_img_size") or "",
                "speed": row[f"{mode}_samples_per_sec"] or "",
                **{name: row.get(name) or "" for name in FEATURES},
            }


def main() -> None:
    """Write the joined table of two files to standard output."""
    if len(sys.argv) != 3:
        raise SystemExit("usage: python examples/join_timm.py TARGET.csv BASE.csv > TABLE.csv")
    writer = csv.DictWriter(sys.stdout, COLUMNS)
    writer.writeheader()
    writer.writerows(joined(Path(sys.argv[1]), Path(sys.argv[2])))


if __name__ == "__main__":
    main()

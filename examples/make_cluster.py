"""Write the profiles and the workload of `examples/cluster`: two made-up networks by a law of our own.

``python examples/make_cluster.py FOLDER [SEED]``. A step takes (20 + local batch) ms / speed plus an
all-reduce that grows with GPUs and nodes; gradients get noisier by the epoch.
Nothing here was measured.
"""

from __future__ import annotations

import argparse
import csv
import random
from pathlib import Path

LOCAL = (8, 16, 32, 64)
TEAMS = ("vision", "vision", "speech", "vision", "language", "vision", "speech")
BATCHES = (32, 64, 128, 256)
NETWORKS = {"small_net": (1.0, 20, 2.0), "large_net": (0.25, 30, 8.0)}
"""Speed, epochs, gradient variance over squared norm."""


def seconds(speed: float, nodes: int, gpus: int, local: int) -> tuple[float, float]:
    """Return the seconds of a step and, of these, of the all-reduce."""
    sync = 0.0 if gpus == 1 else 0.01 / speed * (1 - 1 / gpus) * (1 + 0.5 * nodes)
    return round((0.02 + 0.001 * local) / speed + sync, 6), round(sync, 6)


def table(path: Path, header: list[str], rows: list[list[object]]) -> None:
    """Write a CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def profiles(folder: Path) -> None:
    """Write what would be measured on up to four nodes of four GPUs."""
    for name, (speed, epochs, noise) in NETWORKS.items():
        placed: list[list[object]] = []
        scaled: list[list[object]] = []
        for gpus in range(1, 17):
            full, rest = divmod(gpus, 4)
            fewest = full + (rest > 0)
            for nodes in range(fewest, gpus + 1):
                for local in LOCAL:
                    times = seconds(speed, nodes, gpus, local)
                    if nodes == fewest:
                        placed.append([(str(rest) if rest else "") + "4" * full, local, *times])
                    else:
                        scaled.append([nodes, gpus, local, *times])
        table(folder / name / "placements.csv", ["placement", "local_bsz", "step_time", "sync_time"], placed)
        columns = ["num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"]
        table(folder / name / "scalability.csv", columns, scaled)
        for batch in BATCHES:
            rows: list[list[object]] = [
                [500 * (epoch + 1), 500 * (epoch + 1) * 32 // batch, 1.0, round(noise * (1 + epoch / 4), 3)]
                for epoch in range(epochs)
            ]
            columns = ["progress", "iteration", "grad_sqr", "grad_var"]
            table(folder / name / f"validation-{batch}.csv", columns, rows)


def workload(path: Path, seed: int, jobs: int = 40) -> None:
    """Write jobs that arrive for an hour, and the same jobs with the team each belongs to, in turns."""
    draw = random.Random(seed)
    times = sorted(draw.randrange(3600) for _ in range(jobs))
    rows: list[list[object]] = []
    for index, time in enumerate(times):
        name = draw.choice(list(NETWORKS))
        rows.append([f"{name}-{index}", time, name, draw.choice((1, 2, 4, 8)), draw.choice(BATCHES[1:])])
    columns = ["name", "time", "application", "num_replicas", "batch_size"]
    table(path, columns, rows)
    owned = [[*row, TEAMS[index % len(TEAMS)]] for index, row in enumerate(rows)]
    table(path.with_name("teams.csv"), [*columns, "tenant"], owned)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    given = parser.parse_args()
    profiles(given.folder / "profiles")
    workload(given.folder / "workload.csv", given.seed)

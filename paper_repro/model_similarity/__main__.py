"""Reproduce the claim of the model-similarity policy on Gavel's measured throughputs.

``python -m paper_repro.model_similarity THROUGHPUTS.json [SEEDS] [SECONDS]``

The paper (Thanapol et al., ACIIDS 2023) says that matching models to GPU architectures reduces the makespan
of distributed training with a large batch. Its text and tables are not public. Inferred here: its similarity
(ours is in ``estimation/similarity.py``), its baselines, its cluster (8 GPUs of each of Gavel's types), its
jobs (types drawn from the table, 30 to 1000 minutes log-uniformly on the quickest type). A job's own type and
batch size is never among the known models; the same model at another batch size may be.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.estimation.similarity import ModelSignature, SimilarityPredictor
from apportion.instances.readers.gavel import throughputs
from paper_repro.model_similarity.policies import POLICIES

PER_TYPE = 8
LOADS = (24, 96)
LARGE_BATCH = 64


class Zoo:
    """The measured job types, and their relative speeds as predicted without each."""

    def __init__(self, path: Path) -> None:
        table = throughputs(path.read_bytes())
        self.types = sorted({gpu for row in table.values() for gpu in row})
        whole = {key: row for key, row in table.items() if len(row) == len(self.types)}
        self.keys = list(whole)
        self.signatures = [_signature(name, gpus) for name, gpus in self.keys]
        self.gangs = np.array([gpus for _, gpus in self.keys])
        rates = np.array([[row[gpu] for gpu in self.types] for row in whole.values()])
        self.ratio = rates / rates[:, :1]
        self.predicted, self.spread = np.empty_like(self.ratio), np.empty_like(self.ratio)
        names = np.array([name for name, _ in self.keys])
        for name in np.unique(names):
            own, rest = np.flatnonzero(names == name), np.flatnonzero(names != name)
            others = [self.signatures[i] for i in rest]
            known = SimilarityPredictor(trend=False).fit(others, self.ratio[rest])
            for row, told in zip(own, known.predict([self.signatures[i] for i in own]), strict=True):
                self.predicted[row], self.spread[row] = told.speed, told.spread


def _signature(name: str, gpus: int) -> ModelSignature:
    batch = re.search(r"batch size (\d+)", name)
    size = None if batch is None else float(batch.group(1))
    return ModelSignature(name, name.split(" (")[0], batch=size, gpus=float(gpus))


def case(zoo: Zoo, seed: int, load: int, many: bool, large: bool) -> dict[str, NDArray[np.float64]]:
    """Draw jobs; return their true times, the times the policies believe, and their GPUs."""
    rng = np.random.default_rng(seed)
    big = np.array([(signature.batch or 0) >= LARGE_BATCH for signature in zoo.signatures])
    fits = np.flatnonzero(((zoo.gangs > 1) == many) & (big == large) & (zoo.gangs <= PER_TYPE))
    drawn = rng.choice(fits, size=load)
    quickest = 60 * 10 ** rng.uniform(np.log10(30), 3, load)
    work = quickest * zoo.ratio[drawn].max(axis=1)
    true = work[:, None] / zoo.ratio[drawn]
    # whoever predicts knows the time on the base architecture, the one everybody has
    predicted = true[:, :1] / zoo.predicted[drawn]
    return {
        "true": true,
        "none": np.ones_like(true),
        "agnostic": np.repeat(true.mean(axis=1, keepdims=True), true.shape[1], axis=1),
        "predicted": predicted,
        "cautious": predicted * np.exp(0.5 * zoo.spread[drawn]),
        "gangs": zoo.gangs[drawn],
    }


def main() -> None:
    """Print one table per scenario: makespans relative to first come, first served, with 95 % intervals."""
    zoo = Zoo(Path(sys.argv[1]))
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 0.2
    pools = np.full(len(zoo.types), PER_TYPE)
    error = np.abs(zoo.predicted[:, 1:] / zoo.ratio[:, 1:] - 1).mean()
    types = ", ".join(zoo.types)
    print(f"{len(zoo.keys)} measured job types on {types}; prediction error {100 * error:.1f} %\n")
    for many in (False, True):
        for large in (False, True):
            for load in LOADS:
                ends = np.zeros((seeds, len(POLICIES)))
                for seed in range(seeds):
                    drawn = case(zoo, seed, load, many, large)
                    for column, (_, policy, believes) in enumerate(POLICIES):
                        ends[seed, column] = policy(
                            drawn[believes], drawn["true"], drawn["gangs"].astype(np.int64), pools, seconds
                        )
                kind = f"{'multi' if many else 'single'}-GPU jobs, {'large' if large else 'small'} batch"
                print(f"### {kind}, {load} jobs, {seeds} seeds\n")
                _table(ends)


def _table(ends: NDArray[np.float64]) -> None:
    relative = ends / ends[:, :1]
    print("| policy | makespan, h | relative | 95 % interval |\n|---|---|---|---|")
    for column, (name, _, _) in enumerate(POLICIES):
        mean = relative[:, column].mean()
        half = 1.96 * relative[:, column].std(ddof=1) / np.sqrt(relative.shape[0])
        hours = ends[:, column].mean() / 3600
        print(f"| {name} | {hours:.2f} | {mean:.3f} | {mean - half:.3f} to {mean + half:.3f} |")
    print(flush=True)


if __name__ == "__main__":
    main()

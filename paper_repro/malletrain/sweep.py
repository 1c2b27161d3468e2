"""One cell of the grid, where processes can import it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from apportion.cluster.policies import FreeTrain, Policy
from apportion.cluster.policies.malletrain import MalleTrain
from apportion.cluster.simulation.idle_trace import (
    NodeChanges,
    generated_trace,
    node_changes,
    read_idle_trace,
)
from apportion.cluster.simulation.replay import Replay
from apportion.cluster.simulation.snapshot import Workload
from paper_repro.malletrain.instrument import Instrument
from paper_repro.malletrain.unknown_scaling import GUESSES, guessed_rates, unknown_workload

__all__ = ["IDLE_LOG", "compared"]

IDLE_LOG = "summit_idle_intervals.npz"
"""The authors' trace, in the folder of data."""


def compared(
    data: Path | None,
    nodes: int,
    days: float,
    kind: Literal["hpo", "nas"],
    halving: bool,
    trainers: int,
    seed: int,
    noise: float,
) -> dict[str, float]:
    """Replay one cell of the grid and return the outputs as shares of the oracle's."""
    jobs = unknown_workload(seed, kind, halving=halving)
    changes = _changes(data, seed, nodes, days)
    alone_s = jobs.work / jobs.rates[:, 1]

    def output(shown: Workload, policy: Policy) -> float:
        replay = Replay(changes, shown, policy, trainers)
        replay.run()
        return float((replay.progress() * alone_s).sum())  # seconds on one node

    oracle = output(jobs.believing(guessed_rates(jobs, "oracle", seed)), FreeTrain())
    shares = {
        f"guess: {guess}": output(jobs.believing(guessed_rates(jobs, guess, seed)), FreeTrain()) / oracle
        for guess in GUESSES
    }
    for suffix, error in (("", 0.0), (f", noise {noise:g}", noise)):
        shares[f"MalleTrain{suffix}"] = (
            output(jobs, Instrument(MalleTrain(relative=True), error, seed)) / oracle
        )
        ordinary = Instrument(MalleTrain(at_once=0, relative=True), error, seed)
        shares[f"ordinary running{suffix}"] = output(jobs, ordinary) / oracle
    shares["MalleTrain, told the costs"] = output(jobs, MalleTrain(relative=True)) / oracle
    return shares


def _changes(data: Path | None, seed: int, nodes: int, days: float) -> NodeChanges:
    if data is None:
        return node_changes(generated_trace(seed, nodes, days))
    trace = read_idle_trace(data / IDLE_LOG)
    start_s = float(trace.event_s[1000]) + (seed - 1) * 2 * 86_400.0
    return node_changes(trace, nodes, start_s, start_s + days * 86_400.0)

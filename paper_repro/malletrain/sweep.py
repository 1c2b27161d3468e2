"""One cell of the grid, where processes can import it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from apportion.policies import FreeTrain, Policy
from apportion.policies.malletrain import MalleTrain
from apportion.simulation.generated import generated_trace
from apportion.simulation.idle_trace import read_idle_trace
from apportion.simulation.node_changes import NodeChanges, node_changes
from apportion.simulation.replay import Replay
from apportion.simulation.workload import Workload
from paper_repro.malletrain.unknown_scaling import GUESSES, guessed_rates, unknown_workload

__all__ = ["compared"]


def compared(
    data: Path | None, nodes: int, days: float, kind: Literal["hpo", "nas"], trainers: int, seed: int
) -> dict[str, float]:
    """Replay one cell of the grid."""
    return _compare(_changes(data, seed, nodes, days), unknown_workload(seed, kind), trainers, seed)


def _changes(data: Path | None, seed: int, nodes: int, days: float) -> NodeChanges:
    if data is None:
        return node_changes(generated_trace(seed, nodes, days))
    trace = read_idle_trace(data / "summit_idle_intervals.npz")
    start_s = float(trace.event_s[1000]) + (seed - 1) * 2 * 86_400.0
    return node_changes(trace, nodes, start_s, start_s + days * 86_400.0)


def _compare(changes: NodeChanges, jobs: Workload, trainers: int, seed: int) -> dict[str, float]:
    """Return the output of every way to know the curves, as a share of the oracle's."""

    def output(shown: Workload, policy: Policy) -> float:
        replay = Replay(changes, shown, policy, trainers)
        replay.run()
        return float(replay.progress().sum())  # jobs are equally long on one node

    oracle = output(jobs.believing(guessed_rates(jobs, "oracle", seed)), FreeTrain())
    shares = {
        f"guess: {guess}": output(jobs.believing(guessed_rates(jobs, guess, seed)), FreeTrain()) / oracle
        for guess in GUESSES
    }
    shares["MalleTrain"] = output(jobs, MalleTrain(relative=True)) / oracle
    shares["learning only from ordinary running"] = (
        output(jobs, MalleTrain(at_once=0, relative=True)) / oracle
    )
    return shares

"""What rounds bring: longest first where every round decides anew, and where nobody is moved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from apportion.cluster.policies.rounds.cluster_view import ClusterPolicy
from apportion.cluster.policies.rounds.matching import Matching, longest_first
from paper_repro.joint.matching import LONGEST_GAP, MatchingCase, run_case
from paper_repro.joint.policies.in_turn import longest_in_turn
from paper_repro.joint.policies.without_moves import WithoutMoves
from paper_repro.joint.tasks import Result, Task

__all__ = ["ROUNDS", "round_tasks", "run_rounds"]


def _longest() -> ClusterPolicy:
    return Matching(longest_first, gap=LONGEST_GAP)


def _unmoved() -> ClusterPolicy:
    return WithoutMoves(_longest())


ROUNDS: Mapping[str, MatchingCase] = MappingProxyType(
    {
        "by similarity, one knapsack over who waits": MatchingCase(_unmoved, "similarity"),
        "by similarity, in turn": MatchingCase(lambda: longest_in_turn, "similarity"),
        "by similarity, rounds": MatchingCase(_longest, "similarity"),
        "oracle, in turn": MatchingCase(lambda: longest_in_turn, "oracle"),
        "oracle, one knapsack over who waits": MatchingCase(_unmoved, "oracle"),
        "oracle, rounds": MatchingCase(_longest, "oracle"),
    }
)
"""The first, the same rule without moves, is the base; it decides on the grid of rounds, too."""
_SETTINGS = ("Gavel, all at once", "pytorch-gpu-benchmark, all at once")


def round_tasks(seeds: range, quick: bool) -> list[Task]:
    """Return the runs of this part."""
    settings = _SETTINGS[: 1 if quick else None]
    return [Task("rounds", setting, case, seed) for setting in settings for case in ROUNDS for seed in seeds]


def run_rounds(data: Path, task: Task) -> Result:
    """Simulate one."""
    return run_case(data, task, ROUNDS[task.case])

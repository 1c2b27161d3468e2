"""The parts of the study."""

from __future__ import annotations

from pathlib import Path

from paper_repro.joint.ablation import ablation_tasks, run_ablation
from paper_repro.joint.believing import belief_tasks, run_beliefs
from paper_repro.joint.matching import matching_tasks, run_matching
from paper_repro.joint.packing import packing_tasks, run_packing
from paper_repro.joint.sia_options import run_sia, sia_tasks
from paper_repro.joint.tasks import Result, Task
from paper_repro.joint.with_rounds import round_tasks, run_rounds

__all__ = ["PARTS", "run_one", "tasks_of"]

PARTS = ("matching", "packing", "joint", "beliefs", "sia", "rounds")
_SEEDS, _QUICK_SEEDS = range(10), range(2)
_WORKLOADS, _QUICK_WORKLOADS = range(1, 9), range(2, 3)


def run_one(data: Path, task: Task) -> Result:
    """Run a task of any part."""
    run = {
        "matching": run_matching,
        "packing": run_packing,
        "joint": run_ablation,
        "beliefs": run_beliefs,
        "sia": run_sia,
        "rounds": run_rounds,
    }
    return run[task.part](data, task)


def tasks_of(part: str, quick: bool) -> list[Task]:
    """Return the runs of a part."""
    seeds = _QUICK_SEEDS if quick else _SEEDS
    drawn = {"matching": matching_tasks, "packing": packing_tasks, "rounds": round_tasks}
    if part in drawn:
        return drawn[part](seeds, quick)
    workloads = _QUICK_WORKLOADS if quick else _WORKLOADS
    made = {"joint": ablation_tasks, "beliefs": belief_tasks, "sia": sia_tasks}
    return made[part](workloads, quick)

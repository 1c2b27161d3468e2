"""One run of the study: what it is called, and what it came to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from apportion.cluster.simulation.rounds.accounts import ClusterSummary
from paper_repro.progress import Progress

__all__ = ["Result", "Task", "run_all"]


@dataclass(frozen=True, slots=True)
class Task:
    """A run.

    Attributes
    ----------
    part
        One of `paper_repro.joint.parts.PARTS`.
    setting
        What is compared under: arrivals, jobs and machines.
    case
        What is compared: a policy and its beliefs, or a row of the ablation.
    seed
        Of jobs and arrivals; the number of the workload in the joint part and in that of beliefs.
    """

    part: str
    setting: str
    case: str
    seed: int


@dataclass(frozen=True, slots=True)
class Result:
    """A task and its figures."""

    task: Task
    summary: ClusterSummary


def run_all(
    one: Callable[[Path, Task], Result], data: Path, tasks: Sequence[Task], workers: int
) -> list[Result]:
    """Run tasks side by side in processes of their own, in order."""
    results: list[Result] = []
    progress = Progress("runs", len(tasks))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for result in pool.map(partial(one, data), tasks):
            results.append(result)
            progress.step()
            task, made = result.task, result.summary
            print(
                f"{task.part} | {task.setting} | {task.case} | {task.seed}: {made.avg_jct_s:.0f} s average, "
                f"{made.makespan_s:.0f} s in all, {made.seconds:.1f} s of processor time",
                flush=True,
            )
    return results

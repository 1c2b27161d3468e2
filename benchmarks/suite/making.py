"""The makers: from a recipe to an instance, in the process that solves it. Every generator has a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

__all__ = ["MAKERS", "NoData", "make"]


class NoData(Exception):
    """A file of the data folder is asked for and is not there."""


def make(maker: str, arguments: Mapping[str, Any], data: str | None) -> Any:
    """Return the instance of a recipe.

    Raises
    ------
    NoData
        If it needs the data folder and there is none, or not this file.
    """
    if maker not in ("file", "summit"):
        return MAKERS[maker](**arguments)
    if data is None:
        raise NoData("no data folder was given; name one with --data")
    try:
        return MAKERS[maker](Path(data), **arguments)
    except FileNotFoundError as error:
        raise NoData(f"not in the data folder: {Path(error.filename or '').name}") from None


def _event(seed: int, jobs: int, nodes: int) -> Any:
    """Make one event of gap filling: published curves, generated idle spells."""
    from apportion.instances.gap_filling.generator import generate

    return generate(seed=seed, jobs=jobs, nodes=nodes)


def _menus(
    seed: int, law: Any, jobs: int, options: int = 10, capacities: int = 1, arrays: bool = False
) -> Any:
    """Make menus after Pisinger's classes; as bare arrays where names would be most of the work."""
    from apportion.instances.multiple_choice_knapsack.generator import generate, to_instance
    from apportion.models import MultipleChoiceKnapsack

    menus = generate(seed, law, jobs, options, capacities)
    return MultipleChoiceKnapsack.from_arrays(*menus) if arrays else to_instance(menus, f"{law} {jobs}")


def _sia(seed: int, scale: int) -> Any:
    """Make one Sia-style round; the options of the large ones are left without names."""
    from apportion.instances.multiple_choice_knapsack.generator import (
        generate_sia,
        sia_option_ids,
        to_instance,
    )
    from apportion.models import MultipleChoiceKnapsack

    menus = generate_sia(seed, scale)
    if scale > 4:
        return MultipleChoiceKnapsack.from_arrays(*menus)
    return to_instance(menus, f"sia x{scale}", sia_option_ids(scale))


def _knapsack(seed: int, items: int, capacities: int, tightness: float = 0.5) -> Any:
    """Make a 0-1 knapsack after Chu and Beasley (J. Heuristics 4, 1998): values follow the mean weight."""
    from apportion.models import MultipleChoiceKnapsack

    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 1000, (items, capacities))
    values = np.round(weights.mean(axis=1) + 500 * rng.random(items))
    rooms = (weights.sum(axis=0) * tightness).astype(np.int64)
    return MultipleChoiceKnapsack.from_arrays(values, weights, np.arange(items + 1), rooms, required=False)


def _freezing(seed: int, jobs: int) -> Any:
    """Make a round of layer freezing on two GPU types, one GPU per job on average."""
    from apportion.instances.freezing.generator import generate

    return generate(seed, jobs, {"v100": max(jobs // 2 // 4 * 4, 8), "a100": max(jobs // 2 // 4 * 4, 8)})


def _linear_assignment(seed: int, size: int) -> Any:
    """Make a linear assignment with whole costs from 1 to 100."""
    from apportion.instances.matching import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine

    costs = np.random.default_rng(seed).integers(1, 101, (size, size)).tolist()
    machines = tuple(MatchingMachine(id=f"m{i}", capacity=1) for i in range(size))
    jobs = tuple(
        MatchingJob(id=f"j{j}", on={f"m{i}": MatchingEntry(cost=float(c)) for i, c in enumerate(row)})
        for j, row in enumerate(costs)
    )
    return MatchingInstance("1", "cost", machines, jobs, name=f"linear {size}")


def _generalised_assignment(seed: int, jobs: int, machines: int, law: Any = "c") -> Any:
    from apportion.instances.matching.generator import generate_assignment

    return generate_assignment(seed, jobs, machines, law)


def _unrelated(seed: int, jobs: int, machines: int, correlated: Any = "no") -> Any:
    from apportion.instances.matching.generator import generate_unrelated

    return generate_unrelated(seed, jobs, machines, correlated=correlated)


def _gavel(seed: int, jobs: int) -> Any:
    """Make Gavel's minimum-makespan round: single-GPU jobs, a quarter as many GPUs, shares of time."""
    from apportion.instances.matching.generator import generate_cluster

    pools = dict.fromkeys(("k80", "p100", "v100"), max(jobs // 12, 1))
    return generate_cluster(seed, jobs, pools, wide=0.0, divisible=True)


def _gangs(seed: int, jobs: int) -> Any:
    """Make gangs of 2 to 8 GPUs beside single jobs on two pools."""
    from apportion.instances.matching.generator import generate_cluster

    return generate_cluster(seed, jobs, {"v100": 16, "a100": 8})


def _file(data: Path, path: str, format: str, index: int = 0, sense: str | None = None) -> Any:
    """Read one problem of a published file."""
    import apportion

    return apportion.read(data / path, format=format, index=index, sense=sense)


def _summit(data: Path, row: int, trainers: int) -> Any:
    """Read one event of the Summit trace of idle nodes."""
    from apportion.simulation.idle_trace import read_idle_trace
    from apportion.simulation.snapshot import snapshot_from_files

    trace, jobs = data / "bftrainer/summit_idle_intervals.npz", data / "bftrainer/ImageNet-imgps-jobs.csv"
    if not trace.is_file():
        raise FileNotFoundError(2, "missing", trace.name)
    at_s = float(np.asarray(read_idle_trace(trace).event_s)[row])
    return snapshot_from_files(trace, jobs, at_s, trainers)


MAKERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "event": _event,
        "menus": _menus,
        "sia": _sia,
        "knapsack": _knapsack,
        "freezing": _freezing,
        "linear_assignment": _linear_assignment,
        "generalised_assignment": _generalised_assignment,
        "unrelated": _unrelated,
        "gavel": _gavel,
        "gangs": _gangs,
        "file": _file,
        "summit": _summit,
    }
)

"""The table of instance sets: generated families over a grid of sizes, and published files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from benchmarks.suite.cell import InstanceSpec

__all__ = ["FAMILIES", "GENERATED", "WARM_UP", "GeneratedSet"]

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "gap_filling": "idle nodes filled with malleable jobs",
        "mckp": "multiple-choice knapsack, one capacity",
        "mmkp": "multiple-choice knapsack, several capacities",
        "tied": "values from a handful of numbers, jobs alike",
        "sparse": "many capacities of which an option uses few: racks, workers, periods, blocks of nodes",
        "sia": "Sia-style round: GPUs of three types",
        "knapsack": "0-1 knapsack, several capacities",
        "freezing": "GPUs and frozen depth together",
        "placement": "pods on the nodes of racks, part of the jobs running; menus on many nodes",
        "linear_assignment": "one job per machine",
        "generalised_assignment": "machines with capacities",
        "unrelated_machines": "R||Cmax",
        "gavel": "Gavel's minimum makespan in shares of time",
        "gangs": "gangs on pools, makespan",
        "tenants": "max-min fair shares of a tree of tenants, then the sum",
    }
)

WARM_UP: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "gap_filling": ("event", {"seed": 99, "jobs": 2, "nodes": 6}),
        "mckp": ("menus", {"seed": 99, "law": "uncorrelated", "jobs": 3, "options": 3}),
        "mmkp": ("menus", {"seed": 99, "law": "uncorrelated", "jobs": 3, "options": 3, "capacities": 2}),
        "tied": ("ready_jobs", {"seed": 99, "jobs": 60, "goals": 2}),
        "sparse": ("racks", {"seed": 99, "jobs": 8, "racks": 14}),
        "sia": ("sia", {"seed": 99, "scale": 1}),
        "knapsack": ("knapsack", {"seed": 99, "items": 5, "capacities": 2}),
        "freezing": ("freezing", {"seed": 99, "jobs": 3}),
        "placement": ("placement", {"seed": 99, "jobs": 6, "racks": 2}),
        "linear_assignment": ("linear_assignment", {"seed": 99, "size": 3}),
        "generalised_assignment": ("generalised_assignment", {"seed": 99, "jobs": 6, "machines": 2}),
        "unrelated_machines": ("unrelated", {"seed": 99, "jobs": 4, "machines": 2}),
        "gavel": ("gavel", {"seed": 99, "jobs": 4}),
        "gangs": ("gangs", {"seed": 90, "jobs": 6}),
        "tenants": ("tenants", {"seed": 99, "jobs": 8, "tenants": 6, "gpus": 12}),
    }
)
"""A tiny instance per family, solved before anything is timed: imports are not the instance's.

That of gangs needs a search: who asks CP-SAT only then has it loaded too, like those that always ask it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedSet:
    """A grid of generated instances.

    Attributes
    ----------
    name, family, maker
        As in `InstanceSpec`.
    grid
        Keyword arguments of the maker but the seed, from small to large.
    size
        The argument that is the size.
    seeds
        One instance per point of the grid and seed.
    quick
        How many points of the grid the quick suite runs with every solver.
    quick_ours
        How many it runs with our own solver and HiGHS, for the growth curve.
    limit_s, quick_limit_s
        Limits told to the solvers.
    gap
        Relative gap asked for.
    """

    name: str
    family: str
    maker: str
    grid: tuple[Mapping[str, Any], ...]
    size: str
    seeds: tuple[int, ...] = (0, 1, 2)
    quick: int = 1
    quick_ours: int = 3
    limit_s: float = 60.0
    quick_limit_s: float = 2.0
    gap: float = 0.0

    def instances(self, points: int | None, seeds: int | None) -> Iterator[InstanceSpec]:
        """Yield the instances of the first points of the grid and the first seeds, all by default."""
        for arguments in self.grid[:points]:
            key = "-".join(str(value) for key, value in arguments.items() if key != "arrays")
            for seed in self.seeds[:seeds]:
                yield InstanceSpec(
                    family=self.family,
                    set_name=self.name,
                    name=f"{key}-s{seed}",
                    maker=self.maker,
                    arguments=tuple({"seed": seed, **arguments}.items()),
                    size=int(arguments[self.size]),
                    size_of=self.size,
                    gap=self.gap,
                )


def _law(law: str) -> tuple[Mapping[str, Any], ...]:
    sizes = (100, 1000, 10_000, 100_000)
    return tuple({"law": law, "jobs": jobs, **({"arrays": True} if jobs > 1000 else {})} for jobs in sizes)


GENERATED: tuple[GeneratedSet, ...] = (
    GeneratedSet(
        name="events",
        family="gap_filling",
        maker="event",
        size="nodes",
        grid=(
            {"jobs": 5, "nodes": 25},
            {"jobs": 10, "nodes": 50},
            {"jobs": 20, "nodes": 200},
            {"jobs": 50, "nodes": 500},
            {"jobs": 100, "nodes": 1000},
            {"jobs": 1000, "nodes": 4608},
        ),
        quick_ours=4,
    ),
    GeneratedSet(
        name="menus-uncorrelated",
        family="mckp",
        maker="menus",
        grid=_law("uncorrelated"),
        size="jobs",
        quick_ours=4,
    ),
    GeneratedSet(
        name="menus-strongly",
        family="mckp",
        maker="menus",
        grid=_law("strongly_correlated"),
        size="jobs",
        quick=0,
    ),
    GeneratedSet(
        name="menus-uniform",
        family="mckp",
        maker="uniform_menus",
        grid=tuple({"jobs": jobs} for jobs in (100, 1000, 10_000, 100_000, 1_000_000)),
        size="jobs",
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="several-capacities",
        family="mmkp",
        maker="menus",
        grid=tuple({"law": "weakly_correlated", "jobs": j, "capacities": 5} for j in (20, 100, 400)),
        size="jobs",
        quick_ours=1,
        quick_limit_s=1.0,
    ),
    GeneratedSet(
        name="half-menus",
        family="mmkp",
        maker="half_menus",
        grid=tuple(
            {"jobs": jobs, "options": options, "capacities": capacities}
            for jobs, options, capacities in ((10, 5, 3), (30, 1, 5), (100, 1, 2), (30, 4, 5), (50, 10, 3))
        ),
        size="jobs",
        quick_ours=1,
    ),
    GeneratedSet(
        name="ready-jobs",
        family="tied",
        maker="ready_jobs",
        grid=tuple({"jobs": jobs, "goals": goals} for jobs in (1000, 5000, 20_000) for goals in (1, 2)),
        size="jobs",
        seeds=(0, 1, 2, 3, 4),
        quick_ours=3,
    ),
    GeneratedSet(
        name="alike-jobs",
        family="tied",
        maker="alike_jobs",
        grid=tuple({"jobs": jobs, "classes": 12} for jobs in (20, 80, 400)),
        size="jobs",
        seeds=(0, 1, 2, 3, 4),
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="racks",
        family="sparse",
        maker="racks",
        grid=({"jobs": 60, "racks": 20}, {"jobs": 200, "racks": 60}),
        size="jobs",
        seeds=(0, 1, 2, 3, 4),
        limit_s=20.0,
        quick_ours=1,
    ),
    GeneratedSet(
        name="many-jobs-on-racks",
        family="sparse",
        maker="pairs_of_racks",
        grid=tuple({"jobs": jobs, "racks": 60} for jobs in (20_000, 100_000)),
        size="jobs",
        seeds=(0, 1, 2, 3, 4),
        gap=3e-4,
        limit_s=20.0,
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="jobs-that-must-run",
        family="sparse",
        maker="must_run",
        grid=tuple(
            {"jobs": jobs, "capacities": capacities, "room": room}
            for jobs, capacities in ((100, 30), (200, 60))
            for room in (0.6, 0.9)
        ),
        size="jobs",
        seeds=(0, 1, 2, 3, 4),
        limit_s=20.0,
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="tasks-on-workers",
        family="sparse",
        maker="tasks",
        grid=({"shapes": 60, "each": 2, "workers": 20}, {"shapes": 60, "each": 16, "workers": 200}),
        size="workers",
        seeds=(0, 1, 2, 3, 4),
        limit_s=20.0,
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="periods",
        family="sparse",
        maker="periods",
        grid=(
            {"jobs": 40, "periods": 24},
            {"jobs": 120, "periods": 96},
            {"jobs": 300, "periods": 168},
        ),
        size="jobs",
        seeds=(0, 1, 2, 3, 4),
        limit_s=20.0,
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="moves",
        family="sparse",
        maker="moves",
        grid=({"blocks": 16}, {"blocks": 64}),
        size="blocks",
        seeds=(0, 1, 2, 3, 4),
        limit_s=20.0,
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="blocks",
        family="sparse",
        maker="blocks",
        grid=(
            {"jobs": 120, "racks": 6, "fragments": False},
            {"jobs": 80, "racks": 6, "fragments": True},
            {"jobs": 600, "racks": 62, "fragments": True},
        ),
        size="jobs",
        seeds=(0, 1, 2, 3, 4),
        limit_s=20.0,
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="racks-of-nodes",
        family="placement",
        maker="placement",
        grid=(
            *({"jobs": jobs, "racks": jobs // 15} for jobs in (30, 60, 120, 240)),
            *({"jobs": jobs, "racks": jobs // 15, "scattered": True} for jobs in (30, 60, 120)),
        ),
        size="jobs",
        limit_s=20.0,
        quick_ours=1,
    ),
    GeneratedSet(
        name="many-nodes",
        family="placement",
        maker="placement_menus",
        grid=(
            {"jobs": 100, "nodes": 96},
            {"jobs": 80, "nodes": 96, "fragmented": True},
            {"jobs": 1000, "nodes": 992},
            {"jobs": 600, "nodes": 992, "fragmented": True},
            {"jobs": 1200, "nodes": 992, "running": 0.6},
            {"jobs": 800, "nodes": 992, "fragmented": True, "running": 0.6},
        ),
        size="jobs",
        limit_s=20.0,
        quick_ours=1,
    ),
    GeneratedSet(
        name="sia-rounds",
        family="sia",
        maker="sia",
        grid=tuple({"scale": k} for k in (1, 2, 4, 8, 16)),
        size="scale",
        gap=1e-4,
    ),
    GeneratedSet(
        name="chu-beasley",
        family="knapsack",
        maker="knapsack",
        grid=tuple({"items": n, "capacities": 5} for n in (30, 100, 250)),
        size="items",
        quick_ours=1,
    ),
    GeneratedSet(
        name="freezing-rounds",
        family="freezing",
        maker="freezing",
        grid=tuple({"jobs": j} for j in (20, 50, 100, 200, 400)),
        size="jobs",
    ),
    GeneratedSet(
        name="freezing-on-nodes",
        family="freezing",
        maker="freezing_on_nodes",
        grid=tuple({"jobs": j} for j in (50, 200, 2000)),
        size="jobs",
        seeds=(1, 2, 3),
        gap=1e-4,
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="linear-costs",
        family="linear_assignment",
        maker="linear_costs",
        grid=tuple({"size": n, "highest": h} for n in (100, 400, 800) for h in (100, 1000, 1_000_000)),
        size="size",
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="transportation",
        family="linear_assignment",
        maker="transportation",
        grid=({"jobs": 500}, {"jobs": 2000}),
        size="jobs",
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="linear-assignment",
        family="linear_assignment",
        maker="linear_assignment",
        grid=tuple({"size": n} for n in (30, 60, 120, 240)),
        size="size",
    ),
    GeneratedSet(
        name="assignment-c",
        family="generalised_assignment",
        maker="generalised_assignment",
        grid=({"jobs": 40, "machines": 5}, {"jobs": 100, "machines": 10}, {"jobs": 200, "machines": 20}),
        size="jobs",
        quick_ours=2,
    ),
    GeneratedSet(
        name="assignment-d",
        family="generalised_assignment",
        maker="generalised_assignment",
        grid=tuple({"jobs": j, "machines": m, "law": "d"} for j, m in ((40, 5), (100, 10))),
        size="jobs",
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="assignment-hard",
        family="generalised_assignment",
        maker="generalised_assignment",
        grid=tuple(
            {"jobs": j, "machines": m, "law": law}
            for law in ("d", "e")
            for j in (100, 200)
            for m in (5, 10, 20)
        ),
        size="jobs",
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="assignment-nearly-full",
        family="generalised_assignment",
        maker="nearly_full",
        grid=tuple({"jobs": machines * 5, "machines": machines} for machines in (20, 60)),
        size="jobs",
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="unrelated",
        family="unrelated_machines",
        maker="unrelated",
        grid=({"jobs": 30, "machines": 4}, {"jobs": 100, "machines": 8}, {"jobs": 200, "machines": 20}),
        size="jobs",
        quick_ours=1,
    ),
    GeneratedSet(
        name="unrelated-classes",
        family="unrelated_machines",
        maker="unrelated",
        grid=(
            {"jobs": 100, "machines": 10, "correlated": "jobs"},
            {"jobs": 100, "machines": 10, "correlated": "machines"},
            {"jobs": 200, "machines": 10},
            {"jobs": 500, "machines": 20},
        ),
        size="jobs",
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="gavel-rounds",
        family="gavel",
        maker="gavel",
        grid=tuple({"jobs": j} for j in (48, 192, 768)),
        size="jobs",
        quick_ours=2,
    ),
    GeneratedSet(
        name="gangs",
        family="gangs",
        maker="gangs",
        grid=tuple({"jobs": j} for j in (30, 100, 300)),
        size="jobs",
        quick_ours=1,
    ),
    GeneratedSet(
        name="tenants-rounds",
        family="tenants",
        maker="tenants",
        grid=(
            {"jobs": 50, "tenants": 12, "gpus": 48},
            {"jobs": 200, "tenants": 40, "gpus": 96},
            {"jobs": 2000, "tenants": 100, "gpus": 384},
        ),
        size="jobs",
        seeds=(1, 2, 3),
        gap=2e-3,
        quick_ours=1,
    ),
    GeneratedSet(
        name="tenants-lending",
        family="tenants",
        maker="lenders",
        grid=({"jobs": 80, "nodes": 200, "tenants": 8}, {"jobs": 150, "nodes": 400, "tenants": 10}),
        size="jobs",
        quick=0,
        quick_ours=1,
    ),
    GeneratedSet(
        name="tenants-lending-flavors",
        family="tenants",
        maker="lent_flavors",
        grid=(
            {"jobs": 100, "flavors": 3, "tenants": 6},
            {"jobs": 300, "flavors": 8, "tenants": 12},
        ),
        size="jobs",
        quick=0,
        quick_ours=1,
    ),
    GeneratedSet(
        name="tenants-resources",
        family="tenants",
        maker="shared_resources",
        grid=(
            {"jobs": 100, "resources": 3, "tenants": 4},
            {"jobs": 200, "resources": 4, "tenants": 7},
        ),
        size="jobs",
        quick=0,
        quick_ours=0,
    ),
    GeneratedSet(
        name="tenants-throughputs",
        family="tenants",
        maker="tenants",
        grid=({"jobs": 60, "tenants": 15, "gpus": 48, "share": "normalised_throughput"},),
        size="jobs",
        seeds=(2, 3, 4),
        gap=2e-3,
        quick=0,
        quick_ours=0,
    ),
)

"""Seeded generators of multiple-choice knapsacks: Pisinger's classes, Sia-style GPU menus, tenants.

Menus come as arrays; `to_instance` turns them into an instance where one with names is wanted. Rounds of a
cluster shared by a tree of tenants are instances: pending jobs, menus over three GPU types.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from apportion.core.errors import InvalidOption, one_of
from apportion.instances.multiple_choice_knapsack.schema import (
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)
from apportion.instances.tenants.schema import Fairness, Quota, Tenant

__all__ = [
    "LAWS",
    "TYPES",
    "Law",
    "MenuArrays",
    "generate",
    "generate_sia",
    "generate_tenants",
    "sia_option_ids",
    "to_instance",
]

Law = Literal["uncorrelated", "weakly_correlated", "strongly_correlated", "subset_sum"]

LAWS: tuple[Law, ...] = ("uncorrelated", "weakly_correlated", "strongly_correlated", "subset_sum")
"""How values follow uses, from easy to hard."""

_SIA_TYPES = (("t4", 4, 6), ("rtx", 8, 3), ("a100", 8, 2))
"""Sia's 64-GPU cluster: GPU type, GPUs per node, nodes."""


class MenuArrays(NamedTuple):
    """Ragged menus, in the order of the arguments of ``MultipleChoiceKnapsack.from_arrays``.

    Attributes
    ----------
    values
        float64 [options].
    uses
        int64 [options, capacities].
    offsets
        int64 [jobs + 1].
    capacities
        int64 [capacities].
    required
        Whether every job must get an option.
    sense
        Always ``"maximize"``.
    capacity_names
        One name per capacity.
    """

    values: NDArray[np.float64]
    uses: NDArray[np.int64]
    offsets: NDArray[np.int64]
    capacities: NDArray[np.int64]
    required: bool
    sense: Literal["maximize"]
    capacity_names: tuple[str, ...]


def generate(
    seed: int,
    law: Law,
    num_jobs: int,
    num_options: int,
    num_capacities: int = 1,
    largest_use: int = 1000,
    tightness: float = 0.5,
    required: bool = True,
) -> MenuArrays:
    """Generate menus after the classes of Pisinger, *A minimal algorithm for the multiple-choice knapsack
    problem*, EJOR 83 (1995).

    With uses w in 1..R and, for several capacities, w the mean of them: *uncorrelated* values are in 1..R;
    *weakly correlated* ones in w - 10 .. w + 10 and at least 1; *strongly correlated* menus are running sums
    of items worth w + 10, so that the i-th option of a job stands for its first i items; *subset sum* values
    equal w. A capacity is the least that all jobs together must use of it plus `tightness` times what
    separates that from the most they can use (Pisinger: 0.5).

    Parameters
    ----------
    seed
        Seed of `numpy.random.default_rng`.
    law
        One of `LAWS`.
    num_jobs, num_options, num_capacities
        Jobs, options per job, capacities.
    largest_use
        R, at least 1.
    tightness
        From 0 to 1. With several capacities and required jobs, low values may leave no feasible choice.
    required
        Whether every job must get an option.

    Raises
    ------
    InvalidOption
        If an argument is out of its range.
    """  # noqa: D205
    one_of("law", law, LAWS)
    if num_jobs < 0 or num_options < 1 or num_capacities < 1 or largest_use < 1 or not 0 <= tightness <= 1:
        raise InvalidOption("need jobs >= 0, options, capacities and largest_use >= 1, and tightness in 0..1")
    rng = np.random.default_rng(seed)
    use = rng.integers(1, largest_use, (num_jobs, num_options, num_capacities), endpoint=True, dtype=np.int64)
    mean = use.mean(axis=2)
    value: NDArray[np.float64]
    if law == "uncorrelated":
        value = rng.integers(1, largest_use, mean.shape, endpoint=True).astype(np.float64)
    elif law == "weakly_correlated":
        value = np.maximum(1.0, np.rint(mean) + rng.integers(-10, 10, mean.shape, endpoint=True))
    elif law == "strongly_correlated":
        use = np.cumsum(use, axis=1)
        value = np.cumsum(mean + 10.0, axis=1)
    else:
        value = mean
    least = use.min(axis=1).sum(axis=0)
    most = use.max(axis=1).sum(axis=0)
    return MenuArrays(
        values=np.ascontiguousarray(value.reshape(-1)),
        uses=np.ascontiguousarray(use.reshape(-1, num_capacities)),
        offsets=np.arange(num_jobs + 1, dtype=np.int64) * num_options,
        capacities=least + np.floor(tightness * (most - least)).astype(np.int64),
        required=required,
        sense="maximize",
        capacity_names=tuple(f"capacity_{k}" for k in range(num_capacities)),
    )


def generate_sia(seed: int, scale: int = 1) -> MenuArrays:
    """Generate one round of a Sia-style allocator: 48 jobs and 64 GPUs of three types, times `scale`.

    The problem of Sia (Jayaram Subramanya et al., SOSP 2023, section 3.3) on its 64-GPU cluster: a job picks
    a GPU type and a count, 1, 2, 4, .. within a node or whole nodes. Its goodput is synthetic,
    ``G = speed g^a / (1 + g / c)`` with a in U(0.6, 0.98), speed 1, 2, 4 by type times exp(N(0, 0.25)) and c
    one of 8, 32, 128, 1024; a row of G is divided by its least entry, and an option is worth
    ``sqrt(G) - 1.1``. No job is required. ``scale=16`` is 1,024 GPUs: 768 jobs with 184 options each.

    Raises
    ------
    InvalidOption
        If `scale` is below 1.
    """
    if scale < 1:
        raise InvalidOption(f"scale must be at least 1, not {scale}")
    rng = np.random.default_rng(seed)
    num_jobs = 48 * scale
    counts = [_sia_counts(per_node, nodes * scale) for _, per_node, nodes in _SIA_TYPES]
    gpu_type = np.repeat(np.arange(len(counts)), [count.size for count in counts])
    gpus = np.concatenate(counts)
    exponent = rng.uniform(0.6, 0.98, (num_jobs, 1))
    speed = np.array([1.0, 2.0, 4.0]) * np.exp(rng.normal(0.0, 0.25, (num_jobs, 3)))
    saturation = rng.choice(np.array([8.0, 32.0, 128.0, 1024.0]), (num_jobs, 1))
    goodput = speed[:, gpu_type] * gpus**exponent / (1.0 + gpus / saturation)
    goodput /= goodput.min(axis=1, keepdims=True)
    uses = np.zeros((gpus.size, len(counts)), dtype=np.int64)
    uses[np.arange(gpus.size), gpu_type] = gpus
    return MenuArrays(
        values=(np.sqrt(goodput) - 1.1).reshape(-1),
        uses=np.tile(uses, (num_jobs, 1)),
        offsets=np.arange(num_jobs + 1, dtype=np.int64) * gpus.size,
        capacities=np.array([per_node * nodes * scale for _, per_node, nodes in _SIA_TYPES], dtype=np.int64),
        required=False,
        sense="maximize",
        capacity_names=tuple(name for name, _, _ in _SIA_TYPES),
    )


def sia_option_ids(scale: int = 1) -> list[str]:
    """Return the option ids of one job of `generate_sia`: GPU count and type, as ``8xa100``."""
    return [
        f"{count}x{name}"
        for name, per_node, nodes in _SIA_TYPES
        for count in _sia_counts(per_node, nodes * scale).tolist()
    ]


def to_instance(
    menus: MenuArrays, name: str, option_ids: Sequence[str] | None = None, decimals: int | None = None
) -> MultipleChoiceKnapsackInstance:
    """Name the jobs j0, j1, ... and the options and return an instance; a use of 0 is left out.

    Parameters
    ----------
    menus
        The arrays.
    name
        Name of the instance.
    option_ids
        One id per option of a job, where all menus are equally long; o0, o1, ... by default.
    decimals
        Round values to this many decimals; not at all by default.
    """
    values = menus.values if decimals is None else menus.values.round(decimals)
    value, row, offset = values.tolist(), menus.uses.tolist(), menus.offsets.tolist()
    longest = max((end - start for start, end in pairwise(offset)), default=0)
    ids = option_ids if option_ids is not None else [f"o{option}" for option in range(longest)]
    jobs = tuple(
        KnapsackJob(
            id=f"j{job}",
            options=tuple(
                KnapsackOption(
                    id=ids[at - start],
                    value=value[at],
                    uses={key: use for key, use in zip(menus.capacity_names, row[at], strict=True) if use},
                )
                for at in range(start, end)
            ),
            required=menus.required,
        )
        for job, (start, end) in enumerate(pairwise(offset))
    )
    return MultipleChoiceKnapsackInstance(
        schema_version="1",
        sense=menus.sense,
        capacities=dict(zip(menus.capacity_names, menus.capacities.tolist(), strict=True)),
        jobs=jobs,
        name=name,
    )


def _sia_counts(per_node: int, nodes: int) -> NDArray[np.int64]:
    """Return 1, 2, 4, .. up to a node's GPUs, then whole nodes up to all of them."""
    within = 2 ** np.arange(per_node.bit_length(), dtype=np.int64)
    across = per_node * np.arange(2, nodes + 1, dtype=np.int64)
    return np.concatenate((within, across))


TYPES = (("k80", 1.0), ("p100", 2.2), ("v100", 4.0))
"""GPU types with their mean speed; the cluster has as many of each."""
_COUNTS = (1, 2, 4, 8)


def generate_tenants(
    seed: int,
    num_jobs: int,
    num_tenants: int,
    gpus: int,
    fairness: Fairness | None = None,
    borrowing: bool = True,
) -> MultipleChoiceKnapsackInstance:
    """Return one round: every job asks for 1, 2, 4 or 8 GPUs of any of three types, 12 options in all.

    Parameters
    ----------
    seed
        Seed of `numpy.random.default_rng`.
    num_jobs
        Pending jobs, none required; a job's tenant is drawn with odds that fall as 1 / rank, so that some
        teams ask for much more than their part.
    num_tenants
        Tenants in three levels: a twentieth of them organisations, a fifth teams, the others users, who have
        the jobs. An organisation is guaranteed an equal part of half the cluster.
    gpus
        GPUs of all types together.
    fairness
        What is shared out fairly.
    borrowing
        Whether organisations may borrow a third of the cluster at most.
    """
    rng = np.random.default_rng(seed)
    capacities = {name: gpus // len(TYPES) for name, _ in TYPES}
    tops = max(1, num_tenants // 20)
    teams = max(tops, num_tenants // 5)
    users = num_tenants - tops - teams
    quotas = {
        name: Quota(amount // 2 // tops, amount // 3 if borrowing else None)
        for name, amount in capacities.items()
    }
    tenants = [Tenant(f"org{top}", quotas=quotas) for top in range(tops)]
    tenants += [Tenant(f"team{team}", f"org{team % tops}") for team in range(teams)]
    weights = rng.integers(1, 4, users, endpoint=True).tolist()
    tenants += [
        Tenant(f"user{user}", f"team{user % teams}", float(weight)) for user, weight in enumerate(weights)
    ]
    odds = 1.0 / np.arange(1, users + 1)
    owners = rng.choice(users, num_jobs, p=odds / odds.sum())
    # speeds as a job sees them, and how far it scales
    speeds = rng.uniform(0.6, 1.4, (num_jobs, len(TYPES))) * np.array([speed for _, speed in TYPES])
    scaling = rng.uniform(0.5, 0.95, num_jobs)
    rates = speeds[:, :, None] * np.array(_COUNTS)[None, None, :] ** scaling[:, None, None]
    names = [name for name, _ in TYPES]
    jobs = tuple(
        KnapsackJob(
            f"j{job}",
            tuple(
                KnapsackOption(f"{count}x{name}", rate, {name: count})
                for name, row in zip(names, table, strict=True)
                for count, rate in zip(_COUNTS, row, strict=True)
            ),
            required=False,
            tenant=f"user{owner}",
        )
        for job, (owner, table) in enumerate(zip(owners.tolist(), rates.round(4).tolist(), strict=True))
    )
    return MultipleChoiceKnapsackInstance(
        schema_version="1",
        sense="maximize",
        capacities=capacities,
        jobs=jobs,
        name=f"{num_jobs} jobs of {num_tenants} tenants, seed {seed}",
        tenants=tuple(tenants),
        fairness=UNSET if fairness is None else fairness,
    )

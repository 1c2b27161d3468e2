"""Seeded rounds of a cluster shared by a tree of tenants: pending jobs, menus over three GPU types."""

from __future__ import annotations

import numpy as np
from msgspec import UNSET

from apportion.instances.multiple_choice_knapsack.schema import (
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)
from apportion.instances.tenants.schema import Fairness, Quota, Tenant

__all__ = ["TYPES", "generate_tenants"]

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

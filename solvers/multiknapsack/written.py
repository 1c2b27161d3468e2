"""Menus in search form as a linear model."""

from __future__ import annotations

import numpy as np

from apportion.models.linear import Block, LinearModel

from .option_table import OptionTable

__all__ = ["written"]


def written(menus: OptionTable) -> LinearModel:
    """Return the menus as a linear model: a row per job, then a row per capacity."""
    num, jobs, caps = menus.num_options, menus.num_jobs, menus.num_capacities
    rows, columns, uses = menus.entries()
    ends = num + np.cumsum(np.bincount(rows, minlength=caps))
    return LinearModel(
        sense="maximize",
        cost=menus.values,
        offset=0.0,
        lower=np.zeros(num),
        upper=np.ones(num),
        integer=np.ones(num, dtype=np.bool_),
        row_lower=np.concatenate((np.ones(jobs), np.full(caps, -np.inf))),
        row_upper=np.concatenate((np.ones(jobs), menus.capacities)),
        indptr=np.concatenate((menus.offsets, ends)).astype(np.int32),
        indices=np.concatenate((np.arange(num), columns)).astype(np.int32),
        data=np.concatenate((np.ones(num), uses)),
        variables=(Block("x", 0, (num,)),),
        rows=(Block("one_option", 0, (jobs,)), Block("capacity", jobs, (caps,))),
    )

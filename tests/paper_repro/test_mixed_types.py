"""What mixing types of nodes is worth, against trying every split."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from paper_repro.malletrain.mixed_types import NODES, best_sum, drawn, worth


@pytest.mark.parametrize("mixing", ["none", "equal", "by speed"])
def test_the_tables_find_what_trying_every_split_finds(mixing: str) -> None:
    for seed in range(4):
        jobs = drawn(np.random.default_rng(seed), 2)
        first, second = (np.maximum(worth(job, 1.5, mixing), -1e9) for job in jobs)
        first[0, 0] = second[0, 0] = 0.0
        counts = list(itertools.product(range(NODES + 1), repeat=2))
        tried = max(
            first[a] + second[b] for a in counts for b in counts if a[0] + b[0] <= NODES >= a[1] + b[1]
        )
        assert best_sum(jobs, 1.5, mixing) == pytest.approx(tried)


def test_a_job_on_both_types_is_as_fast_as_its_slowest_rank_or_as_its_shares_let_it() -> None:
    [job] = drawn(np.random.default_rng(3), 1)
    alone, equal, shared = (worth(job, 2.0, mixing) for mixing in ("none", "equal", "by speed"))
    assert alone[1, 1] == -np.inf
    assert alone[1, 0] == 1.0 and alone[0, 1] == 0.5
    assert equal[1, 1] == pytest.approx(job.rates[2] / (2 * job.rates[1]))
    assert shared[1, 2] == pytest.approx(job.rates[2] / job.rates[1]) or job.most < 3

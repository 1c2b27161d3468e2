"""The best known of anti-correlated costs: the least of several long runs, and who found it."""

from __future__ import annotations

from benchmarks.anticorrelated_costs import best_known, searched_for
from benchmarks.peers.within_cpu import GENERAL


def test_the_best_known_is_the_optimum_where_one_run_proves_it() -> None:
    value, found = searched_for(60.0, "d", 3, 12, 0)
    assert found.closed
    known = best_known(2.0, "d", 3, 12, 0)
    assert known.value == value == known.bound
    assert known.by in {"our own search", *GENERAL}

"""Rows of trees in which many lend a part: those that no plan exceeds are left out, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from apportion.core.errors import InvalidInstance
from apportion.instances.tenants import Quota, Tenant
from apportion.instances.tenants.rows import Range, Row, most_rows, rows_alone, rows_of
from apportion.instances.tenants.tree import Tree, tree_of


def drawn(rng: np.random.Generator) -> Tree:
    """Up to nine tenants, some below others, who withhold, and limit what they borrow, by chance."""
    tenants: list[Tenant] = []
    for number in range(int(rng.integers(3, 10))):
        parent = f"t{rng.integers(number)}" if number and rng.random() < 0.4 else None
        guarantee = int(rng.integers(0, 9))
        lends = int(rng.integers(0, guarantee + 1)) if rng.random() < 0.7 else None
        borrows = int(rng.integers(0, 9)) if rng.random() < 0.4 else None
        quota = Quota(guarantee, borrowing_limit=borrows, lending_limit=lends)
        tenants.append(Tenant(f"t{number}", parent=parent, quotas={"gpu": quota}))
    return tree_of(tuple(tenants))


def kept_by(rows: list[Row], used: dict[str, int]) -> bool:
    return all(sum(used[leaf] for leaf in row.leaves) <= row.limit for row in rows)


@pytest.mark.parametrize("seed", range(8))
def test_rows_left_out_are_those_that_no_plan_exceeds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fewer = refused = 0
    for _ in range(40):
        tree, total = drawn(rng), int(rng.integers(10, 60))
        most = {leaf: int(rng.integers(0, 20)) for leaf in tree.leaves}
        least = {leaf: int(rng.integers(0, use + 1)) * int(rng.random() < 0.3) for leaf, use in most.items()}
        ranges = {"gpu": Range(tree.claims("gpu", most)[0], tree.claims("gpu", least)[0])}
        name = tree.roots[0]
        every = rows_of(tree, {"gpu": total}, {}, {"gpu": least}), rows_alone(tree, name, ["gpu"])
        some = rows_of(tree, {"gpu": total}, ranges, {"gpu": least}), rows_alone(tree, name, ["gpu"], ranges)
        for all_of_them, left, room in zip(every, some, (total, 1000), strict=True):
            assert {row.name for row in left} <= {row.name for row in all_of_them}
            fewer += len(left) < len(all_of_them)
            for _ in range(30):
                used = {leaf: int(rng.integers(least[leaf], use + 1)) for leaf, use in most.items()}
                fits = sum(used.values()) <= room  # the capacity itself is no row
                assert (fits and kept_by(left, used)) == (fits and kept_by(all_of_them, used))
                refused += not kept_by(left, used)
    assert fewer > 20 and refused > 200


def test_forty_lenders_of_whom_few_may_exceed_what_they_withhold_have_few_rows() -> None:
    tree = tree_of(tuple(Tenant(f"t{k}", quotas={"gpu": Quota(8, lending_limit=4)}) for k in range(40)))
    assert most_rows(tree, "gpu") == 2**40
    busy = {f"t{k}": 40 if k < 6 else 4 for k in range(40)}
    ranges = {"gpu": Range(tree.claims("gpu", busy)[0], tree.claims("gpu", {})[0])}
    rows = rows_of(tree, {"gpu": 320}, ranges)
    assert 0 < len(rows) <= 2**6
    crowded = {"gpu": Range(dict.fromkeys(tree.nodes, 30), dict.fromkeys(tree.nodes, 0))}
    with pytest.raises(InvalidInstance, match="too many tenants limit what they lend"):
        rows_of(tree, {"gpu": 320}, crowded)

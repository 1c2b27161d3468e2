"""Quotas in a tree: hand-made figures, and properties where published cases pin nothing down."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cluster.policies.rounds.cycle_state import TreeUsage
from apportion.cluster.policies.rounds.fair_preemption import Share, borrows_on, share
from apportion.cluster.policies.rounds.quota_tree import UNLIMITED, Pair, Quota, QuotaTree, TreeNode
from apportion.core.errors import InvalidOption
from tests.budgets import examples
from tests.strategies import quota_trees

GPU = ("default", "gpu")


def small_tree() -> QuotaTree:
    """Two teams in a department that lends 4 of its 10 GPUs, and another team outside it."""
    return QuotaTree.of(
        [
            TreeNode("department", "all", False, quotas={GPU: Quota(2, None, 4)}),
            TreeNode("a", "department", True, quotas={GPU: Quota(5, 3, None)}),
            TreeNode("b", "department", True, 2.0, quotas={GPU: Quota(3)}),
            TreeNode("c", "all", True, quotas={GPU: Quota(6)}),
        ]
    )


def test_a_department_lends_only_so_much() -> None:
    tree = small_tree()
    department, everybody = tree.cohorts["department"], tree.cohorts["all"]
    assert tree.subtree[department][GPU] == 10
    assert tree.local[department][GPU] == 6
    assert tree.subtree[everybody][GPU] == 4 + 6
    assert tree.potential(tree.queues["c"], GPU) == 10
    assert tree.potential(tree.queues["a"], GPU) == 8
    assert tree.potential(tree.queues["b"], GPU) == 16
    assert [tree.height(tree.cohorts[name]) for name in ("department", "all")] == [1, 2]


def test_a_cohort_counts_what_exceeds_its_own() -> None:
    tree = small_tree()
    usage = TreeUsage(tree)
    usage.add(tree.queues["b"], {GPU: 9})
    assert usage.of(tree.cohorts["department"], GPU) == 9
    assert usage.of(tree.cohorts["all"], GPU) == 3
    assert usage.available(tree.queues["c"], GPU) == 7
    assert usage.available(tree.queues["a"], GPU) == 7
    found = share(usage, tree.queues["b"])
    assert (found.ratio, found.dominant, found.borrows) == (1000 * 6 / 16, "gpu", True)
    assert found.rounded == 188
    assert borrows_on(usage, tree.queues["b"], [GPU])
    assert not borrows_on(usage, tree.cohorts["department"], [GPU])


def test_equal_ratios_name_the_first_resource_and_weight_zero_is_infinite() -> None:
    quotas: dict[Pair, Quota] = {("f", "memory"): Quota(1), ("f", "cpu"): Quota(1)}
    tree = QuotaTree.of(
        [TreeNode("q", "all", True, 0.0, quotas), TreeNode("other", "all", True, 1.0, quotas)]
    )
    usage = TreeUsage(tree)
    usage.add(tree.queues["q"], {("f", "memory"): 2, ("f", "cpu"): 2})
    found = share(usage, tree.queues["q"])
    assert (found.dominant, found.rounded, found.weighted) == ("cpu", None, math.inf)
    assert Share(500.0, 0.0).order > Share(100.0, 0.0).order > Share(900.0, 1.0).order > Share().order


def test_sums_stay_at_the_greatest_amount() -> None:
    tree = QuotaTree.of([TreeNode(name, "all", True, 1.0, {GPU: Quota(UNLIMITED)}) for name in ("a", "b")])
    assert tree.subtree[tree.cohorts["all"]][GPU] == UNLIMITED


def test_wrong_trees_are_named() -> None:
    with pytest.raises(InvalidOption, match="queue 'a' stands twice"):
        QuotaTree.of([TreeNode("a", None, True), TreeNode("a", None, True)])
    with pytest.raises(InvalidOption, match="cohorts x, y hang on a circle"):
        QuotaTree.of([TreeNode("x", "y", False), TreeNode("y", "x", False)])


@settings(max_examples=examples(40))
@given(quota_trees(), st.data())
def test_what_is_available_is_the_most_that_breaks_no_limit(tree: QuotaTree, data: st.DataObject) -> None:
    usage = TreeUsage(tree)
    queues = list(tree.queues.values())
    for _ in range(data.draw(st.integers(0, 5))):
        queue = data.draw(st.sampled_from(queues))
        pair = data.draw(st.sampled_from(sorted(tree.subtree[0])))
        most = usage.available(queue, pair)
        assert most == _most(tree, usage, queue, pair)
        assert most <= tree.potential(queue, pair) - usage.of(queue, pair)
        if most > 0:
            usage.add(queue, {pair: data.draw(st.integers(0, most))})


def _most(tree: QuotaTree, usage: TreeUsage, queue: int, pair: Pair) -> int:
    """Return the greatest amount after which no node above exceeds what it may use, by trying."""
    amount = 0
    while True:
        usage.add(queue, {pair: amount + 1})
        holds = all(
            usage.of(node, pair) <= most
            for node in tree.path(queue)
            if (most := _may_use(tree, node, pair)) is not None
        )
        usage.remove(queue, {pair: amount + 1})
        if not holds:
            return amount
        amount += 1


def _may_use(tree: QuotaTree, node: int, pair: Pair) -> int | None:
    own = tree.subtree[node].get(pair, 0)
    if tree.parent[node] is None:
        return own
    limit = tree.borrowing_limit(node, pair)
    return None if limit is None else own + limit


@settings(max_examples=examples(40))
@given(quota_trees(), st.data())
def test_usage_does_not_depend_on_the_order_of_what_holds_it(tree: QuotaTree, data: st.DataObject) -> None:
    queues = st.sampled_from(list(tree.queues.values()))
    pairs = st.sampled_from(sorted({pair for quota in tree.subtree for pair in quota}))
    held = data.draw(st.lists(st.tuples(queues, pairs, st.integers(0, 20)), max_size=8))
    gone = data.draw(st.lists(st.tuples(queues, pairs, st.integers(0, 20)), max_size=8))
    direct, detour = TreeUsage(tree), TreeUsage(tree)
    for queue, pair, amount in held:
        direct.add(queue, {pair: amount})
    mixed = data.draw(st.permutations([*held, *gone]))
    for queue, pair, amount in mixed:
        detour.add(queue, {pair: amount})
    for queue, pair, amount in data.draw(st.permutations(gone)):
        detour.remove(queue, {pair: amount})
    for node in range(len(tree.nodes)):
        for pair in tree.subtree[0]:
            assert detour.of(node, pair) == direct.of(node, pair)
        assert share(detour, node) == share(direct, node)


@settings(max_examples=examples(40))
@given(quota_trees(), st.data())
def test_a_share_grows_with_what_is_used(tree: QuotaTree, data: st.DataObject) -> None:
    usage = TreeUsage(tree)
    queue = data.draw(st.sampled_from(list(tree.queues.values())))
    before = share(usage, queue)
    assert not before.borrows
    for _ in range(4):
        pair = data.draw(st.sampled_from(sorted(tree.subtree[queue])))
        extra = {pair: data.draw(st.integers(0, 9))}
        foreseen = share(usage, queue, extra)
        usage.add(queue, extra)
        after = share(usage, queue)
        assert foreseen == after
        assert after.order >= before.order
        before = after

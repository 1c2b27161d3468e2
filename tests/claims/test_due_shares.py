"""What the checker derives to be due, against every choice there is, read from the file by another road."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

import apportion
from apportion.instances.kinds import kind_of
from apportion.proofs import claims_of_fairness
from apportion.proofs.claims_of_fairness import due_shares
from tests.budgets import examples
from tests.hunt import truth_tenants
from tests.hunt.rounds import drawn_round


def test_guarantees_levels_and_the_best_of_equally_fair_plans() -> None:
    looked_at = 0
    for number in range(examples(600)):
        told = drawn_round(Random(f"due {number}"))
        instance = apportion.read(told)
        due = truth_tenants.due_shares(told)
        levels, plans = truth_tenants.fairest(told) if "fairness" in told else ([], [])
        if truth_tenants.best(told, due)[1] is None:
            continue  # guarantees that no plan keeps together
        looked_at += 1
        kind = kind_of(instance)
        found = due_shares(kind, instance, due)
        assert found is not None and found.kept, number
        assert dict(found.guaranteed) == due, number
        assert found.levels == tuple(map(tuple, levels)), number
        # without a share of its own, what is due is derived all the same
        alone = due_shares(kind, instance, {})
        assert alone is not None and dict(alone.guaranteed) == due, number
        if levels:
            assert alone.levels == found.levels and alone.best == found.best, number
            sign = 1 if told["sense"] == "maximize" else -1
            best = max(sign * plan.total for plan in plans)
            assert found.best is not None, number
            assert 0 <= sign * found.best - best <= found.rounding <= Fraction(1, 10**12), number
    assert looked_at > 0.7 * examples(600)


def test_what_has_too_many_states_is_not_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random("many")
    told = drawn_round(rng)
    while "fairness" not in told or len(told["jobs"]) < 4 or not truth_tenants.due_shares(told):
        told = drawn_round(rng)
    instance = apportion.read(told)
    kind = kind_of(instance)
    for limit in ("_MOST_STATES", "_MOST_CHILDREN", "_MOST_NUMBERS", "_LARGEST"):
        with monkeypatch.context() as patched:
            patched.setattr(claims_of_fairness, limit, 1)
            assert due_shares(kind, instance, {}) is None, limit

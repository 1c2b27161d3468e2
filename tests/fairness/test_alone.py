"""The best share on a guarantee that a walk finds and single amounts bound, against the exact search."""

from __future__ import annotations

import numpy as np
import pytest

import apportion
from apportion.core.solution import Solution
from apportion.fairness.greedy import FeasibleChoice, Walker
from apportion.fairness.guarantees import _best_share, filled_alone, guaranteed
from apportion.fairness.level_model import LevelModel, Placing
from apportion.fairness.share_holders import tenant_claimant
from apportion.formulations.tenants import TenantedMenus
from apportion.instances import KnapsackJob, KnapsackOption, MultipleChoiceKnapsackInstance
from apportion.instances.tenants import Fairness, Quota, Tenant, ledger
from apportion.instances.tenants.rows import rows_alone
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving.pipeline import menus_of_tenants


def drawn(seed: int, share: str) -> MultipleChoiceKnapsackInstance:
    """Two capacities, three tenants with guarantees on them, jobs that may use either or both."""
    rng = np.random.default_rng(seed)
    capacities = {"gpus": int(rng.integers(4, 12)), "cores": int(rng.integers(6, 24))}
    tenants = tuple(
        Tenant(
            f"t{k}",
            quotas={name: Quota(int(rng.integers(0, 1 + much // 3))) for name, much in capacities.items()},
        )
        for k in range(3)
    )
    jobs = tuple(
        KnapsackJob(
            f"j{job}",
            tuple(
                KnapsackOption(
                    f"o{k}",
                    float(rng.integers(1, 20)),
                    {name: int(rng.integers(1, 5)) for name in capacities if rng.random() < 0.5},
                )
                for k in range(3)
            ),
            required=False,
            tenant=f"t{rng.integers(3)}",
        )
        for job in range(6)
    )
    return MultipleChoiceKnapsackInstance(
        "1", sense="maximize", capacities=capacities, jobs=jobs, tenants=tenants, fairness=Fairness(share)
    )


def ask(model: MultipleChoiceKnapsack) -> Solution:
    return apportion.solve(model, time_limit=None, gap=0.0)


@pytest.mark.parametrize("share", ["dominant_share", "normalised_throughput"])
def test_what_is_found_without_a_search_is_the_best(share: str) -> None:
    met = 0
    for seed in range(60):
        menus = menus_of_tenants(drawn(seed, share), None)
        assert isinstance(menus, TenantedMenus)
        model = LevelModel(Placing(menus, lambda: None))
        tree = menus.ledger.tree
        index = {job: place for place, job in enumerate(menus.job_names())}
        for name in tree.leaves:
            holder = tenant_claimant(menus.ledger, name)
            own = {capacity: tree.guarantees(capacity)[name] for capacity in menus.capacities}
            if not holder.jobs or not any(own.values()):
                continue
            alone = rows_alone(tree, name, menus.capacities)
            found = filled_alone(model, holder, own, {})
            if found is not None:
                met += 1
                places = [index[job] for job in holder.jobs]
                best = _best_share(model.placing, ask, holder, places, alone, {})
                assert best is not None and found.share == best.share
                assert found.rows is not None and best.rows is not None
                assert model.share[found.rows].sum() == model.share[best.rows].sum() == best.share
    assert met > 0


def test_what_all_have_alone_is_one_choice_that_keeps_every_guarantee() -> None:
    kept = 0
    for seed in range(40):
        menus = menus_of_tenants(drawn(seed, "dominant_share"), None)
        assert isinstance(menus, TenantedMenus)
        model = LevelModel(Placing(menus, lambda: None))
        shares, choice = guaranteed(model, ask)
        if shares:
            kept += 1
            assert choice is not None
            assert model.model.fits(choice)
            assert {one: model.of(one, choice) for one in shares} == shares
    assert kept > 20


@pytest.mark.parametrize("seed", range(25))
def test_rows_left_out_change_no_guarantee(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three who lend a part lie below one: what each has alone is the same under all rows and under some."""
    rng = np.random.default_rng(seed)
    below = [
        Tenant(
            f"t{k}", parent="org", quotas={"gpus": Quota(int(own), lending_limit=int(rng.integers(0, own)))}
        )
        for k, own in enumerate(rng.integers(3, 10, 3))
    ]
    due = sum(one.quotas["gpus"].guarantee for one in below) + int(rng.integers(0, 3))
    jobs = tuple(
        KnapsackJob(
            f"j{job}",
            tuple(KnapsackOption(f"o{k}", 1.0 + k, {"gpus": int(rng.integers(1, 9))}) for k in range(2)),
            required=False,
            tenant=f"t{rng.integers(3)}",
        )
        for job in range(5)
    )
    instance = MultipleChoiceKnapsackInstance(
        "1",
        sense="maximize",
        capacities={"gpus": 2 * due},
        jobs=jobs,
        tenants=(Tenant("org", quotas={"gpus": Quota(due)}), *below),
        fairness=Fairness("dominant_share"),
    )

    def shares() -> dict[str, int]:
        menus = menus_of_tenants(instance, None)
        assert isinstance(menus, TenantedMenus)
        found, _ = guaranteed(LevelModel(Placing(menus, lambda: None)), ask)
        return {one.name: share for one, share in found.items()}

    under_all = shares()
    monkeypatch.setattr(ledger, "MOST_ROWS", -1)
    assert shares() == under_all


@pytest.mark.parametrize("seed", range(5))
def test_of_capacities_used_alike_a_walk_looks_at_the_scarcest(seed: int) -> None:
    """Copies of a capacity that leave more room change no walk."""
    rng = np.random.default_rng(seed)
    uses, share = rng.integers(0, 5, (24, 3)), rng.integers(1, 9, 24)
    offsets, owner, rows = np.arange(9) * 3, np.repeat(np.arange(8), 3), rng.permutation(24)
    uses[::3], share[::3] = 0, 0
    begin = FeasibleChoice(offsets[:-1].copy(), np.zeros(3, dtype=np.int64))

    def walked(copies: int) -> FeasibleChoice | None:
        model = MultipleChoiceKnapsack.from_arrays(
            share,
            np.tile(uses, copies),
            offsets,
            np.tile([9, 10, 11], copies) + 10**6 * (np.arange(3 * copies) // 3),
        )
        walker = Walker((), (), offsets[:-1], offsets[:1], lambda *_: None, owner, offsets[:-1], share)
        start = FeasibleChoice(begin.choice, np.zeros(3 * copies, dtype=np.int64))
        return walker.gained(start, rows, 18, model)

    alone, beside = walked(1), walked(3)
    assert (alone is None) == (beside is None)
    if alone is not None and beside is not None:
        assert alone.choice.tolist() == beside.choice.tolist()
        assert beside.used.tolist() == np.tile(alone.used, 3).tolist()

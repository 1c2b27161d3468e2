"""Placement as Kueue and KAI decide it: what the rules of either say, on rounds small enough to follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import apportion
from apportion.cli.solve_instance import command
from apportion.cluster.policies.rounds.greedy_placing import PLACEMENT_POLICIES
from apportion.instances.kinds import kind_of
from tests.budgets import examples
from tests.cli.calling import call
from tests.hunt.placement import drawn


def site(racks: list[list[int]], *jobs: dict[str, Any], cpus: list[list[int]] | None = None) -> Any:
    """Return a placement: the GPUs (and cores) free on every node of every rack, and the waiting jobs."""
    nodes = [
        {
            "names": f"r{r}n{n}",
            "at": {"rack": f"r{r}"},
            "capacity": {"gpu": 8, "cpu": 64},
            "used": {"gpu": 8 - gpus, "cpu": 64 - (64 if cpus is None else cpus[r][n])},
        }
        for r, rack in enumerate(racks)
        for n, gpus in enumerate(rack)
    ]
    return apportion.read(
        {
            "kind": "placement",
            "schema_version": "1",
            "levels": ["rack", "node"],
            "nodes": nodes,
            "jobs": [
                {"id": f"j{at}", "options": [{"id": "run", "value": 1, **one}]} for at, one in enumerate(jobs)
            ],
        }
    )


def pods(count: int, gpus: int, **more: Any) -> dict[str, Any]:
    """Return an option of pods of one kind."""
    return {"pods": [{"count": count, "needs": {"gpu": gpus}, **more}]}


def under(policy: str, given: Any) -> dict[str, Any]:
    """Return where the pods of jobs are under a policy: by job, by the name of pods."""
    plan = PLACEMENT_POLICIES[policy]()(given)
    assert kind_of(given).check(given, plan).feasible
    return {job: one["on"] for job, one in plan["placement"].items()}


def test_kai_takes_the_fullest_rack_that_holds_a_job_and_its_fullest_node_first() -> None:
    given = site([[8, 8], [2, 4], [3, 4]], pods(3, 2, required="rack"))
    assert under("kai", given) == {"j0": {"pods": {"r1n0": 1, "r1n1": 2}}}


def test_kai_climbs_from_the_preferred_level_to_the_required_one() -> None:
    preferred = site([[4, 4], [8, 1]], pods(2, 4, preferred="node", required="rack"))
    assert under("kai", preferred) == {"j0": {"pods": {"r1n0": 2}}}
    climbs = site([[4, 4], [5, 1]], pods(2, 4, preferred="node", required="rack"))
    assert under("kai", climbs) == {"j0": {"pods": {"r0n0": 1, "r0n1": 1}}}
    assert under("kai", site([[4, 1], [4, 1]], pods(2, 4, preferred="node", required="rack"))) == {}
    assert under("kai", site([[4, 1], [4, 1]], pods(2, 4, preferred="rack"))) == {
        "j0": {"pods": {"r0n0": 1, "r1n0": 1}}
    }


def test_kai_tries_the_next_place_where_sums_say_that_a_mixed_job_fits_and_it_does_not() -> None:
    mixed = {
        "required": "rack",
        "pods": [
            {"name": "leader", "needs": {"gpu": 6}},
            {"name": "workers", "count": 2, "needs": {"gpu": 1}},
        ],
    }
    assert under("kai", site([[4, 4], [8, 8]], mixed)) == {
        "j0": {"leader": {"r1n0": 1}, "workers": {"r1n0": 2}}
    }


def test_kai_gives_what_is_over_the_least_to_the_same_place() -> None:
    elastic = pods(5, 2, least=2, required="rack")
    assert under("kai", site([[8, 8], [2, 4]], elastic)) == {"j0": {"pods": {"r1n0": 1, "r1n1": 2}}}
    segments = pods(4, 2, slices={"node": 2}, required="rack")
    assert under("kai", site([[6, 6], [8, 8]], segments)) == {"j0": {"pods": {"r0n0": 2, "r0n1": 2}}}


def test_kueue_shares_evenly_where_the_gate_is_on() -> None:
    given = site([[5, 5], [4, 4]], pods(6, 1, preferred="rack"))
    assert under("kueue", given) == {"j0": {"pods": {"r1n0": 4, "r1n1": 2}}}
    assert under("kueue-balanced", given) == {"j0": {"pods": {"r1n0": 3, "r1n1": 3}}}


def test_neither_sees_that_a_later_job_needs_the_tighter_rack() -> None:
    """Racks with 6 and 5 nodes free, jobs of 3, 3 and 5 whole nodes: 3 beside 3 leaves room for 5."""
    given = site([[8] * 6, [8] * 5], *(pods(n, 8, required="rack") for n in (3, 3, 5)))
    assert len(under("kueue", given)) == len(under("kai", given)) == 2
    assert apportion.solve(given).objective == 3.0


@pytest.mark.parametrize("policy", [*PLACEMENT_POLICIES])
def test_plans_keep_what_the_policies_know_and_are_never_worth_more_than_the_optimum(policy: str) -> None:
    for number in range(examples(60)):
        _, told = drawn(number, seed=5)
        told = {key: one for key, one in told.items() if key not in ("rules", "goals", "trees")}
        told["jobs"] = [
            {key: one for key, one in job.items() if key not in ("current", "required", "fixed", "pinned")}
            for job in told["jobs"]
        ]
        try:
            given: Any = apportion.read(told)
        except apportion.InvalidInstance:  # a level of another tree
            continue
        decided = apportion.Session(given).decide(policy=policy)
        assert decided.plan is not None, (number, decided.solution.notes)
        best = apportion.solve(given).objective
        assert best is not None and decided.objective is not None and decided.objective <= best, number


def test_one_command_says_what_policies_would_have_got() -> None:
    morning = Path("examples/placement_morning.yaml").resolve()
    said = call(command, morning, "--beside", "kueue", "--beside", "kai").out
    assert [line.split() for line in said.splitlines()[-3:]] == [
        ["policy", "objective", "beside", "this", "plan"],
        ["kueue", "15", "-80.8%"],
        ["kai", "15", "-80.8%"],
    ]
    teams = Path("examples/placement_teams.yaml").resolve()
    said = call(command, teams, "--beside", "kai").out
    assert "quota[gpu of vision]: claims 48, may have 32" in said
    assert "freetrain" in call(command, Path("examples/gap_filling_small.json"), "--beside", "freetrain").out
    assert call(command, morning, "--beside", "kai", "--json").code == 2
    for file, policy in ((morning, "magic"), (Path("examples/matching_assignment.json"), "kai")):
        with pytest.raises(apportion.InvalidOption, match="beside"):
            call(command, file, "--beside", policy)

"""What is stated plainly is the instance, exactly, on machines of a pool, nodes and shares of time too."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

import apportion
from apportion.instances.placement import program
from apportion.instances.tenants.ledger import under_floors
from apportion.proofs import Claim, Proof, reference
from apportion.proofs.certificate import encode, instance_digest
from apportion.proofs.statement import statement_of
from tests.forgeries.forging import drawn_case
from tests.hunt import draw_placement
from tests.hunt.truth import truth_of, truth_under
from tests.proofs.claims import KINDS
from tests.proofs.enumerated import best


def held(kind: str, number: int) -> bool:
    """Hold the optimum of a drawn instance's statement against that of its JSON, under floors as well."""
    case, instance = drawn_case(KINDS[kind], Random(f"placed {kind} {number}"))
    statement = json.loads(json.dumps(statement_of(instance)))
    assert best(statement) == truth_of(case).best
    if "tenants" not in kind:
        return False
    floors = apportion.solve(instance, time_limit=10.0).floors
    if floors:
        under = json.loads(json.dumps(statement_of(under_floors(instance, floors))))
        assert best(under) == truth_under(case, floors).best
    return bool(floors)


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_of_a_statement_is_exactly_that_of_its_instance(kind: str) -> None:
    under_shares = [held(kind, number) for number in range(8)]
    assert any(under_shares) == ("tenants" in kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_of_a_statement_is_exactly_that_of_its_instance_at_length(kind: str) -> None:
    assert len([held(kind, number) for number in range(100, 600)]) == 500


def matching(divisible: bool, count: int, jobs: int) -> Any:
    """Return jobs of one second on a pool."""
    on = {"pool": {"time_s": 1.0}}
    document = {
        "kind": "matching",
        "schema_version": "1",
        "objective": "makespan",
        "divisible": divisible,
        "machines": [{"id": "pool", "count": count}],
        "jobs": [{"id": f"j{at}", "on": on} for at in range(jobs)],
    }
    return apportion.read(document)


def test_prices_of_machines_that_no_job_shares_are_refused_without_an_exception() -> None:
    """The greatest denominator of no times was asked for."""
    nobody = matching(divisible=True, count=2, jobs=0)
    proof = Proof(instance_digest(nobody), Claim("no_better_plan", 1.0), shift=0, prices=((3,),))
    assert apportion.verify(nobody, proof).status == "refused"
    assert reference.check(statement_of(nobody), encode(proof))[0] is False


@pytest.mark.parametrize("apart", [True, False])
def test_the_reference_stops_before_a_large_pool_takes_its_memory(apart: bool) -> None:
    """A pool of a billion machines was taken apart, or given a cut, machine by machine."""
    many = matching(divisible=False, count=10**9, jobs=3)
    proof = Proof(
        instance_digest(many),
        Claim("no_better_plan", 3.0),
        shift=0,
        prices=(),
        apart=(0,) if apart else (),
        cuts=() if apart else ({"pool": 0, "excluded": [0, 1]},),
    )
    assert reference.check(statement_of(many), encode(proof))[0] is not True


def test_the_reference_stops_before_a_wide_table_takes_its_memory() -> None:
    """Two hundred jobs on a thousand machines taken apart are 400 million numbers."""
    many = matching(divisible=False, count=1_000, jobs=200)
    proof = Proof(instance_digest(many), Claim("no_better_plan", 3.0), shift=0, prices=(), apart=(0,))
    assert reference.check(statement_of(many), encode(proof)) == (None, "too large a table")


def test_a_statement_from_sparse_uses_is_that_from_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [apportion.read(draw_placement.instance(Random(f"sparse {at}"))) for at in range(12)]
    dense = [statement_of(instance) for instance in drawn]
    monkeypatch.setattr(program, "_MOST_CELLS", 0)
    assert [statement_of(instance) for instance in drawn] == dense

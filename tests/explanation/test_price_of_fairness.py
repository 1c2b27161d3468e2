"""The curve of the price of fairness: every point is what solving with that part kept gives."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import apportion
from apportion.cli.explain import price_of_fairness as command
from apportion.cli.main import main
from apportion.core.errors import InvalidInstance
from apportion.explanation.fairness_price import price_of_fairness
from tests.cli.calling import call
from tests.instances.tenants.small import drawn, instance_of, share_of


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(8))
def test_every_point_is_the_optimum_with_that_part_kept(seed: int) -> None:
    told = drawn(seed)
    told["fairness"] = {}
    curve = price_of_fairness(instance_of(told), [0.0, 0.4, 0.8, 1.0])
    assert [point.keep for point in curve.points] == [0.0, 0.4, 0.8, 1.0]
    objectives = []
    for point in curve.points:
        told["fairness"] = {"keep": point.keep}
        alone = apportion.solve(instance_of(told))
        assert alone.termination.value == "optimal"
        assert point.objective == alone.objective == point.bound
        objectives.append(alone.objective)
    assert objectives == sorted(objectives, reverse=True)
    assert curve.points[0].price in (0.0, None)
    told["fairness"] = {}
    fair = apportion.solve(instance_of(told))
    taken = fair.require()["choice"]
    choice = [
        next((option for option in job["options"] if option["id"] == taken.get(job["id"])), None)
        for job in told["jobs"]
    ]
    weights = {one["id"]: Fraction(one.get("weight", 1)) for one in told["tenants"]}
    least = min(share_of(told, choice, level.name) / weights[level.name] for level in fair.levels)
    assert curve.points[-1].least is not None
    assert curve.points[-1].least == pytest.approx(float(least))


def test_without_a_rule_of_fairness_there_is_no_price() -> None:
    with pytest.raises(InvalidInstance, match=r"\$\.fairness: must say what is shared out"):
        price_of_fairness(instance_of(drawn(1)), [0.0, 1.0])


def test_the_command_prints_and_draws(tmp_path: Path) -> None:
    told = drawn(1)
    told["fairness"] = {}
    path, picture = tmp_path / "round.json", tmp_path / "price.svg"
    path.write_bytes(msgspec.json.encode(told))
    done = CliRunner().invoke(command, [str(path), "--points", "3", "--plot", str(picture)])
    assert done.exit_code == 0, done.output
    assert done.output.split("\n")[0].split() == ["kept", "objective", "bound", "price", "least", "share"]
    assert "part of every fair level that is kept" in picture.read_text()
    done = CliRunner().invoke(command, [str(path), "--points", "3", "--json"])
    assert [point["keep"] for point in json.loads(done.output)["points"]] == [0.0, 0.5, 1.0]


def test_where_no_plan_is_feasible_that_is_said(tmp_path: Path) -> None:
    told = {
        "kind": "multiple_choice_knapsack",
        "schema_version": "1",
        "sense": "maximize",
        "capacities": {"gpu": 1},
        "tenants": [{"id": "t"}],
        "fairness": {},
        "jobs": [
            {
                "id": "a",
                "tenant": "t",
                "required": True,
                "options": [{"id": "o", "value": 1, "uses": {"gpu": 2}}],
            }
        ],
    }
    path = tmp_path / "round.json"
    path.write_text(json.dumps(told))
    result = call(main, "price-of-fairness", str(path), "--points", "3")
    assert (result.code, result.out) == (4, "no plan is feasible: `apportion explain` says why\n")

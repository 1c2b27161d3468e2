"""What a warm start says about multipliers is a hint: whatever it is, the answer stays and nothing warns."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import apportion

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_ODD = [float("inf"), float("nan"), -1e300, -5.0, 1e308, 5e-324, 10**400, -(10**400), True, "7", None, [1.0]]


@pytest.mark.parametrize("price", _ODD, ids=lambda price: str(price)[:9])
@pytest.mark.parametrize("name", ["gap_filling_small.json", "freezing_small.json", "sia_round.json"])
def test_odd_multipliers_of_a_warm_start_change_no_answer(name: str, price: object) -> None:
    instance = apportion.read(_EXAMPLES / name)
    cold = apportion.solve(instance)
    prices = dict.fromkeys(cold.certificate.multipliers or {"gpus": 1.0}, price)
    start = {"plan": cold.plan, "certificate": {"multipliers": prices}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warm = apportion.solve(instance, warm_start=start)
    assert warm.termination == cold.termination == apportion.Termination.OPTIMAL
    assert warm.objective == cold.objective

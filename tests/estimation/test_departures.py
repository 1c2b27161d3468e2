"""Hazards and hit rates recover what generated them."""

from __future__ import annotations

import numpy as np

from apportion.cluster.policies.adaptive import HitRates, IdleHazard


def test_a_constant_hazard_is_found() -> None:
    rng = np.random.default_rng(0)
    hazard, true = IdleHazard(), 1 / 900.0
    births = np.sort(rng.uniform(0, 2e6, 6000))
    deaths = births + rng.exponential(1 / true, births.size)
    now = 0.0
    for step in np.arange(0.0, 2e6, 500.0):
        alive = births[(births <= now) & (deaths > now)]
        hazard.expose(now - alive, step - now)
        hazard.depart(step - births[(deaths > now) & (deaths <= step) & (births <= now)])
        now = step
    rates = hazard.rate(np.array([200.0, 1000.0, 2000.0]))
    # a group of any age leaves within 500 s with probability 1 - exp(-500 / 900), seen at the end of the step
    assert np.all(rates[1:] > 0.6 * true) and np.all(rates[1:] < 1.4 * true)


def test_a_falling_hazard_is_seen_to_fall() -> None:
    hazard = IdleHazard()
    for age, left in ((60.0, 30), (700.0, 12), (5000.0, 2)):
        hazard.expose(np.full(100, age), 100.0)
        hazard.depart(age + np.arange(left) / 1e3)
    rates = hazard.rate(np.array([60.0, 700.0, 5000.0]))
    assert rates[0] > rates[1] > rates[2] > 0
    again = IdleHazard()
    again.restore(hazard.state())
    assert np.array_equal(again.rate(np.array([60.0])), rates[:1])


def test_hit_rates_count_occurrences_over_exposure_and_never_fall() -> None:
    hits = HitRates()
    for _ in range(4000):
        hits.observe(np.array([1, 8, 0]), np.array([False, False, False]), 90.0)
    hits.observe(np.array([1, 8]), np.array([True, True]), 90.0)
    rates = hits.rate(np.array([0, 1, 8, 64]))
    assert rates[0] == 0 and rates[1] < 2e-4 / 9 * 10 and (np.diff(rates) >= 0).all()

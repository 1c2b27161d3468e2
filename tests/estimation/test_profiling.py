"""The profiling advisor: curves through measured points, when to stop, when to start again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from paper_repro.malletrain.unknown_scaling import guessed_rates, unknown_workload

from apportion.cluster.estimation.profiling import ProfilingAdvisor
from apportion.cluster.policies import FreeTrain
from apportion.cluster.policies.malletrain import MalleTrain
from apportion.cluster.simulation.idle_trace import generated_trace, node_changes
from apportion.cluster.simulation.replay import Replay
from apportion.core.errors import InvalidOption


def curve(alone: float, slope: float, reach: int = 64) -> np.ndarray:  # type: ignore[type-arg]
    nodes = np.arange(1, reach + 1)
    return np.concatenate(([0.0], alone * nodes * np.exp(-slope * np.log2(nodes))))


def test_the_fit_passes_through_every_measured_point() -> None:
    rng = np.random.default_rng(0)
    advisor = ProfilingAdvisor()
    for job in range(30):
        true = curve(rng.uniform(100, 5000), rng.uniform(0, 0.3))
        for count in rng.choice(np.arange(1, 65), 4, replace=False).tolist():
            advisor.observe(job, count, float(true[count]))
        for count, rate in advisor.measured(job).items():
            assert advisor.predict(job, 64)[count] == pytest.approx(rate)
            assert advisor.error(job, 64)[count - 1] == 0
        assert advisor.predict(job, 64)[0] == 0 and (advisor.predict(job, 64)[1:] > 0).all()


def test_one_point_is_enough_once_the_population_is_known() -> None:
    rng = np.random.default_rng(1)
    advisor = ProfilingAdvisor()
    for job in range(40):
        true = curve(rng.uniform(100, 5000), 0.12)
        for count in (64, 8, 1):
            advisor.observe(job, count, float(true[count]))
    true = curve(777.0, 0.12)
    advisor.observe(99, 32, float(true[32]))
    assert advisor.predict(99, 64)[1:] == pytest.approx(true[1:], rel=0.02)
    assert advisor.next_count(99, 64) is None, "nothing is left to learn"


def test_profiling_goes_down_from_the_largest_and_stops() -> None:
    advisor = ProfilingAdvisor(tolerance=0.05)
    true, seen = curve(500.0, 0.2), []
    while (count := advisor.next_count(1, 48)) is not None:
        seen.append(count)
        advisor.observe(1, count, float(true[count]))
        assert len(seen) < 10
    assert seen[0] == 48 and seen == sorted(seen, reverse=True)
    assert all(after == before // 2 for before, after in pairwise(seen))
    assert ProfilingAdvisor().next_count(1, 0) is None


def test_disagreeing_observations_start_the_curve_again() -> None:
    advisor = ProfilingAdvisor()
    for count in (32, 16, 8):
        advisor.observe(1, count, 100.0 * count)
    advisor.observe(1, 16, 100.0 * 16 * 1.05)
    assert advisor.reprofiled == 0 and len(advisor.measured(1)) == 3
    advisor.observe(1, 16, 50.0 * 16)
    assert advisor.reprofiled == 1 and advisor.measured(1) == {16: 800.0}
    again = ProfilingAdvisor()
    again.restore(advisor.state())
    assert np.array_equal(again.predict(1, 64), advisor.predict(1, 64))
    advisor.observe(1, 0, 5.0)
    advisor.observe(1, 4, 0.0)
    assert advisor.measured(1) == {16: 800.0}
    advisor.forget(np.array([2]))
    assert advisor.measured(1) == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hpo", "nas"])
def test_learnt_curves_come_within_two_per_cent_of_the_oracle(kind: str) -> None:
    changes = node_changes(generated_trace(5, 256, 1.0))
    jobs = unknown_workload(5, kind, 80)  # type: ignore[arg-type]

    def output(shown, policy) -> float:  # type: ignore[no-untyped-def]
        replay = Replay(changes, shown, policy, 8)
        replay.run()
        return float(replay.progress().sum())

    oracle = output(jobs.believing(guessed_rates(jobs, "oracle", 0)), FreeTrain())
    linear = output(jobs.believing(guessed_rates(jobs, "linear", 0)), FreeTrain())
    learnt = output(jobs, MalleTrain(relative=True))
    assert learnt > 0.98 * oracle and learnt > linear
    with pytest.raises(InvalidOption, match="guess must be"):
        guessed_rates(jobs, "none", 0)

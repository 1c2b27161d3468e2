"""The reproduction of the model-similarity policy: its policies by hand, its drawing, one seed of it."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter, thread_time
from xml.etree import ElementTree

import numpy as np
import pytest
from paper_repro.model_similarity.__main__ import run, table
from paper_repro.model_similarity.chart import Result, chart, interval
from paper_repro.model_similarity.measured import benchmark, gavel, timm
from paper_repro.model_similarity.policies import (
    POLICIES,
    Work,
    earliest_finish,
    first_come,
    greedy,
    makespan_lp,
    planned,
)
from paper_repro.model_similarity.scenarios import beliefs, draw, scenarios

ONE = np.ones(3, dtype=np.int64)
TRUE = np.array([[8.0, 2.0], [8.0, 3.0], [6.0, 4.0]])
POOLS = np.array([1, 1], dtype=np.int64)


def test_policies_by_hand() -> None:
    # 0 on the first pool to 8, 1 on the second to 3, then 2 on the second to 7
    assert first_come(TRUE, TRUE, ONE, POOLS, Work()) == 8.0
    # 0 on the second to 2, 1 on the first at once to 8, 2 on the second to 6
    assert greedy(TRUE, TRUE, ONE, POOLS, Work()) == 8.0
    # 0 on the second to 2, 1 waits for it to 5, 2 on the first to 6
    assert earliest_finish(TRUE, TRUE, ONE, POOLS, Work()) == 6.0


def test_gangs_wait_for_all_their_gpus() -> None:
    gangs = np.array([2, 1, 2], dtype=np.int64)
    pools = np.array([2, 1], dtype=np.int64)
    times = np.array([[2.0, np.inf], [3.0, 9.0], [4.0, np.inf]])
    assert first_come(times, times, gangs, pools, Work()) == 9.0
    assert earliest_finish(times, times, gangs, pools, Work()) == 9.0


def test_no_clock_decides_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    times, single = rng.uniform(10.0, 300.0, (30, 3)), np.ones(30, dtype=np.int64)
    gangs = rng.choice([1, 2, 4], 30).astype(np.int64)
    pools = np.array([8, 8, 8], dtype=np.int64)

    def ends() -> list[float]:
        little, more = Work(nodes=1, steps=5), Work(nodes=5, steps=200)
        return [
            planned(times, times, gangs, pools, little),
            planned(times, times, gangs, pools, more),
            makespan_lp(times, times, gangs, pools, more),
            planned(times, times, single, pools, little),
            planned(times, times, single, pools, more),
        ]

    alone = ends()
    # a solve that asks the clock finds its time gone after a few milliseconds
    monkeypatch.setattr("apportion.solvers.clock.perf_counter", lambda: 1e6 * perf_counter())
    monkeypatch.setattr("apportion.solvers.clock.thread_time", lambda: 1e6 * thread_time())
    assert ends() == alone
    assert alone[2] < alone[1] <= alone[0]


def test_the_drawing_has_every_policy_and_scenario() -> None:
    names = [name for name, _, _ in POLICIES]
    ends = np.random.default_rng(0).uniform(0.2, 1.5, (5, len(names)))
    result = Result("a <source>", "1 GPU", 24, ends / ends[:, :1], ends.mean(axis=0))
    root = ElementTree.fromstring(chart([result, result], names))
    words = " ".join(node.text or "" for node in root.iter())
    assert all(name in words for name in names[1:])
    assert "a <source>" in words
    mean, half = interval(result)
    assert mean[0] == 1.0
    assert half[0] == 0.0


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", [gavel, benchmark, timm])
def test_one_seed_of_every_source(source: object, data: Path) -> None:
    measured = source(data)  # type: ignore[operator]
    believed = beliefs(measured)
    true = 1.0 / measured.speeds
    assert believed.profiled[:, 0] == pytest.approx(true[:, 0])
    assert (believed.cautious >= believed.profiled * (1 - 1e-12)).all()
    unknown, profiled = (np.abs(np.log(told / true)).mean() for told in (believed.unknown, believed.profiled))
    assert profiled < unknown
    scenario = scenarios(measured)[0]
    times, gangs = draw(scenario, measured, believed, 0)
    assert times["true"].shape == (24, len(measured.architectures))
    assert gangs.max() == 1
    result = run(scenario, measured, believed, seeds=1, work=Work(nodes=1, steps=50))
    by_name = dict(zip([name for name, _, _ in POLICIES], result.relative[0].tolist(), strict=True))
    assert by_name["Gavel's makespan program"] <= by_name["oracle plan"] * (1 + 1e-6)
    assert len(list(table([result]))) == 3

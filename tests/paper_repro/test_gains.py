"""Gains that the studies state are paired: by place, by seed, by the jobs drawn."""

from __future__ import annotations

import numpy as np
import pytest
from paper_repro.freetrain.gains import gains as gains_by_place
from paper_repro.freetrain.idle_logs import idle
from paper_repro.malletrain.gains import gains as gains_by_seed
from paper_repro.model_similarity.chart import Result
from paper_repro.model_similarity.figures import pair_rows
from paper_repro.model_similarity.policies import POLICIES

from apportion.cluster.simulation.idle_trace import IdleTrace


def test_adaptive_is_compared_place_by_place() -> None:
    ends = {"freetrain": (100.0, 200.0, 50.0, None), "adaptive": (90.0, 160.0, 50.0, 1.0)}
    rows = [
        {"place": f"block {place}", "trainers": 10, "rule": rule, "makespan, h": end, "bound, h": 40.0}
        for rule, own in ends.items()
        for place, end in enumerate(own)
    ]
    ours, theirs = (
        next(row for row in gains_by_place(rows) if row["rule"] == rule) for rule in ("adaptive", "freetrain")
    )
    # 10, 20 and 0 % less; the place that one rule left unfinished counts for neither
    assert theirs["places"] == 3
    assert theirs["adaptive is less, %"] == pytest.approx(10.0)
    assert theirs["half-width"] == pytest.approx(4.302653 * 10.0 / np.sqrt(3), rel=1e-6)
    assert (theirs["least"], theirs["most"]) == pytest.approx((0.0, 20.0))
    assert theirs["above the bound, %"] == pytest.approx((150.0 + 400.0 + 25.0) / 3)
    assert "adaptive is less, %" not in ours
    longer = next(row for row in gains_by_place(rows, "freetrain") if row["rule"] == "adaptive")
    # 100 / 90, 200 / 160 and 1
    assert longer["freetrain is less, %"] == pytest.approx(100 * (3 - 10 / 9 - 1.25 - 1) / 3)


def test_trainers_are_no_seeds() -> None:
    names = ("guess: linear", "guess: average", "ordinary running, noise 0.1", "ordinary running")
    flat = dict.fromkeys((*names, "MalleTrain", "MalleTrain, told the costs"), 1.0)
    rows = [
        flat | {"workload": "nas", "trainers": trainers, "seed": seed, "MalleTrain, noise 0.1": share}
        for seed, own in ((1, (1.1, 1.3)), (2, (1.2, 1.4)), (3, (1.0, 1.2)))
        for trainers, share in zip((10, 20), own, strict=True)
    ]
    found = {
        row["trainers"]: row
        for row in gains_by_seed(rows, 0.1)
        if (row["output of"], row["over"]) == ("MalleTrain, noise 0.1", "guess: linear")
    }
    assert [found[key]["more, %"] for key in (10, 20, "mean of all")] == pytest.approx([10.0, 30.0, 20.0])
    assert {row["seeds"] for row in found.values()} == {3}
    # 20, 30 and 10 % by seed
    assert found["mean of all"]["half-width"] == pytest.approx(4.302653 * 10.0 / np.sqrt(3), rel=1e-6)


def test_plans_are_compared_seed_by_seed() -> None:
    column = {name: number for number, (name, _, _) in enumerate(POLICIES)}
    relative = np.ones((3, len(POLICIES)))
    relative[:, column["earliest predicted finish"]] = (1.0, 0.5, 2.0)
    relative[:, column["similarity plan, one profile"]] = (0.5, 0.25, 1.0)
    rows = list(pair_rows(Result("a source", "1 GPU", 24, relative, np.ones(len(POLICIES)))))
    first = rows[0]
    assert (first["policy"], first["over"]) == ("similarity plan, one profile", "earliest predicted finish")
    # half of the rival's every time, whatever the jobs
    assert (first["ratio"], first["half"], first["less"], first["seeds"]) == pytest.approx((0.5, 0.0, 0.5, 3))


def test_the_idle_share_counts_what_the_record_covers() -> None:
    spells = [(0, -600.0, 1800.0), (0, 3600.0, 7200.0), (1, 0.0, 900.0)]
    node, start, end = (np.array(one) for one in zip(*spells, strict=True))
    trace = IdleTrace.from_arrays(node, start, end, [0.0, 900.0, 1800.0, 3600.0, 7200.0], ["a", "b"])
    row = idle(trace)
    assert row["idle, %"] == pytest.approx(100 * (1800 + 3600 + 900) / (2 * 7200))
    assert row["median spell, min"] == pytest.approx(30.0)
    assert row["idle time in spells under an hour, %"] == pytest.approx(100 * 2700 / 6300)

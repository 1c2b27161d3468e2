"""Where FreeTrain's rules are replayed, and with which of the published job sets."""

from __future__ import annotations

from pathlib import Path

import pytest
from paper_repro.freetrain.places import blocks, generated, windows


def test_trials_of_the_published_search_begin_with_the_published_trainings(data: Path) -> None:
    trace = data / "bftrainer"
    (_, changes, trials), (_, same, trainings) = (
        next(blocks(trace, [1], kind)) for kind in ("hpo", "imagenet")
    )
    # 1,000 trainings of ShuffleNet, one every 36.04 s, after row 1,000 of the trace
    assert trials.num_jobs == 1000 and len({tuple(row) for row in trials.rates}) == 1
    assert trials.submitted_s[0] == trainings.submitted_s[0] and changes.time_s[0] == same.time_s[0]
    assert trials.submitted_s[1] - trials.submitted_s[0] == pytest.approx(36.04, abs=0.01)
    assert set(trials.up_s) == {18.0} and set(trials.down_s) == {12.0} and set(trials.work) == {1.3e8}


def test_windows_take_the_whole_machine(data: Path) -> None:
    trace = data / "bftrainer"
    found = list(windows(trace, trace / "summit_idle_intervals.npz", 2))
    starts = [float(jobs.submitted_s[0]) for _, _, jobs in found]
    assert starts[0] == 0.0 and starts[1] > 7 * 86_400 and found[0][0] != found[1][0]


def test_generated_machines_take_either_set() -> None:
    for kind, count in (("imagenet", 7), ("hpo", 1)):
        ((_, _, jobs),) = generated([3], kind)
        assert len({tuple(row) for row in jobs.rates}) == count

"""What a policy sees behind a monitor: noisy rates, and rescale costs only after they were paid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from paper_repro.malletrain.instrument import Instrument

from apportion.cluster.policies import FreeTrain, GapFillingView, Plan
from tests.policies.test_policies import random_view


class Recorder:
    """Gives the first job one node more every time, and keeps what it was shown."""

    def __init__(self) -> None:
        self.seen: list[GapFillingView] = []

    def __call__(self, view: GapFillingView) -> Plan:
        self.seen.append(view)
        holder = view.holder.copy()
        holder[np.flatnonzero(holder != 0)[:1]] = 0
        return Plan(holder)


def test_a_standstill_is_guessed_until_it_was_seen() -> None:
    view = replace(random_view(np.random.default_rng(0), jobs=2), holder=np.array([0, 1, *[-1] * 7]))
    inside = Recorder()
    instrument = Instrument(inside, guess_s=77.0)
    grown = instrument(view)
    assert (inside.seen[0].up_s == 77.0).all() and (inside.seen[0].down_s == 77.0).all()
    instrument(replace(view, holder=grown.holder, measured=np.array([5.0, np.nan])))
    # the first job's own, which for want of others all jobs are believed to have
    assert (inside.seen[1].up_s == view.up_s[0]).all()
    assert inside.seen[1].measured[0] == 5.0


def test_what_is_measured_is_off_by_the_noise_alone() -> None:
    view = replace(random_view(np.random.default_rng(1), jobs=3), measured=np.full(3, 8.0))
    inside = Recorder()
    instrument = Instrument(inside, noise=0.1, seed=4)
    for _ in range(300):
        instrument(view)
    errors = np.log(np.concatenate([one.measured for one in inside.seen]) / 8.0)
    assert abs(errors.mean()) < 0.02 and errors.std() == pytest.approx(0.1, rel=0.1)


def test_freetrain_woken_decides_the_same_and_names_the_next_completion() -> None:
    rng = np.random.default_rng(5)
    woken = 0
    for _ in range(40):
        view = random_view(rng)
        plain, waking = FreeTrain(60.0)(view), FreeTrain(60.0, wakes=True)(view)
        assert (plain.holder == waking.holder).all() and plain.wake_s is None
        if waking.wake_s is not None:
            woken += 1
            assert waking.wake_s > view.time_s
    assert woken > 20

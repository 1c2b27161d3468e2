"""Every fault of the random sequences once, in one sequence on the cluster of these tests."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from paper_repro.malletrain.one_machine import OneMachineSlurm

from tests.live_slurm.faults import CLOCKS, FAULTS
from tests.live_slurm.machines import wall_clock
from tests.live_slurm.playing import Course, drawn, play
from tests.live_slurm.watching import Witness


def test_without_a_compiler_no_clock_jumps_are_drawn() -> None:
    found = {fault for seed in range(200) for fault in drawn(random.Random(seed), clocks=False).faults}
    assert found == FAULTS.keys() - CLOCKS


@pytest.mark.slow
def test_every_fault_in_one_sequence(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    chance = random.Random(1)
    course = Course(tuple(chance.sample(sorted(FAULTS), len(FAULTS))))
    (folder := tmp_path / "s").mkdir()
    with Witness(tmp_path):
        play(slurm, folder, course, chance, wall_clock(tmp_path))

"""A real Slurm for the tests of this folder, or a counted skip that says why there is none."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from paper_repro.malletrain.harvesting import Harvest
from paper_repro.malletrain.one_machine import OneMachineSlurm, missing_programs

from tests.patience import slower


@pytest.fixture(scope="session")
def cluster() -> Iterator[OneMachineSlurm]:
    """Eight one-core nodes n1 .. n8 with the partitions `main` and `harvest`, started once for all tests."""
    if missing := missing_programs():
        pytest.skip(f"no Slurm on this machine ({', '.join(missing)} missing): bash .ci/slurm installs it")
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as folder,
        OneMachineSlurm(Path(folder) / "c", slowness=slower) as started,
    ):
        yield started


@pytest.fixture
def slurm(cluster: OneMachineSlurm) -> Iterator[OneMachineSlurm]:
    """The cluster with every node idle; whatever a test leaves is cancelled and restarted after it."""
    yield cluster
    cluster.reset()


@pytest.fixture
def harvest(slurm: OneMachineSlurm, tmp_path: Path) -> Iterator[Harvest]:
    """A controller that is not started yet; whatever it held is given back after the test."""
    with Harvest(slurm, tmp_path) as made:
        yield made
    slurm.reset()
    end = time.monotonic() + 15.0
    while made.agents() and time.monotonic() < end:
        time.sleep(0.1)

"""A minute of the soak that ``.ci/full`` runs for half an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.soak import grown, soak


@pytest.mark.slow
def test_a_minute_of_kills_loses_and_doubles_nothing(tmp_path: Path) -> None:
    told = soak(tmp_path, seconds=60, clients=10, kill_every=12, pace_s=0.4)
    assert told["problems"] == []
    assert told["decisions"] > 100 and told["compared_with_cold"] > 3
    assert told["killed"]["services"] >= 3 and told["killed"]["workers"] >= 3
    assert grown(told["memory"]) < 1.25

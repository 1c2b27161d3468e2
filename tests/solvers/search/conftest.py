"""Both roads of the search: compiled and uncompiled."""

from __future__ import annotations

import pytest

from apportion.solvers.compiled import SWITCH, load


@pytest.fixture(params=["compiled", "uncompiled"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both roads; the compiled one is skipped, and says so, where it was not built."""
    monkeypatch.setenv(SWITCH, "0" if request.param == "compiled" else "1")
    if request.param == "compiled" and load("search.depth_first_c") is None:
        pytest.skip("the compiled search was not built")
    return str(request.param)

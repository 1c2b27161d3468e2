"""Shared fixtures, the profiles of hypothesis, and the end: what was skipped, and the CPU seconds it took."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.at_the_end import cpu_seconds, reasons
from tests.budgets import PROFILES, thin

os.environ["APPORTION_CONFIG"] = os.devnull  # nobody's own defaults decide a test
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

for _name, _examples in PROFILES.items():
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,
        derandomize=bool(os.environ.get("CI")),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
settings.load_profile("quick")

_OTHERS = frozenset({"browser", "cluster", "containers"})
"""Fixtures that start a browser or a Slurm of this machine, or skip where there is none."""

ROOT = Path(__file__).resolve().parent.parent


def data_folder() -> Path:
    """Return the folder of real traces and benchmark instances: APPORTION_DATA, else ../shared/data."""
    given = os.environ.get("APPORTION_DATA")
    return Path(given) if given else ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def data() -> Path:
    """The data folder; a test that needs it is skipped, and says so, where it is absent."""
    folder = data_folder()
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; set APPORTION_DATA to the folder of traces and benchmarks")
    return folder


@pytest.fixture(scope="session")
def browser() -> str:
    """The browser that pages are looked at in."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium on this machine; apt-get install chromium")
    return program


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what the budget leaves to the slow tests, and what needs a program of another project."""
    thin(items)
    for item in items:
        if _OTHERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.installed)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what was skipped, a line a reason, and the CPU seconds of the tests and of all they started."""
    if skipped := reasons(terminalreporter.getreports("skipped")):
        terminalreporter.section("skipped, by reason")
        for reason, count in skipped.items():
            terminalreporter.write_line(f"SKIPPED [{count}] {reason}")
    terminalreporter.write_line(f"The tests took {cpu_seconds():.0f} CPU seconds.")

"""The end of a run of the tests: the reasons for skipping, a line each, and the CPU seconds it took."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

__all__ = ["cpu_seconds", "reasons"]


def reasons(skipped: Iterable[pytest.TestReport | pytest.CollectReport]) -> Mapping[str, int]:
    """Return how many tests were skipped for every reason, the most frequent one first.

    Parameters
    ----------
    skipped
        The reports of skipped tests, and of whole files that could not be collected for want of something.
    """
    told: Counter[str] = Counter()
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        told[" ".join(reason.removeprefix("Skipped: ").split())] += 1
    return dict(told.most_common())


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of every child that has ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system

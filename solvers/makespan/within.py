"""Run a backend for some seconds inside a longer deadline: what a child process is asked for in a turn.

A turn that is over is no reason to end the process, which would have to load its engines again.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from apportion.models.linear import LinearModel
from apportion.options import SolveOptions
from apportion.outcome import Outcome
from apportion.solvers.general.observer import Observe

__all__ = ["solve"]


def solve(
    model: LinearModel,
    options: SolveOptions,
    start: NDArray[np.float64] | None,
    entry: str,
    seconds: float,
    observe: Observe | None = None,
) -> Outcome:
    """Call the backend ``entry`` (``"module:function"``) with the shorter of two limits.

    Parameters
    ----------
    model, options, start, observe
        As every backend takes them.
    entry
        The backend.
    seconds
        Its own time limit; `options.time_limit` is the process's.
    """
    module, function = entry.split(":")
    backend = getattr(import_module(module), function)
    limit = seconds if options.time_limit is None else min(seconds, options.time_limit)
    outcome: Outcome = backend(model, replace(options, time_limit=limit), start, observe=observe)
    return outcome

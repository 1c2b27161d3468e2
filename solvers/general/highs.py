"""HiGHS as a backend of its own: the caller's limits, start and callbacks around one call of the engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome
from apportion.models.linear import LinearModel
from apportion.solvers.general.highs_call import Listen, call, preload
from apportion.solvers.general.linear_call import LinearCall
from apportion.solvers.general.points import Observe, Observer, answered_at_sight

__all__ = ["preload", "refuses", "solve"]


def refuses(model: LinearModel) -> str | None:
    """Return ``None``: HiGHS takes every linear model."""
    return None


def solve(
    model: LinearModel,
    options: SolveOptions,
    start: NDArray[np.float64] | None = None,
    observe: Observe | None = None,
) -> Outcome:
    """Solve a mixed-integer linear model with HiGHS.

    See `LinearCall.begun` for the parameters. `work_limit` counts branch-and-bound nodes; `observe` is called
    with every incumbent's point and, now and then, with the bound.

    Raises
    ------
    BackendUnavailable
        If the installed highspy must not be used.
    """
    if (answer := answered_at_sight(model)) is not None:
        return answer
    asked = LinearCall.begun(model, options, start, observe)
    observer = asked.observer
    listen = _listener(model, observer) if observer.active and model.integer.any() else None
    said = call(model, _settings(options, asked.seconds), asked.start, listen=listen, interruptible=True)
    return asked.outcome(
        said.termination,
        said.raw,
        said.point,
        said.bound,
        seconds=said.seconds,
        counters={"nodes": float(said.nodes), "iterations": float(said.iterations)},
        start_used=said.start_taken,
    )


def _settings(options: SolveOptions, time_limit: float | None) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "threads": options.threads,
        "random_seed": options.seed,
        "mip_rel_gap": float(options.gap),
        "mip_abs_gap": 0.0,
    }
    if time_limit is not None:
        settings["time_limit"] = time_limit
    if options.work_limit is not None:
        settings["mip_max_nodes"] = math.ceil(min(options.work_limit, 2**31 - 1))
    return settings


def _listener(model: LinearModel, observer: Observer) -> Listen:
    def listen(point: NDArray[np.float64] | None, bound: float | None) -> bool:
        if point is not None:
            observer.incumbent(point, model.objective(point), bound)
        elif bound is not None and observer.wants_bounds:
            observer.bound(bound)
        return observer.raised is not None

    return listen

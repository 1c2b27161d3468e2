"""Backends that misbehave in a child process, each in its own way."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from typing import Any

import numpy as np

from apportion.core.errors import BackendUnavailable
from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models import LinearModel


def good(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Outcome:
    """Return the point of all zeros, honestly."""
    point = np.zeros(model.num_columns)
    return Outcome(
        termination=Termination.INTERRUPTED, raw_status="good", point=point, objective=model.objective(point)
    )


def returns_text(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    return "optimal"


def returns_none(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    return None


def returns_wrong_fields(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    return Outcome(
        termination="fine",  # type: ignore[arg-type]
        raw_status="",
        point="a point",  # type: ignore[arg-type]
        objective="much",  # type: ignore[arg-type]
    )


def returns_a_wrong_point(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    return Outcome(
        termination=Termination.OPTIMAL, raw_status="", point=np.full(3 * model.num_columns, np.nan)
    )


def returns_a_point_of_a_wrong_shape(
    model: LinearModel, options: SolveOptions, start: Any, observe: Any = None
) -> Any:
    return Outcome(termination=Termination.OPTIMAL, raw_status="", point=np.zeros((2, model.num_columns)))


def returns_an_infeasible_point(
    model: LinearModel, options: SolveOptions, start: Any, observe: Any = None
) -> Any:
    return Outcome(
        termination=Termination.OPTIMAL, raw_status="", point=np.full(model.num_columns, 1e9), objective=1e9
    )


def returns_what_cannot_be_pickled(
    model: LinearModel, options: SolveOptions, start: Any, observe: Any = None
) -> Any:
    return lambda: None


class _Bomb:
    def __reduce__(self) -> Any:
        return (int, ("not a number",))


def returns_what_cannot_be_unpickled(
    model: LinearModel, options: SolveOptions, start: Any, observe: Any = None
) -> Any:
    return _Bomb()


def raises(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    raise ZeroDivisionError("the solver crashed")


class _Unpicklable(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__("needs two arguments")
        self.hidden = threading.Lock()


def raises_what_cannot_be_pickled(
    model: LinearModel, options: SolveOptions, start: Any, observe: Any = None
) -> Any:
    raise _Unpicklable(1, 2)


def raises_on_purpose(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    raise BackendUnavailable("no licence")


def exits(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    os._exit(3)


def exits_politely(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    raise SystemExit(4)


def crashes(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    ctypes.string_at(0)


def streams_garbage(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    for point, objective, bound in (
        ("x", "y", "z"),
        (np.full(2, np.nan), 1e9, np.nan),
        (np.full(model.num_columns, 5.0), 1e12, np.inf),
        (None, None, None),
        (np.ones((3, 3)), None, True),
    ):
        observe(point, objective, bound, 0.0)
    raise ZeroDivisionError("after garbage")


def never_returns(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    observe(np.zeros(model.num_columns), 0.0, None, 0.0)
    while True:
        time.sleep(1.0)


def ignores_signals_and_spins(
    model: LinearModel, options: SolveOptions, start: Any, observe: Any = None
) -> Any:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass


def eats_memory(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    observe(np.zeros(model.num_columns), 0.0, None, 0.0)
    hoard = []
    while True:
        hoard.append(bytearray(16 * 2**20))


def says_its_path(model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Any:
    raise BackendUnavailable(str(os.getpid()))

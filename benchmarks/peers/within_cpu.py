"""A general solver in a process of its own that ends after so many processor seconds, not by the clock."""

from __future__ import annotations

import multiprocessing
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from apportion.core.extension_points import loaded
from apportion.core.options import Incumbent, SolveOptions
from apportion.core.outcome import Termination
from benchmarks.peers.task import Task
from benchmarks.suite.cell import InstanceSpec
from benchmarks.suite.making import make
from benchmarks.suite.sets import WARM_UP

__all__ = ["GENERAL", "Ended", "within_cpu"]

GENERAL = {
    "HiGHS": "apportion.solvers.general.highs:solve",
    "CP-SAT": "apportion.solvers.general.cp_sat:solve",
}
"""The general solvers by the names of their columns."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended.

    Attributes
    ----------
    value
        Of the best choice it told, ``None`` without one.
    proven
        Whether it proved that nothing is better.
    cpu_s
        Processor seconds; the limit where that ended it.
    """

    value: float | None
    proven: bool
    cpu_s: float


def within_cpu(name: str, spec: InstanceSpec, data: str | None, limit_s: float) -> Ended:
    """Let one of `GENERAL` solve an instance of menus, one thread, for so many processor seconds at most."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sending, GENERAL[name], spec, data, limit_s), daemon=True)
    process.start()
    sending.close()
    value: float | None = None
    try:
        while True:
            told = receiving.recv()
            if isinstance(told, Ended):
                return told
            value = told
    except EOFError:
        process.join()
        if process.exitcode != -signal.SIGPROF:
            raise RuntimeError(f"{name} ended with exit code {process.exitcode}") from None
        return Ended(value, False, limit_s)
    finally:
        process.kill()
        process.join()


def _child(told: Connection, reference: str, spec: InstanceSpec, data: str | None, limit_s: float) -> None:
    solve = loaded(reference)
    tiny, arguments = WARM_UP[spec.family]
    _called(solve, make(tiny, arguments, None), SolveOptions())
    instance = make(spec.maker, dict(spec.arguments), data)

    def tell(found: Incumbent) -> None:
        told.send(found.objective)

    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    began = time.process_time()
    outcome = _called(solve, instance, SolveOptions(on_incumbent=tell))
    took = time.process_time() - began
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    told.send(Ended(outcome.objective, outcome.termination is Termination.OPTIMAL, took))


def _called(solve: Any, instance: Any, options: SolveOptions) -> Any:
    """Write the model in the solver's terms and solve it."""
    return solve(Task(instance).formulation.lowered().model, options)

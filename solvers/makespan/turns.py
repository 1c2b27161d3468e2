"""One turn of a general engine at a makespan: from the incumbent, over the entries still open.

The engine runs in a child process with a hard deadline (HiGHS overruns its own in presolve); without a time
limit it runs here, bounded by its own units of work.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ApportionError
from apportion.models.assignment import Assignment
from apportion.models.assignment_lowering import LoweredAssignment, lower_assignment
from apportion.models.linear import LinearModel
from apportion.options import Incumbent, SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.assignment.restricted import restricted, spread
from apportion.solvers.general.guard import check_engines, usable

__all__ = ["ENGINES", "Loading", "Turn", "available", "take_turn"]

ENGINES = {
    "cp-sat": ("ortools", "apportion.solvers.general.cp_sat:solve", 4.0),
    "highs": ("highspy", "apportion.solvers.general.highs:solve", 2_000.0),
    "scip": ("ortools", "apportion.solvers.general.scip:solve", 2_000.0),
}
"""By name: package, entry, and the work of one turn without a clock (deterministic seconds, nodes)."""
_WITHIN = "apportion.solvers.makespan.within:solve"
_GRACE = 0.5
"""Seconds beyond its turn after which an engine is ended by force."""
_GRAIN = 2.0**20
"""Fractional times are rounded down to this many steps of the largest one, for CP-SAT."""


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """What a turn came to.

    Attributes
    ----------
    choice
        A schedule, or ``None``; not necessarily better.
    bound
        A lower bound on the makespan of every schedule that is better than the incumbent, or ``None``.
    exhausted
        Whether no schedule better than the incumbent, or than `choice`, is left.
    interrupted
        Whether Ctrl-C ended it.
    refused
        Whether the engine cannot take the model.
    """

    choice: NDArray[np.int64] | None
    bound: float | None
    exhausted: bool = False
    interrupted: bool = False
    refused: bool = False


def available() -> list[str]:
    """Return the engines that are installed and may be used."""
    return [name for name, (package, _, _) in ENGINES.items() if usable(package)]


class Loading:
    """Start the child process and import the engines in it, while this process goes on searching.

    Parameters
    ----------
    names
        Keys of `ENGINES`.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._thread = threading.Thread(target=self._load, args=(tuple(names),), daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until they are loaded, at most so long: a turn before that starts a child of its own."""
        self._thread.join(seconds)

    @staticmethod
    def _load(names: tuple[str, ...]) -> None:
        from apportion.models.builder import LinearModelBuilder
        from apportion.solvers.isolation.isolated import solve as isolated

        m = LinearModelBuilder("minimize")
        m.objective(m.binary("x", ()))
        one = m.build()
        for name in names:
            with suppress(ApportionError, OSError):
                isolated(_WITHIN, one, SolveOptions(time_limit=30.0), None, (ENGINES[name][1], 30.0))


def take_turn(
    name: str,
    lowered: LoweredAssignment,
    allowed: NDArray[np.bool_],
    incumbent: NDArray[np.int64],
    options: SolveOptions,
    seconds: float | None,
    left: float | None,
    tell: Callable[[float], None],
    least: float = 0.0,
    hunting: bool = False,
) -> Turn:
    """Let an engine improve on the incumbent, or prove that nothing is better.

    Parameters
    ----------
    name
        A key of `ENGINES`.
    lowered
        A makespan on single machines, and its linear model.
    allowed
        bool [entries]: what a better schedule may use.
    incumbent
        The schedule to begin with.
    options
        Gap, threads and seed of the turn.
    seconds
        Time limit of the turn, ``None`` to bound the engine's work instead.
    left
        Hard deadline: seconds until the whole call is over.
    tell
        Called with the makespan of every improvement, as the engine streams them.
    least
        A known lower bound: a schedule that meets it ends the turn.
    hunting
        Whether to look for any schedule that ends at least one whole unit earlier, without a start.
    """
    package, entry, work = ENGINES[name]
    check_engines(package)
    model = lowered.assignment
    scale = 1.0
    if name == "cp-sat" and not _whole(model):
        lowered, scale = _floored(model)
    columns = lowered.model.num_columns
    top = model.objective(incumbent)
    point = lowered.point(incumbent)
    keep = np.flatnonzero(np.append(allowed, True) | (point > 0))
    # a better schedule's rounded times may add up to more than the incumbent's
    ceiling = math.floor(top * scale) if scale != 1.0 else top - 1 if hunting else top
    part = restricted(lowered.model, keep, ceiling)
    part.lower[-1] = max(float(part.lower[-1]), min(math.floor(least * scale), ceiling))
    streamed = None
    if options.on_incumbent is not None and scale == 1.0:

        def streamed(found: Incumbent) -> None:
            tell(found.objective)

    hard = None if seconds is None or left is None else max(min(seconds + _GRACE, left), 1e-3)
    told = replace(
        options, time_limit=hard, on_incumbent=streamed, work_limit=work if seconds is None else None
    )
    outcome = _run(entry, part, told, None if hunting else point[keep], seconds)
    if hunting and outcome.termination is Termination.INFEASIBLE:
        return Turn(None, top, exhausted=True)
    if outcome.termination is Termination.ERROR:
        return Turn(None, None, refused=True)
    choice = None
    if outcome.point is not None:
        found = lowered.choice(spread(np.asarray(outcome.point, dtype=np.float64), keep, columns))
        choice = found if model.check(found).feasible else None
    bound = None if outcome.bound is None else outcome.bound / scale
    done = choice is not None and outcome.termination is Termination.OPTIMAL
    done = done and options.gap == 0 and scale == 1.0
    # a child hears no Ctrl-C; CP-SAT also calls a search interrupted that just gave up early
    stopped = outcome.termination is Termination.INTERRUPTED
    stopped = stopped and (seconds is None or outcome.raw_status == "KeyboardInterrupt")
    return Turn(choice, bound, done, stopped)


def _run(
    entry: str,
    part: LinearModel,
    options: SolveOptions,
    start: NDArray[np.float64] | None,
    seconds: float | None,
) -> Outcome:
    from apportion.solvers.isolation.isolated import solve as isolated

    if seconds is not None:
        return isolated(_WITHIN, part, options, start, (entry, max(seconds, 0.01)))
    from importlib import import_module

    module, function = entry.split(":")
    outcome: Outcome = getattr(import_module(module), function)(part, options, start)
    return outcome


def _whole(model: Assignment) -> bool:
    return bool((model.values == np.rint(model.values)).all())


def _floored(model: Assignment) -> tuple[LoweredAssignment, float]:
    """Return the model with its times rounded down to whole steps, which bounds it from below."""
    largest = float(model.values.max(initial=0.0))
    scale = 2.0 ** math.floor(math.log2(_GRAIN / largest)) if largest > 0 else 1.0
    return lower_assignment(replace(model, values=np.floor(model.values * scale))), scale

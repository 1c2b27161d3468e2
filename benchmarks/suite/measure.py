"""One cell, measured in this process: read, compile, hand over, solve, check, each timed apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import apportion
from apportion.core.errors import ApportionError, BackendUnavailable
from apportion.core.extension_points import loaded
from apportion.core.options import Incumbent
from apportion.core.solution import Solution
from benchmarks.peers.task import Answer, CannotTake, Limits, Task, Watch
from benchmarks.solved import solved
from benchmarks.suite.cell import REPEATED_BELOW_S, Cell, SolverSpec
from benchmarks.suite.machine import ChildrenClock, peak_mib, versions
from benchmarks.suite.making import NoData, make
from benchmarks.suite.proving import evidence_of
from benchmarks.suite.sets import WARM_UP
from benchmarks.suite.solvers import OURS

__all__ = ["Attempt", "measure"]

_LONGEST_TRACE = 200


@dataclass(slots=True)
class Attempt:
    """One call as it went. `trace` holds seconds, objective and bound, each of the two possibly ``None``.

    `beside_s` is what our own search behind a general solver took: no part of that solver's time.
    """

    termination: str
    reason: str
    plan: Any = None
    claimed: float | None = None
    bound: float | None = None
    verified_bound: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    seconds: float | None = None
    cpu_s: float | None = None
    beside_s: float = 0.0
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    solution: Solution | None = None


def measure(cell: Cell, stage: Callable[[str], None]) -> dict[str, Any]:
    """Return the measured part of a row; `stage` is told when the next stage begins.

    The first call is traced. If it is short, further calls without a trace give the samples.
    """
    solver = cell.solver
    found = versions(solver.packages)
    missing = [name for name in solver.packages if found[name] is None]
    if missing:
        reason = f"{', '.join(missing)} not installed"
        return {"termination": "unavailable", "told": reason, "versions": found}
    stage("warm_up")
    _warm_up(cell)
    stage("make")
    try:
        instance, read_s = _instance(cell)
    except NoData as error:
        return {"termination": "no_data", "told": str(error), "versions": found}
    base = peak_mib()
    stage("solve")
    first = _call(solver, instance, cell, traced=True)
    samples = [] if first.seconds is None else [first.seconds]
    cpu_samples = [first.cpu_s]
    best = first
    if first.plan is not None and first.seconds is not None and first.seconds < REPEATED_BELOW_S:
        for _ in range(cell.repeats - 1):
            again = _call(solver, instance, cell, traced=False)
            if again.seconds is None or again.termination != first.termination:
                break
            samples.append(again.seconds)
            cpu_samples.append(again.cpu_s)
            best = again if again.seconds < min(samples[:-1]) else best
    peak = peak_mib()
    stage("check")
    row: dict[str, Any] = {
        "termination": first.termination,
        "told": first.reason,
        "seconds": min(samples) if samples else None,
        "samples": samples,
        "cpu_samples": cpu_samples if samples else [],
        "phases": {"read": read_s, **best.phases},
        "claimed": first.claimed,
        "bound": first.bound,
        "verified_bound": first.verified_bound,
        "trace": _thinned(first.trace),
        "base_mib": base,
        "peak_mib": peak,
        "versions": found,
        "maximizes": _maximizes(instance),
        **_shape(instance),
    }
    row.update(_verdict(instance, first.plan))
    if solver.name == OURS and first.solution is not None:
        stage("proof")
        row.update(evidence_of(first.solution, cell.proof_s))
    return row


def _warm_up(cell: Cell) -> None:
    """Import what the solver needs and pay its first-call costs."""
    maker, arguments = WARM_UP[cell.instance.family]
    tiny = make(maker, arguments, None)
    for _ in range(2):
        _call(cell.solver, tiny, cell, traced=False, limit_s=5.0)


def _instance(cell: Cell) -> tuple[Any, float | None]:
    """Return the instance, and the seconds it took to read it from its file or from JSON in memory."""
    import msgspec

    spec = cell.instance
    began = time.perf_counter()
    made = make(spec.maker, dict(spec.arguments), cell.data)
    if spec.maker in ("file", "summit"):
        return made, time.perf_counter() - began
    if not isinstance(made, msgspec.Struct):
        return made, None
    text = msgspec.json.encode(made)
    began = time.perf_counter()
    read = apportion.read(text)
    return read, time.perf_counter() - began


def _call(
    solver: SolverSpec, instance: Any, cell: Cell, traced: bool, limit_s: float | None = None
) -> Attempt:
    limit = cell.limit_s if limit_s is None else limit_s
    before = ChildrenClock.now()
    began, cpu_began = time.perf_counter(), time.process_time()
    try:
        call = (
            _ours(solver, instance, cell, traced, limit)
            if solver.ours
            else _peer(solver, instance, cell, limit)
        )
        cpu_s = time.process_time() - cpu_began + ChildrenClock.now().since(before)
        # what ran beside it was timed by the wall's clock: its share of the processor is taken to be as great
        whole_s = (call.seconds or 0.0) + call.beside_s
        call.cpu_s = cpu_s if whole_s <= 0.0 else cpu_s * (1.0 - call.beside_s / whole_s)
        return call
    except CannotTake as error:
        return Attempt("cannot_take", str(error))
    except (BackendUnavailable, ImportError) as error:
        return Attempt("unavailable", str(error))
    except MemoryError:
        return Attempt("memory_limit", "MemoryError", seconds=time.perf_counter() - began)
    except Exception as error:
        return Attempt("error", f"{type(error).__name__}: {error}", seconds=time.perf_counter() - began)


def _ours(solver: SolverSpec, instance: Any, cell: Cell, traced: bool, limit: float) -> Attempt:
    watch = Watch()

    def saw(incumbent: Incumbent) -> None:
        watch.saw(incumbent.objective, incumbent.bound)

    solution = solved(
        instance,
        backend=solver.backend,
        formulation=solver.formulation,
        time_limit=limit,
        gap=cell.instance.gap,
        threads=cell.threads,
        seed=cell.seed,
        on_incumbent=saw if traced else None,
    )
    tested = solution.times.get("cross_check", 0.0)  # our own search behind a general solver: not its time
    phases = {
        name: seconds for name, seconds in solution.times.items() if name not in ("total", "cross_check")
    }
    outcome = solution.outcome
    if outcome is not None and "hand_over" in outcome.seconds:
        phases["hand_over"] = outcome.seconds["hand_over"]
        phases["solve"] = max(phases["solve"] - phases["hand_over"], 0.0)
    seconds = solution.times["total"] - tested
    watch.trace.append((seconds, solution.objective, solution.bound))
    return Attempt(
        termination=solution.termination.value,
        reason="; ".join(solution.notes),
        plan=solution.plan,
        claimed=solution.objective,
        bound=solution.bound,
        verified_bound=solution.certificate.verified_bound,
        phases=phases,
        seconds=seconds,
        beside_s=tested,
        trace=watch.trace,
        solution=solution,
    )


def _peer(solver: SolverSpec, instance: Any, cell: Cell, limit: float) -> Attempt:
    assert solver.peer is not None
    solve = loaded(solver.peer)
    began = time.perf_counter()
    task = Task(instance)
    _ = task.model
    compiled = time.perf_counter() - began
    limits = Limits(max(limit - compiled, 0.01), cell.instance.gap, cell.threads, cell.seed)
    answer: Answer = solve(task, limits)
    answered = time.perf_counter()
    plan = answer.plan if answer.plan is not None or answer.x is None else task.plan(answer.x)
    decoded = time.perf_counter()
    status = answer.raw_status
    if plan is not None:
        try:
            apportion.check(instance, plan)
        except ApportionError as error:
            status, plan = f"{status}; its plan cannot be checked: {error}", None
    ended = time.perf_counter()
    watch = answer.watch
    phases = {
        "compile": compiled + watch.seconds.get("build", 0.0),
        "solve": watch.seconds.get("solve", 0.0),
        "decode": watch.seconds.get("read_back", 0.0) + decoded - answered,
        "check": ended - decoded,
    }
    trace = [(compiled + at, objective, bound) for at, objective, bound in watch.trace]
    return Attempt(
        termination=answer.termination.value,
        reason=status,
        plan=plan,
        claimed=answer.objective,
        bound=answer.bound,
        phases=phases,
        seconds=ended - began,
        trace=trace,
    )


def _verdict(instance: Any, plan: Any) -> dict[str, Any]:
    """Return what our checker says of the plan, and its objective: nobody's own figure is taken."""
    if plan is None:
        return {"objective": None, "check": None}
    report = apportion.check(instance, plan)
    broken = [str(violation) for violation in report.violations[:3]]
    verdict = {"feasible": report.feasible, "objective": report.objective, "violations": broken}
    return {"objective": report.objective if report.feasible else None, "check": verdict}


def _maximizes(instance: Any) -> bool:
    from apportion.solving.call import kind_of_any

    return bool(kind_of_any(instance).maximizes(instance))


def _shape(instance: Any) -> dict[str, int]:
    """Return how many jobs, options and capacities the compiled instance has."""
    model = Task(instance).model
    return {"jobs": model.num_jobs, "options": model.num_options, "capacities": model.num_capacities}


def _thinned(
    trace: list[tuple[float, float | None, float | None]],
) -> list[tuple[float, float | None, float | None]]:
    if len(trace) <= _LONGEST_TRACE:
        return trace
    step = len(trace) / _LONGEST_TRACE
    return [trace[int(k * step)] for k in range(_LONGEST_TRACE - 1)] + [trace[-1]]

"""Solve and check: the only place that joins formulation, solver and checker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion import registry
from apportion.arrays import ARRAYS, ArrayFormulation
from apportion.bare_assignment import ASSIGNMENT, AssignmentFormulation
from apportion.certify import certified_bound, usable
from apportion.errors import ApportionError, InvalidOption
from apportion.formulations.protocol import AssignmentFormulation as _Assigned
from apportion.formulations.protocol import KnapsackFormulation, LinearFormulation
from apportion.instances.kinds import Instance, Kind, kind_of
from apportion.instances.ordering import in_id_order
from apportion.judge import judge
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import Incumbent, SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.report import Report
from apportion.solution import Certificate, Solution
from apportion.structure import StructuredModel, magnitude, point_type, repaired, start, structured

__all__ = ["check", "solve"]


def check(instance: Instance | MultipleChoiceKnapsack | Assignment, plan: Any) -> Report:
    """Check a plan against its instance: every rule by name, and the objective recomputed.

    Parameters
    ----------
    instance
        An instance, or a bare `MultipleChoiceKnapsack` or `Assignment`.
    plan
        The plan as it stands in JSON, or the point of a bare model.

    Returns
    -------
    Report
        ``feasible``, ``objective`` and ``violations``.
    """
    return _kind(instance).check(instance, plan)


def solve(
    instance: Instance | MultipleChoiceKnapsack | Assignment,
    backend: str | registry.Backend = "auto",
    time_limit: float | None = 10.0,
    gap: float = 0.0,
    threads: int = 1,
    seed: int = 0,
    warm_start: Any = None,
    deterministic: bool = False,
    work_limit: float | None = None,
    on_incumbent: Callable[[Incumbent], None] | None = None,
    *,
    formulation: str | None = None,
) -> Solution:
    """Decide what every job gets, and prove as much of it as can be proven.

    Parameters
    ----------
    instance
        An instance, or a `MultipleChoiceKnapsack` or `Assignment` from `from_arrays`.
    backend
        ``"auto"``, a name of the registry (``exact``, ``highs``, ``cp-sat``, ``scip``, ``pyomo:NAME``), or a
        `Backend` of your own.
    time_limit
        Wall-clock seconds for the whole call; ``None`` for no limit. With `deterministic` it is not used.
    gap
        Relative gap at which to stop; 0 asks for a proof of optimality.
    threads
        Threads of a general solver.
    seed
        Random seed.
    warm_start
        An earlier `Solution`, stored document or plan; what still fits is the first incumbent, and its
        multipliers are where the search for this instance's begins.
    deterministic
        No clock decides anything, and the order in which jobs and options were listed decides nothing: same
        content, same answer. Bound the work with `work_limit`.
    work_limit
        Limit in the solver's own deterministic units.
    on_incumbent
        Called with every improving `Incumbent`.
    formulation
        Name of the formulation; the kind's first one by default.

    Returns
    -------
    Solution
        Its plan passed the checker; `Solution.require` raises if there is none.

    Raises
    ------
    InvalidOption
        If an option is out of range or does not fit the instance.
    BackendUnavailable
        If the backend is unknown, missing, or cannot take this formulation.

    Examples
    --------
    >>> import apportion
    >>> model = apportion.MultipleChoiceKnapsack.from_arrays(
    ...     values=[3.0, 4.0, 2.0], uses=[2, 4, 2], offsets=[0, 2, 3], capacities=[4]
    ... )
    >>> solution = apportion.solve(model)
    >>> solution.termination.value, solution.objective, solution.plan.tolist()
    ('optimal', 5.0, [0, 2])
    """
    began = time.perf_counter()
    options = SolveOptions(
        time_limit=None if deterministic else time_limit,
        gap=gap,
        threads=threads,
        seed=seed,
        deterministic=deterministic,
        work_limit=work_limit,
        on_incumbent=on_incumbent,
    )
    kind = _kind(instance)
    entry = registry.formulation(kind.name, formulation)
    if deterministic and not isinstance(instance, MultipleChoiceKnapsack | Assignment):
        ordered: Instance | MultipleChoiceKnapsack | Assignment = in_id_order(instance)
    else:
        ordered = instance
    run = _Run(instance, kind, options, _compile(ordered, kind, None), began)
    chosen, reason = _choose(backend, entry)
    run.lap("compile")
    run.take_warm_start(warm_start)
    run.lap("start")
    outcome = _attempt(run, chosen, ordered, entry)
    return _conclude(run, chosen, reason, outcome)


@dataclass(slots=True)
class _Run:
    """The state of one solve call: what is known so far and when it began."""

    instance: Any
    kind: Kind
    options: SolveOptions
    structure: KnapsackFormulation | _Assigned
    began: float
    incumbent: NDArray[Any] | None = None
    multipliers: NDArray[np.float64] | None = None
    plan: Any = None
    report: Report | None = None
    restricted: bool = False
    times: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def model(self) -> StructuredModel:
        """The structured model: the menus or the assignment."""
        model: StructuredModel = structured(self.structure)
        return model

    def lap(self, phase: str) -> None:
        """Book the time since the last lap under a phase, on top of what stands there."""
        since = time.perf_counter() - self.began - sum(self.times.values())
        self.times[phase] = self.times.get(phase, 0.0) + since

    def remaining(self) -> SolveOptions:
        """Return the options with the time that is left of the limit."""
        if self.options.time_limit is None:
            return self.options
        left = self.options.time_limit - (time.perf_counter() - self.began)
        return replace(self.options, time_limit=max(left, 1e-3))

    def take_warm_start(self, given: Any) -> None:
        """Carry an earlier plan over to this instance, as far as it fits."""
        if given is None:
            return
        earlier, prices = _earlier(given)
        rows = None if earlier is None else self.structure.choice(earlier)
        if rows is None:
            self.notes.append("the warm start is no plan of this kind of instance")
            return
        self.incumbent = repaired(self.model, rows)
        if self.incumbent is None:
            self.notes.append("the warm start could not be repaired into this instance")
        known = [prices.get(name) for name in self.model.capacity_names]
        if prices and all(isinstance(price, int | float) for price in known):
            self.multipliers = np.array(known, dtype=np.float64)


def _earlier(given: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the plan and the multipliers of an earlier `Solution`, stored document or plan."""
    if isinstance(given, Solution):
        return given.plan, given.certificate.multipliers or {}
    if isinstance(given, Mapping) and "plan" in given:
        certificate = given.get("certificate")
        prices = certificate.get("multipliers") if isinstance(certificate, Mapping) else None
        return given["plan"], prices if isinstance(prices, Mapping) else {}
    return given, {}


def _kind(instance: Any) -> Kind:
    if isinstance(instance, Assignment):
        return ASSIGNMENT
    return ARRAYS if isinstance(instance, MultipleChoiceKnapsack) else kind_of(instance)


def _compile(instance: Any, kind: Kind, name: str | None) -> Any:
    if kind is ARRAYS:
        return ArrayFormulation(instance)
    if kind is ASSIGNMENT:
        return AssignmentFormulation(instance)
    return registry.formulation(kind.name, name).compile(instance)


def _choose(
    backend: str | registry.Backend, entry: registry.FormulationEntry
) -> tuple[registry.Backend, str]:
    if isinstance(backend, registry.Backend):
        chosen, reason = backend, "given by the caller"
    elif backend == "auto":
        name = "highs" if entry.produces == "linear" else "exact"
        why = {
            "knapsack": "the formulation is a multiple-choice knapsack, which the exact solver takes whole",
            "assignment": "the formulation is an assignment, which our own solvers take as it is",
            "linear": "the formulation is a general MILP",
        }[entry.produces]
        return registry.backend(name, entry.produces), f"auto: {why}"
    else:
        chosen, reason = registry.backend(backend, entry.produces), "asked for"
    if chosen.accepts not in ("linear", entry.produces):
        raise InvalidOption(
            f"backend {chosen.name!r} takes {chosen.accepts}s; formulation {entry.name!r} is a "
            f"{entry.produces} model, choose highs, cp-sat or scip"
        )
    return chosen, reason


def _attempt(run: _Run, chosen: registry.Backend, instance: Any, entry: registry.FormulationEntry) -> Outcome:
    """Run the backend, decode and check what it returns; whatever it does, the incumbent survives."""
    model = run.model
    if chosen.accepts == entry.produces != "linear":
        outcome = _guarded(run, chosen, model, run.incumbent)
        run.lap("solve")
        _accept_choice(run, outcome.point)
        return outcome
    _begin(run)
    if entry.produces == "linear":
        linear: LinearFormulation = _compile(instance, run.kind, entry.name)
        run.restricted = not linear.exact
        known = None if run.incumbent is None else run.structure.plan(run.incumbent)
        start = None if known is None else linear.point(known)
        run.lap("start")
        outcome = _guarded(run, chosen, linear.model, start)
        run.lap("solve")
        if _well_formed(run, outcome.point, linear.model.num_columns):
            _accept_plan(run, linear.plan(np.asarray(outcome.point, dtype=np.float64)))
        return outcome
    lowered = run.structure.lowered()
    start = None if run.incumbent is None else lowered.point(run.incumbent)
    run.lap("start")
    outcome = _guarded(run, chosen, lowered.model, start)
    run.lap("solve")
    if _well_formed(run, outcome.point, lowered.model.num_columns):
        _accept_choice(run, lowered.choice(np.asarray(outcome.point, dtype=np.float64)))
    return outcome


def _begin(run: _Run) -> None:
    """Find a greedy incumbent and multipliers before a general solver starts."""
    greedy, multipliers = start(run.model)
    run.incumbent = _better(run, run.incumbent, greedy)
    if multipliers is not None:
        run.multipliers = multipliers


def _better(run: _Run, first: NDArray[Any] | None, second: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return the incumbent with the better objective, the first of equals."""
    if first is None or second is None:
        return second if first is None else first
    sign = 1.0 if run.kind.maximizes(run.instance) else -1.0
    worse = sign * run.model.objective(second) > sign * run.model.objective(first)
    return second if worse else first


def _guarded(run: _Run, chosen: registry.Backend, model: Any, start: Any) -> Outcome:
    """Call a backend; its failures become outcomes, the caller's own exceptions pass through."""
    solve_model = chosen.load()
    relay = _Relay(run.options.on_incumbent)
    options = run.remaining()
    if run.options.on_incumbent is not None:
        options = replace(options, on_incumbent=relay)
    try:
        if chosen.name == "exact" and chosen.accepts == "knapsack":
            return solve_model(
                model, options, start, preferred=run.structure.preferred(), hint=run.multipliers
            )
        if chosen.general and isinstance(chosen.solve, str) and options.time_limit is not None:
            from apportion.solvers.isolated import solve as isolated

            return isolated(chosen.solve, model, options, start, chosen.extra)
        if chosen.extra:
            return solve_model(model, options, start, *chosen.extra)
        return solve_model(model, options, start)
    except KeyboardInterrupt:
        return Outcome(termination=Termination.INTERRUPTED, raw_status="KeyboardInterrupt")
    except MemoryError:
        return Outcome(termination=Termination.MEMORY_LIMIT, raw_status="MemoryError")
    except ApportionError:
        raise
    except Exception as error:
        if relay.raised is not None:
            raise relay.raised from None
        run.notes.append(f"backend {chosen.name} failed: {type(error).__name__}: {error}")
        return Outcome(termination=Termination.ERROR, raw_status=repr(error))


class _Relay:
    """The caller's callback, remembering the exception it raised."""

    def __init__(self, target: Callable[[Incumbent], None] | None) -> None:
        self._target = target
        self.raised: BaseException | None = None

    def __call__(self, incumbent: Incumbent) -> None:
        if self._target is None:
            return
        try:
            self._target(incumbent)
        except BaseException as error:
            self.raised = error
            raise


def _well_formed(run: _Run, point: Any, length: int) -> bool:
    if point is None:
        return False
    array = np.asarray(point)
    if array.dtype.kind in "fiu" and array.shape == (length,) and np.isfinite(array).all():
        return True
    run.notes.append(f"the backend's point is not {length} finite numbers")
    return False


def _accept_choice(run: _Run, point: Any) -> None:
    if point is None:
        return
    report = run.model.check(point)
    if report.feasible:
        _accept_plan(run, run.structure.plan(np.asarray(point, dtype=point_type(run.model))))
    else:
        run.report = report
        run.notes.append(f"the backend's point fails the check: {report.violations[0]}")


def _accept_plan(run: _Run, plan: Any) -> None:
    report = run.kind.check(run.instance, plan)
    run.report = report
    if report.feasible:
        run.plan = plan
    else:
        run.notes.append(f"the backend's plan fails the check: {report.violations[0]}")


def _conclude(run: _Run, chosen: registry.Backend, reason: str, outcome: Outcome) -> Solution:
    """Keep the better of the backend's plan and the incumbent, then weigh every claim."""
    maximizes = run.kind.maximizes(run.instance)
    _prefer_incumbent(run, maximizes)
    multipliers, verified = _verified(run, outcome, maximizes, chosen.name == "exact")
    termination, claimed = outcome.termination, outcome.bound
    if run.restricted:
        claimed = None
        if termination in (Termination.OPTIMAL, Termination.GAP_REACHED, Termination.INFEASIBLE):
            termination = Termination.SOLUTION_LIMIT
            run.notes.append("the formulation restricts the instance: its bound proves nothing here")
    objective = run.report.objective if run.plan is not None and run.report is not None else None
    verdict = judge(
        maximizes=maximizes,
        objective=objective,
        magnitude=_magnitude(run, objective),
        claimed=termination,
        claimed_bound=claimed,
        claimed_source=outcome.bound_source,
        verified_bound=verified,
        asked_gap=run.options.gap,
    )
    run.lap("check")
    run.times["total"] = time.perf_counter() - run.began
    names = run.model.capacity_names
    priced = (
        None
        if verified is None or multipliers is None
        else dict(zip(names, multipliers.tolist(), strict=True))
    )
    return Solution(
        instance=run.instance,
        backend=chosen.name,
        reason=reason,
        termination=verdict.termination,
        plan=run.plan,
        report=run.report,
        certificate=Certificate(objective, verdict.bound, verdict.source, verified, priced),
        outcome=outcome,
        times=run.times,
        seed=run.options.seed,
        packages=chosen.packages,
        notes=(*run.notes, *verdict.notes),
    )


def _prefer_incumbent(run: _Run, maximizes: bool) -> None:
    found = run.report.objective if run.plan is not None and run.report is not None else None
    if run.incumbent is None or (run.restricted and found is not None):
        return  # who asks for a restricted formulation wants its answer
    own = run.model.objective(run.incumbent)
    if found is not None and (own <= found if maximizes else own >= found):
        return
    plan = run.structure.plan(run.incumbent)
    report = run.kind.check(run.instance, plan)
    if report.feasible:
        run.plan, run.report = plan, report


def _verified(
    run: _Run, outcome: Outcome, maximizes: bool, ours: bool
) -> tuple[NDArray[np.float64] | None, float | None]:
    """Return the multipliers with the tightest verified bound, the solver's or our own."""
    best: tuple[NDArray[np.float64] | None, float | None] = (None, None)
    fresh = usable(outcome.multipliers, run.model.num_capacities) and outcome.bound is not None
    # an engine of ours that reports a bound has optimised its multipliers; an earlier round's add nothing
    for candidate in (outcome.multipliers,) if fresh and ours else (outcome.multipliers, run.multipliers):
        if not usable(candidate, run.model.num_capacities):
            continue
        bound = certified_bound(run.kind, run.instance, run.structure, candidate)
        if bound is not None and (best[1] is None or (bound < best[1] if maximizes else bound > best[1])):
            best = (candidate, bound)
    return best


def _magnitude(run: _Run, objective: float | None) -> float:
    if objective is None:
        return 0.0
    return magnitude(run.model, run.structure.choice(run.plan), objective)

"""One solve call from an instance to its weighed answer: compile, ask, check, conclude, test the claim.

The backend is the one that was asked for, or the registry's own choice. An earlier answer is carried over:
its plan is the first incumbent, its multipliers are a hint. The better of the backend's plan and the
incumbent is kept, then every claim is weighed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from apportion.core.errors import BackendUnavailable, InvalidOption
from apportion.core.extension_points import loaded
from apportion.core.interruption import defer_interrupt, released
from apportion.core.options import KnownBound, Multipliers, SolveOptions, Start
from apportion.core.outcome import Outcome, Termination
from apportion.core.solution import Certificate, GoalResult, Solution
from apportion.formulations.protocol import (
    AssignmentFormulation,
    Formulation,
    KnapsackFormulation,
    LinearFormulation,
    PlacedFormulation,
)
from apportion.formulations.tenants import PlacedTenantedMenus, TenantedMenus
from apportion.instances import kind_of
from apportion.instances.tenants.check import with_what_is_kept
from apportion.instances.tenants.ledger import is_tenanted
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.general.guard import engines_noted
from apportion.solving import registry
from apportion.solving.attempt import attempt
from apportion.solving.call import (
    Call,
    Log,
    Subject,
    alternative,
    entry_of,
    kind_of_any,
    levels_entry_of,
)
from apportion.solving.compiled_model import (
    AssignmentRelaxation,
    BareAssignment,
    BareMenus,
    CompiledAssignment,
    CompiledKnapsack,
    CompiledModel,
    rows_of,
)
from apportion.solving.exact_recheck import SHARE, cross_check, cross_checked, decided_exactly, untested
from apportion.solving.judge import (
    Attempt,
    Checked,
    certified_bound,
    closed,
    is_decided,
    is_open,
    judge,
    usable,
)
from apportion.solving.on_nodes import PlacedStructure
from apportion.solving.registry import Backend, FormulationEntry, formulation

__all__ = [
    "Compiler",
    "chosen_backend",
    "compiled",
    "conclude",
    "known_prices",
    "may_make",
    "menus_of_tenants",
    "solved",
    "start_from",
    "structure_of",
    "structured",
]


_CLAIMS = (Termination.OPTIMAL, Termination.GAP_REACHED, Termination.INFEASIBLE, Termination.NUMERICAL_ERROR)

_SAME = 1e-12
"""Relative difference of objectives that counts as none."""
_FIRST_FIT = (0.3, 0.1)
"""Shares of the time left in which every job is placed once, and in which that is made better."""
_TRIED, _TRIED_S = 0.2, 2.0
"""Share of the time in which another formulation is tried, and seconds where there is no limit."""
_SHORT = 0.1
"""Seconds left from which on a search begins with what runs,"""
_MANY_OPTIONS = 20_000
"""or options from which on it does."""

Compiler = Callable[[Subject, FormulationEntry], CompiledModel]
"""From an instance and an entry of the registry to the structured model."""


def compiled(subject: Subject, entry: FormulationEntry) -> Formulation:
    """Return the formulation of an instance as an entry of the registry says, a bare model's as it is."""
    if isinstance(subject, MultipleChoiceKnapsack):
        return BareMenus(subject)
    if isinstance(subject, Assignment):
        return BareAssignment(subject)
    if not is_tenanted(subject):
        return entry.compile(subject)
    found = entry.compile(with_what_is_kept(kind_of(subject), subject))
    if entry.levels is not None:  # its rows are the limits of tenants
        return found
    if entry.produces != "knapsack":
        raise InvalidOption(f"formulation {entry.name!r} knows no tenants; leave it out, or remove them")
    if entry.on_nodes:
        return PlacedTenantedMenus(cast(PlacedFormulation, found), subject)
    return TenantedMenus(cast(KnapsackFormulation, found), subject)


def structured(
    subject: Subject,
    entry: FormulationEntry,
    compile: Callable[[Subject, FormulationEntry], Formulation] = compiled,
) -> CompiledModel:
    """Return the structured model of an instance as an entry says; for a linear entry, its kind's first.

    A linear formulation is solved beside it: the structured model carries plans over, and certifies.

    Parameters
    ----------
    subject, entry
        What is compiled, and how.
    compile
        What `compiled` does, where somebody remembers earlier formulations.
    """
    if entry.levels is not None and entry.produces == "linear":
        plain = formulation(kind_of_any(subject).name, None).compile(subject)
        return AssignmentRelaxation(cast(AssignmentFormulation, plain))
    if entry.produces == "linear":
        entry = formulation(kind_of_any(subject).name, None)
    found = compile(subject, entry)
    return structure_of(found, entry)


def menus_of_tenants(subject: Subject, name: str | None) -> Formulation:
    """Return the menus in which the levels of tenants are asked; see `entry_of`."""
    return compiled(subject, levels_entry_of(subject, name))


def structure_of(found: Formulation, entry: FormulationEntry) -> CompiledModel:
    """Return the structured model of a formulation that an entry has made."""
    if entry.produces == "assignment":
        return CompiledAssignment(cast(AssignmentFormulation, found))
    if entry.on_nodes:
        return PlacedStructure(cast(PlacedFormulation, found))
    return CompiledKnapsack(cast(KnapsackFormulation, found))


def start_from(structure: CompiledModel, given: object, log: Log, running: Sequence[object] = ()) -> Start:
    """Carry an earlier plan over to this instance, as far as it fits.

    Parameters
    ----------
    structure
        The instance's structured model.
    given
        An earlier `Solution`, stored document or plan; ``None`` for none.
    log
        Takes a note where nothing fits.
    running
        Where none is given a search begins with the first of these that is a plan.
    """
    if given is None:
        points = (structure.point(plan) for plan in running)
        return Start(next((one for one in points if one is not None and structure.check(one).feasible), None))
    earlier, prices = _earlier(given)
    near = None if earlier is None else structure.point(earlier)
    if near is None:
        log.note("the warm start is no plan of this kind of instance")
        return Start()
    point = structure.repaired(near)
    if point is None:
        log.note("the warm start could not be repaired into this instance")
    return Start(point, hint=known_prices(structure, prices))


def known_prices(structure: CompiledModel, prices: Mapping[str, object]) -> Multipliers | None:
    """Return earlier multipliers by name as those of this model, ``None`` unless all are known and finite."""
    known = [_finite(prices.get(name)) for name in structure.capacity_names]
    return np.array(known, dtype=np.float64) if prices and None not in known else None


def _finite(price: object) -> float | None:
    """Return a stored multiplier as a double, ``None`` where it is no number that one holds."""
    if not isinstance(price, int | float):
        return None
    try:
        known = float(price)
    except OverflowError:
        return None
    return known if math.isfinite(known) else None


def _earlier(given: object) -> tuple[object, Mapping[str, object]]:
    """Return the plan and the multipliers of an earlier `Solution`, stored document or plan."""
    if isinstance(given, Solution):
        return given.plan, given.certificate.multipliers or {}
    if isinstance(given, Mapping) and "plan" in given:
        certificate = given.get("certificate")
        prices = certificate.get("multipliers") if isinstance(certificate, Mapping) else None
        return given["plan"], prices if isinstance(prices, Mapping) else {}
    return given, {}


def conclude(call: Call, backend: Backend, reason: str, tried: Attempt, engines: Set[str]) -> Solution:
    """Keep the better of the backend's plan and the incumbent, then weigh every claim."""
    checked = _better_checked(call, tried) or _as_it_runs(call, tried)
    multipliers, verified = _verified(call, tried, backend.own_prices)
    named = f"backend {backend.name}"
    if tried.outcome.termination is Termination.ERROR and not any(named in note for note in call.log.notes):
        call.log.note(f"{named}: {tried.outcome.raw_status}")
    termination, claimed = tried.outcome.termination, tried.outcome.bound
    if tried.restricted:
        claimed = None
        if termination in (Termination.OPTIMAL, Termination.GAP_REACHED, Termination.INFEASIBLE):
            termination = Termination.SOLUTION_LIMIT
            call.log.note("the formulation restricts the instance: its bound proves nothing here")
    if claimed is not None and not tried.exact:  # it is of the model, whose values are rounded
        error = tried.structure.value_error
        claimed += error if call.maximizes else -error
    objective = None if checked is None else checked.objective
    verdict = judge(
        maximizes=call.maximizes,
        objective=objective,
        claimed=termination,
        claimed_bound=claimed,
        claimed_source=tried.outcome.bound_source,
        verified_bound=verified,
        asked_gap=call.options.gap,
    )
    optimal = verdict.termination is Termination.OPTIMAL
    call.log.lap("check")
    names = tried.structure.capacity_names
    priced = None if multipliers is None else dict(zip(names, multipliers.tolist(), strict=True))
    return Solution(
        instance=call.instance,
        backend=backend.name,
        reason=reason,
        termination=verdict.termination,
        plan=None if checked is None else checked.plan,
        report=None if checked is None else checked.report,
        certificate=Certificate(objective, verdict.bound, verdict.source, verified, priced),
        outcome=tried.outcome,
        times={**call.log.times, "total": call.log.elapsed},
        seed=call.options.seed,
        packages=(*backend.packages, *sorted(engines)),
        notes=(*call.log.notes, *verdict.notes),
        goals=tuple(_recounted(call, checked, _goals(call, tried, checked, optimal))),
    )


def _recounted(call: Call, checked: Checked | None, goals: Iterable[GoalResult]) -> Iterator[GoalResult]:
    """Yield goals with what the plan has of them, where a kind counts that in the plan itself.

    A plan can have less of a goal than its point, which then was no optimum: no bounds from there on.
    """
    option_set, same = call.kind.option_set, True
    known: Mapping[str, int] = {}
    if checked is not None and checked.plan is not None and option_set is not None and option_set.reached:
        known = option_set.reached(call.instance, cast(Any, checked.plan))
    for goal in goals:
        value = known.get(goal.name, goal.value)
        same = same and value == goal.value
        yield goal if same else replace(goal, value=value, bound=None)


def _goals(call: Call, tried: Attempt, checked: Checked | None, optimal: bool) -> Iterator[GoalResult]:
    """Yield what became of the goals after the objective in the plan that is given out.

    Bounds are among plans with the objective at its optimum: without one there are none.
    """
    if checked is None:
        return
    if checked is tried.checked and tried.goals:
        for goal in tried.goals:
            yield goal if optimal else replace(goal, bound=None)
    elif isinstance(tried.structure, CompiledKnapsack) and checked.point is not None:
        yield from tried.structure.reached(rows_of(checked.point), running=call.options.keep_running)


def _better_checked(call: Call, tried: Attempt) -> Checked | None:
    """Return the backend's plan, or the incumbent's if that is better and passes the check."""
    checked, own = tried.checked, tried.known.point
    found = None if checked is None else checked.objective
    if own is None or (tried.restricted and found is not None):
        return checked  # who asks for a restricted formulation wants its answer
    objective = tried.structure.objective(own)
    if found is not None:  # equal sums of doubles differ in the last digits, equal plans in their goals
        gain = objective - found if call.maximizes else found - objective
        if gain <= (_SAME * abs(found) if tried.goals else 0.0):
            return checked
    plan = tried.structure.plan(own, call.seconds_left)
    report = None if plan is None else call.kind.check(call.instance, plan)
    return Checked(report, plan, own) if report is not None and report.feasible else checked


def _as_it_runs(call: Call, tried: Attempt) -> Checked | None:
    """Return what runs as the plan, or nobody having anything, where a search ended without any."""
    option_set = call.kind.option_set
    ended = tried.outcome.termination in (Termination.INFEASIBLE, Termination.OPTIMAL)
    if ended or option_set is None or option_set.running is None:
        return None
    for plan in option_set.running(call.instance):
        report = call.kind.check(call.instance, plan)
        if report.feasible:
            return Checked(report, cast(Any, plan))
    return None


def _verified(call: Call, tried: Attempt, own_prices: bool) -> tuple[Multipliers | None, float | None]:
    """Return the multipliers with the tightest verified bound, the solver's or our own."""
    best: tuple[Multipliers | None, float | None] = (None, None)
    count = len(tried.structure.capacity_names)
    given, known = tried.outcome.multipliers, tried.known.hint
    optimised = own_prices and usable(given, count) and tried.outcome.bound is not None
    for candidate in (given,) if optimised else (given, known):
        if not usable(candidate, count):
            continue
        bound = certified_bound(call.kind, call.instance, tried.structure, candidate)
        if bound is not None and (
            best[1] is None or (bound < best[1] if call.maximizes else bound > best[1])
        ):
            best = (candidate, bound)
    return best


def chosen_backend(
    backend: str | registry.Backend, entry: registry.FormulationEntry
) -> tuple[registry.Backend, str]:
    """Return the backend for a formulation, and why it is this one.

    Raises
    ------
    InvalidOption
        If it takes models of another kind.
    BackendUnavailable
        If it is unknown or missing.
    """
    if isinstance(backend, registry.Backend):
        chosen, reason = backend, "given by the caller"
    elif isinstance(backend, str) and backend == "auto":
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


def solved(
    instance: Subject,
    compiler: Compiler,
    options: SolveOptions,
    backend: str | registry.Backend,
    warm_start: Any,
    formulation: str | None,
    bounded: KnownBound | None = None,
    *,
    proof: bool = False,
) -> Solution:
    """Solve an instance whose floors, if it has any, are known, and maybe a bound.

    Parameters
    ----------
    instance
        What is to be solved.
    compiler
        ``compiler(instance, entry)``: what `structured` returns for them.
    options
        Limits; the time limit is that of the whole call.
    backend, warm_start, formulation, proof
        See `apportion.solve`.
    bounded
        What no plan is better than, where that is known.

    Returns
    -------
    Solution
        Its plan passed the checker.
    """
    call = Call(instance, kind_of_any(instance), options)
    entry = entry_of(instance, formulation)
    free = formulation is None
    by = partial(_solved_by, compiler=compiler, backend=backend, proof=proof, free=free)
    quick = None
    if free and not proof and options.work_limit is None and not options.deterministic:
        quick = alternative(instance, entry.tried_first)
    with defer_interrupt():
        with released():
            left = call.seconds_left
            alone = quick is None or not may_make(entry, call, 1.0 - _TRIED)
            part = call if alone else call.within(_TRIED_S if left is None else _TRIED * left)
            found = by(entry if quick is None else quick, part, warm_start, bounded)
        if quick is not None and not is_decided(found) and may_make(entry, call):
            found = _interruptible(found, partial(closed, found, call, partial(by, entry)))
        may = free and entry.left_open is not None and options.work_limit is None and is_open(found)
        finer = alternative(instance, entry.left_open) if may and not call.is_late() else None
        if finer is not None and may_make(finer, call):
            found = _interruptible(found, partial(closed, found, call, partial(by, finer)))
        if proof and found.termination is not Termination.INTERRUPTED:
            found = _proved(found, call)
        return found


def may_make(entry: FormulationEntry, call: Call, part: float = 1.0) -> bool:
    """Return whether the making of a formulation's model leaves any of a part of the time."""
    left = call.seconds_left
    takes = None if left is None or entry.makes_in is None else loaded(entry.makes_in)
    return not call.is_late() and (left is None or takes is None or takes(call.instance) < part * left)


def _solved_by(
    entry: FormulationEntry,
    call: Call,
    warm_start: Any,
    bounded: KnownBound | None,
    *,
    compiler: Compiler,
    backend: str | registry.Backend,
    proof: bool,
    free: bool,
) -> Solution:
    """Solve in one formulation; where another may take its place and its model only relaxes, in that one."""
    chosen, reason = chosen_backend(backend, entry)
    ordered = call.kind.in_id_order(call.instance) if call.options.deterministic else call.instance
    first = () if warm_start is not None or entry.on_nodes else tuple(_first_fit(call, ordered))
    structure = compiler(ordered, entry)
    if free and (backend == "auto" or chosen.accepts == "linear") and structure.relaxes:
        entry = registry.formulation(call.kind.name, entry.where_relaxed)
        chosen, reason = chosen_backend(backend, entry)
    call.log.lap("compile")
    linear = cast(LinearFormulation, compiled(ordered, entry)) if entry.produces == "linear" else None
    with defer_interrupt() as hold:  # what was found is kept, whenever Ctrl-C comes
        plans_of = None if call.kind.option_set is None else call.kind.option_set.running
        # a search of so many options, or of so little time, may not come to as much by itself
        many = structure.model.num_options >= _MANY_OPTIONS or (call.seconds_left or _SHORT) < _SHORT
        running = plans_of(ordered) if many and plans_of is not None else ()
        known = start_from(structure, warm_start, call.log, (*first, *running))
        known = replace(known, bound=bounded)
        call.log.lap("start")
        with engines_noted() as engines:
            try:
                tried = attempt(call, chosen, structure, known, linear)
            except KeyboardInterrupt:
                stopped = Outcome(termination=Termination.INTERRUPTED, raw_status="KeyboardInterrupt")
                tried = Attempt(stopped, structure, known)
            solution = conclude(call, chosen, reason, tried, engines)
            own = isinstance(backend, str)  # who brings a solver wants to know what becomes of its claims
            if own and not hold.struck and _is_in_doubt(solution, tried, call):
                if call.is_late():
                    solution = untested(solution, maximizes=call.maximizes)
                elif (again := decided_exactly(ordered, tried, call)) is not None:
                    solution = replace(conclude(call, chosen, reason, again, engines), confirmed=True)
        if chosen.general and not hold.struck:
            solution = _tested(solution, call)
        elif own and not proof and not hold.struck and solution.certificate.source == "solver":
            solution = _walked(solution, structure.model, call)
        return replace(solution, termination=Termination.INTERRUPTED) if hold.struck else solution


def _first_fit(call: Call, ordered: Subject) -> Iterator[Any]:
    """Yield the plan of a kind that finds one job by job, in a part of the time."""
    of_kind = None if call.kind.option_set is None else call.kind.option_set.first_fit
    if of_kind is None:
        return
    began, left = call.log.elapsed, math.inf if call.seconds_left is None else call.seconds_left

    def is_over(share: float) -> bool:
        return call.log.elapsed - began > share * left

    if (plan := of_kind(ordered, *(partial(is_over, share) for share in _FIRST_FIT))) is not None:
        yield plan


def _is_in_doubt(solution: Solution, tried: Attempt, call: Call) -> bool:
    """Return whether a solver has come to an end that its bound and its plan do not show."""
    if tried.restricted:
        return False
    if isinstance(
        tried.structure, AssignmentRelaxation
    ):  # doubles of a general solver alone speak for its claim
        shown = solution.termination is Termination.OPTIMAL and solution.certificate.source == "multipliers"
        return tried.outcome.termination in _CLAIMS and not shown
    if solution.termination is Termination.INFEASIBLE:  # a general solver's word is no proof
        return solution.evidence == "by_solver" and not call.is_late()
    if solution.termination is Termination.GAP_REACHED:
        return solution.gap is None or solution.gap > call.options.gap
    if solution.termination is Termination.OPTIMAL:
        return _is_divisible(tried.structure.model) and solution.evidence != "by_multipliers"
    if solution.termination in (Termination.NUMERICAL_ERROR, Termination.ERROR):
        return tried.outcome.termination in _CLAIMS or _is_divisible(tried.structure.model)
    given_up = solution.termination in (Termination.SOLUTION_LIMIT, Termination.TIME_LIMIT)
    unlimited = call.options.work_limit is None and not call.is_late()
    return given_up and unlimited and isinstance(tried.structure.model, Assignment)


def _is_divisible(model: object) -> bool:
    return isinstance(model, Assignment) and model.divisible


def _tested(solution: Solution, call: Call) -> Solution:
    """Run our own search behind a general solver's claim, unless no clock may decide."""
    if call.options.deterministic:
        return solution
    left = call.seconds_left

    def ask(seconds: float) -> Solution:
        # no engine of ours takes linear models: the walk of a proof searches
        if entry_of(call.instance, None).produces == "linear":
            from apportion.solving.evidence import with_proof

            return replace(solution, confirmed=with_proof(solution, seconds).proof is not None)
        own = SolveOptions(time_limit=seconds, seed=call.options.seed)
        return solved(call.instance, structured, own, "exact", solution.plan, None)

    def tested() -> Solution:
        try:
            return cross_check(solution, math.inf if left is None else left, ask, maximizes=call.maximizes)
        except BackendUnavailable:  # our own search needs an engine that is missing: no second opinion
            return solution

    return _interruptible(solution, tested)


def _walked(solution: Solution, model: object, call: Call) -> Solution:
    """Walk a proof for a moment where a search of ours has ended by a general solver's word."""
    left = call.seconds_left
    late = left is not None and left <= 0.0
    if late or not isinstance(model, MultipleChoiceKnapsack) or solution.evidence != "by_solver":
        return solution
    from apportion.solving.evidence import walked_briefly

    seconds = None if left is None else SHARE * min(left, solution.times.get("solve", 0.0))
    began = time.perf_counter()

    def walked() -> Solution:
        return replace(solution, confirmed=walked_briefly(solution, model, seconds))

    return cross_checked(_interruptible(solution, walked), began)


def _proved(solution: Solution, call: Call) -> Solution:
    from apportion.solving.evidence import with_proof

    def proved() -> Solution:
        return _proved_in_one_sum(solution, call) or with_proof(solution, call.seconds_left)

    return _interruptible(solution, proved)


def _interruptible(solution: Solution, more: Callable[[], Solution]) -> Solution:
    """Return what more can be said of a solution; an interruption ends it as it is."""
    try:
        with released():
            return more()
    except KeyboardInterrupt:
        return replace(solution, termination=Termination.INTERRUPTED)


def _proved_in_one_sum(solution: Solution, call: Call) -> Solution | None:
    """Return a solution with a proof of objective and goals together; ``None`` where there is none."""
    from apportion.solving.evidence import with_proof

    option_set = call.kind.option_set
    named = set() if option_set is None else {*option_set.goals(call.instance)}
    wanted = [goal for goal in solution.goals if goal.name in named]
    if option_set is None or not wanted or solution.plan is None or not all(goal.proven for goal in wanted):
        return None
    one = option_set.in_one_sum(solution.instance)
    if one is None:
        return None
    total = float(call.kind.exact_objective(one.instance, cast(Any, solution.plan)))
    shown = Certificate(total, total, "branch_and_bound", None, None)
    summed = replace(solution, instance=one.instance, certificate=shown, outcome=None, goals=())
    found = with_proof(summed, call.seconds_left)
    bound = None if found.proof is None else found.proof.claim.bound
    whole = bound is not None and math.floor(bound) <= total  # within the tolerance is no proof of the goals
    return replace(solution, proof=found.proof, in_one_sum=True, times=found.times) if whole else None

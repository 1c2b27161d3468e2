"""Solve and check: the only place that joins formulation, solver and checker."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from apportion import registry
from apportion.errors import BackendUnavailable, InvalidOption
from apportion.formulations.protocol import LinearFormulation
from apportion.formulations.tenants import TenantedMenus
from apportion.instances.tenants.ledger import shares_are_due, under_floors
from apportion.interruption import held, released
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import Incumbent, KnownBound, Point, SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.report import Report
from apportion.solution import Planned, PlanT, Solution
from apportion.solvers.general.guard import engines_noted
from apportion.solving.attempt import Attempt, attempt
from apportion.solving.call import Call
from apportion.solving.compiling import compiled, entry_of, menus_of_tenants, structure_of, structured
from apportion.solving.conclude import conclude
from apportion.solving.in_doubt import decided, is_in_doubt
from apportion.solving.structure import Structure
from apportion.solving.subject import Subject, kind_of_any
from apportion.solving.warm_start import warm_start as carried_over

__all__ = ["Compiler", "check", "solve", "solve_compiled"]

Compiler = Callable[[Subject, registry.FormulationEntry], Structure]
"""From an instance and an entry of the registry to the structured model."""


def check(instance: Subject, plan: Any) -> Report:
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
    return kind_of_any(instance).check(instance, plan)


def solve(
    instance: Planned[PlanT],
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
    proof: bool = False,
) -> Solution[PlanT]:
    """Decide what every job gets, and prove as much of it as can be proven.

    Parameters
    ----------
    instance
        An instance, or a `MultipleChoiceKnapsack` or `Assignment` from `from_arrays`. Type checkers know from
        it what the plan looks like: mappings by job, int64 rows, or the point of an assignment.
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
    proof
        Whether to write a proof of the claim and check it, within what is left of the time limit;
        `Solution.proof` holds it, or a note says why there is none.

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

    Notes
    -----
    Ctrl-C ends the solve: its best plan comes back with the termination ``interrupted``. A loop that takes
    plans for decisions must ask for that; `apportion.interruption.uninterrupted` raises it again.

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
    options = SolveOptions(
        time_limit=None if deterministic else time_limit,
        gap=gap,
        threads=threads,
        seed=seed,
        deterministic=deterministic,
        work_limit=work_limit,
        on_incumbent=on_incumbent,
    )
    subject = cast(Subject, instance)
    return solve_compiled(subject, structured, options, backend, warm_start, formulation, proof)


def solve_compiled(
    instance: Subject,
    compiler: Compiler,
    options: SolveOptions,
    backend: str | registry.Backend = "auto",
    warm_start: Any = None,
    formulation: str | None = None,
    proof: bool = False,
) -> Solution:
    """Solve as `solve` does, with structured models from a compiler that may remember earlier ones.

    Parameters
    ----------
    compiler
        ``compiler(instance, entry)``: what `apportion.solving.compiling.structured` returns for them.
    instance, options, backend, warm_start, formulation, proof
        See `solve`.
    """
    if shares_are_due(instance):
        return _shared_out(instance, compiler, options, backend, warm_start, formulation, proof=proof)
    return _solved(instance, compiler, options, backend, warm_start, formulation, proof=proof)


def _shared_out(
    instance: Subject,
    compiler: Compiler,
    options: SolveOptions,
    backend: str | registry.Backend,
    warm_start: Any,
    formulation: str | None,
    *,
    proof: bool,
) -> Solution:
    """Find fair shares first, in two thirds of the time, then the best plan that keeps them.

    Who rises where several could is decided in half of what is left. What that shows is known to the last
    search: where its plan meets its bound, nothing is left to be searched.
    """
    from apportion.fairness.apart import joined, parts_of
    from apportion.fairness.sharing import shared_out
    from apportion.fairness.ties import fair_bound

    call = Call(instance, kind_of_any(instance), options)
    plain = not proof and warm_start is None and options.on_incumbent is None and options.work_limit is None
    if plain and (parts := parts_of(instance)):
        return joined(call, list(_one_by_one(call, parts, compiler, backend, formulation)))
    ordered = call.kind.in_id_order(instance)
    menus = menus_of_tenants(ordered, formulation)
    if not isinstance(menus, TenantedMenus):
        raise InvalidOption(f"formulation {formulation!r} knows no tenants")
    reserved = 0.0 if options.time_limit is None else options.time_limit / 3

    def left() -> float | None:
        seconds = call.seconds_left
        return None if seconds is None else max(seconds - reserved, 1e-3)

    def asked(model: MultipleChoiceKnapsack) -> Solution:
        limited = replace(options, time_limit=left(), gap=0.0, on_incumbent=None)
        return _solved(model, structured, limited, backend, None, None)

    def preferred(model: MultipleChoiceKnapsack, point: Point) -> Solution:
        rest = call.seconds_left
        limited = replace(options, time_limit=None if rest is None else rest / 2, on_incumbent=None)
        return _solved(model, structured, limited, backend, point, None)

    sums = call.kind.offering is not None and call.kind.offering.sums(ordered)
    sharing = shared_out(ordered, menus, asked, left, preferred if sums else None)
    under: Any = under_floors(instance, sharing.floors)
    known = warm_start
    if sharing.plan is not None:
        prices = None if sharing.tie is None else sharing.tie.prices
        known = {"plan": sharing.plan, "certificate": {"multipliers": prices}}

    def compiled_before(subject: Subject, entry: registry.FormulationEntry) -> Structure:
        """Return the menus that are there already, with the floors; a proof's rows keep their order."""
        if proof or entry.produces != "knapsack" or any(name.startswith("job ") for name in sharing.floors):
            return compiler(subject, entry)
        return structure_of(sharing.menus.under(under), entry)

    # less than all of the levels may have more; and a proof is written from a search
    whole = sharing.tie is not None and under.fairness.keep == 1.0 and not proof
    bounded = sharing.tie.known if sharing.tie is not None and whole else None
    solution = _solved(
        under, compiled_before, call.remaining(), backend, known, formulation, bounded, proof=proof
    )
    started = call.log.elapsed - solution.times["total"] + solution.times.get("start", 0.0)
    bound, told = fair_bound(sharing.tie, solution, maximizes=call.maximizes)
    if under.fairness.keep < 1.0:
        bound, told = None, None  # what would be kept of other sets is not known
    return replace(
        solution,
        instance=instance,
        levels=sharing.levels,
        floors=sharing.floors,
        fair_bound=bound,
        notes=(*sharing.notes, *((told,) if told else ()), *solution.notes),
        times={**solution.times, "start": started, "total": call.log.elapsed},
    )


def _one_by_one(
    call: Call,
    parts: Sequence[Subject],
    compiler: Compiler,
    backend: str | registry.Backend,
    formulation: str | None,
) -> Iterator[Solution]:
    """Yield the answer to every part, in its part of the time that is left, up to an interruption."""
    for index, part in enumerate(parts):
        options = call.remaining()
        if options.time_limit is not None:
            options = replace(options, time_limit=options.time_limit / (len(parts) - index))
        solution = _shared_out(part, compiler, options, backend, None, formulation, proof=False)
        yield solution
        if solution.termination is Termination.INTERRUPTED:
            return


def _solved(
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
    """Solve an instance whose floors, if it has any, are known, and maybe a bound."""
    call = Call(instance, kind_of_any(instance), options)
    entry = entry_of(instance, formulation)
    chosen, reason = _choose(backend, entry)
    ordered = call.kind.in_id_order(instance) if options.deterministic else instance
    structure = compiler(ordered, entry)
    if formulation is None and (backend == "auto" or chosen.accepts == "linear") and structure.relaxes:
        entry = registry.formulation(call.kind.name, entry.where_relaxed)
        chosen, reason = _choose(backend, entry)
    call.log.lap("compile")
    linear = cast(LinearFormulation, compiled(ordered, entry)) if entry.produces == "linear" else None
    with held() as hold:  # what was found is kept, whenever Ctrl-C comes
        known = carried_over(structure, warm_start, call.log)
        if bounded is not None:
            known = replace(known, bound=bounded)
        call.log.lap("start")
        with engines_noted() as engines:
            try:
                tried = attempt(call, chosen, structure, known, linear)
            except KeyboardInterrupt:
                stopped = Outcome(termination=Termination.INTERRUPTED, raw_status="KeyboardInterrupt")
                tried = Attempt(stopped, structure, known, None)
            solution = conclude(call, chosen, reason, tried, engines)
            own = isinstance(backend, str)  # who brings a solver wants to know what becomes of its claims
            if own and not hold.struck and is_in_doubt(solution, tried, call):
                if call.is_late():
                    solution = replace(solution, termination=Termination.TIME_LIMIT)
                elif (again := decided(ordered, tried, call)) is not None:
                    solution = replace(conclude(call, chosen, reason, again, engines), confirmed=True)
        if chosen.general and not hold.struck:
            solution = _tested(solution, call)
        if proof and not hold.struck:
            # in the order of names its jobs are not those of the instance, place for place
            solution = _proved(solution, call, structure.model if ordered is instance else None)
        return replace(solution, termination=Termination.INTERRUPTED) if hold.struck else solution


def _tested(solution: Solution, call: Call) -> Solution:
    """Run our own search behind a general solver's claim, unless no clock may decide."""
    if call.options.deterministic:
        return solution
    left = call.seconds_left
    from apportion.solving.second_opinion import second_opinion

    def ask(seconds: float) -> Solution:
        # no engine of ours takes linear models: the walk of a proof searches
        if entry_of(call.instance, None).produces == "linear":
            from apportion.solving.evidence import with_proof

            return replace(solution, confirmed=with_proof(solution, seconds).proof is not None)
        seed = call.options.seed
        return solve(call.instance, "exact", seconds, seed=seed, warm_start=solution.plan)

    try:
        with released():
            return second_opinion(solution, math.inf if left is None else left, ask, maximizes=call.maximizes)
    except BackendUnavailable:  # our own search needs an engine that is missing: there is no second opinion
        return solution
    except KeyboardInterrupt:
        return replace(solution, termination=Termination.INTERRUPTED)


def _proved(solution: Solution, call: Call, model: object) -> Solution:
    from apportion.solving.evidence import with_proof

    try:
        with released():
            return with_proof(solution, call.seconds_left, model)
    except KeyboardInterrupt:
        return replace(solution, termination=Termination.INTERRUPTED)


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

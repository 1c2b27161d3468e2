"""One solve call from an instance to its weighed answer: compile, ask, check, conclude, test the claim."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

from apportion import registry
from apportion.errors import BackendUnavailable
from apportion.formulations.protocol import LinearFormulation
from apportion.interruption import held, released
from apportion.options import KnownBound, SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solution import Solution
from apportion.solvers.general.guard import engines_noted
from apportion.solving.attempt import Attempt, attempt
from apportion.solving.call import Call
from apportion.solving.choosing import chosen_backend
from apportion.solving.compiling import Compiler, compiled, entry_of, structured
from apportion.solving.conclude import conclude
from apportion.solving.in_doubt import decided, is_in_doubt
from apportion.solving.subject import Subject, kind_of_any
from apportion.solving.warm_start import warm_start as carried_over

__all__ = ["solved"]


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
    chosen, reason = chosen_backend(backend, entry)
    ordered = call.kind.in_id_order(instance) if options.deterministic else instance
    structure = compiler(ordered, entry)
    if formulation is None and (backend == "auto" or chosen.accepts == "linear") and structure.relaxes:
        entry = registry.formulation(call.kind.name, entry.where_relaxed)
        chosen, reason = chosen_backend(backend, entry)
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
        own = SolveOptions(time_limit=seconds, seed=call.options.seed)
        return solved(call.instance, structured, own, "exact", solution.plan, None)

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

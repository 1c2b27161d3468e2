"""Solve where shares are due: fair shares first, level by level, then the best plan that keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from apportion import registry
from apportion.errors import InvalidOption
from apportion.fairness.apart import joined, parts_of
from apportion.fairness.sharing import shared_out
from apportion.fairness.ties import fair_bound
from apportion.formulations.tenants import TenantedMenus
from apportion.instances.tenants.ledger import under_floors
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import Point, SolveOptions
from apportion.outcome import Termination
from apportion.solution import Solution
from apportion.solving.call import Call
from apportion.solving.compiling import Compiler, menus_of_tenants, structure_of, structured
from apportion.solving.solved import solved
from apportion.solving.structure import Structure
from apportion.solving.subject import Subject, kind_of_any

__all__ = ["solved_fairly"]


def solved_fairly(
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

    Parameters
    ----------
    instance
        An instance whose shares are due.
    compiler, options, backend, warm_start, formulation, proof
        See `apportion.solving.solved.solved`.

    Returns
    -------
    Solution
        With the levels, the floors that its plan keeps, and the bound on plans whose shares are as great.
    """
    call = Call(instance, kind_of_any(instance), options)
    plain = not proof and warm_start is None and options.on_incumbent is None and options.work_limit is None
    if plain and (parts := parts_of(instance)):
        answer = joined(call, list(_one_by_one(call, parts, compiler, backend, formulation)))
        if answer.termination is not Termination.NUMERICAL_ERROR:
            return answer
        # the parts' objectives cancel and their bounds do not: the whole is decided as one
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
        return solved(model, structured, limited, backend, None, None)

    def preferred(model: MultipleChoiceKnapsack, point: Point) -> Solution:
        rest = call.seconds_left
        limited = replace(options, time_limit=None if rest is None else rest / 2, on_incumbent=None)
        return solved(model, structured, limited, backend, point, None)

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
    solution = solved(
        under, compiled_before, call.remaining(), backend, known, formulation, bounded, proof=proof
    )
    started = call.log.elapsed - solution.times["total"] + solution.times.get("start", 0.0)
    bound, told = fair_bound(sharing.tie, solution, maximizes=call.maximizes)
    if under.fairness.keep < 1.0:
        bound, told = None, None  # what would be kept of other sets is not known
    # where nothing is kept and there is no plan all the same, nobody has a share
    nothing = solution.termination is Termination.INFEASIBLE and not any(sharing.floors.values())
    termination = solution.termination
    if sharing.ended is not None and termination in (Termination.OPTIMAL, Termination.GAP_REACHED):
        termination = sharing.ended  # the word would be about shares that are not shown to be those due
    return replace(
        solution,
        termination=termination,
        instance=instance,
        levels=() if nothing else sharing.levels,
        floors={} if nothing else sharing.floors,
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
        solution = solved_fairly(part, compiler, options, backend, None, formulation, proof=False)
        yield solution
        if solution.termination is Termination.INTERRUPTED:
            return

"""Fair shares of an instance: guarantees and levels, turned into floors that every plan keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from msgspec import UNSET

from apportion.fairness.answering import Ask
from apportion.fairness.claimants import groups_of
from apportion.fairness.guarantees import guaranteed
from apportion.fairness.level_model import LevelModel
from apportion.fairness.levels import Filling
from apportion.fairness.placing import Placing
from apportion.fairness.ties import Prefer, Tie, broken_by_objective
from apportion.formulations.tenants import TenantedMenus
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.outcome import Termination
from apportion.solution import Level, Solution

__all__ = ["Sharing", "shared_out"]


@dataclass(frozen=True, slots=True, eq=False)
class Sharing:
    """What is shared out fairly.

    Attributes
    ----------
    floors
        The shares that every plan must keep, in whole units, as `Fairness.floors` names them.
    menus
        The formulation, with what was shown on the way to lie on no nodes.
    plan
        A plan that keeps them; ``None`` where none was found.
    levels
        The levels, in the order in which they were found.
    notes
        What could not be kept or proved, in words.
    tie
        What is known of the best objective where several sets are equally fair; ``None`` where one is.
    ended
        What kept guarantees or levels from being decided, the first limit or failure; ``None`` where all of
        them are.
    """

    floors: dict[str, int]
    menus: TenantedMenus
    plan: Any
    levels: tuple[Level, ...]
    notes: tuple[str, ...]
    tie: Tie | None = None
    ended: Termination | None = None


@dataclass(slots=True, eq=False)
class _Watch:
    """Asks questions, and keeps the first ending that decided nothing."""

    ask: Ask
    ended: Termination | None = None

    def __call__(self, model: MultipleChoiceKnapsack) -> Solution:
        solution = self.ask(model)
        said, bound, objective = solution.termination, solution.bound, solution.objective
        if said is Termination.GAP_REACHED:  # a general solver's optimum: shares are whole numbers of units
            exact = bound is not None and objective is not None and math.floor(bound) <= objective
            said = Termination.OPTIMAL if exact else Termination.NUMERICAL_ERROR
        if said not in (Termination.OPTIMAL, Termination.INFEASIBLE) and self.ended is None:
            self.ended = said
        return solution


def shared_out(
    instance: Any,
    menus: TenantedMenus,
    ask: Ask,
    seconds: Callable[[], float | None],
    prefer: Prefer | None = None,
) -> Sharing:
    """Find the guarantees and levels of an instance.

    Parameters
    ----------
    instance
        The instance, for which `shares_are_due`.
    menus
        Its formulation.
    ask
        Solves menus within what is left of the call.
    seconds
        What is left of it for levels.
    prefer
        Solves menus for their best values; ``None`` where the objective is no sum of values.
    """
    ledger, notes, placing = menus.ledger, list[str](), Placing(menus, seconds)
    watch = _Watch(ask)
    filling = Filling.of(LevelModel(placing), watch, ledger.unit)
    answering = filling.answering

    def open_end() -> Termination:
        """Return what ended a search that decided nothing; without a limit a placement gave up."""
        return watch.ended or (Termination.TIME_LIMIT if placing.late() else Termination.NODE_LIMIT)

    planned = filling.hold({})
    if not planned:
        said = "no plan was found before any share was looked at"
        return Sharing({}, placing.menus, None, (), (said,), ended=None if planned is False else open_end())
    alone = guaranteed(answering.model, watch)
    # the largest share of somebody alone is known only where every question about it was decided
    decided = watch.ended is None and not placing.gave_up
    if alone and not (together := filling.hold(alone)):
        kept = {one: filling.hold({one: share}) for one, share in alone.items()}
        decided = decided and together is not None and None not in kept.values()
        lost = sorted(one.name for one, held in kept.items() if not held)
        beside = "beside jobs that must run" if placing.menus is menus else "on the nodes"
        said = f"cannot be kept together {beside}; not kept for"
        if not decided:
            said = "were not decided before a limit; not kept for"
        notes.append(f"guarantees {said} {', '.join(lost)}")
    guarantees = dict(answering.floors)
    if instance.fairness is not UNSET:
        for group in groups_of(ledger):
            filling.fill(group)
    tie = None if not answering.rungs else Tie()
    if tie is not None and prefer is not None:
        tie = broken_by_objective(answering, prefer)
    levels = filling.settle()
    kept_part = 1.0 if instance.fairness is UNSET else instance.fairness.keep
    floors = {
        one: max(guarantees.get(one, 0), floor if kept_part == 1.0 else int(kept_part * floor))
        for one, floor in answering.floors.items()
    }
    unproved = sum(level.evidence is None for level in levels)
    if unproved:
        notes.append(f"{unproved} of {len(levels)} levels were not proved before a limit")
    plan = None if answering.choice is None else placing.plan(answering.choice)
    named = {one.name: floor for one, floor in floors.items()}
    ended = None if decided and not unproved else open_end()
    return Sharing(named, placing.menus, cast(Any, plan), tuple(levels), tuple(notes), tie, ended)

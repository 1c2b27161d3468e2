"""The price of fairness: what the objective could be if less of every fair level were kept.

After Bertsimas, Farias and Trichakis, *The price of fairness*, Operations Research 59, 2011: the part of the
best sum that is forgone. Levels are found once; between all and nothing of them, every floor is the part that
is kept, and never less than what is guaranteed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.errors import InvalidInstance
from apportion.core.solution import Level, Solution
from apportion.explanation.resolver import Resolver
from apportion.instances.kinds import kind_of
from apportion.instances.tenants.check import ledger_of, positions
from apportion.instances.tenants.ledger import TenantLedger, under_floors

__all__ = ["PriceOfFairness", "PricePoint", "price_of_fairness"]


@dataclass(frozen=True, slots=True)
class PricePoint:
    """A plan that keeps some part of every fair level.

    Attributes
    ----------
    keep
        The part, from 0 to 1.
    objective, bound
        Of the best plan that was found, and of any; ``None`` without one.
    price
        The part of the best objective that is forgone, ``None`` where that is not known or 0 is the best.
    least
        The least share over weight of those that have a level.
    """

    keep: float
    objective: float | None
    bound: float | None
    price: float | None
    least: float | None


@dataclass(frozen=True, slots=True)
class PriceOfFairness:
    """The curve.

    Attributes
    ----------
    points
        From nothing kept to everything.
    levels
        The fair levels.
    share
        What is shared out.
    feasible
        Whether some plan keeps the guarantees, if that is known.
    """

    points: tuple[PricePoint, ...]
    levels: tuple[Level, ...]
    share: str
    feasible: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        fields = ("keep", "objective", "bound", "price", "least")
        points = [{name: getattr(point, name) for name in fields} for point in self.points]
        levels = [{"name": one.name, "share": one.share, "weight": one.weight} for one in self.levels]
        return {"share": self.share, "points": points, "levels": levels, "feasible": self.feasible}


def price_of_fairness(
    instance: Any, keeps: Sequence[float], *, time_limit: float | None = 60.0, seed: int = 0
) -> PriceOfFairness:
    """Solve an instance with more and less of its fair levels kept.

    Parameters
    ----------
    instance
        An instance with a rule of fairness; how much that keeps plays no part.
    keeps
        Parts of the levels, from 0 to 1.
    time_limit
        Seconds for everything together.
    seed
        As in `apportion.solve`.

    Raises
    ------
    InvalidInstance
        If the instance has no rule of fairness, or its floors are said already.
    """
    fairness = getattr(instance, "fairness", UNSET)
    if fairness is UNSET or fairness.floors:
        raise InvalidInstance.at("$.fairness", "must say what is shared out, and no floors")
    resolver = Resolver(time_limit=time_limit, seed=seed)
    fair = resolver.ensured(replace(instance, fairness=replace(fairness, keep=1.0)), share=0.4)
    plain = resolver.ensured(replace(instance, fairness=UNSET), share=0.2)
    ledger, guaranteed = ledger_of(kind_of(instance), instance), plain.floors or {}
    found: list[tuple[float, Solution]] = []
    last = fair
    asked = sorted({*keeps}, reverse=True)
    for place, keep in enumerate(asked):
        if keep == 1.0:
            last = fair
        elif keep == 0.0:
            last = plain
        else:
            floors = {
                name: max(guaranteed.get(name, 0), int(keep * floor))
                for name, floor in (fair.floors or {}).items()
            }
            under = under_floors(instance, floors)
            last = resolver.ensured(under, warm_start=last.plan, share=1.0 / (len(asked) - place))
        found.append((keep, last))
    best = plain.objective
    points = [_point(keep, one, best, fair.levels, ledger) for keep, one in reversed(found)]
    feasible = True if plain.plan is not None else False if plain.termination == "infeasible" else None
    return PriceOfFairness(tuple(points), fair.levels, fairness.share, feasible)


def _point(
    keep: float, solution: Solution, best: float | None, levels: Sequence[Level], ledger: TenantLedger
) -> PricePoint:
    objective = solution.objective
    price = None
    if objective is not None and best:
        price = abs(best - objective) / abs(best)
    least = None if solution.plan is None else _least(solution, levels, ledger)
    return PricePoint(keep, objective, solution.bound, price, least)


def _least(solution: Solution, levels: Sequence[Level], ledger: TenantLedger) -> float | None:
    """Return the least share over weight of those that have a level."""
    instance = solution.instance
    places: Mapping[str, int | None] = positions(kind_of(instance), instance, solution.plan, ledger)
    shares = {job: 0 if place is None else ledger.shares[job][place] for job, place in places.items()}
    found = []
    for level in levels:
        tenant = level.name in ledger.tree.nodes
        job = level.name.removeprefix(ledger.job_prefix)
        members = ledger.members(level.name) if tenant else frozenset([job])
        found.append(sum(shares[member] for member in members) / ledger.unit / level.weight)
    return min(found, default=None)

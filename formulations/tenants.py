"""The limits of tenants beside a knapsack of any kind: one more capacity for every row and every floor.

==============  ===================================================================================
here            meaning
==============  ===================================================================================
row             a limit of the tree: uses of some tenants' jobs on one capacity, at most so much
floor           a share that must be reached: of what its jobs have at best, so much may be forgone
nothing         being left out, an option of its own: it forgoes a whole share, and may cost a stop
==============  ===================================================================================

    sum_(j in row) u_jk x_j <= limit_row,       sum_(j in floor) (best_j - s_j(x_j)) <= sum best_j - floor

Limits that no choice can exceed are left out.

Where choices must also be placed, on nodes or machines (`PlacedTenantedMenus`), what cannot be comes back as
a capacity that no plan exceeds, as in `apportion.solving.on_nodes`; such capacities stand behind those of the
tenants, and stay valid under every floor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.protocol import KnapsackFormulation, Packing, PlacedFormulation, Plan
from apportion.instances.kinds import kind_of
from apportion.instances.tenants.check import ledger_of
from apportion.instances.tenants.ledger import TenantLedger
from apportion.models.lowering import Lowered, OptionLabels, lower
from apportion.models.multiple_choice import MultipleChoiceKnapsack, Present

__all__ = ["PlacedTenantedMenus", "TenantedMenus"]


_ROUNDING = float(np.finfo(np.float64).eps)


class TenantedMenus:
    """A knapsack formulation under the limits of tenants.

    Parameters
    ----------
    inner
        The formulation of the kind.
    instance
        The instance, which has tenants.

    Attributes
    ----------
    model
        The options that a job may get, being left out among them; every job is required.
    value_error
        That of the inner formulation, and the rounding of the costs of stopping.
    option
        int64 [options]: the position of every row's option among its job's, in the ledger.
    ledger
        The limits.
    """

    def __init__(self, inner: KnapsackFormulation, instance: Any) -> None:
        self._inner = inner
        kind = kind_of(instance)
        self.ledger = ledger_of(kind, instance)
        self._jobs = [job.id for job in instance.jobs]
        rows, options, sizes, stops, idle = self._rows_and_options()
        self._sizes = tuple(sizes)
        self._row = np.array(rows, dtype=np.int64)
        self.option = np.array(options, dtype=np.int64)
        offsets = np.concatenate(([0], np.cumsum(np.array(sizes, dtype=np.int64)))).astype(np.int64)
        taken = self._row >= 0
        source = inner.model
        values = np.zeros(self._row.size)
        values[taken] = source.values[self._row[taken]]
        self._stops = tuple(stops)
        stopped = np.array(stops, dtype=np.float64)
        values += stopped if source.sense == "minimize" else -stopped
        self.value_error = inner.value_error + _ROUNDING * float(np.abs(values).sum() if stopped.any() else 0)
        uses = np.zeros((self._row.size, source.num_capacities), dtype=np.int64)
        uses[taken] = source.uses[self._row[taken]]
        for row, name, use in idle:
            uses[row, source.capacity_names.index(name)] = use
        self._outward = np.full(source.num_options, -1, dtype=np.int64)
        self._outward[self._row[taken]] = np.flatnonzero(taken)
        self._nothing = np.full(len(sizes), -1, dtype=np.int64)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        self._nothing[owner[~taken]] = np.flatnonzero(~taken)
        columns, limits, names = self._limits(owner, uses, source.capacity_names)
        self.model = MultipleChoiceKnapsack.from_arrays(
            values,
            np.column_stack([uses, *columns]) if columns else uses,
            offsets,
            np.concatenate((source.capacities, np.array(limits, dtype=np.int64))),
            sense=source.sense,
            capacity_names=(*source.capacity_names, *names),
            goals=[
                replace(goal, worth=np.where(taken, np.append(goal.worth, 0)[self._row], 0))
                for goal in source.goals
            ],
        )
        if self.ledger.floors:
            self.model = _with_floors(self.model, self.ledger, self._jobs, self.share)

    def under(self, instance: Any, model: MultipleChoiceKnapsack | None = None) -> TenantedMenus:
        """Return the menus of the same instance with floors under tenants, of menus that have no floors.

        They stand behind the capacities of `model`, by default those of the menus.

        Raises
        ------
        InvalidInstance
            If a floor cannot be reached.
        """
        found = copy(self)
        found.ledger = self.ledger.under(instance)
        model = self.model if model is None else model
        found.model = _with_floors(model, found.ledger, self._jobs, self.share)
        return found

    @property
    def capacities(self) -> tuple[str, ...]:
        """The names of the instance's own capacities, those that tenants share."""
        return tuple(name for name in self._inner.model.capacity_names if name in self.ledger.capacities)

    @property
    def relaxes(self) -> bool:
        """Whether a choice must also be placed."""
        return bool(getattr(self._inner, "relaxes", False))

    def more(self, capacity: str, amount: int) -> tuple[str, int]:
        """Return additions to a capacity, or to a limit, by the name and in the units that an edit takes."""
        inner = getattr(self._inner, "more", None) if capacity in self.capacities else None
        return (capacity, amount) if inner is None else inner(capacity, amount)

    @cached_property
    def share(self) -> NDArray[np.int64]:
        """The share of every option, int64 [options], in whole units."""
        shares, option = self.ledger.shares, self.option.tolist()
        found, row = list[int](), 0
        for job, size in zip(self._jobs, self._sizes, strict=True):
            own = shares[job]
            found += [own[place] for place in option[row : row + size]]
            row += size
        return np.array(found, dtype=np.int64)

    def exact_values(self) -> list[Fraction]:
        """Return the inner formulation's values, less what stopping costs."""
        inner, sign = self._inner.exact_values(), 1 if self.model.sense == "minimize" else -1
        stops = map(Fraction, self._stops)
        rows = zip(self._row.tolist(), stops, strict=True)
        return [(inner[row] if row >= 0 else Fraction(0)) + sign * stop for row, stop in rows]

    def plan(self, choice: NDArray[np.int64]) -> Plan | NDArray[np.int64]:
        """Return the plan of a choice."""
        return self._inner.plan(self.inward(choice))

    def inward(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the inner formulation's choice."""
        return _looked_up(self._row, choice, -1)

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the choice of a plan as far as it fits; a job that is left out has its row."""
        found = self._inner.choice(plan)
        return None if found is None else self.outward(found)

    def outward(self, inner: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the choice that an inner choice is here."""
        return _looked_up(self._outward, inner, self._nothing)

    def present(self) -> Present | None:
        """Return what every job has now."""
        found = self._inner.present()
        if found is None:
            return None
        current = np.append(found.current, False)[self._row]
        waiting = np.append(found.waiting, True)[self._row]
        return Present(_looked_up(self._outward, found.rows, -1), found.running, current, waiting)

    def lowered(self) -> Lowered:
        """Return the MILP, its columns named ``x[job,option]``."""
        names = [self.option_name(row) for row in range(self.model.num_options)]
        return lower(self.model, OptionLabels(self.model.offsets, self._jobs, names), self._jobs)

    def job_names(self) -> Sequence[str]:
        """Return the jobs' names."""
        return tuple(self._jobs)

    def option_name(self, row: int) -> str:
        """Return the option's name, ``nothing`` for being left out."""
        inner = int(self._row[row])
        return "nothing" if inner < 0 else self._inner.option_name(inner)

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the menus themselves: they do not depend on the capacities."""
        return self.model

    def _rows_and_options(
        self,
    ) -> tuple[list[int], list[int], list[int], list[float], list[tuple[int, str, int]]]:
        """Return inner row (-1: nothing), position among the job's options and stop cost; menu sizes.

        And what having nothing uses: row, capacity and amount.
        """
        inner, ledger = self._inner, self.ledger
        offsets, name_of = inner.model.offsets.tolist(), inner.option_name
        rows, options, sizes, stops = list[int](), list[int](), list[int](), list[float]()
        idle = list[tuple[int, str, int]]()
        for index, job_id in enumerate(self._jobs):
            own, costs = ledger.options[job_id], ledger.stop_costs[job_id]
            menu_rows = range(offsets[index], offsets[index + 1])
            names = [name_of(row) for row in menu_rows]
            offered = [option.name for option in own]
            if offered == [*names, None] and not costs:  # as most jobs: everything, or nothing
                rows += (*menu_rows, -1)
                options += range(len(own))
                stops += [0.0] * len(own)
                sizes.append(len(own))
            else:
                places = {name: place for place, name in enumerate(offered)}
                menu = [(row, places.get(name)) for row, name in zip(menu_rows, names, strict=True)]
                kept = [(row, place) for row, place in menu if place is not None]
                if None in places:
                    kept.append((-1, places[None]))
                rows += [row for row, _ in kept]
                options += [place for _, place in kept]
                stops += [costs if costs and own[place].idle else 0.0 for _, place in kept]
                sizes.append(len(kept))
            if sizes[-1] and rows[-1] < 0:
                idle += [(len(rows) - 1, name, use) for name, use in own[options[-1]].uses.items()]
        return rows, options, sizes, stops, idle

    def _limits(
        self, owner: NDArray[np.int64], uses: NDArray[np.int64], names: Sequence[str]
    ) -> tuple[list[NDArray[np.int64]], list[int], list[str]]:
        """Return the columns, limits and names of the rows that can be exceeded."""
        ledger, column = self.ledger, {name: k for k, name in enumerate(names)}
        leaf_of = np.array([str(ledger.jobs[job].tenant) for job in self._jobs], dtype=object)
        never_stopped = np.array([not ledger.is_preemptible(job) for job in self._jobs], dtype=np.bool_)
        columns, limits, named = list[NDArray[np.int64]](), list[int](), list[str]()
        jobs_of: dict[str, NDArray[np.int64]] = {
            leaf: np.flatnonzero(leaf_of == leaf) for leaf in dict.fromkeys(leaf_of.tolist())
        }
        most = np.zeros((len(self._jobs), uses.shape[1]), dtype=np.int64)
        np.maximum.at(most, owner, uses)
        for row in ledger.rows:
            members = [jobs_of[leaf] for leaf in sorted(row.leaves) if leaf in jobs_of]
            if not members:
                continue
            inside = np.zeros(len(self._jobs), dtype=np.bool_)
            inside[np.concatenate(members)] = True
            if not row.preemptible_too:
                inside &= never_stopped
            at = column[row.capacity]
            if int(most[inside, at].sum()) > row.limit:
                columns.append(np.where(inside[owner], uses[:, at], 0))
                limits.append(row.limit)
                named.append(row.name)
        return columns, limits, named


def _with_floors(
    model: MultipleChoiceKnapsack, ledger: TenantLedger, jobs: Sequence[str], share: NDArray[np.int64]
) -> MultipleChoiceKnapsack:
    """Return a model with a column for every floor under a tenant."""
    owner = model.job_of_option()
    best = np.array([ledger.best[job] for job in jobs], dtype=np.int64)
    forgone = best[owner] - share
    place = {job: index for index, job in enumerate(jobs)}
    columns, limits = list[NDArray[np.int64]](), list[int]()
    for floor, members in ledger.floors.values():
        inside = np.zeros(len(jobs), dtype=np.bool_)
        inside[[place[job] for job in members]] = True
        columns.append(np.where(inside[owner], forgone, 0))
        limits.append(int(best[inside].sum()) - floor)
    return model.under(
        np.column_stack([model.uses, *columns]),
        np.concatenate((model.capacities, np.array(limits, dtype=np.int64))),
        (*model.capacity_names, *(ledger.floor_names[name] for name in ledger.floors)),
    )


def _looked_up(
    table: NDArray[np.int64], rows: NDArray[np.int64], absent: NDArray[np.int64] | int
) -> NDArray[np.int64]:
    """Return the entries of rows in a table, which may be empty, and what stands for row -1."""
    found = table[np.maximum(rows, 0)] if table.size else np.full(rows.shape, -1, dtype=np.int64)
    return np.asarray(np.where(rows >= 0, found, absent), dtype=np.int64)


class _Cut(NamedTuple):
    """One more capacity: its name, what every row of the inner menus takes of it, and how much there is."""

    name: str
    use: NDArray[np.int64]
    room: int


class PlacedTenantedMenus(TenantedMenus):
    """`TenantedMenus` of a formulation whose choices must be placed; a `PlacedFormulation` itself.

    Attributes
    ----------
    uncut
        The menus without what was learnt of places.
    weighed
        Capacities that a certificate can name.
    excluded
        Capacities that follow from no closed form, behind them.
    """

    _inner: PlacedFormulation

    def __init__(self, inner: PlacedFormulation, instance: Any) -> None:
        super().__init__(inner, instance)
        self.uncut = self.model
        self.weighed: tuple[_Cut, ...] = ()
        self.excluded: tuple[_Cut, ...] = ()

    def under(self, instance: Any, model: MultipleChoiceKnapsack | None = None) -> PlacedTenantedMenus:
        """Return the same with floors under tenants; see `TenantedMenus.under`."""
        found = cast(PlacedTenantedMenus, super().under(instance, self.uncut if model is None else model))
        found.uncut = found.model
        return found.cut_by(self.weighed, self.excluded)

    def packings(self, choice: NDArray[np.int64]) -> Mapping[str, Packing]:
        """Return what a choice asks of the nodes, by the name of their type."""
        return self._inner.packings(self.inward(choice))

    def plan_on(self, choice: NDArray[np.int64], placed: Mapping[str, Sequence[Sequence[int]]]) -> Plan:
        """Return the plan of a choice on given nodes."""
        return self._inner.plan_on(self.inward(choice), placed)

    def bounded(self, gpu_type: str, weights: tuple[int, ...]) -> PlacedTenantedMenus:
        """Return the same with the capacity of node weights."""
        cut = _last(self._inner.bounded(gpu_type, weights).model)
        return self.cut_by((*self.weighed, cut), self.excluded)

    def excluding(self, gpu_type: str, choice: NDArray[np.int64]) -> PlacedTenantedMenus:
        """Return the same without what was shown not to lie on the nodes."""
        cut = _last(self._inner.excluding(gpu_type, self.inward(choice)).model)
        return self.cut_by(
            self.weighed, (*self.excluded, cut._replace(name=f"excluded choice {len(self.excluded)}"))
        )

    def provable(self) -> PlacedTenantedMenus:
        """Return the same with those capacities only that a certificate can name."""
        if self._inner.model.num_capacities > self._inner.provable().model.num_capacities == 0:
            found = copy(self)
            found.model = self.model.without_capacities()
            return found
        return self.cut_by(self.weighed, ()) if self.excluded else self

    def cut_by(self, weighed: tuple[_Cut, ...], excluded: tuple[_Cut, ...]) -> PlacedTenantedMenus:
        """Return the same with these further capacities and no others."""
        found, model, cuts = copy(self), self.uncut, (*weighed, *excluded)
        found.weighed, found.excluded = weighed, excluded
        columns = [np.where(self._row >= 0, cut.use[self._row], 0) for cut in cuts if cut.use.size]
        found.model = (
            model.under(
                np.column_stack([model.uses, *columns]),
                np.concatenate((model.capacities, np.array([cut.room for cut in cuts], dtype=np.int64))),
                (*model.capacity_names, *(cut.name for cut in cuts)),
            )
            if columns
            else model
        )
        return found


def _last(model: MultipleChoiceKnapsack) -> _Cut:
    """Return the last capacity of menus, the one that was added to those of the formulation."""
    return _Cut(model.capacity_names[-1], model.uses[:, -1], int(model.capacities[-1]))

"""Lexicographic max-min over tenants as textbooks have it: a sequence of MILPs, each by HiGHS.

With x the options taken, s_i(x) the share of tenant i and w_i its weight, until every tenant is held:

    1. max t            s.t.  s_i(x) >= w_i t           for those not held yet
    2. max sum_i z_i    s.t.  s_i(x) >= low_i + (high_i - low_i) z_i,   z binary

where low_i is the least share at the level t* of the first and high_i the least one above it. Whoever has no
z_i is held at low_i. At last the objective, under all that is held. (The sequence of Ogryczak and Sliwinski,
*Lexicographic max-min optimization for efficient and fair bandwidth allocation*, 2007; the second programme
as in Narayanan et al., OSDI 2020, section 4.3.) What tenants could have alone on their guarantees is held
before. Where several sets could rise, the second takes one of them for good, so that the levels above may end
lower than they must.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Termination
from apportion.formulations.tenants import TenantedMenus
from benchmarks.peers.task import Answer, CannotTake, Limits, Task, Watch

__all__ = ["solve"]

Floats = NDArray[np.float64]


def solve(task: Task, limits: Limits) -> Answer:
    """Hold guarantees, then level after level, then maximise the objective."""
    menus = task.formulation
    if not isinstance(menus, TenantedMenus):
        raise CannotTake("is about tenants")
    rule, tree = menus.ledger.fairness, menus.ledger.tree
    leaves = [name for name in tree.leaves if menus.ledger.members(name)]
    if rule.over != "tenants" or rule.inside != "sum" or rule.keep != 1.0:
        raise CannotTake("is max-min over tenants, inside by the sum")
    if menus.model.sense != "maximize" or len({tree.nodes[name].priority for name in leaves}) > 1:
        raise CannotTake("maximises, without classes")
    sequence = _Sequence(menus, limits)
    ended = sequence.guarantees() or sequence.levels(leaves)
    if ended is not None:
        return Answer(termination=ended, raw_status="in the sequence", watch=sequence.watch)
    said = sequence.ask(menus.model.values, gap=limits.gap)
    return Answer(
        termination=said.termination,
        raw_status=f"{sequence.questions} programmes",
        x=None if said.x is None else said.x[: menus.model.num_options],
        objective=said.objective,
        bound=said.bound,
        watch=sequence.watch,
    )


@dataclass(frozen=True, slots=True)
class _Said:
    termination: Termination
    x: Floats | None = None
    objective: float | None = None
    bound: float | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """``sum of share over the jobs - of_extra . extra >= least``."""

    options: NDArray[np.int64]
    shares: Floats
    least: float
    extra: int = -1
    of_extra: float = 0.0


class _Sequence:
    def __init__(self, menus: TenantedMenus, limits: Limits) -> None:
        self.menus, self.limits, self.watch = menus, limits, Watch()
        self.held: dict[str, int] = {}
        self.questions = 0
        names = menus.job_names()
        self._place = {job: index for index, job in enumerate(names)}
        self._owner = menus.model.job_of_option()

    def guarantees(self) -> Termination | None:
        """Hold what tenants have alone on what they are guaranteed; return why not, if not."""
        tree, model = self.menus.ledger.tree, self.menus.model
        for name in reversed(list(tree.nodes)):
            own = {capacity: tree.guarantees(capacity)[name] for capacity in self.menus.capacities}
            if not any(own.values()):
                continue
            options, shares = self._of(name)
            inside = np.zeros(model.num_options)
            inside[options] = 1.0
            rooms = [
                float(own.get(row, limit))
                for row, limit in zip(model.capacity_names, model.capacities.tolist(), strict=True)
            ]
            value = np.zeros(model.num_options)
            value[options] = shares
            said = self.ask(value, inside=inside, rooms=rooms)
            if said.termination is not Termination.OPTIMAL or said.objective is None:
                return said.termination
            self.held[name] = round(said.objective)
        return None

    def levels(self, active: list[str]) -> Termination | None:
        """Hold every tenant at its level; return why not, if not."""
        nodes = self.menus.ledger.tree.nodes
        weight = {name: nodes[name].tenant.weight for name in active}
        zero = np.zeros(self.menus.model.num_options)
        while active:
            rows = [_Row(*self._of(name), 0.0, 0, weight[name]) for name in active]
            said = self.ask(zero, rows, extras=np.ones(1), whole=False)
            if said.termination is not Termination.OPTIMAL or said.objective is None:
                return said.termination
            level = said.objective
            low = {name: math.ceil(level * weight[name] - 1e-6) for name in active}
            high = {name: math.floor(level * weight[name] + 1e-6) + 1 for name in active}
            rows = [
                _Row(*self._of(name), float(low[name]), place, float(high[name] - low[name]))
                for place, name in enumerate(active)
            ]
            said = self.ask(zero, rows, extras=np.ones(len(active)), whole=True)
            if said.termination is not Termination.OPTIMAL or said.x is None:
                return said.termination
            risen = said.x[zero.size :] > 0.5
            for name, up in zip(active, risen.tolist(), strict=True):
                if not up:
                    self.held[name] = max(low[name], self.held.get(name, 0))
            active = [name for name, up in zip(active, risen.tolist(), strict=True) if up]
        return None

    def ask(
        self,
        values: Floats,
        rows: Sequence[_Row] = (),
        extras: Floats | None = None,
        *,
        whole: bool = False,
        inside: Floats | None = None,
        rooms: Sequence[float] | None = None,
        gap: float = 0.0,
    ) -> _Said:
        """Maximise values and extras under the menus, what is held, and some rows more.

        `inside` are the only options that count, their jobs being optional, within other rooms.
        """
        from scipy.sparse import csr_array

        model = self.menus.model
        extra = np.zeros(0) if extras is None else extras
        columns = model.num_options + extra.size
        held = [_Row(*self._of(name), float(share)) for name, share in self.held.items()]
        below = set() if inside is None else set(np.flatnonzero(inside).tolist())
        held = [row for row in held if inside is None or set(row.options.tolist()) <= below]
        parts: list[tuple[Any, Any, Any]] = [
            (self._owner, np.arange(model.num_options), np.ones(model.num_options))
        ]
        used, capacity = np.nonzero(model.uses)
        parts.append((model.num_jobs + capacity, used, model.uses[used, capacity]))
        lower = [0.0 if inside is not None else 1.0] * model.num_jobs + [-math.inf] * model.num_capacities
        upper = [1.0] * model.num_jobs + [
            float(room) for room in (model.capacities if rooms is None else rooms)
        ]
        for row in (*held, *rows):
            at = len(lower)
            parts.append((np.full(row.options.size, at), row.options, row.shares))
            if row.extra >= 0:
                parts.append(([at], [model.num_options + row.extra], [-row.of_extra]))
            lower.append(row.least)
            upper.append(math.inf)
        matrix = csr_array(
            (
                np.concatenate([np.asarray(part[2], dtype=np.float64) for part in parts]),
                (np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])),
            ),
            shape=(len(lower), columns),
        )
        top = np.concatenate(
            (np.ones(model.num_options) if inside is None else inside, np.full(extra.size, 1.0))
        )
        if extra.size and not whole:
            top[-extra.size :] = math.inf
        integer = np.ones(columns, dtype=np.int32)
        if extra.size and not whole:
            integer[-extra.size :] = 0
        return self._run(
            np.concatenate((values, extra)), matrix, np.array(lower), np.array(upper), top, integer, gap
        )

    def _run(
        self, cost: Floats, matrix: Any, lower: Floats, upper: Floats, top: Floats, integer: Any, gap: float
    ) -> _Said:
        import highspy

        self.questions += 1
        highs = highspy.Highs()
        for name, value in {
            "output_flag": False,
            "threads": self.limits.threads,
            "random_seed": self.limits.seed,
            "mip_rel_gap": gap,
            "time_limit": self.watch.left(self.limits.seconds),
        }.items():
            highs.setOptionValue(name, value)
        rows, most = int(highspy.MatrixFormat.kRowwise), int(highspy.ObjSense.kMaximize)
        highs.passModel(
            cost.size, lower.size, matrix.nnz, rows, most, 0.0, cost, np.zeros(cost.size), top, lower, upper,
            matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data, integer,
        )  # fmt: skip
        self.watch.lap("build")
        highs.run()
        self.watch.lap("solve")
        status, info = highs.getModelStatus(), highs.getInfo()
        if status == highspy.HighsModelStatus.kInfeasible:
            return _Said(Termination.INFEASIBLE)
        known = {
            highspy.HighsModelStatus.kOptimal: Termination.OPTIMAL,
            highspy.HighsModelStatus.kTimeLimit: Termination.TIME_LIMIT,
        }
        termination = known.get(status, Termination.ERROR)
        if info.primal_solution_status != int(highspy.SolutionStatus.kSolutionStatusFeasible):
            return _Said(termination)
        x = np.array(highs.getSolution().col_value, dtype=np.float64)
        bound = float(info.mip_dual_bound)
        return _Said(
            termination, x, float(info.objective_function_value), bound if math.isfinite(bound) else None
        )

    def _of(self, name: str) -> tuple[NDArray[np.int64], Floats]:
        """Return the options of a tenant's jobs and their shares."""
        mine = np.zeros(len(self._place), dtype=np.bool_)
        mine[[self._place[job] for job in self.menus.ledger.members(name)]] = True
        options = np.flatnonzero(mine[self._owner])
        return options, self.menus.share[options].astype(np.float64)

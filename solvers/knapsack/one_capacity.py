"""Solve a one-capacity multiple-choice knapsack exactly: dual, greedy choice, reduction, core.

Among equal optima the answer depends on the arrays alone (no clock, no chance), and with `preferred` it keeps
as many jobs at their preferred option as the tie-break search can prove.

Where values lie on a grid, a better choice beats the known one by a least step (`improvement_step`): every
choice the core still holds is worth the base choice plus a sum of gains, and if these are whole multiples of
a grid g, so is that sum.
"""

from __future__ import annotations

from math import gcd
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import BackendUnavailable
from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination, absolute_gap
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.general.points import BestFound
from apportion.solvers.knapsack.core_dp import search
from apportion.solvers.knapsack.dual import solve_dual
from apportion.solvers.knapsack.greedy import break_solution, repaired
from apportion.solvers.knapsack.menu_blocks import Columns, MenuBlocks, PricedMenus, build, sampled_losses
from apportion.solvers.knapsack.reduction import Core, charged, reduce

__all__ = ["PhasedSolve", "closes", "improvement_step", "most_kept", "solve"]


_SCALE = 1024.0
"""Values are looked at in units of 1/1024, so that halves and quarters count as a grid too."""
_LARGEST = 2.0**52
_MOST_USES = 10_000
"""How many uses up to the capacity are looked at for a point of the lattice of uses and values."""
_JOBS_AT_A_TIME = 1 << 13


def improvement_step(core: Core, menus: MenuBlocks, incumbent: Columns, loss: float) -> tuple[float, float]:
    """Return by how much any better choice in the core beats `incumbent`, and what every choice loses.

    Uses and values of the choices are points of a lattice, those of one use apart by a multiple of its grid.
    What the choices of a use are worth at most is known from the multiplier, so that only points below that
    count: of jobs whose values are their uses and a bonus each, there is mostly none above the optimum.

    Parameters
    ----------
    core
        The core; `loss` is at least that of every option it dropped.
    menus
        All the menus.
    incumbent
        Columns of the known choice.
    loss
        Its total loss; the step leaves room for the rounding of losses of this size.

    Returns
    -------
    tuple
        Infinity where there is no better choice, 0.0 if unknown; and a total loss that no choice goes below.
    """
    units, ahead = _units(core.value), _ahead(menus, incumbent, core.base)
    if units is None or not units.size or ahead is None:
        return 0.0, 0.0
    gains = units - np.repeat(units[core.start[:-1]], np.diff(core.start))
    grid, price = _grid(gains), core.multiplier
    rounding = core.rounding + 2.0**-49 * (loss + price * abs(core.residual))
    if grid == 0:
        return 0.0, 0.0
    step, least = (grid - ahead % grid) / _SCALE, 0.0
    unit, gain, grid = _lattice(core.deviation, gains, grid)
    far = max(_SCALE * price * abs(core.residual), abs(core.residual) // unit * gain)
    if 0.0 < loss + rounding <= price * unit * _MOST_USES and far < _LARGEST:
        # by what is left of the capacity: the most units of value above the base that its price allows
        left = core.residual % unit + unit * np.arange(int((loss + rounding) / (price * unit)) + 1)
        most = np.floor(_SCALE * (price * (core.residual - left) + rounding)).astype(np.int64)
        points = (core.residual - left) // unit * gain
        better = ahead + 1 + (points - ahead - 1) % grid
        step = (int(better[better <= most].min()) - ahead) / _SCALE if (better <= most).any() else np.inf
        least = price * core.residual - float((most - (most - points) % grid).max()) / _SCALE
    return (step - 2.0 * rounding, least) if rounding < 0.125 * step else (0.0, 0.0)


def _lattice(uses: NDArray[np.int64], gains: NDArray[np.int64], grid: int) -> tuple[int, int, int]:
    """Return a use a, a gain b and a grid g: each pair is t (a, b) + (0, m g), t and m whole.

    Euclid's algorithm on all pairs at once; `grid` divides the gains, and is what is known where they grow
    large.
    """
    rest, left = uses, gains
    while (at := np.flatnonzero(rest)).size:
        least = at[np.argmin(np.abs(rest[at]))]
        use, gain = int(rest[least]), int(left[least])
        steps = rest // use
        if max(abs(gain), 1) * int(np.abs(steps).max()) >= _LARGEST or np.abs(left).max() >= _LARGEST:
            return int(np.gcd.reduce(uses)), 0, grid
        rest, left = rest - use * steps, left - gain * steps
        if not rest.any():
            finer = _grid(left) or int(_LARGEST)
            return abs(use), gain * (1 if use > 0 else -1) % finer, finer
        rest, left = np.append(rest, use), np.append(left, gain)
    return 1, 0, grid


def closes(menus: MenuBlocks, base: Columns, incumbent: Columns, loss: float, rounding: float) -> bool:
    """Return whether no value between the incumbent and the bound lies on the grid of all the menus' values.

    Parameters
    ----------
    menus
        All the menus.
    base, incumbent
        Columns of the base choice and of the known one.
    loss
        The known choice's gap to the Lagrangian bound.
    rounding
        What the float64 errors of `loss` stay below.
    """
    grid = 0
    for block, column in zip(menus.blocks, base, strict=True):
        origin = block.value_at(column)
        for start in range(0, block.size, _JOBS_AT_A_TIME):
            values = block.value[start : start + _JOBS_AT_A_TIME]
            first = np.broadcast_to(origin[start : start + _JOBS_AT_A_TIME, None], values.shape)
            usable = values > -np.inf
            to, since = _units(values[usable]), _units(first[usable])
            if to is None or since is None:
                return False
            grid = gcd(grid, _grid(to - since))
    ahead = _ahead(menus, incumbent, base)
    return grid > 0 and ahead is not None and (grid - ahead % grid) / _SCALE > loss + rounding


def _ahead(menus: MenuBlocks, incumbent: Columns, base: Columns) -> int | None:
    """Return the units of value by which a choice is ahead of the base, ``None`` if they are not whole."""
    ahead = 0
    for block, column, base_column in zip(menus.blocks, incumbent, base, strict=True):
        moved = np.flatnonzero(column != base_column)
        if moved.size:
            at = moved * block.width
            to, origin = (
                _units(block.value.ravel().take(at + pick[moved])) for pick in (column, base_column)
            )
            if to is None or origin is None:
                return None
            ahead += int((to - origin).sum())
    return ahead


def _units(values: NDArray[np.float64]) -> NDArray[np.int64] | None:
    scaled = values * _SCALE
    if not ((np.abs(scaled) < _LARGEST) & (scaled == np.rint(scaled))).all():
        return None
    return scaled.astype(np.int64)


def _grid(gains: NDArray[np.int64]) -> int:
    """Return the greatest common divisor of the gains."""
    whole = int(_SCALE)
    if not (gains % whole).any():
        gains = gains // whole
    else:
        whole = 1
    if (np.abs(gains) == 1).any():
        return whole
    return int(np.gcd.reduce(gains)) * whole


def most_kept(
    core: Core, menus: MenuBlocks, wanted: Columns, incumbent: Columns, equal: float, cap: int, clock: Clock
) -> tuple[Columns, bool]:
    """Return the optimum that keeps most wanted options, and whether that was searched to the end.

    Every other option is charged so little that all charges together stay below half of what counts as equal.

    Parameters
    ----------
    core
        What equal optima may hold, nothing dominated left out.
    menus
        All the menus.
    wanted
        Columns; below 0 where nothing is wanted.
    incumbent
        A proven optimum.
    equal
        By how much optima may differ.
    cap
        Most states held at a time.
    clock
        The limits.

    Raises
    ------
    KeyboardInterrupt
        If the search was interrupted.
    """
    if not core.groups:
        return incumbent, True
    charge = 0.5 * equal / core.groups
    tied = charged(core, menus, wanted, charge)
    current = tied.entries(incumbent)
    if current is None:
        return incumbent, False
    left = menus.capacity - menus.used(incumbent)
    loss = float(tied.loss[current].sum()) + core.multiplier * left
    found = search(tied, loss, 0.5 * charge, 0.0, cap, clock, lambda _: None)
    if found.stopped is Termination.INTERRUPTED:
        raise KeyboardInterrupt
    best = incumbent if found.entries is None else tied.columns(found.entries)
    return best, found.floor >= found.loss


_CAPS = (1 << 12, 1 << 16, 1 << 19)
"""Most states held in the first, second and last search of the core: a narrow one finds good choices soon."""
_WORTH_A_TRY = 20_000
"""Options from which on a small core is searched before all menus are reduced."""
_TRIED_OPTIONS = 1 << 17
_TRIED_CORE = 600.0
_TRIED_WORK = 1e6
_EQUAL = 1e-12
_MOST_ENTRIES = 2_000_000
_SECONDS_PER_ENTRY = 2.5e-6
_SECONDS_PER_VALUE = 1e-7
_TIE_WORK = 3e7
_SPARE = 2.0**-48
"""Part of the objective that a core holds more than asked for: its base then loses no more than that."""


class PhasedSolve:
    """The state of one solve; losses are gaps to the Lagrangian bound at `multiplier`.

    Attributes
    ----------
    incumbent
        Columns of the best feasible choice known.
    base
        Columns that are best at the multiplier, feasible or not.
    """

    def __init__(
        self, model: MultipleChoiceKnapsack, menus: MenuBlocks, options: SolveOptions, clock: Clock
    ) -> None:
        self._model, self._menus, self._options, self._clock = model, menus, options, clock
        self._best: BestFound[Columns] = BestFound(model.sense == "maximize", options, clock)
        self._sign = self._best.sign
        self.incumbent: Columns = menus.least
        self.base: Columns = menus.least
        self._base_used = menus.least_use
        self._valued: tuple[Columns, float] | None = None
        self._multiplier = 0.0
        self._loss = np.inf  # unknown until the dual is solved
        self._floor = 0.0
        self._slack: float | None = None  # how far the optimum may lie above the incumbent, once proven
        self._source = "enumeration" if menus.pruned else "multipliers"
        self._proven: float | None = None
        self._start_used: bool | None = None
        self._seconds: dict[str, float] = {}
        self._counters: dict[str, float] = {}

    def to_the_end(self, start: NDArray[np.int64] | None, hint: float | None) -> Termination:
        """Run every phase until the gap is closed or a limit is reached; `hint` is a likely multiplier."""
        began = perf_counter()
        menus, clock = self._menus, self._clock
        if start is not None:
            self._start_used = self._model.check(start).feasible
            if self._start_used:
                self.incumbent = menus.columns(np.asarray(start, dtype=np.int64))
        point = solve_dual(menus, clock, hint)
        self._multiplier = point.multiplier
        self._counters["sweeps"] = point.sweeps
        late = clock.stopped() is not None
        self.base = choice = break_solution(menus, point.low, point.high, largest_first=not late)
        self._base_used = menus.used(choice)
        if self._base_used > menus.capacity:
            if late:  # who comes first: a look at all of them, without sorting any
                choice = break_solution(menus, choice, menus.least, largest_first=False)
            else:
                choice = repaired(menus, choice)
        warm = self.incumbent if self._start_used else None
        self._accept(choice, self._priced.loss_of(choice))
        if warm is not None and (loss := self._priced.loss_of(warm)) < self._loss:
            self._accept(warm, loss)
        if self._loss > self._noise() and not self._close_enough() and clock.stopped() is None:
            self._try_a_few_jobs()
        self._seconds["dual"] = perf_counter() - began
        if self._loss <= self._noise():
            self._slack = self._loss + self._priced.margin(self.incumbent)
            return Termination.OPTIMAL
        if self._close_enough():
            return Termination.GAP_REACHED
        stopped = clock.stopped()
        return stopped if stopped is not None else self._close()

    def _try_a_few_jobs(self) -> None:
        """Search a small core first: a good choice found there lets the reduction cut deep."""
        menus = self._menus
        options = sum(block.value.size for block in menus.blocks)
        if options < _WORTH_A_TRY:
            return
        stride = -(-options // _TRIED_OPTIONS)
        few = menus.every(stride, self.base)
        losses = np.concatenate(
            [sampled_losses(b, self._multiplier, c) for b, c in zip(few.blocks, few.least, strict=True)]
        )
        losses = losses[losses > 0.0]
        share = losses.size / max(sum(block.value.size for block in few.blocks), 1)
        wanted = int(_TRIED_CORE * share)
        if losses.size <= wanted:
            return
        limit = min(self._loss, float(np.partition(losses, wanted)[wanted]))
        core = reduce(few, self._multiplier, few.least, limit)
        if core is None:
            return
        goal = absolute_gap(self._objective(), self._options.gap)
        clock = self._clock.part(_TRIED_WORK)
        found = search(core, self._loss, self._noise(), goal, _CAPS[0], clock, self._announce)
        self._clock.charge(clock.work)
        if found.entries is not None:
            columns = [column.copy() for column in self.base]
            for column, part in zip(columns, core.columns(found.entries), strict=True):
                column[::stride] = part
            self.incumbent, self._loss = columns, self._priced.loss_of(columns)
        if found.stopped is Termination.INTERRUPTED:
            raise KeyboardInterrupt

    def _close(self) -> Termination:
        """Reduce to the core and search it, with ever more states."""
        for cap in _CAPS:
            began = perf_counter()
            most = self._clock.count_affordable(_SECONDS_PER_ENTRY, _MOST_ENTRIES)
            core = self._reduced(0.0, True, most)
            if core is None:
                return self._give_up(
                    Termination.MEMORY_LIMIT if most == _MOST_ENTRIES else Termination.TIME_LIMIT
                )
            self._counters.update(core_jobs=core.groups, core_options=core.loss.size)
            self._add("reduce", perf_counter() - began)
            grid, least = improvement_step(core, self._menus, self.incumbent, self._loss)
            step = max(grid, self._noise())
            limit = self._loss
            goal = absolute_gap(self._objective(), self._options.gap)
            began = perf_counter()
            least += core.rounding + step * 0.25 if np.isfinite(step) else 0.0
            found = search(core, self._loss, step, goal, cap, self._clock, self._announce, least)
            if found.entries is not None:
                self.incumbent, self._loss = core.columns(found.entries), found.loss
            self._counters["stages"] = self._counters.get("stages", 0.0) + found.stages
            self._counters["states"] = max(self._counters.get("states", 0.0), float(found.states))
            self._add("core", perf_counter() - began)
            if found.floor > self._floor:
                self._source = "dynamic_programming"
            self._floor = max(self._floor, min(found.floor, self._loss))
            if found.floor >= found.loss:
                # losses have errors, and so have their sums over the groups; whole steps are larger than both
                rounding = core.rounding + core.groups * 2.0**-52 * limit
                self._slack = 0.0 if grid >= step else step + rounding
                return Termination.OPTIMAL
            if self._close_enough():
                return Termination.GAP_REACHED
            if found.stopped is not None:
                return found.stopped
        return Termination.MEMORY_LIMIT

    def _reduced(self, beyond: float, prune_dominated: bool, most: int) -> Core | None:
        """Return the core: options that lose at most the gap plus `beyond`; the base value is exact.

        A base that was best only up to rounding gives way to the true one; losses are then those to that.
        Mostly they are within what the core was given to spare, and it holds all that it must.
        """
        while True:
            limit = self._loss + beyond + _SPARE * abs(self._objective())
            core = reduce(self._menus, self._multiplier, self.base, limit, prune_dominated, most)
            if core is None or core.base is self.base:
                return core
            self.base, self._base_used = core.base, self._menus.capacity - core.residual
            self._loss = self._priced.loss_of(self.incumbent)
            if self._loss + beyond <= limit:
                return core

    def _give_up(self, why: Termination) -> Termination:
        """Return `why` the core is not searched, unless the grid of values alone proves the incumbent."""
        began = perf_counter()
        options = sum(block.value.size for block in self._menus.blocks)
        proven = self._clock.affords(options * _SECONDS_PER_VALUE) and closes(
            self._menus, self.base, self.incumbent, self._loss, self._priced.rounding(self.incumbent)
        )
        self._add("reduce", perf_counter() - began)
        if not proven:
            return why
        self._slack, self._source = 0.0, "enumeration"
        return Termination.OPTIMAL

    def settle_ties(self, preferred: NDArray[np.int64]) -> None:
        """Among optima equal within 1e-12, search for the one that keeps most jobs at their preferred row."""
        began = perf_counter()
        menus = self._menus
        self._proven = self._objective()
        equal = _EQUAL * max(abs(self._proven), 1e-300)
        wanted = menus.columns(preferred)
        proven = not self._priced.may_hold(wanted, self.incumbent, self._loss + equal)
        if not proven:
            most = self._clock.count_affordable(_SECONDS_PER_ENTRY, _MOST_ENTRIES)
            core = self._reduced(equal, False, most)
            if core is not None:
                clock = self._clock.part(_TIE_WORK)
                self.incumbent, proven = most_kept(
                    core, menus, wanted, self.incumbent, equal, _CAPS[1], clock
                )
        self._counters["tie_break_proven"] = float(proven)
        self._add("ties", perf_counter() - began)

    def outcome(self, termination: Termination) -> Outcome:
        """Return what is known now."""
        model = self._model
        point = self._menus.rows(self.incumbent)
        objective = model.objective(point)
        bound: float | None = None
        if termination is Termination.OPTIMAL and self._slack is not None:
            best = (
                objective if self._proven is None else self._sign * max(self._sign * objective, self._proven)
            )
            seen = self._slack > _EQUAL * abs(objective) and not closes(
                self._menus, self.base, self.incumbent, self._slack, 0.0
            )
            bound = best + self._sign * self._slack if seen else best
        elif self._loss < np.inf:
            bound = objective + self._sign * (self._loss - self._floor + self._priced.margin(self.incumbent))
        return Outcome(
            termination=termination,
            raw_status=termination.value,
            point=point,
            objective=objective,
            bound=bound,
            bound_source=None if bound is None else self._source,
            multipliers=self._multipliers(),
            seconds=self._seconds,
            counters=self._counters,
            start_used=self._start_used,
        )

    def _multipliers(self) -> NDArray[np.float64] | None:
        """Return the multiplier that is best with every option counted, as a certificate counts them."""
        if self._loss == np.inf:
            return None
        multiplier = self._multiplier
        if self._menus.pruned and self._clock.stopped() is None:
            menus = build(self._model, prune=False)
            if menus is not None:
                multiplier = solve_dual(menus, self._clock).multiplier
        return np.array([multiplier])

    @property
    def _priced(self) -> PricedMenus:
        return PricedMenus(self._menus, self._multiplier, self.base, self._base_used)

    def _objective(self) -> float:
        """Return the incumbent's value, to be maximised."""
        if self._valued is None or self._valued[0] is not self.incumbent:
            self._valued = self.incumbent, self._menus.value(self.incumbent)
        return self._valued[1]

    def _noise(self) -> float:
        """Return a difference of objectives that float64 sums do not show."""
        return 2.0**-52 * abs(self._objective())

    def _close_enough(self) -> bool:
        if self._options.gap == 0:
            return False
        gap = self._loss - self._floor + self._priced.rounding(self.incumbent)
        return gap <= absolute_gap(self._objective(), self._options.gap)

    def _accept(self, columns: Columns, loss: float) -> None:
        self.incumbent = columns
        self._announce(loss)
        self._loss = loss

    def _announce(self, loss: float) -> None:
        """Tell the caller of a better total loss than the incumbent's."""
        if self._options.on_incumbent is not None:
            known = self._loss if self._loss < np.inf else loss
            value = self._objective() + (known - loss)
            bound = value + loss - self._floor + self._priced.rounding(self.incumbent)
            self._best.report(self._sign * value, self._sign * bound)

    def _add(self, phase: str, seconds: float) -> None:
        self._seconds[phase] = self._seconds.get(phase, 0.0) + seconds


def solve(
    model: MultipleChoiceKnapsack,
    options: SolveOptions,
    start: NDArray[np.int64] | None = None,
    preferred: NDArray[np.int64] | None = None,
    hint: float | None = None,
) -> Outcome:
    """Solve a knapsack with one capacity.

    Parameters
    ----------
    model
        The model; either sense.
    options
        Limits. A `time_limit` is looked at between sweeps over the menus and between stages of the core;
        a `work_limit` counts expanded states of the core.
    start
        A choice to start from (the model's row per job, -1 for none); ignored if it is not feasible.
    preferred
        A row per job, or -1: among optima equal within 1e-12 relative, the one that keeps more jobs at their
        preferred row is chosen. The counter ``tie_break_proven`` says whether that was searched to the end.

    hint
        The multiplier of a similar model, where the search for this one's begins.

    Returns
    -------
    Outcome
        Its bound is the objective when proven (``dynamic_programming``, or ``multipliers`` where the
        Lagrangian bound alone proves it), loosened by what rounding may hide where that is more than 1e-12 of
        the values chosen.

    Raises
    ------
    BackendUnavailable
        If the model has not exactly one capacity.
    """
    if model.num_capacities != 1:
        raise BackendUnavailable(
            f"this solver takes one capacity, the model has {model.num_capacities}; use the exact backend"
        )
    clock = Clock(options)
    try:
        menus = build(model)
    except KeyboardInterrupt:
        return Outcome(termination=Termination.INTERRUPTED, raw_status="interrupted before the first choice")
    if menus is None:
        return Outcome(
            termination=Termination.INFEASIBLE,
            raw_status="the least uses of the required jobs exceed the capacity",
            seconds={"solve": clock.seconds},
        )
    if model.num_options and max(float(model.values.max()), -float(model.values.min())) >= 1e150:
        return Outcome(
            termination=Termination.NUMERICAL_ERROR, raw_status="values of 1e150 and more would overflow"
        )
    run = PhasedSolve(model, menus, options, clock)
    try:
        termination = run.to_the_end(start, hint)
        if preferred is not None and termination is Termination.OPTIMAL:
            run.settle_ties(np.asarray(preferred, dtype=np.int64))
    except KeyboardInterrupt:
        termination = Termination.INTERRUPTED
    return run.outcome(termination)

"""Among equal optima of a one-capacity knapsack, the one that keeps most jobs at their wanted option."""

from __future__ import annotations

from apportion.outcome import Termination
from apportion.solvers.clock import Clock
from apportion.solvers.knapsack.core_dp import search
from apportion.solvers.knapsack.menu_blocks import Columns, MenuBlocks
from apportion.solvers.knapsack.reduction import Core, charged

__all__ = ["most_kept"]


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

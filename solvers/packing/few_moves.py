"""Put jobs onto nodes: nobody moves without need, and of what is left the nodes in use are few.

All who can stay do if the others find room beside them. If not, few jobs are searched exactly and many by
CP-SAT; where nothing at all fits, weights or a completed search prove it.
"""

from __future__ import annotations

from dataclasses import dataclass

from apportion.models.node_packing import NodePacking
from apportion.solvers.packing.best_fit import Nodes, best_fit, is_chain
from apportion.solvers.packing.search import Search, fewest_moves
from apportion.solvers.packing.weights import violated_weights

__all__ = ["Placement", "pack"]

_FEW = 24
"""Jobs up to which the exact search is tried before CP-SAT."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where jobs lie, or why they cannot.

    Attributes
    ----------
    nodes
        Per job, in its order; ``None`` if nothing was found.
    proven
        With nodes: no packing moves fewer jobs. Without: there is none.
    weights
        Weights w(1), .., w(size) that prove that there is none; see `violated_weights`.
    core
        Jobs, as a `MachinePacking` calls them, that are shown not to fit together; all of them where absent.
    """

    nodes: Nodes | None
    proven: bool
    weights: tuple[int, ...] | None = None
    core: tuple[int, ...] | None = None


def pack(packing: NodePacking, seconds: float | None = None) -> Placement:
    """Place the jobs of one GPU type.

    Parameters
    ----------
    packing
        What has to be packed.
    seconds
        Wall-clock limit of CP-SAT, beside a limit on its deterministic work.
    """
    stayers = [job for job in range(len(packing.gpus)) if packing.may_stay(job)]
    nodes = best_fit(packing, stayers)
    chain, few = is_chain(packing), len(packing.gpus) <= _FEW
    if nodes is not None:
        if few and not chain:
            better = fewest_moves(packing, stayers).nodes
            nodes = nodes if better is None else better
        return Placement(nodes, proven=True)
    anywhere = best_fit(packing, ())
    if anywhere is None:
        weights = violated_weights(packing)
        if weights is not None:
            return Placement(None, proven=True, weights=weights)
        if chain:
            return Placement(None, proven=True)
    if few:
        found = fewest_moves(packing, stayers)
        if found.complete:
            return Placement(found.nodes, proven=True)
    found = _by_cp_sat(packing, stayers, seconds)
    if found.nodes is None and not found.complete:
        return Placement(None if anywhere is None else _falling(packing, stayers), proven=False)
    return Placement(found.nodes, proven=found.complete)


def _by_cp_sat(packing: NodePacking, stayers: list[int], seconds: float | None) -> Search:
    from apportion.solvers.general.guard import usable

    if not usable("ortools"):
        return Search(None, False)
    from apportion.solvers.packing.by_cp_sat import fewest_moves as by_cp_sat

    return by_cp_sat(packing, stayers, seconds)


def _falling(packing: NodePacking, stayers: list[int]) -> Nodes | None:
    """Let growing shares of the stayers move, the smallest first."""
    stayers = sorted(stayers, key=lambda job: (packing.gpus[job], job))
    for part in (8, 4, 2, 1):
        found = best_fit(packing, stayers[-(-len(stayers) // part) :])
        if found is not None:
            return found
    return None

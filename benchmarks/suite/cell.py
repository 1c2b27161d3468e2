"""What one measurement is: an instance, a solver, limits and a seed. All of it is data and can be pickled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["PROOF_S", "REPEATED_BELOW_S", "Cell", "InstanceSpec", "SolverSpec"]

REPEATED_BELOW_S = 0.5
"""Calls shorter than this are repeated."""
PROOF_S = 10.0
"""Seconds for one walk of the proof of an answer, outside of the time that counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSpec:
    """An instance by its recipe.

    Attributes
    ----------
    family
        The problem family solvers are declared for: ``gap_filling``, ``mckp``, ...
    set_name
        The set it belongs to; growth curves are drawn per set.
    name
        Unique within the set.
    maker
        A key of `benchmarks.suite.making.MAKERS`.
    arguments
        Its keyword arguments.
    size, size_of
        What growth is drawn against, and what that counts; ``None`` for instances from files.
    gap
        The relative gap that is asked for.
    best_known
        The best value known from elsewhere, in the instance's own sense; ``None`` if there is none.
    """

    family: str
    set_name: str
    name: str
    maker: str
    arguments: tuple[tuple[str, Any], ...]
    size: int | None = None
    size_of: str = ""
    gap: float = 0.0
    best_known: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverSpec:
    """One way to answer.

    Attributes
    ----------
    name
        As users say it.
    peer
        ``"module:function"`` of a peer; ``None`` for `apportion.solve`.
    backend, formulation
        What `apportion.solve` is told.
    families
        The families it is run on.
    packages
        Distributions whose versions matter; a peer without them is a row that says so.
    largest
        Largest size per family it is declared for: above it nobody waits for it.
    """

    name: str
    families: tuple[str, ...]
    peer: str | None = None
    backend: str = "auto"
    formulation: str | None = None
    packages: tuple[str, ...] = ()
    largest: Mapping[str, int] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        """Whether it is a backend of this package."""
        return self.peer is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One measurement.

    Attributes
    ----------
    instance
        What is solved.
    solver
        What solves it.
    limit_s
        Wall-clock limit told to the solver, seconds for the whole call.
    threads, seed
        As the solver understands them.
    repeats
        At most so many timed calls; only calls shorter than `REPEATED_BELOW_S` are repeated.
    memory_mib
        Limit of the address space of the cell's process; ``None`` for none.
    proof_s
        Seconds for one walk of the proof of an answer.
    data
        The data folder, not part of the key and never written to a row.
    """

    instance: InstanceSpec
    solver: SolverSpec
    limit_s: float
    threads: int = 1
    seed: int = 0
    repeats: int = 5
    memory_mib: int | None = None
    proof_s: float = PROOF_S
    data: str | None = None

    @property
    def key(self) -> str:
        """What identifies the cell across files: set, instance, solver, limit, gap, threads, seed."""
        spec = self.instance
        return (
            f"{spec.set_name}/{spec.name}|{self.solver.name}|{self.limit_s:g}s"
            f"|gap {spec.gap:g}|{self.threads}t|seed {self.seed}"
        )

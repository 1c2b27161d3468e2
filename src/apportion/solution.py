"""What a caller gets: a checked plan or none, its certificate, and how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from apportion.errors import NoPlan
from apportion.gap import relative_gap
from apportion.options import Point
from apportion.outcome import Outcome, Termination, figure
from apportion.report import Report

if TYPE_CHECKING:
    from apportion.proofs.certificate import Proof

__all__ = ["Certificate", "Evidence", "Solution"]

Evidence = Literal["by_multipliers", "by_proof", "by_search", "by_solver"]
_OURS = frozenset({"exact", "dense-dp"})
_CLAIMS = frozenset({Termination.OPTIMAL, Termination.GAP_REACHED, Termination.INFEASIBLE})


@dataclass(frozen=True, slots=True)
class Certificate:
    """The objective recomputed from the plan, and two bounds.

    Attributes
    ----------
    objective
        Recomputed from the plan by the instance's own checker; ``None`` without a plan.
    bound
        The best bound there is, claimed or verified.
    source
        Where `bound` comes from: ``dynamic_programming``, ``enumeration``, ``branch_and_bound``, ``solver``
        (all claims) or ``multipliers`` (verified).
    verified_bound
        The bound that follows in closed form from `multipliers` by weak duality, rounded outward;
        anybody can recompute it from the instance alone.
    multipliers
        One Lagrange multiplier >= 0 per capacity name: the price of one more unit.
    """

    objective: float | None
    bound: float | None
    source: str | None
    verified_bound: float | None
    multipliers: Mapping[str, float] | None

    def __repr__(self) -> str:
        source = "" if self.source is None else f" by {self.source}"
        prices = "no multipliers" if self.multipliers is None else f"{len(self.multipliers)} multipliers"
        return (
            f"<Certificate: objective {figure(self.objective)}, bound {figure(self.bound)}{source}, "
            f"verified {figure(self.verified_bound)}, {prices}>"
        )


@dataclass(frozen=True, eq=False)
class Solution:
    """The answer to one solve call. A plan exists only if our own check of it passed.

    Attributes
    ----------
    instance
        What was solved.
    backend
        Which backend answered.
    reason
        Why that backend.
    termination
        Why the solve ended, as far as it is shown.
    plan
        The plan as it stands in JSON (for a bare model its point: int64 chosen rows, -1 for none, or the
        float64 shares of a divisible `Assignment`), or ``None``.
    report
        The checker's verdict on the plan, or on the point that was withheld.
    certificate
        Objective and bounds.
    outcome
        What the solver said, for the curious.
    times
        Wall-clock seconds of ``compile``, ``start``, ``solve``, ``check`` and ``total``.
    seed
        The seed it ran with.
    notes
        What was refused on the way, in words.
    proof
        What shows the claim to anybody, if it was asked for and the checker accepted it.
    confirmed
        Whether one of our own searches has come to the same claim as the general solver that answered.
    """

    instance: Any
    backend: str
    reason: str
    termination: Termination
    plan: dict[str, Any] | Point | None
    report: Report | None
    certificate: Certificate
    outcome: Outcome | None
    times: Mapping[str, float]
    seed: int
    packages: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    proof: Proof | None = None
    confirmed: bool = False

    def __repr__(self) -> str:
        plan = "no plan" if self.plan is None else f"objective {figure(self.objective)}"
        gap = "" if self.gap is None else f", gap {self.gap:.2g}"
        return f"<Solution: {self.termination}, {plan}, bound {figure(self.bound)}{gap}, by {self.backend}>"

    def _repr_html_(self) -> str:
        """Return the answer as a small table, for notebooks."""
        seconds = self.times.get("total")
        rows = {
            "instance": repr(self.instance),
            "termination": str(self.termination),
            "objective": figure(self.objective),
            "bound": figure(self.bound),
            "gap": figure(self.gap),
            "backend": f"{self.backend} ({self.reason})",
            "seconds": figure(seconds),
            "notes": "; ".join(self.notes),
        }
        cells = (f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in rows.items() if text)
        return f"<table>{''.join(cells)}</table>"

    @property
    def objective(self) -> float | None:
        """The plan's recomputed objective, ``None`` without a plan."""
        return self.certificate.objective

    @property
    def bound(self) -> float | None:
        """The best bound on the optimum, ``None`` without one."""
        return self.certificate.bound

    @property
    def gap(self) -> float | None:
        """``|bound - objective| / max(|objective|, 1e-9)``, ``None`` where either is absent."""
        if self.objective is None or self.bound is None:
            return None
        return relative_gap(self.objective, self.bound)

    @property
    def evidence(self) -> Evidence | None:
        """How far ``optimal``, ``gap_reached`` or ``infeasible`` can be checked; ``None`` for no such claim.

        ``"by_multipliers"``: the verified bound shows it; ``"by_proof"``: `proof` shows it; ``"by_search"``:
        one of our own searches says so; ``"by_solver"``: a general solver says so.
        """
        if self.termination not in _CLAIMS:
            return None
        if self.certificate.source == "multipliers" and self.plan is not None:
            return "by_multipliers"
        verified, objective = self.certificate.verified_bound, self.certificate.objective
        if verified is not None and objective is not None and relative_gap(objective, verified) <= 1e-9:
            return "by_multipliers"
        if self.proof is not None:
            return "by_proof"
        return "by_search" if self.confirmed or self.backend in _OURS else "by_solver"

    @property
    def solution(self) -> str:
        """``"none"``, ``"feasible"`` or ``"optimal"``."""
        if self.plan is None:
            return "none"
        return "optimal" if self.termination is Termination.OPTIMAL else "feasible"

    @property
    def versions(self) -> dict[str, str]:
        """Versions of this package, of Python and of what the backend needs."""
        return dict(_versions(self.packages))

    def require(self) -> Any:
        """Return the plan.

        Raises
        ------
        NoPlan
            If there is none; the message says why.
        """
        if self.plan is None:
            broken = "" if self.report is None else "; ".join(map(str, self.report.violations[:3]))
            why = "; ".join((*self.notes, broken)).strip("; ")
            raise NoPlan(f"no plan: {self.termination.value}" + (f" ({why})" if why else ""))
        return self.plan


@cache
def _versions(packages: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    import platform
    from importlib.metadata import version

    from apportion.version import __version__

    found = {"python": platform.python_version(), "apportion": __version__}
    for name in dict.fromkeys(("numpy", *packages)):
        found[name] = version(name)
    return tuple(found.items())

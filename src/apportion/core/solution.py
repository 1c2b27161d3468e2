"""What a caller gets: a checked plan or none, its certificate, and how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol

from apportion.core.display import Displayable, Drawing
from apportion.core.errors import NoPlan
from apportion.core.extension_points import extension
from apportion.core.outcome import Outcome, Report, Termination, figure, meets, relative_gap

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from apportion.proofs.certificate import Proof

    PlanT = TypeVar("PlanT", default=Any)
    PlanT_co = TypeVar("PlanT_co", covariant=True, default=Any)
else:  # the default, which lets annotations say `Solution` alone, is for type checkers only
    from typing import TypeVar

    PlanT, PlanT_co = TypeVar("PlanT"), TypeVar("PlanT_co", covariant=True)

__all__ = [
    "JOBS_MOVED",
    "JOBS_STOPPED",
    "MAX_CHANGES",
    "Certificate",
    "Evidence",
    "GoalResult",
    "Level",
    "PlanT",
    "PlanT_co",
    "Planned",
    "Solution",
]

Evidence = Literal["by_multipliers", "by_proof", "by_search", "by_solver"]
JOBS_STOPPED, JOBS_MOVED = "jobs stopped", "jobs moved"
"""The last goals of all: how many running jobs get nothing, and how many get something else."""
MAX_CHANGES = "max_changes"
"""The capacity of which jobs use one that change, where only so many may."""
_CLAIMS = frozenset({Termination.OPTIMAL, Termination.GAP_REACHED, Termination.INFEASIBLE})


class Planned(Protocol[PlanT_co]):
    """What may be solved, as type checkers see it: it says what its plans look like."""

    @property
    def _planned(self) -> PlanT_co: ...


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


@dataclass(frozen=True, slots=True)
class Level:
    """The share at which lexicographic max-min stopped one tenant or job.

    Attributes
    ----------
    name
        The tenant, or ``job NAME``.
    share
        The share that every plan must give it, before any weight.
    weight
        Its weight: shares are compared divided by it.
    bound
        The least share that is not refuted for it at this level; equal to `share` where that is proved.
    evidence
        ``"by_search"`` where the sorted shares are shown to be the greatest up to this level, by a plan and
        by an exact search or prices in whole numbers; ``None`` where a limit came first, here or before.
    """

    name: str
    share: float
    weight: float
    bound: float
    evidence: Literal["by_search"] | None


@dataclass(frozen=True, slots=True)
class GoalResult:
    """What became of one goal after the objective, in strict order.

    Attributes
    ----------
    name
        The goal.
    sense
        ``"maximize"`` or ``"minimize"``.
    value
        What the plan reaches.
    bound
        What no plan is better than that has objective and goals before it at their optimum; ``None`` where
        one of them is open.
    seconds
        What this goal took; goals that were asked together share them.
    """

    name: str
    sense: Literal["maximize", "minimize"]
    value: int
    bound: int | None
    seconds: float

    @property
    def proven(self) -> bool:
        """Whether the value is the bound."""
        return self.value == self.bound


@dataclass(frozen=True, eq=False)
class Solution(Displayable, Generic[PlanT_co]):
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
    levels
        The levels of lexicographic max-min, in the order in which they were found, where shares are due.
    floors
        The shares that the plan keeps, in whole units, by tenant or ``job NAME``: bound and proof hold under
        them. ``None`` where no shares are due.
    fair_bound
        A bound on the objective of every plan whose sorted shares are as great, whoever has them; `bound` is
        that of the plans that keep `floors`. ``None`` where no shares are due, none was found, or less than
        all of every level is kept.
    goals
        What became of the goals after the objective, in strict order: those of the instance, then how many
        jobs are stopped and how many moved, where some have something now.
    in_one_sum
        Whether `proof` is of objective and goals together, not of the objective alone.
    """

    instance: Any
    backend: str
    reason: str
    termination: Termination
    plan: PlanT_co | None
    report: Report | None
    certificate: Certificate
    outcome: Outcome | None
    times: Mapping[str, float]
    seed: int
    packages: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    proof: Proof | None = None
    confirmed: bool = False
    levels: tuple[Level, ...] = ()
    floors: Mapping[str, int] | None = None
    fair_bound: float | None = None
    goals: tuple[GoalResult, ...] = ()
    in_one_sum: bool = False

    def __repr__(self) -> str:
        plan = "no plan" if self.plan is None else f"objective {figure(self.objective)}"
        gap = "" if self.gap is None else f", gap {self.gap:.2g}"
        return f"<Solution: {self.termination}, {plan}, bound {figure(self.bound)}{gap}, by {self.backend}>"

    def _facts(self) -> Mapping[str, str]:
        return {
            "instance": repr(self.instance),
            "termination": str(self.termination),
            "objective": figure(self.objective),
            "bound": figure(self.bound),
            "gap": figure(self.gap),
            "backend": f"{self.backend} ({self.reason})",
            "seconds": figure(self.times.get("total")),
            "notes": "; ".join(self.notes),
        }

    @property
    def held(self) -> Any:
        """The instance under the shares that the plan keeps: what certificate and proof are about."""
        if self.floors is None:
            return self.instance
        return extension("under floors")(self.instance, self.floors)

    def table(self) -> dict[str, list[Any]]:
        """Return the plan as columns by name, a row per job in the order of the instance.

        A job that gets nothing has ``None`` in its cells. Of a bare model the columns are ``job``, a number,
        and ``row``.

        Raises
        ------
        NoPlan
            If there is no plan.
        """
        plan: Any = self.require()
        if not isinstance(plan, Mapping):
            return {"job": list(range(len(plan))), "row": plan.tolist()}
        columns = extension("plan columns")
        found: dict[str, list[Any]] = columns(self.instance, plan)
        return found

    def _head(self, most: int) -> Mapping[str, list[Any]]:
        return {} if self.plan is None else self.table()

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object of the answer, as ``solve-instance --json`` prints it."""
        found: dict[str, Any] = extension("document")(self)
        return found

    def plot(self, path: str | PathLike[str] | None = None) -> Drawing | None:
        """Draw instance and plan into a file; its name says the format, ``.svg`` or ``.html`` for instance.

        Parameters
        ----------
        path
            The file; without one nothing is written, and a notebook shows what is returned.

        Returns
        -------
        Drawing or None
            The drawing as SVG, its ``str``; ``None`` where it was written.

        Raises
        ------
        InvalidOption
            If there is no drawing of that format.
        NoPlan
            If there is no plan.
        """
        from apportion.core.files import write_whole

        name = "plan.svg" if path is None else fspath(path)
        plan, prices = self.require(), self.certificate.multipliers
        drawn = extension("drawing")(self.instance, plan, name, prices, self.bound)
        if path is None:
            return Drawing(drawn)
        write_whole(path, extension("encoded drawing")(drawn, name))
        return None

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
        one of our own searches says so; ``"by_solver"``: a general solver says so, be it one that a search of
        ours asked.
        """
        if self.termination not in _CLAIMS:
            return None
        if self.certificate.source == "multipliers" and self.plan is not None:
            return "by_multipliers"
        verified, objective = self.certificate.verified_bound, self.certificate.objective
        if verified is not None and objective is not None and meets(objective, verified):
            return "by_multipliers"
        if self.proof is not None and self._is_proved(self.proof.claim.bound):
            return "by_proof"
        searched = self.backend == "exact" and self.certificate.source != "solver"
        return "by_search" if self.confirmed or searched else "by_solver"

    def _is_proved(self, bound: float | None) -> bool:
        """Return whether a proof's bound shows the claim: of tiny objectives it may lie a little beyond."""
        if self.termination is not Termination.OPTIMAL or bound is None or self.objective is None:
            return True
        if self.in_one_sum:  # accepted for the optimum of objective and goals together
            return True
        return meets(self.objective, bound)

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

    def require(self) -> PlanT_co:
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

    from apportion.core import __version__

    found = {"python": platform.python_version(), "apportion": __version__}
    for name in dict.fromkeys(("numpy", *packages)):
        found[name] = version(name)
    return tuple(found.items())

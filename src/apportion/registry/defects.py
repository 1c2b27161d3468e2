"""Known defects of the solvers' versions: what was reported, where, and what this package does about it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFECTS", "Defect", "known_defects"]


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect that makes a solver claim what is not so.

    Attributes
    ----------
    backend, package
        The backend that has it, and the distribution whose version decides.
    first, before
        It is in the versions from `first` on and, where it is mended, below `before`.
    what
        What goes wrong, and where it is reported.
    here
        What this package does about it.
    """

    backend: str
    package: str
    first: tuple[int, ...]
    before: tuple[int, ...] | None
    what: str
    here: str


DEFECTS = (
    Defect(
        "cp-sat",
        "ortools",
        (9, 15),
        None,
        "CP-SAT may claim wrong optima where at-most-one and linear rows meet (google/or-tools issue 5293)",
        "presolve_inclusion_work_limit is set to 0, the work-around named there",
    ),
    Defect(
        "highs",
        "highspy",
        (1, 13),
        (1, 15),
        "HiGHS has called a wrong optimum of a pure integer model optimal (ERGO-Code/HiGHS issue 2980)",
        "its optimum is not believed: our own search is run behind it for a share of the time",
    ),
    Defect(
        "highs",
        "highspy",
        (1, 14),
        (1, 15),
        "presolve of integer programs returns wrong optima in 1.14.0",
        "the version is refused",
    ),
)


def known_defects(backend: str, package: str, version: str | None) -> list[str]:
    """Return what is known of a backend in an installed version, one sentence a defect."""
    if version is None:
        return []
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    return [
        f"{defect.what}; {defect.here}"
        for defect in DEFECTS
        if (defect.backend, defect.package) == (backend, package)
        and numbers >= defect.first
        and (defect.before is None or numbers < defect.before)
    ]

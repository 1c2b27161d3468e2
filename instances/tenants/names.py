"""Names of what follows from tenants: rows of their limits, and floors under the shares of tenants and jobs.

They stand beside names that people choose in one JSON object (multipliers, floors), so none may equal one of
those: a name that is taken gets a number behind it, and jobs get a longer prefix where a tenant has theirs.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

__all__ = ["distinct", "job_prefix", "may_clash"]


def distinct(wanted: str, taken: Container[str]) -> str:
    """Return a name that is not taken: the one wanted, or the same with the least number that is free.

    >>> distinct("gpu of a", {"gpu of a", "gpu of a [2]"})
    'gpu of a [3]'
    """
    found, number = wanted, 2
    while found in taken:
        found, number = f"{wanted} [{number}]", number + 1
    return found


def job_prefix(tenants: Iterable[str]) -> str:
    """Return what stands before a job's name where shares of tenants and of jobs are named together.

    >>> job_prefix(["a", "b"]), job_prefix(["job x"])
    ('job ', 'job job ')
    """
    names, found = list(tenants), "job "
    while any(name.startswith(found) for name in names):
        found = f"job {found}"
    return found


def may_clash(capacities: Iterable[str], tenants: Iterable[str]) -> bool:
    """Return whether a name could be read as that of a row or a floor: its names then hang on all others."""
    if "share" in (owned := set(capacities)):
        return True
    words = (" of ", " without ", ", ")
    return any(
        name == "everybody" or name.startswith("job ") or any(word in name for word in words)
        for name in owned.union(tenants)
    )

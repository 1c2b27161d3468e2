"""What is installed: every backend with its versions, and why one is not available. Nothing is imported."""

from __future__ import annotations

from typing import Any

from apportion.registry.backends import BACKENDS, version_of
from apportion.registry.defects import known_defects

__all__ = ["backends", "compiled_parts"]


def backends() -> list[dict[str, Any]]:
    """Return one row per backend, ``pyomo:NAME`` for every solver Pyomo knows.

    Returns
    -------
    list of dict
        ``name``, ``available``, ``why`` (``None`` if available), ``accepts`` (``"knapsack"`` or
        ``"linear"``), ``packages`` (version by name, ``None`` where missing), ``description``
        and ``defects`` (known ones of the installed versions).
    """
    rows = [
        _row(entry.name, entry.accepts, entry.versions(), entry.description) for entry in BACKENDS.values()
    ]
    pyomo = {"pyomo": version_of("pyomo")}
    rows.append(_row("pyomo:NAME", "linear", pyomo, "any solver Pyomo knows, for instance pyomo:appsi_highs"))
    return rows


def compiled_parts() -> str:
    """Return one sentence on the compiled parts of our own engines: which are in use, or why not."""
    from apportion.solvers.compiled import NAMES, SWITCH, load, switched_off

    if switched_off():
        return f"compiled parts of exact: switched off by {SWITCH}"
    missing = [name for name in NAMES if load(name) is None]
    if not missing:
        return f"compiled parts of exact: all {len(NAMES)} in use"
    why = "not built, or from another source, so that slower roads are taken"
    return f"compiled parts of exact: not in use: {', '.join(missing)}: {why}"


def _row(name: str, accepts: str, packages: dict[str, str | None], description: str) -> dict[str, Any]:
    missing = [package for package, found in packages.items() if found is None]
    return {
        "name": name,
        "available": not missing,
        "why": f"{', '.join(missing)} not installed" if missing else None,
        "accepts": accepts,
        "packages": packages,
        "description": description,
        "defects": [
            defect for package, found in packages.items() for defect in known_defects(name, package, found)
        ],
    }

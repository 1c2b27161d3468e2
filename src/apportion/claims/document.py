"""The shape of a stored result: which fields it has, and of what type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from apportion.outcome import Termination

__all__ = ["FIELDS", "is_number", "malformed"]

FIELDS = (
    "kind",
    "name",
    "backend",
    "termination",
    "solution",
    "objective",
    "bound",
    "gap",
    "reason",
    "verified_bound",
    "plan",
    "check",
    "certificate",
    "times",
    "versions",
    "seed",
    "notes",
)
_OPTIONAL = ("evidence", "proof", "levels", "floors", "fair_bound")
_EVIDENCE = (None, "by_multipliers", "by_proof", "by_search", "by_solver")
_LEVEL = {"name", "share", "weight", "bound", "evidence"}
_LARGEST = float.fromhex("0x1.fffffffffffffp+1023")


def malformed(record: Any) -> str | None:
    """Return what keeps a document from being a stored result; ``None`` if nothing does."""
    if not isinstance(record, Mapping):
        return "must be a JSON object"
    if {"schema_version", "jobs"} <= record.keys():
        return "is an instance, not a solution: `apportion check INSTANCE SOLUTION` takes the instance first"
    missing = [name for name in FIELDS if name not in record]
    unknown = [str(name) for name in record if name not in FIELDS + _OPTIONAL]
    if missing or unknown:
        return "; ".join(
            [f"lacks {name}" for name in missing] + [f"has the unknown field {name}" for name in unknown]
        )
    for name in ("objective", "bound", "gap", "verified_bound", "fair_bound"):
        if record.get(name) is not None and not is_number(record[name]):
            return f"{name} must be a finite number or null"
    certificate = record["certificate"]
    if not isinstance(certificate, Mapping) or set(certificate) != {"source", "multipliers", "digest"}:
        return "certificate must be an object of source, multipliers and digest"
    if not isinstance(certificate["source"], str | None) or not isinstance(certificate["digest"], str):
        return "certificate.source must be a string or null, and certificate.digest a string"
    multipliers = certificate["multipliers"]
    if multipliers is not None and not (
        isinstance(multipliers, Mapping) and all(is_number(price) for price in multipliers.values())
    ):
        return "certificate.multipliers must be null or an object of finite numbers"
    if not _one_of(record.get("evidence"), _EVIDENCE):
        return f"evidence {record['evidence']!r} is unknown"
    if not isinstance(record.get("levels", []), list) or not isinstance(record.get("floors", {}), Mapping):
        return "levels must be a list and floors an object"
    if not all(map(_is_level, record.get("levels", []))):
        return "levels must be objects of name, share, weight, bound and evidence"
    if not isinstance(record.get("proof"), str | None):
        return "proof must be the name of a file or null"
    if not _one_of(record["termination"], tuple(Termination)):
        return f"termination {record['termination']!r} is unknown"
    return None


def is_number(value: Any) -> bool:
    """Return whether a value is a number that doubles hold: no NaN, and no integer beyond them."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= _LARGEST


def _one_of(value: Any, known: tuple[Any, ...]) -> bool:
    return (value is None or isinstance(value, str)) and value in known


def _is_level(level: Any) -> bool:
    return (
        isinstance(level, Mapping)
        and set(level) == _LEVEL
        and isinstance(level["name"], str)
        and all(is_number(level[name]) for name in ("share", "weight", "bound"))
        and _one_of(level["evidence"], (None, "by_search"))
    )

"""Deltas applied to an instance that comes from the record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apportion.errors import InvalidInstance
from apportion.record.errors import RecordDamaged

__all__ = ["applied"]


def applied(instance: Any, deltas: Sequence[dict[str, Any]]) -> Any:
    """Return an instance with deltas applied in order, each validated as when it came.

    Raises
    ------
    RecordDamaged
        If they do not fit the instance.
    """
    if not deltas:
        return instance
    from apportion.session.session import Session

    try:
        return Session(instance, hypothetical=True).apply(*deltas)  # earlier versions made nodes up
    except InvalidInstance as error:
        raise RecordDamaged(f"stored deltas do not fit the stored instance: {error}") from None

"""What if, asked in the messages that change a session: the plans before and after deltas, compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from apportion.service.session import Session

if TYPE_CHECKING:
    from apportion.explanation.comparison import Comparison

__all__ = ["what_if"]


def what_if(
    instance: Any, deltas: Sequence[Any], *, backend: str = "auto", time_limit: float = 20.0
) -> Comparison:
    """Solve an instance as it is and with deltas, and say who wins, who loses and by how much.

    Parameters
    ----------
    instance
        An instance; it is not changed.
    deltas
        Messages as `Session.apply` takes them.
    backend
        As in `apportion.solve`, for both solves.
    time_limit
        Seconds for both together.

    Raises
    ------
    InvalidInstance
        If one of the deltas cannot be applied.
    """
    from apportion.explanation.comparison import compare
    from apportion.service.deltas import read_deltas

    session = Session(instance, hypothetical=True)
    words = tuple(delta.words() for delta in read_deltas(deltas))
    before = session.decide(time_limit=time_limit / 2, backend=backend)
    session.apply(*deltas)
    after = session.decide(time_limit=max(time_limit - before.seconds, time_limit / 2), backend=backend)
    return compare(before.solution, after.solution, words)

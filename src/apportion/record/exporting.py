"""A decision as one line of JSON, for other programs."""

from __future__ import annotations

import msgspec

from apportion.record.entries import Entry
from apportion.record.reading import History

__all__ = ["exported"]


def exported(history: History, entry: Entry, part: str = "all") -> bytes:
    """Return a decision as JSON without a newline.

    Parameters
    ----------
    history
        The record.
    entry
        The decision.
    part
        ``"instance"``, ``"result"``, or ``"all"``: ``{"decision", "instance", "result"}``.
    """
    if part == "result":
        return history.result(entry.id)
    instance = msgspec.json.encode(history.instance(entry.session, entry.revision), order="deterministic")
    if part == "instance":
        return instance
    result = history.result(entry.id)
    return msgspec.json.encode(
        {"decision": entry, "instance": msgspec.Raw(instance), "result": msgspec.Raw(result)}
    )

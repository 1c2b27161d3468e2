"""When nodes are wanted, as far as Slurm knows beforehand: reservations, and where pending jobs will start.

Slurm's backfill plans pending jobs on nodes (``squeue --start``, SCHEDNODES). Neither is a promise: a job may
start earlier or elsewhere. So it is a horizon of decisions only, never a reason to give a node back.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from apportion.live.slurm.text import PREFIX, NotUnderstood, expand

__all__ = ["PLANNED", "RESERVED", "earliest", "planned_of_text", "reservations_of_text"]

RESERVED = ("scontrol", "--oneliner", "show", "reservation")
PLANNED = ("squeue", "--start", "--noheader", "--states=PENDING", "--format=%S|%Y|%j")
_LAYOUT = "%Y-%m-%dT%H:%M:%S"
_NOTHING = frozenset({"", "(null)", "N/A", "None", "Unknown", "n/a"})


def reservations_of_text(text: str, user: str) -> Iterator[tuple[str, float]]:
    """Yield every reserved node with the start of its reservation, in seconds since 1970.

    A reservation of this user is none of the main queue's, as far as can be seen.
    """
    for line in text.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        nodes, start = fields.get("Nodes", ""), fields.get("StartTime", "")
        if "ReservationName" not in fields or nodes in _NOTHING or start in _NOTHING:
            continue
        if user not in fields.get("Users", "").split(","):
            at_s = _moment(start)
            yield from ((node, at_s) for node in expand(nodes))


def planned_of_text(text: str) -> Iterator[tuple[str, float]]:
    """Yield every node on which a pending job that is no pilot is planned, with its expected start."""
    for line in text.splitlines():
        if not line.strip():
            continue
        start, bar, rest = line.strip().partition("|")
        nodes, second, name = rest.partition("|")
        if not bar or not second:
            raise NotUnderstood("squeue --start printed lines that are not START|NODES|NAME")
        if start in _NOTHING or nodes in _NOTHING or name.startswith(PREFIX):
            continue
        at_s = _moment(start)
        yield from ((node, at_s) for node in expand(nodes))


def earliest(told: Iterable[tuple[str, float]], now_s: float) -> Mapping[str, float]:
    """Return in how many seconds every node that is named is wanted first."""
    found: dict[str, float] = {}
    for node, at_s in told:
        found[node] = min(found.get(node, at_s), at_s)
    return {node: max(at_s - now_s, 0.0) for node, at_s in found.items()}


def _moment(text: str) -> float:
    """Return a moment that Slurm writes in the time zone of this machine."""
    try:
        return time.mktime(time.strptime(text, _LAYOUT))
    except (ValueError, OverflowError):
        raise NotUnderstood(f"{text!r} is no moment") from None

"""What Slurm writes of nodes: lists such as ``n[1-3,07],m2``, and the words of a state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType

__all__ = ["STATE_SIGNS", "NoNodeList", "compressed", "expand", "state_words"]

STATE_SIGNS = MappingProxyType(
    {
        "*": "NOT_RESPONDING",
        "~": "POWERED_DOWN",
        "#": "POWERING_UP",
        "%": "POWERING_DOWN",
        "!": "POWER_DOWN",
        "$": "MAINTENANCE",
        "@": "REBOOT_REQUESTED",
        "^": "REBOOT_ISSUED",
        "+": "COMPLETING",
        "-": "PLANNED",
    }
)
"""What a sign behind a state in ``sinfo``'s text means (sinfo's manual, NODE STATE CODES)."""

_PIECE = re.compile(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*")
_BRACKET = re.compile(r"\[([^\]]*)\]")
_MOST = 100_000


class NoNodeList(ValueError):
    """A text is no list of nodes."""


def expand(nodes: str) -> list[str]:
    """Return the names of a list of nodes.

    Raises
    ------
    NoNodeList
        If a bracket holds something else than numbers, or a range is too long.

    Examples
    --------
    >>> expand("n[08-10],m")
    ['n08', 'n09', 'n10', 'm']
    """
    names = []
    for piece in _PIECE.findall(nodes):
        open_names = [piece.strip()]
        while any("[" in name for name in open_names):
            open_names = [filled for name in open_names for filled in _fill(name)]
            if len(open_names) > _MOST:
                raise NoNodeList(f"{nodes[:60]!r} names too many nodes")
        names.extend(open_names)
    return names


def compressed(names: Sequence[str]) -> str:
    """Return a list of nodes: names that count up at their end as one range.

    Examples
    --------
    >>> compressed(["n08", "n09", "n10", "m", "n2"])
    'n[08-10],m,n2'
    """
    runs: list[list[str]] = []
    for name in names:
        if runs and name == _next(runs[-1][-1]):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ",".join(run[0] if len(run) == 1 else _range(run[0], run[-1]) for run in runs)


def _split(name: str) -> tuple[str, str]:
    stem = name.rstrip("0123456789")
    return stem, name[len(stem) :]


def _next(name: str) -> str | None:
    stem, number = _split(name)
    return f"{stem}{int(number) + 1:0{len(number)}d}" if number else None


def _range(first: str, last: str) -> str:
    stem, number = _split(first)
    return f"{stem}[{number}-{_split(last)[1]}]"


def state_words(state: str) -> frozenset[str]:
    """Return the words of a node's state as ``scontrol`` writes it, a sign behind one as a word of its own.

    Examples
    --------
    >>> sorted(state_words("IDLE*+DRAIN"))
    ['DRAIN', 'IDLE', 'NOT_RESPONDING']
    """
    words = set[str]()
    for piece in state.split("+"):
        name = piece.rstrip("".join(STATE_SIGNS))
        words |= {name.upper(), *(STATE_SIGNS[sign] for sign in piece[len(name) :])}
    return frozenset(words)


def _fill(name: str) -> list[str]:
    bracket = _BRACKET.search(name)
    if bracket is None:
        raise NoNodeList(f"{name[:60]!r} is no list of nodes")
    filled: list[str] = []
    for part in bracket.group(1).split(","):
        first, dash, last = part.partition("-")
        try:
            numbers = range(int(first), int(last or first) + 1) if dash else [int(first)]
        except ValueError:
            raise NoNodeList(f"{name[:60]!r} is no list of nodes") from None
        if numbers and numbers[-1] - numbers[0] >= _MOST:
            raise NoNodeList(f"{name[:60]!r} names too many nodes")
        before, after = name[: bracket.start()], name[bracket.end() :]
        filled.extend(f"{before}{number:0{len(first)}d}{after}" for number in numbers)
    return filled

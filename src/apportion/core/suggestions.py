"""Names out of a list: what was meant by one that is not in it, and the one error for it."""

from __future__ import annotations

from collections.abc import Iterable

from apportion.core.errors import InvalidOption

__all__ = ["did_you_mean", "one_of"]


def did_you_mean(given: object, names: Iterable[str]) -> str:
    """Return ``"; did you mean 'NAME'?"`` for the name most like the given one, else an empty text."""
    if not isinstance(given, str):
        return ""
    from difflib import get_close_matches

    known = {_plain(name): name for name in names}
    close = get_close_matches(_plain(given), known, n=1, cutoff=0.7)
    return f"; did you mean {known[close[0]]!r}?" if close else ""


def one_of(option: str, given: object, names: Iterable[str]) -> None:
    """Refuse what is not in a list of names.

    Raises
    ------
    InvalidOption
        It names the option, all names, and the one that may have been meant.
    """
    known = tuple(names)
    if given not in known:
        raise InvalidOption(
            f"{option} must be one of {', '.join(known)}, not {given!r}{did_you_mean(given, known)}"
        )


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")

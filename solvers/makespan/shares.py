"""Who works next on the common incumbent: shares of time that follow what each engine has achieved."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Shares"]

_LEAST, _MOST = 0.05, 8.0


class Shares:
    """Stride scheduling with weights that grow on success and shrink without it.

    Parameters
    ----------
    weights
        The engines and their weights > 0 to begin with: twice the weight gets twice the seconds.
    lengths
        Seconds of each engine's first turn. Each further one is twice as long, for an engine begins anew
        every time: a constant share of all its seconds then is in its longest turn.
    """

    def __init__(self, weights: Mapping[str, float], lengths: Mapping[str, float]) -> None:
        self.weights = dict(weights)
        # not zero, so that the weights decide who begins
        self._used = dict.fromkeys(weights, min(lengths.values()) / 2)
        self._length = {name: lengths[name] for name in weights}

    def next(self) -> str:
        """Return the engine that has had least of its share, the first one listed of equals."""
        return min(self._used, key=lambda name: self._used[name] / self.weights[name])

    def length(self, name: str) -> float:
        """Return the seconds of the engine's next turn."""
        return self._length[name]

    def book(self, name: str, seconds: float, gained: bool) -> None:
        """Book a turn: what it took, and whether the incumbent or the bound is better for it."""
        self._used[name] += seconds
        self._length[name] *= 2.0
        factor = 2.0 if gained else 0.6
        self.weights[name] = min(max(self.weights[name] * factor, _LEAST), _MOST)

    def drop(self, name: str) -> None:
        """Take an engine out: it cannot take this model."""
        for table in (self.weights, self._used, self._length):
            table.pop(name, None)

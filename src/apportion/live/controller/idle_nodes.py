"""Which nodes are idle, since when, and which of them the scheduler does not give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from apportion.live.controller.planned import Idle
from apportion.live.offers import Offer

__all__ = ["IdleNodes"]

_AVOIDED_S = 30.0


class IdleNodes:
    """What is remembered of nodes between two looks at the scheduler.

    Attributes
    ----------
    departed_after_s
        For every node that left since this was last emptied, how long it had been idle.
    offers
        What nodes have, what pilots have been asked for and not yet given left out.
    wanted_s
        When others are expected to want a node.
    """

    def __init__(self) -> None:
        self.departed_after_s: list[float] = []
        self.offers: Mapping[str, Offer] = {}
        self.wanted_s: Mapping[str, float] = {}
        self._since: dict[str, float] = {}
        self._names: tuple[str, ...] = ()
        self._avoided: dict[str, float] = {}
        self._now_s = 0.0

    def copy(self) -> IdleNodes:
        """Return a copy that may be changed."""
        made = IdleNodes()
        made.departed_after_s = list(self.departed_after_s)
        made._since, made._avoided = dict(self._since), dict(self._avoided)
        made._names, made._now_s, made.offers = self._names, self._now_s, self.offers
        made.wanted_s = self.wanted_s
        return made

    def saw(
        self,
        ours: Iterable[str],
        free: Iterable[str],
        now_s: float,
        offers: Mapping[str, Offer],
        wanted_s: Mapping[str, float],
    ) -> None:
        """Take in a look: nodes idle or held, those free, what they have, and when others want them."""
        present, self.offers, self.wanted_s = set(ours), offers, wanted_s
        for node in [node for node in self._since if node not in present]:
            self.departed_after_s.append(max(now_s - self._since.pop(node), 0.0))
        for node in present:
            self._since.setdefault(node, now_s)
        self._names, self._now_s = tuple(free), now_s

    def avoid(self, node: str, now_s: float) -> None:
        """Leave a node alone for a while: the scheduler did not give it."""
        self._avoided[node] = now_s + _AVOIDED_S

    def free(self, now_s: float) -> tuple[str, ...]:
        """Return the idle nodes that may be taken, once for every unit."""
        return tuple(node for node in self._names if self._avoided.get(node, now_s) <= now_s)

    def known(self, now_s: float) -> Idle:
        """Return what a decision is told of all this."""
        departed_after_s = tuple(self.departed_after_s)
        return Idle(self.free(now_s), self.since_s, departed_after_s, self.offers, self.wanted_s)

    def since_s(self, node: str) -> float:
        """Return when a node became idle, as far as it was seen."""
        return self._since.get(node, self._now_s)

"""A decision as the controller's core takes it: which node is to serve which job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from apportion.live.offers import Offer

__all__ = ["Idle", "Place", "Planned"]


@dataclass(frozen=True, slots=True)
class Idle:
    """The nodes that a decision is about, as the scheduler and the agents show them.

    Attributes
    ----------
    names
        Nodes on which a pilot would get a whole node or a GPU at once, as often as there is one to be had.
    since_s
        When a node of the decision became idle, as far as it was seen.
    departed_after_s
        For every node that left since the last decision, how long it had been idle.
    offers
        What nodes have, as far as that is known; what was asked for and not given yet is left out.
    wanted_s
        When others are expected to want a node, where that is known.
    """

    names: Sequence[str]
    since_s: Callable[[str], float]
    departed_after_s: Sequence[float]
    offers: Mapping[str, Offer] = field(default_factory=lambda: MappingProxyType({}))
    wanted_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Place:
    """What one node, or one GPU of it, is to serve.

    Attributes
    ----------
    pilot
        The pilot that holds it, ``None`` where one is to be taken.
    job
        Number of the job, ``None`` for none.
    back
        Whether the pilot is to be given back at once, so that one with a larger share can take its place.
    """

    node: str
    pilot: str | None
    job: int | None
    back: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """A decision about all nodes that can be used.

    Attributes
    ----------
    wake_s
        When is to be decided again at the latest.
    changes
        Whether any node changes hands.
    told
        What the journal says of it, a line for every job.
    """

    places: tuple[Place, ...]
    wake_s: float | None = None
    changes: bool = True
    told: tuple[dict[str, object], ...] = ()

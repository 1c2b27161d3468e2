"""Carrying out what a step wants done, one action after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apportion.live.cluster import Channel, Cluster
from apportion.live.controller.actions import Action, Release, Take, Tell
from apportion.live.controller.observations import Outcome
from apportion.live.errors import ClusterUnreachable, SchedulerRefused

__all__ = ["carry_out"]


def carry_out(
    todo: Iterable[Action], cluster: Cluster, channel: Channel, at: Callable[[str], None]
) -> tuple[list[Outcome], str | None]:
    """Carry actions out in order; return what came of them, and what stands in the way, if anything.

    Once the scheduler does not answer it is asked nothing more; agents are told all the same.

    Parameters
    ----------
    todo
        The actions.
    cluster, channel
        The scheduler, and the agents.
    at
        Called before and after every action.
    """
    came: list[Outcome] = []
    trouble: str | None = None
    for action in todo:
        if isinstance(action, Tell):
            at("commanding")
            channel.send(action.pilot, action.message)
            at("commanded")
        elif trouble is None:
            try:
                came.append(_ask(action, cluster, at))
            except ClusterUnreachable as error:
                trouble = f"{error}; what runs goes on"
    return came, trouble


def _ask(action: Release | Take, cluster: Cluster, at: Callable[[str], None]) -> Outcome:
    if isinstance(action, Release):
        at("releasing")
        cluster.release(action.handle)
        at("released")
        return Outcome(action)
    at("taking")
    try:
        outcome = Outcome(action, cluster.take(action.node, action.pilot, action.token, action.share))
    except SchedulerRefused as error:
        outcome = Outcome(action, refused=str(error))
    at("taken")
    return outcome

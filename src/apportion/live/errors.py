"""What can go wrong on a live cluster."""

from __future__ import annotations

from apportion.core.errors import ApportionError

__all__ = [
    "ClusterUnreachable",
    "EncryptionMissing",
    "InUse",
    "SchedulerMissing",
    "SchedulerRefused",
    "StateUnwritable",
    "UnknownJob",
]


class ClusterUnreachable(ApportionError):
    """The scheduler does not answer; what was asked of it may or may not have happened."""

    exit_code = 7


class SchedulerMissing(ApportionError):
    """The scheduler's commands are not installed here."""

    exit_code = 7


class EncryptionMissing(ApportionError):
    """No certificate for the channel to the nodes can be made here; it is never spoken in clear."""

    exit_code = 7


class SchedulerRefused(ApportionError):
    """The scheduler refused; nothing has changed."""


class InUse(ApportionError):
    """Another controller works on this state folder."""

    exit_code = 6


class StateUnwritable(ApportionError):
    """The state file cannot be written (disk full, read-only): nothing new is begun until it can."""


class UnknownJob(ApportionError, ValueError):
    """There is no job of that id."""

    exit_code = 3

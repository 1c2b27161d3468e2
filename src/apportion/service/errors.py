"""What a service refuses, beside what is wrong with an input."""

from __future__ import annotations

from typing import Any

from apportion.errors import ApportionError

__all__ = ["Busy", "Conflict", "Gone", "Late", "NotAllowed", "Refused", "WorkerLost"]


class Busy(ApportionError):
    """Too much is waiting already.

    Attributes
    ----------
    again_s
        Seconds after which to ask again.
    """

    exit_code = 5

    def __init__(self, again_s: float) -> None:
        self.again_s = again_s
        super().__init__(f"all workers are busy and enough waits: ask again in {again_s:.0f} s")


class Late(ApportionError):
    """A deadline has passed."""

    exit_code = 5


class WorkerLost(ApportionError):
    """A worker process has ended by itself, or was killed by somebody else."""


class Conflict(ApportionError):
    """A name or a request id is taken by something else."""

    exit_code = 2


class Gone(ApportionError):
    """The caller has gone away; nobody reads the answer."""

    exit_code = 130


class NotAllowed(ApportionError):
    """The caller has not shown the token."""

    exit_code = 2


class Refused(ApportionError):
    """A worker has found something wrong with what it was asked.

    Attributes
    ----------
    error
        The error object that is passed on.
    """

    def __init__(self, error: dict[str, Any]) -> None:
        self.error = error
        self.exit_code = int(error["exit_code"])
        super().__init__(str(error["message"]))

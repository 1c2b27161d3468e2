"""A single job from JSON, as strict as a whole instance is."""

from __future__ import annotations

from typing import Any

import msgspec

from apportion.errors import InvalidInstance, Problem
from apportion.instances.edits import Job, job_type
from apportion.instances.kinds import Instance

__all__ = ["job_from"]


def job_from(instance: Instance, decoded: Any, source: str) -> Job:
    """Return a job of an instance's kind from a JSON object.

    Parameters
    ----------
    instance
        The instance it is meant for.
    decoded
        The decoded JSON.
    source
        Where it comes from, for the message.

    Raises
    ------
    InvalidInstance
        If it is no job of that kind; rules across its fields are checked when it joins an instance.
    """
    wanted: Any = job_type(instance)
    try:
        job: Job = msgspec.convert(decoded, type=wanted)
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        raise InvalidInstance(Problem(f"job {source} $", str(error))) from None
    return job

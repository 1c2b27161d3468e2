"""What a caller asks of a session, whatever carries it: a service, a stream."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

__all__ = ["DecideSession", "Deltas", "RequestId", "Seconds", "StreamedAsk"]

RequestId = Annotated[str, Meta(min_length=1, max_length=200, description="chosen by the caller")]
Deltas = Annotated[list[dict[str, Any]], Meta(description="messages with the tag `op`", max_length=100_000)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_Gap = Annotated[float, Meta(ge=0)]
_Seed = Annotated[int, Meta(ge=0, lt=2**31)]
_Policy = Annotated[str, Meta(max_length=100)]


class DecideSession(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Change the instance of a session, and decide it.

    Attributes
    ----------
    deltas
        What changes first.
    request
        An id; asked again with it, the same decision is answered.
    policy
        A policy by name; absent for the optimum.
    time_limit
        Seconds.
    gap
        Relative gap at which to stop.
    seed
        Random seed.
    proof
        Whether to keep a proof of the claim.
    """

    deltas: Deltas = []
    request: RequestId | None = None
    policy: _Policy | None = None
    time_limit: Seconds = 10.0
    gap: _Gap = 0.0
    seed: _Seed = 0
    proof: bool = False


class StreamedAsk(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A line of a stream: changes its session, and decides it; what is absent is as the command says.

    Attributes
    ----------
    instance
        An instance that the session begins anew with.
    deltas, request, policy, time_limit, gap, seed
        As in `DecideSession`; the id is only repeated.
    """

    instance: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    deltas: Deltas = []
    request: RequestId | None = None
    policy: _Policy | None = None
    time_limit: Seconds | None = None
    gap: _Gap | None = None
    seed: _Seed | None = None

    def options(self) -> dict[str, Any]:
        """Return the options that this line sets."""
        named = {"time_limit": self.time_limit, "gap": self.gap, "seed": self.seed}
        return {name: value for name, value in named.items() if value is not None}

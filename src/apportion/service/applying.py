"""Messages applied to the draft of an instance, their problems reported at the message that brings them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace as replaced
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.draft import Draft
from apportion.service.deltas import AddJob, Delta, SetCapacity, UpdateJob, name_of

__all__ = ["DecideSession", "Deltas", "RequestId", "Seconds", "StreamedAsk", "apply_all"]


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


def apply_all(
    draft: Draft, deltas: Iterable[Delta], path: str = "$.deltas", *, hypothetical: bool = False
) -> None:
    """Apply deltas to a draft in their order.

    Parameters
    ----------
    draft
        What is changed.
    deltas
        The changes.
    path
        Where they stand, for the paths of problems.
    hypothetical
        Whether more of a capacity may make up names of nodes, as a question "what if" does.

    Raises
    ------
    InvalidInstance
        At the first one that cannot be applied; the draft is not to be used any more then.
    """
    touched: dict[str, str] = {}
    where = path
    for index, delta in enumerate(deltas):
        where = f"{path}[{index}]"
        try:
            if isinstance(delta, SetCapacity) and not hypothetical:
                _refuse_made_up_nodes(draft, delta, where)
            delta.apply(draft, where)
        except InvalidInstance as error:
            raise InvalidInstance([_within(each, where, delta.blamed) for each in error.problems]) from None
        if isinstance(delta, AddJob | UpdateJob):
            touched[name_of(delta.job)] = f"{where}.job"
    try:
        draft.instance()
    except InvalidInstance as error:
        raise InvalidInstance([_at_delta(each, draft, touched, where) for each in error.problems]) from None


def _refuse_made_up_nodes(draft: Draft, delta: SetCapacity, where: str) -> None:
    """Refuse more of a capacity whose nodes have names: nobody could run a job on those made up."""
    named_by = draft.edits.named_by
    present = draft.edits.capacities(draft.base).get(delta.name)
    if named_by is None or present is None or not isinstance(delta.amount, int) or delta.amount <= present:
        return
    by = named_by(draft.base, delta.name)
    if by is not None:
        said = f"is {delta.amount}, and {present} nodes are named: {by} names the nodes there are"
        raise InvalidInstance.at(f"{where}.amount", said)


def _within(problem: Problem, where: str, field: str) -> Problem:
    """Return a problem with its path inside a delta; one of the instance itself stands at a field of it."""
    if problem.path.startswith(where):
        return problem
    same = problem.path[2:].startswith(field)  # $.nodes[3] of the instance is that of the delta
    return replaced(problem, path=f"{where}.{problem.path[2:] if same else field}")


def _at_delta(problem: Problem, draft: Draft, touched: Mapping[str, str], last: str) -> Problem:
    """Return a problem between jobs, or of tenants, where its job was brought, else at the last delta."""
    name, rest = draft.place(problem.path)
    if name not in touched:
        return replaced(problem, path=last, message=f"{problem.path}: {problem.message}")
    return replaced(problem, path=f"{touched[name]}{rest}", job=name)

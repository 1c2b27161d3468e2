"""Whether a proof holds: its claim about the instance is walked again, without any solver."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apportion.instances.columns import Columns
from apportion.proofs.bare_models import columns
from apportion.proofs.certificate import (
    Claim,
    MalformedProof,
    Proof,
    decode,
    instance_digest,
    named,
    validated,
)
from apportion.proofs.reducing import Budget, OverBudget, Root, Walked, only, reduce, rooted
from apportion.proofs.relaxed_rows import open_share, shared
from apportion.proofs.stating import stated
from apportion.proofs.walking import Limits, walk

__all__ = ["LARGEST_LOSSES", "Verdict", "accepted", "verify"]

LARGEST_LOSSES = 64_000_000
"""Options times price vectors and capacities at most, 8 bytes each."""
_BRIEF, _BRIEF_STEPS = 20_000, 4_000_000_000
"""States of a walk before the options of its first job are looked at one by one, and what that may take; a
billion steps take about a second."""
_LARGEST_LONG = 300_000
"""Options times price vectors at most where totals do not fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a proof.

    Attributes
    ----------
    status
        ``"proved"``; ``"refused"``: the proof does not show its claim, `why` names the first thing that is
        open; ``"incomplete"``: a limit ended the walk, nothing is said either way.
    why
        In words.
    claim
        What the proof says; ``None`` where it could not be read.
    states
        How many states the walk looked at.
    """

    status: Literal["proved", "refused", "incomplete"]
    why: str
    claim: Claim | None
    states: int = 0

    @property
    def proved(self) -> bool:
        """Whether the claim holds."""
        return self.status == "proved"


def verify(instance: Any, proof: Proof | bytes, limits: Limits | None = None) -> Verdict:
    """Walk a proof against its instance, in exact integers, without any solver.

    Parameters
    ----------
    instance
        The instance or the bare model that the proof is about.
    proof
        A proof, or the bytes of its file.
    limits
        Where to give up; 50 million states, 800 MB, 20 billion steps and no clock by default.

    Examples
    --------
    >>> import apportion
    >>> model = apportion.MultipleChoiceKnapsack.from_arrays(
    ...     values=[3.0, 4.0, 2.0], uses=[2, 4, 2], offsets=[0, 2, 3], capacities=[4]
    ... )
    >>> solution = apportion.solve(model, proof=True)
    >>> apportion.verify(model, solution.proof).status
    'proved'
    """
    digest = instance_digest(instance)
    try:
        read = decode(proof, digest) if isinstance(proof, bytes) else validated(proof)
    except MalformedProof as error:
        return Verdict("refused", str(error), None)
    if read.instance != digest:
        return Verdict("refused", "the proof is about another instance: the digests differ", read.claim)
    return _walked(columns(instance), read, limits or Limits())


def accepted(
    instance: Any, draft: Proof, limits: Limits, given: Columns | None = None
) -> tuple[Proof, Verdict]:
    """Walk a draft against the instance that it was written about; a proved one names that instance."""
    verdict = _walked(given or columns(instance), validated(draft), limits)
    return named(instance, draft) if verdict.proved else draft, verdict


def _walked(given: Columns, read: Proof, limits: Limits) -> Verdict:
    """Return what becomes of a proof, whatever instance it names."""
    claim, budget = read.claim, Budget(limits)
    try:
        if (sharing := shared(given)) is not None:
            left = open_share(sharing, read)
            return Verdict("refused" if left else "proved", left or "the prices show it", claim)
        menus = stated(given, read)
        if any(len(vector) != len(menus.capacities) for vector in read.prices):
            return Verdict("refused", f"a price vector has not {len(menus.capacities)} prices", claim)
        if max(read.order, default=-1) >= menus.num_jobs:
            return Verdict("refused", f"the order names job {max(read.order)} of {menus.num_jobs}", claim)
        if any(len(row) != menus.num_jobs for row in read.rows):
            return Verdict("refused", f"a vector of rows has not {menus.num_jobs} numbers", claim)
        size = menus.worths.size * (len(read.prices) + 1 + len(menus.capacities))
        if size > LARGEST_LOSSES:
            return Verdict("incomplete", f"more than {LARGEST_LOSSES} losses and uses", claim)
        root = rooted(menus, read.prices, read.rows, budget)
        if root.losses.dtype == object and root.losses.size > _LARGEST_LONG:
            return Verdict("incomplete", f"more than {_LARGEST_LONG} losses beyond 64 bits", claim)
    except MalformedProof as error:
        return Verdict("refused", str(error), claim)
    except OverBudget as over:
        return Verdict("incomplete", str(over), claim)
    walked = _ended(root, _order(root.jobs, read.order), limits, budget)
    return Verdict(walked.status, walked.why, claim, walked.states)  # type: ignore[arg-type]


def _ended(root: Root, order: NDArray[np.int64], limits: Limits, budget: Budget) -> Walked:
    """Walk below a root: briefly, then below every option of the first job, then as far as it takes."""
    began = time.monotonic()

    def within(states: int) -> Limits:
        gone = time.monotonic() - began
        left = None if limits.seconds is None else max(0.0, limits.seconds - gone)
        return replace(limits, states=min(states, limits.states), seconds=left)

    walked = walk(root, order, within(_BRIEF), budget)
    if walked.status == "incomplete" and limits.states > _BRIEF:
        walked = _by_options(root, order, within(_BRIEF), budget)
        if walked.status == "incomplete":
            walked = walk(root, order, within(limits.states), budget)
    return walked


def _by_options(root: Root, order: NDArray[np.int64], limits: Limits, budget: Budget) -> Walked:
    """Walk below every option of the first job, each with what its own bounds leave of the others."""
    menus, states, named_first = root.menus, 0, tuple(order.tolist())
    first, end = menus.offsets[order[0] : order[0] + 2].tolist()
    steps = (end - first) * menus.uses.size * len(root.weights)
    if steps > _BRIEF_STEPS or (limits.seconds is not None and steps > 1e9 * limits.seconds):
        return Walked("incomplete", f"more than {_BRIEF_STEPS} steps for the options of a job", 0)
    for option in range(first, end):
        kept = np.ones(menus.worths.size, dtype=np.bool_)
        kept[first:end] = False
        kept[option] = True
        try:
            part = reduce(only(menus, kept), root.weights, root.rows, budget)
        except OverBudget as over:
            return Walked("incomplete", str(over), states)
        left = replace(limits, states=limits.states - states)
        walked = walk(replace(part, each=root.each), _order(part.jobs, named_first), left, budget)
        states += walked.states
        if walked.status != "proved":
            return replace(walked, states=states)
    return Walked("proved", f"the options of a job, one by one, and {states} states closed", states)


def _order(jobs: NDArray[np.int64], named: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the jobs left as positions among them: those named first, in that order, then the rest."""
    rank = np.full(int(jobs.max(initial=-1)) + 1, len(named), dtype=np.int64)
    known = [(job, at) for at, job in enumerate(named) if job < rank.size]
    for job, at in known:
        rank[job] = at
    return np.argsort(rank[jobs], kind="stable")

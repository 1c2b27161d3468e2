"""The proof as a document: its fields, its digest of the instance, reading and writing within limits."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import zlib
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np

from apportion.errors import ApportionError
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = [
    "LARGEST_DOCUMENT",
    "LARGEST_NUMBER",
    "LARGEST_ROW",
    "LARGEST_VECTORS",
    "Claim",
    "Cut",
    "MalformedProof",
    "Proof",
    "decode",
    "encode",
    "instance_digest",
    "named",
]

Cut = dict[str, Any]
"""A capacity beside those of the instance, as it stands in a proof's JSON."""

FORMAT = "apportion-proof"
VERSIONS = (1, 2)
"""The second has the field ``rows``; proofs without it are written as the first."""
LARGEST_DOCUMENT = 1 << 26
"""Bytes of a proof when it is unpacked: a longer one is not read."""
LARGEST_VECTORS = 64
"""Most vectors of prices in one proof, and most of rows."""
LARGEST_NUMBER = 1 << 1024
"""Prices are smaller."""
LARGEST_ROW = 1 << 62
"""Numbers of rows are smaller, and larger than minus this."""
LARGEST_SHIFT = 1200
"""The unit of worth lies between 2**-1200 and 2**1200."""


class MalformedProof(ApportionError):
    """A document that is no proof: unreadable, of no known version, a field missing or of a wrong type."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Claim:
    """What a proof says of an instance.

    Attributes
    ----------
    kind
        ``"no_better_plan"`` (no plan's objective is better than `bound`) or ``"infeasible"`` (there is no
        plan).
    bound
        In the sense of the instance; ``None`` for ``"infeasible"``.
    """

    kind: Literal["no_better_plan", "infeasible"]
    bound: float | None = None

    def __str__(self) -> str:
        return "there is no plan" if self.bound is None else f"no plan is better than {self.bound!r}"


@dataclass(frozen=True, slots=True)
class Proof:
    """A search certificate, see ``docs/certificate.md``.

    Attributes
    ----------
    instance
        SHA-256 of the canonical instance, as hex; empty in a draft that nobody has accepted yet.
    claim
        What is proved.
    shift
        The unit of worth (of time, for a makespan) is ``2**-shift``; everything is rounded outward to it.
    prices
        Vectors of whole numbers >= 0, one price per capacity of the derived menus, in units of worth.
    order
        Positions of jobs, in the order in which the walk decides them; jobs that are not named follow.
    apart
        Matching only: positions of the pools whose machines are decided one by one instead of together.
    cuts
        Layer freezing only: capacities beside the instance's own, each with its reason.
    rows
        Vectors of whole numbers of any sign, one per job, in units of worth: multipliers of the rows that
        give every job exactly one option.
    """

    instance: str
    claim: Claim
    shift: int
    prices: tuple[tuple[int, ...], ...]
    order: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()
    cuts: tuple[Cut, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()


def instance_digest(instance: Any) -> str:
    """Return the SHA-256, as hex, of a canonical instance, or of the arrays of a bare model."""
    if isinstance(instance, MultipleChoiceKnapsack):
        found = hashlib.sha256(f"{instance.sense} {instance.uses.shape}".encode())
        arrays: tuple[str, ...] = ("values", "uses", "offsets", "capacities", "required")
    elif isinstance(instance, Assignment):
        shape = f"assignment {instance.goal} {instance.divisible} {instance.num_machines}"
        found = hashlib.sha256(f"{shape} {instance.num_jobs} {instance.num_options}".encode())
        arrays = (
            "values",
            "machine",
            "offsets",
            "uses",
            "gpus",
            "counts",
            "capacities",
            "limited",
            "required",
        )
    else:
        return hashlib.sha256(msgspec.json.encode(instance, order="deterministic")).hexdigest()
    for name in arrays:
        found.update(np.ascontiguousarray(getattr(instance, name)).tobytes())
    return found.hexdigest()


def named(instance: Any, draft: Proof) -> Proof:
    """Return the proof that a draft becomes once it names the instance that it was written about."""
    return replace(draft, instance=instance_digest(instance))


def encode(proof: Proof) -> bytes:
    """Return a proof as compressed JSON; equal proofs give equal bytes."""
    claim = {"kind": proof.claim.kind, "bound": proof.claim.bound}
    document = {
        "format": FORMAT,
        "version": 2 if proof.rows else 1,
        "instance": proof.instance,
        "claim": claim,
        "shift": proof.shift,
        "prices": proof.prices,
        "order": proof.order,
        "apart": proof.apart,
        "cuts": proof.cuts,
    } | ({"rows": proof.rows} if proof.rows else {})
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0)


def decode(data: bytes) -> Proof:
    """Return the proof that bytes hold, compressed or not.

    Raises
    ------
    MalformedProof
        If they hold none; the message names the field.
    """
    try:
        fields = json.loads(_unpacked(data))
    except (ValueError, RecursionError, zlib.error, EOFError) as error:
        raise MalformedProof(f"the proof is not readable: {error}") from None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise MalformedProof(f"the document is no proof: its format is not {FORMAT!r}")
    if type(fields.get("version")) is not int or fields["version"] not in VERSIONS:
        raise MalformedProof(f"version {fields.get('version')!r} is not known; this package reads 1 and 2")
    expected = {"format", "version", "instance", "claim", "shift", "prices", "order", "apart", "cuts"}
    expected |= {"rows"} if fields["version"] == 2 else set()
    if set(fields) != expected:
        wrong = sorted(map(str, set(fields) ^ expected))
        raise MalformedProof(f"the proof lacks or adds fields: {', '.join(wrong)[:200]}")
    if not isinstance(fields["instance"], str):
        raise MalformedProof("instance must be a digest")
    prices, rows = fields["prices"], fields.get("rows", [])
    for name, vectors in (("prices", prices), ("rows", rows)):
        if not isinstance(vectors, list) or len(vectors) > LARGEST_VECTORS:
            raise MalformedProof(f"{name} must be a list of at most {LARGEST_VECTORS} vectors")
    for at, vector in enumerate(prices):
        _wholes(f"prices[{at}]", vector, 0, LARGEST_NUMBER, "0 to 2**1024")
    for at, vector in enumerate(rows):
        _wholes(f"rows[{at}]", vector, 1 - LARGEST_ROW, LARGEST_ROW, "-2**62 to 2**62")
    cuts = fields["cuts"]
    if not isinstance(cuts, list) or not all(isinstance(cut, dict) for cut in cuts):
        raise MalformedProof("cuts must be a list of objects")
    shift = fields["shift"]
    if type(shift) is not int or abs(shift) > LARGEST_SHIFT:
        raise MalformedProof(f"shift must be a whole number from -{LARGEST_SHIFT} to {LARGEST_SHIFT}")
    return Proof(
        instance=fields["instance"],
        claim=_claim(fields["claim"]),
        shift=shift,
        prices=tuple(map(tuple, prices)),
        order=_positions("order", fields["order"]),
        apart=_positions("apart", fields["apart"]),
        cuts=tuple(cuts),
        rows=tuple(map(tuple, rows)),
    )


def _unpacked(data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        if len(data) > LARGEST_DOCUMENT:
            raise ValueError(f"it is longer than {LARGEST_DOCUMENT} bytes")
        return data
    unpacking = zlib.decompressobj(wbits=31)
    text = unpacking.decompress(data, LARGEST_DOCUMENT)
    if unpacking.unconsumed_tail:
        raise ValueError(f"unpacked it is longer than {LARGEST_DOCUMENT} bytes")
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError("the compressed data is cut off, or something follows it")
    return text


def _claim(fields: Any) -> Claim:
    if not isinstance(fields, dict) or set(fields) != {"kind", "bound"}:
        raise MalformedProof("claim must be an object of kind and bound")
    kind, bound = fields["kind"], fields["bound"]
    if kind == "infeasible" and bound is None:
        return Claim("infeasible")
    number = isinstance(bound, int | float) and not isinstance(bound, bool)
    if kind == "no_better_plan" and number and abs(bound) <= sys.float_info.max:
        return Claim("no_better_plan", float(bound))
    raise MalformedProof("claim must be no_better_plan with a finite bound, or infeasible with none")


def _wholes(name: str, fields: Any, least: int, beyond: int, within: str) -> None:
    if not isinstance(fields, list) or not all(type(one) is int and least <= one < beyond for one in fields):
        raise MalformedProof(f"{name} must be a list of whole numbers from {within}")


def _positions(name: str, fields: Any) -> tuple[int, ...]:
    if not isinstance(fields, list) or not all(type(one) is int and 0 <= one < 1 << 40 for one in fields):
        raise MalformedProof(f"{name} must be a list of positions")
    if len(set(fields)) != len(fields):
        raise MalformedProof(f"{name} names a position twice")
    return tuple(fields)

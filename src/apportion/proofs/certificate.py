"""The proof as a document: its fields, its digest of the instance, reading and writing within limits."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import zlib
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np

from apportion.core.errors import ApportionError
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.models.uses import in_blocks

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
    "validated",
]

Cut = dict[str, Any]
"""A capacity beside those of the instance, as it stands in a proof's JSON."""

FORMAT = "apportion-proof"
VERSIONS = (1, 2, 3, 4)
"""The second has the field ``rows``, the third divides capacities, the fourth covers them; a proof is written
as the least."""
LARGEST_DOCUMENT = 1 << 26
"""Bytes of a proof when it is unpacked: a longer one is not read."""
LARGEST_MEMORY = 1 << 29
"""Bytes that numbers, lists and objects of a proof may take as Python keeps them; more are not made."""
LARGEST_RATIO = 200
"""Times its size that a file is unpacked to at most; repeated zeros are packed a thousand times."""
SMALL_DOCUMENT = 1 << 20
"""Bytes up to which a file is unpacked whatever the ratio, and whatever it begins with."""
LARGEST_VECTORS = 64
"""Most vectors of prices in one proof, and most of rows."""
LARGEST_NUMBER = 1 << 1024
"""Prices are smaller."""
LARGEST_ROW = 1 << 62
"""Numbers of rows are smaller, and larger than minus this."""
_LARGEST_DOUBLE = (1 << 1024) - (1 << 970)
LARGEST_SHIFT = 1200
"""The unit of worth lies between 2**-1200 and 2**1200."""


_HEAD = re.compile(
    rb'\s*\{\s*"format"\s*:\s*"apportion-proof"\s*,\s*"version"\s*:\s*\d\s*,\s*"instance"\s*:\s*"([0-9a-f]{64})"\s*[,}]'
)
_HEAD_BYTES = 4096
_PER_VALUE, _PER_LIST, _PER_OBJECT, _PER_WORD = 48, 80, 240, 40
"""Bytes in Python of a number beside a comma, of a list, of an object, and of a quotation mark."""


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
        Capacities beside the instance's own, each with its reason.
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
        found = hashlib.sha256(f"{instance.sense} {instance.matrix.shape}".encode())
        arrays: tuple[str, ...] = ("values", "matrix", "offsets", "capacities", "required")
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
        given = in_blocks(instance.matrix) if name == "matrix" else (getattr(instance, name),)
        for array in given:
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def named(instance: Any, draft: Proof) -> Proof:
    """Return the proof that a draft becomes once it names the instance that it was written about."""
    return replace(draft, instance=instance_digest(instance))


def encode(proof: Proof) -> bytes:
    """Return a proof as compressed JSON; equal proofs give equal bytes."""
    claim = {"kind": proof.claim.kind, "bound": proof.claim.bound}
    version = max([2 if proof.rows else 1, *map(_version, proof.cuts)])
    document = {
        "format": FORMAT,
        "version": version,
        "instance": proof.instance,
        "claim": claim,
        "shift": proof.shift,
        "prices": proof.prices,
        "order": proof.order,
        "apart": proof.apart,
        "cuts": proof.cuts,
    } | ({"rows": proof.rows} if version > 1 else {})
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0)


def _version(cut: Cut) -> int:
    """Return the first version that has such a cut."""
    return 4 if "thresholds" in cut else 3 if "capacity" in cut else 1


def decode(data: bytes, digest: str | None = None) -> Proof:
    """Return the proof that bytes hold, compressed or not.

    Parameters
    ----------
    data
        The file.
    digest
        That of the instance that it must be about; the one that the file begins with is looked at before more
        than that is unpacked.

    Raises
    ------
    MalformedProof
        If they hold none, or one of another instance; the message names the field.
    """
    try:
        text = _unpacked(data, digest)
        _check_memory(text)
        fields = json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError, zlib.error, EOFError) as error:
        raise MalformedProof(f"the proof is not readable: {error}") from None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise MalformedProof(f"the document is no proof: its format is not {FORMAT!r}")
    if type(fields.get("version")) is not int or fields["version"] not in VERSIONS:
        raise MalformedProof(f"version {fields.get('version')!r} is not known; this package reads 1 to 4")
    expected = {"format", "version", "instance", "claim", "shift", "prices", "order", "apart", "cuts"}
    expected |= {"rows"} if fields["version"] > 1 else set()
    if set(fields) != expected:
        wrong = sorted(map(str, set(fields) ^ expected))
        raise MalformedProof(f"the proof lacks or adds fields: {', '.join(wrong)[:200]}")
    for name in ("prices", "rows", "order", "apart", "cuts"):
        if not isinstance(fields.get(name, []), list):
            raise MalformedProof(f"{name} must be a list")
    claim = fields["claim"]
    if not isinstance(claim, dict) or set(claim) != {"kind", "bound"}:
        raise MalformedProof("claim must be an object of kind and bound")
    bound = claim["bound"]
    if type(bound) is int and abs(bound) <= _LARGEST_DOUBLE:
        bound = float(bound)
    vectors = {name: _vectors(name, fields.get(name, [])) for name in ("prices", "rows")}
    proof = validated(
        Proof(
            instance=fields["instance"],
            claim=Claim(claim["kind"], bound),
            shift=fields["shift"],
            prices=vectors["prices"],
            order=tuple(fields["order"]),
            apart=tuple(fields["apart"]),
            cuts=tuple(fields["cuts"]),
            rows=vectors["rows"],
        )
    )
    if (later := max(map(_version, proof.cuts), default=1)) > fields["version"]:
        raise MalformedProof(f"a cut needs version {later}, and the proof says version {fields['version']}")
    return proof


def validated(proof: Proof) -> Proof:
    """Return a proof as it is, once every field of it is what the format allows.

    Raises
    ------
    MalformedProof
        If one is not; the message names it.
    """
    if not isinstance(proof.instance, str):
        raise MalformedProof("instance must be a digest")
    if not isinstance(proof.claim, Claim):
        raise MalformedProof("claim must be a Claim")
    kind, bound = proof.claim.kind, proof.claim.bound
    infeasible = kind == "infeasible" and bound is None
    if not infeasible and not (kind == "no_better_plan" and type(bound) is float and math.isfinite(bound)):
        raise MalformedProof("claim must be no_better_plan with a finite bound, or infeasible with none")
    if type(proof.shift) is not int or abs(proof.shift) > LARGEST_SHIFT:
        raise MalformedProof(f"shift must be a whole number from -{LARGEST_SHIFT} to {LARGEST_SHIFT}")
    for name, vectors in (("prices", proof.prices), ("rows", proof.rows)):
        if not isinstance(vectors, tuple) or len(vectors) > LARGEST_VECTORS:
            raise MalformedProof(f"{name} must be at most {LARGEST_VECTORS} vectors")
    for at, vector in enumerate(proof.prices):
        _check_wholes(f"prices[{at}]", vector, 0, LARGEST_NUMBER, "0 to 2**1024")
    for at, vector in enumerate(proof.rows):
        _check_wholes(f"rows[{at}]", vector, 1 - LARGEST_ROW, LARGEST_ROW, "-2**62 to 2**62")
    for name, positions in (("order", proof.order), ("apart", proof.apart)):
        _check_wholes(name, positions, 0, 1 << 40, "0 to 2**40: positions")
        if len(set(positions)) != len(positions):
            raise MalformedProof(f"{name} names a position twice")
    words = isinstance(proof.cuts, tuple) and all(
        isinstance(cut, dict) and all(isinstance(key, str) for key in cut) for cut in proof.cuts
    )
    if not words:
        raise MalformedProof("cuts must be objects")
    return proof


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, in which no key may stand twice: readers differ in which of them counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _unpacked(data: bytes, digest: str | None) -> bytes:
    if data[:2] != b"\x1f\x8b":
        _check_begin(data[:_HEAD_BYTES], len(data), digest)
        if len(data) > LARGEST_DOCUMENT:
            raise ValueError(f"it is longer than {LARGEST_DOCUMENT} bytes")
        return data
    unpacking = zlib.decompressobj(wbits=31)
    begin = unpacking.decompress(data, _HEAD_BYTES)
    named = _check_begin(begin, len(begin), digest)
    most = min(LARGEST_DOCUMENT, max(SMALL_DOCUMENT, LARGEST_RATIO * len(data) if named else 0))
    text = begin + unpacking.decompress(unpacking.unconsumed_tail, max(1, most - len(begin)))
    if unpacking.unconsumed_tail:
        raise ValueError(f"unpacked it is longer than {most} bytes")
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError("the compressed data is cut off, or something follows it")
    return text


def _check_begin(begin: bytes, length: int, digest: str | None) -> bool:
    """Return whether a document begins with the digest of an instance, once that is the one asked about."""
    head = _HEAD.match(begin)
    if head is None:
        if length > SMALL_DOCUMENT:
            raise ValueError(f"beyond {SMALL_DOCUMENT} bytes it must begin with format, version and instance")
        return False
    if digest is not None and head[1].decode() != digest:
        raise MalformedProof("the proof is about another instance: the digests differ")
    return True


def _check_memory(text: bytes) -> None:
    """Look at what a text of JSON takes once it is read, before it is: two brackets take forty times that."""
    lists, objects = text.count(b"["), text.count(b"{")
    words = _PER_WORD * text.count(b'"') + len(text)
    taken = _PER_VALUE * text.count(b",") + _PER_LIST * lists + _PER_OBJECT * objects + words
    if taken > LARGEST_MEMORY:
        raise ValueError(f"read it would take {taken} bytes of memory, more than {LARGEST_MEMORY}")


def _vectors(name: str, fields: list[Any]) -> tuple[tuple[int, ...], ...]:
    if not all(isinstance(vector, list) for vector in fields):
        raise MalformedProof(f"{name} must be a list of lists")
    return tuple(map(tuple, fields))


def _check_wholes(name: str, numbers: Any, least: int, beyond: int, within: str) -> None:
    listed = isinstance(numbers, tuple)
    if not listed or not all(type(one) is int and least <= one < beyond for one in numbers):
        raise MalformedProof(f"{name} must be a list of whole numbers from {within}")

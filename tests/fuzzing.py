"""Seeded damage to JSON files: bytes, numbers, fields, structure."""

from __future__ import annotations

import json
import random
from typing import Any

__all__ = ["mutated"]

_ODD = [
    0,
    -1,
    1,
    2,
    7,
    0.5,
    -0.0,
    1e-300,
    1e17,
    1e18,
    1e19,
    10**9,
    10**12,
    2**53,
    2**63,
    2**64,
    10**40,
    float("nan"),
    float("inf"),
    True,
    None,
    "",
    "n0",
    "j0",
    "\u00e9\u4e2d",
    "\u202e<script>&\n",
    "x" * 1001,
    [],
    {},
    [[]],
    [0, 1],
    {"kind": "gap_filling"},
]


def mutated(raw: bytes, seed: int) -> bytes:
    """Return a damaged copy; one to three wounds of any kind, the same for the same seed."""
    rng = random.Random(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        wound = rng.choice((_flip, _cut, _literal, _repeat_key, _nest, _tree, _tree, _tree, _tree, _tree))
        raw = wound(raw, rng)
    return raw


def _flip(raw: bytes, rng: random.Random) -> bytes:
    if not raw:
        return raw
    damaged = bytearray(raw)
    for _ in range(rng.randint(1, 3)):
        damaged[rng.randrange(len(damaged))] = rng.choice((rng.randrange(256), *b'{}[]",:0123456789-.eE\\'))
    return bytes(damaged)


def _cut(raw: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(raw) + 1)
    return raw[:start] if rng.random() < 0.5 else raw[:start] + raw[start + rng.randint(1, 40) :]


def _literal(raw: bytes, rng: random.Random) -> bytes:
    """Replace one number of the text by something JSON, or Python, would write differently."""
    text = raw.decode("latin-1")
    spots = [i for i, char in enumerate(text) if char.isdigit() and not text[i - 1 : i].isalnum()]
    if not spots:
        return raw
    start = rng.choice(spots)
    end = start
    while end < len(text) and (text[end].isdigit() or text[end] in ".eE+-"):
        end += 1
    odd = rng.choice(
        ("NaN", "-Infinity", "1e400", "9" * 5000, "0x10", "01", "1.", "1e-400", "-0", "1e2", '"\\ud800"')
    )
    return (text[:start] + odd + text[end:]).encode("latin-1")


def _repeat_key(raw: bytes, rng: random.Random) -> bytes:
    spots = [i for i, byte in enumerate(raw) if byte == ord("{")]
    if not spots:
        return raw
    at = rng.choice(spots) + 1
    end = raw.find(b":", at)
    return raw if end < 0 else raw[:at] + raw[at:end] + b":1," + raw[at:]


def _nest(raw: bytes, rng: random.Random) -> bytes:
    depth = rng.choice((10, 70, 300, 3000, 50_000))
    at = rng.choice([i for i, byte in enumerate(raw) if byte in b":,"] or [0]) + 1
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return raw[:at] + opening * depth + b"1" + closing * rng.choice((depth, depth - 1)) + raw[at:]


def _tree(raw: bytes, rng: random.Random) -> bytes:
    """Delete, copy, retype, exchange or scale one place of the tree."""
    try:
        tree = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    places: list[tuple[Any, Any]] = []
    pending = [tree]
    while pending:
        node = pending.pop()
        for key, value in (
            list(node.items() if isinstance(node, dict) else enumerate(node))
            if isinstance(node, dict | list)
            else ()
        ):
            places.append((node, key))
            pending.append(value)
    if not places:
        return raw
    holder, key = rng.choice(places)
    other, at = rng.choice(places)
    match rng.randrange(7):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.insert(key, holder[key])
        case 1:
            holder[f"{key}{rng.choice(('', '_', 'x'))}"] = holder.pop(key)
        case 2:
            holder[key] = rng.choice(_ODD)
        case 3:
            holder[key] = json.loads(json.dumps(other[at]))
        case 4 if isinstance(holder[key], int | float):
            holder[key] *= rng.choice((-1, 0, 0.5, 2, 3, 10, 1e6, 1e-6))
        case 4:
            holder[key] = str(holder[key])
        case 5:
            holder[key], other[at] = json.loads(json.dumps(other[at])), json.loads(json.dumps(holder[key]))
        case 6 if isinstance(holder[key], list):
            rng.shuffle(holder[key])
        case _:
            holder[key] = [holder[key]]
    try:
        return json.dumps(tree).encode()
    except (ValueError, RecursionError):
        return raw

"""Fuzzing without guidance: valid files, cut, repeated, spliced, their bytes, numbers and words exchanged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random

from tests.fuzz_readers.readers import Reader, endured
from tests.fuzzing import mutated

__all__ = ["Slow", "damaged", "fuzz"]

_NUMBERS = (b"0", b"-1", b"1e308", b"-1e308", b"nan", b"inf", b"9" * 30, b"1e18", b"2147483648", b"0.5", b"")
_LONGEST_S = 30.0
"""CPU seconds that one small input may take."""


class Slow(Exception):
    """An input took too long."""


def damaged(reader: Reader, seeds: list[bytes], seed: str) -> bytes:
    """Return the input of a seed."""
    rng = Random(seed)
    raw = rng.choice(seeds)
    if raw[:1] == b"{" and rng.random() < 0.6:
        return mutated(raw, rng.randrange(2**32))
    damage = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at = rng.randrange(len(damage) + 1)
        to = min(len(damage), at + rng.choice((0, 1, 2, 4, 16, 64)))
        other = rng.choice(seeds)
        start = rng.randrange(len(other) + 1)
        damage[at:to] = rng.choice(
            (
                bytes(rng.randrange(256) for _ in range(rng.randint(0, 4))),
                rng.choice(_NUMBERS),
                rng.choice(reader.words or _NUMBERS),
                other[start : start + rng.randint(0, 40)],
                bytes(damage[at:to]) * rng.choice((2, 3, 50)),
                b"\n",
            )
        )
    return bytes(damage[:200_000])


def fuzz(
    reader: Reader, seconds: float, seed: int, most: int | None = None
) -> Iterator[tuple[bytes, Exception]]:
    """Read damaged files for some CPU seconds; yield the inputs that raise what is not the package's own.

    The generator's return value is how many inputs were read.
    """
    seeds, count, until = reader.seeds(), 0, time.process_time() + seconds
    while time.process_time() < until and (most is None or count < most):
        raw = damaged(reader, seeds, f"{reader.name}:{seed}:{count}")
        count += 1
        began = time.process_time()
        try:
            endured(reader, raw)
            if time.process_time() - began > _LONGEST_S:
                raise Slow(f"{time.process_time() - began:.1f} CPU seconds for {len(raw)} bytes")
        except Exception as error:
            yield raw, error
    return count

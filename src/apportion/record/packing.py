"""How JSON is packed into the record, and instances into canonical JSON."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from apportion.record.errors import RecordDamaged

__all__ = ["pack", "pack_deltas", "pack_instance", "unpack", "unpack_deltas", "unpack_instance"]

_LEVEL = 1


def pack(text: bytes) -> bytes:
    """Return text compressed."""
    return zlib.compress(text, _LEVEL)


def unpack(packed: bytes) -> bytes:
    """Return what `pack` was given.

    Raises
    ------
    RecordDamaged
        If it was not packed, or was edited.
    """
    try:
        return zlib.decompress(packed)
    except zlib.error as error:
        raise RecordDamaged(f"the record holds something that cannot be unpacked: {error}") from None


def pack_instance(instance: Any) -> bytes:
    """Return an instance as canonical JSON, compressed."""
    return pack(msgspec.json.encode(instance, order="deterministic"))


def unpack_instance(packed: bytes) -> Any:
    """Return the instance that was packed, validated like a file."""
    from apportion.reading.read import read

    return read(unpack(packed))


def pack_deltas(deltas: Sequence[Any]) -> bytes:
    """Return deltas, as structs or plain objects, as a JSON array, compressed."""
    return pack(msgspec.json.encode(list(deltas), order="deterministic"))


def unpack_deltas(packed: bytes) -> list[dict[str, Any]]:
    """Return deltas as plain objects."""
    return msgspec.json.decode(unpack(packed), type=list[dict[str, Any]])

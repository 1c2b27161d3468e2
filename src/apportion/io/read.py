"""Read an instance: JSON or YAML of any kind, or one of the foreign formats."""

from __future__ import annotations

import gc
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from apportion.core.errors import InvalidInstance, InvalidOption, Problem
from apportion.core.files import unpacked
from apportion.instances.kinds import Instance, any_instance
from apportion.io.places import without_places

__all__ = ["SIZE_LIMIT", "problems_of", "read", "read_limited"]

SIZE_LIMIT = 256 * 2**20
"""Bytes a file may have unless the caller says otherwise."""
_MARK = b"\xef\xbb\xbf"


def read(
    source: str | os.PathLike[str] | bytes | Mapping[str, Any],
    format: str | None = None,
    index: int = 0,
    sense: str | None = None,
    *,
    size_limit: int = SIZE_LIMIT,
) -> Instance:
    """Read and validate an instance.

    Parameters
    ----------
    source
        A path, the bytes of a file, or an object as decoded from JSON.
    format
        ``"json"``, ``"yaml"`` or a key of `apportion.instances.readers.FORMATS`; by default YAML for names
        that end so, and JSON, unless the name of the file is one that a foreign format usually has and its
        content does not start with ``{``. What is gzipped is unpacked, its name judged without ``.gz``.
    index
        Which problem of a foreign file, from 0.
    sense
        ``"max"`` or ``"min"`` for foreign files that do not say.
    size_limit
        Largest size in bytes, also of what is unpacked.

    Returns
    -------
    Instance
        A validated instance.

    Raises
    ------
    InvalidInstance
        If anything is wrong with the content; `problems` lists all of it with JSON paths, `file` names the
        file.
    InvalidOption
        If the format or the sense is unknown, or does not apply to JSON.
    OSError
        If the file cannot be read.
    """
    with _without_collections():
        if isinstance(source, Mapping):
            _only_foreign(index, sense, format)
            return _from_object(source)
        if isinstance(source, bytes):
            return _from_bytes(source, None, format, index, sense, size_limit)
        try:
            return _from_bytes(_load(source, size_limit), Path(source), format, index, sense, size_limit)
        except InvalidInstance as error:
            raise error.in_file(os.fspath(source)) from None


@contextmanager
def _without_collections() -> Iterator[None]:
    """Keep the garbage collector from going through ever more objects, none of which is garbage."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def _from_bytes(
    raw: bytes, path: Path | None, format: str | None, index: int, sense: str | None, size_limit: int
) -> Instance:
    if len(raw) > size_limit:
        raise _too_large(size_limit)
    try:
        raw = unpacked(raw, size_limit)
    except ValueError as error:
        raise InvalidInstance(Problem("$", str(error))) from None
    if path is not None and path.suffix.lower() == ".gz":
        path = path.with_suffix("")
    if _is_yaml(path, format):
        _only_foreign(index, sense, None)
        return _from_yaml(raw, path)
    foreign = _foreign_format(raw, path, format)
    if foreign is None:
        _only_foreign(index, sense, format)
        return _from_json(raw, path, format)
    from apportion.instances.readers import read_text

    return read_text(raw, foreign, index, sense, "" if path is None else path.stem)


def problems_of(raw: bytes) -> list[Problem]:
    """Return every problem of an instance in JSON, with JSON paths; empty if it is valid."""
    from apportion.io.diagnosis import problems_of as diagnose

    return diagnose(raw)


def read_limited(stream: BinaryIO, size_limit: int = SIZE_LIMIT) -> bytes:
    """Return all bytes of a stream; `InvalidInstance` if there are more than `size_limit`."""
    raw = stream.read(size_limit + 1)
    if len(raw) > size_limit:
        raise _too_large(size_limit)
    return raw


def _load(path: str | os.PathLike[str], size_limit: int) -> bytes:
    with Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size > size_limit:
            raise _too_large(size_limit, status.st_size)
        return read_limited(file, size_limit)


def _too_large(size_limit: int, size: int | None = None) -> InvalidInstance:
    has = "has more than" if size is None else f"has {size:,} bytes, more than"
    return InvalidInstance(Problem("$", f"the file {has} the {size_limit:,} bytes that are read"))


def _foreign_format(raw: bytes, path: Path | None, format: str | None) -> str | None:
    if format is not None:
        return None if format == "json" else format
    begin = raw[:64].removeprefix(_MARK).lstrip()[:1]
    if path is None or path.suffix.lower() == ".json" or begin in (b"{", b"["):
        return None
    from apportion.instances.readers import guess_format

    return guess_format(path)


def _is_yaml(path: Path | None, format: str | None) -> bool:
    if format is not None:
        return format == "yaml"
    return path is not None and path.suffix.lower() in (".yaml", ".yml")


def _from_yaml(raw: bytes, path: Path | None) -> Instance:
    from apportion.io.places import placed_at
    from apportion.io.text import places_of, tree_of

    written = raw.removeprefix(_MARK)
    tree = tree_of(written)
    try:
        text = json.dumps(tree).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInstance(Problem("$", f"holds what JSON cannot say: {error}")) from None
    try:
        return _from_json(text, path, "json")
    except InvalidInstance as error:  # its places are those of a text that nobody wrote
        raise InvalidInstance(placed_at(error.problems, places_of(written))) from None


def _only_foreign(index: int, sense: str | None, format: str | None) -> None:
    if format not in (None, "json"):
        raise InvalidOption(f"an object is no file in the format {format!r}")
    if sense is not None:
        raise InvalidOption("sense does not apply to JSON: the instance says it")
    if index != 0:
        raise InvalidOption(
            f"index does not apply to JSON: the file holds one instance, not number {index!r}"
        )


def _from_object(source: Mapping[str, Any]) -> Instance:
    try:
        converted: Instance = msgspec.convert(dict(source), type=any_instance())
        return converted
    except (msgspec.ValidationError, TypeError, RecursionError):
        pass
    try:
        raw = json.dumps(source).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInstance(Problem("$", f"is no JSON object: {error}")) from None
    try:
        return _from_json(raw, None, None)
    except InvalidInstance as error:
        raise InvalidInstance(without_places(error.problems)) from None


def _from_json(raw: bytes, path: Path | None, format: str | None) -> Instance:
    from apportion.io.schemas import materialised
    from apportion.io.text import has_repeated_keys

    try:
        instance: Instance = msgspec.json.decode(raw.removeprefix(_MARK), type=any_instance())
        if not has_repeated_keys(raw):
            return instance
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    rows = materialised(raw, Path() if path is None else path.parent)
    if rows is not None:
        try:
            return _from_json(rows, path, format)
        except InvalidInstance as error:
            raise InvalidInstance(without_places(error.problems)) from None
    problems = problems_of(raw)
    if not problems:
        raise InvalidInstance(Problem("$", "is not valid JSON of any kind of instance"))
    if path is not None and format is None and path.suffix.lower() != ".json" and problems[0].path == "$":
        from apportion.instances.readers import FORMATS

        hint = f"read as JSON; if it is a foreign file, name its format ({', '.join(FORMATS)})"
        problems.append(Problem(path.name, hint))
    raise InvalidInstance(problems)

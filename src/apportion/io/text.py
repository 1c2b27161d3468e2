"""JSON and YAML text as a tree that remembers what readers forgive.

Of JSON these are repeated keys, NaN, 1e400 and lone surrogates; YAML 1.2 becomes the tree that the same
instance would be in JSON.
"""

from __future__ import annotations

import io
import json
import math
import re
from typing import Any

from apportion.core.errors import InvalidInstance, Problem

__all__ = [
    "DEEPEST",
    "REPEATED",
    "has_repeated_keys",
    "parse",
    "places_of",
    "tree_of",
]

REPEATED = "this key stands more than once in its object"
"""The message of a repeated key."""

DEEPEST = 64
"""Levels of nesting; the deepest instance kind needs seven."""
_LARGEST_INTEGER = 2**63
_LONGEST_INTEGER = 30
"""Digits; more than this is never converted, because converting is quadratic in them."""
_SMALL = 2**20
"""Bytes up to which the standard library's reader is quick enough to look at every key."""


class _Unusable:
    """A number that is not finite or does not fit in 64 bits, as it was written."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text if len(text) <= 40 else f"{text[:37]}..."


def parse(raw: bytes) -> tuple[Any, list[Problem]]:
    """Decode JSON strictly and note everything wrong with the text itself.

    Parameters
    ----------
    raw
        UTF-8 text; a byte-order mark is tolerated.

    Returns
    -------
    tuple
        The tree, with ``None`` in place of unusable numbers, and the problems of the text: repeated keys,
        numbers that are not finite or do not fit in 64 bits, lone surrogates.

    Raises
    ------
    InvalidInstance
        If it is no JSON at all, or nested too deeply.
    """
    text = _decoded(raw)
    repeated: dict[int, tuple[dict[str, Any], list[str]]] = {}

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            again = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
            # Kept by identity: the object itself is held too, so that its id is not given to another.
            repeated[id(found)] = (found, list(dict.fromkeys(again)))
        return found

    try:
        tree = json.loads(
            text, object_pairs_hook=note, parse_constant=_Unusable, parse_float=_float, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        raise InvalidInstance(Problem("$", _syntax(error, text))) from None
    except RecursionError:
        raise InvalidInstance(Problem("$", f"is nested more than {DEEPEST} levels deep")) from None
    problems: list[Problem] = []
    tree = _cleaned(tree, repeated, problems)
    return tree, problems


def has_repeated_keys(raw: bytes) -> bool:
    """Return whether any object in valid JSON has a key twice.

    Small texts, and texts with escapes, are read once more with the standard library. In others the quotes
    before a colon are counted, which end a key or begin a string: decoding drops those of repeated keys.
    """
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if len(raw) > _SMALL and b"\\" not in raw:
        import msgspec

        return _keys(raw) != _keys(msgspec.json.encode(msgspec.json.decode(raw)))
    found = False

    def note(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({key for key, _ in pairs}) < len(pairs)

    json.loads(raw.decode(), object_pairs_hook=note, parse_float=len, parse_int=len)
    return found


def _keys(raw: bytes) -> int:
    """Return the number of keys, and of strings that begin with a colon, in JSON without escapes."""
    return raw.translate(None, b" \t\r\n").count(b'":')


def _decoded(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInstance(Problem("$", "is UTF-16 text; an instance is JSON in UTF-8"))
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if not raw.strip():
        raise InvalidInstance(Problem("$", "is empty; an instance is one JSON object"))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"byte {raw[error.start]:#04x} at offset {error.start} is not UTF-8"
        raise InvalidInstance(Problem("$", f"{where}; an instance is JSON in UTF-8")) from None


def _syntax(error: json.JSONDecodeError, text: str) -> str:
    where = f"line {error.lineno}, column {error.colno}"
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return f"the JSON text is truncated: it breaks off inside what begins at {where}"
    if error.msg == "Extra data":
        return f"there is more text after the end of the JSON object, at {where}{_looks_like(text)}"
    before = text[: error.pos].rstrip()
    if before.endswith(",") or (text[error.pos : error.pos + 1] == "," and error.msg.startswith("Illegal")):
        return f"is not JSON: a comma with nothing after it, before {where}; JSON allows no trailing comma"
    what = f"{error.msg[:1].lower()}{error.msg[1:].removesuffix(' at')}"
    return f"is not JSON: {what} at {where}{_looks_like(text)}"


def _looks_like(text: str) -> str:
    """Return a hint where a text looks like YAML or a table."""
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    if re.match(r"(---|[A-Za-z_]+:(\s|$)|- )", first):
        return "; it looks like YAML, which is read from FILE.yaml or with --format yaml"
    if first.count(",") >= 2 and not first.lstrip().startswith(("{", "[")):
        return (
            "; it looks like a CSV table: menus and matchings are read from FILE.csv or with --format csv, "
            "jobs by `apportion replay --jobs`, measurements by `apportion fit` and `apportion predict`"
        )
    return ""


def _float(text: str) -> float | _Unusable:
    value = float(text)
    return value if math.isfinite(value) else _Unusable(text)


def _integer(text: str) -> int | _Unusable:
    value = int(text) if len(text) <= _LONGEST_INTEGER else _LARGEST_INTEGER
    return value if abs(value) < _LARGEST_INTEGER else _Unusable(text)


def _cleaned(
    tree: Any, repeated: dict[int, tuple[dict[str, Any], list[str]]], problems: list[Problem]
) -> Any:
    """Note the problems of every value and put ``None`` for the unusable ones, without recursion."""
    root = [tree]
    pending: list[tuple[str, Any, Any, int]] = [("$", root, 0, 0)]
    while pending:
        path, holder, key, depth = pending.pop()
        value = holder[key]
        if isinstance(value, _Unusable):
            problems.append(Problem(path, f"must be a finite number that fits in 64 bits, not {value.text}"))
            holder[key] = None
        elif isinstance(value, str):
            holder[key] = _unicode(path, value, problems)
        elif isinstance(value, dict | list) and depth >= DEEPEST:
            raise InvalidInstance(Problem("$", f"is nested more than {DEEPEST} levels deep"))
        elif isinstance(value, dict):
            for name in repeated.get(id(value), ({}, []))[1]:
                where = f"{path}.{name}".encode(errors="backslashreplace").decode()
                problems.append(Problem(where, REPEATED))
            if not all(name.isascii() for name in value):
                value = {_unicode(f"{path}.{name}", name, problems): item for name, item in value.items()}
                holder[key] = value
            pending.extend((f"{path}.{name}", value, name, depth + 1) for name in reversed(value))
        elif isinstance(value, list):
            pending.extend((f"{path}[{i}]", value, i, depth + 1) for i in reversed(range(len(value))))
    return root[0]


def _unicode(path: str, text: str, problems: list[Problem]) -> str:
    """Return the text; if it holds lone surrogates, note it and return it with them spelt out."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        message = f"holds the lone surrogate \\u{code:04x}, which is no Unicode text"
        problems.append(Problem(path.encode(errors="backslashreplace").decode(), message))
        return text.encode(errors="backslashreplace").decode()
    return text


def tree_of(raw: bytes) -> Any:
    """Decode one YAML document.

    Names are never taken for dates, ``no`` and ``on`` are words, a key that is repeated is an error, and so
    are anchors with references, through which a short text can stand for an endless one.

    Parameters
    ----------
    raw
        UTF-8 text.

    Raises
    ------
    InvalidInstance
        If it is no YAML document of that kind, or is nested too deeply; the message says line and column.
    """
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
        from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent
    except ImportError:
        hint = "is YAML, which needs ruamel.yaml: pip install ruamel.yaml, or write JSON"
        raise InvalidInstance(Problem("$", hint)) from None
    reader = YAML(typ="safe", pure=True)
    depth = 0
    try:
        for event in reader.parse(io.BytesIO(raw)):
            depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
            if depth > DEEPEST:  # before it is read whole, which takes the square of the depth
                raise InvalidInstance(Problem("$", f"is nested more than {DEEPEST} levels deep{_at(event)}"))
            if isinstance(event, AliasEvent):
                raise InvalidInstance(Problem("$", f"refers to an anchor{_at(event)}; write the value out"))
        reader = YAML(typ="safe", pure=True)
        reader.constructor.add_constructor("tag:yaml.org,2002:timestamp", _as_written)
        tree = reader.load(io.BytesIO(raw))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
        raise InvalidInstance(Problem("$", f"is not YAML: {error.problem or error.context}{where}")) from None
    except InvalidInstance:
        raise
    except (YAMLError, ValueError, RecursionError) as error:
        raise InvalidInstance(Problem("$", f"is not YAML: {str(error).splitlines()[0]}")) from None
    return _with_words_for_keys(tree)


def places_of(raw: bytes) -> dict[str, tuple[int, int]]:
    """Return line and column, from 1, of every JSON path of a YAML document: a member's are its key's."""
    from ruamel.yaml import YAML

    found: dict[str, tuple[int, int]] = {}
    whole = YAML(typ="safe", pure=True).compose(io.BytesIO(raw))
    waiting: list[tuple[str, Any, Any]] = [] if whole is None else [("$", None, whole)]
    while waiting:
        path, key, node = waiting.pop()
        mark = (node if key is None else key).start_mark
        found[path] = (mark.line + 1, mark.column + 1)
        if node.id == "mapping":
            waiting += [(f"{path}.{name.value}", name, value) for name, value in node.value]
        elif node.id == "sequence":
            waiting += [(f"{path}[{index}]", None, value) for index, value in enumerate(node.value)]
    return found


def _at(event: Any) -> str:
    mark = event.start_mark
    return f" at line {mark.line + 1}, column {mark.column + 1}"


def _as_written(_: Any, node: Any) -> str:
    return str(node.value)


def _with_words_for_keys(tree: Any) -> Any:
    """Return the tree with every key a word, as in JSON: ``{8: x}`` is ``{"8": x}``."""
    if isinstance(tree, dict):
        return {
            key if isinstance(key, str) else str(key): _with_words_for_keys(value)
            for key, value in tree.items()
        }
    if isinstance(tree, list):
        return [_with_words_for_keys(value) for value in tree]
    return tree

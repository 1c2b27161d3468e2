"""YAML 1.2 as the tree that the same instance would be in JSON."""

from __future__ import annotations

import io
from typing import Any

from apportion.core.errors import InvalidInstance, Problem
from apportion.io.json_text import DEEPEST

__all__ = ["places_of", "tree_of"]


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

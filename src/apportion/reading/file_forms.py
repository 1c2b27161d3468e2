"""What a file of a kind may say that its instance does not hold: references that reading resolves.

A kind with references is one entry of `FILE_FORMS`; the module it names is loaded when a file has one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from apportion.errors import InvalidInstance
from apportion.references import loaded

__all__ = ["FILE_FORMS", "FileForm", "admit_references", "materialised"]


@dataclass(frozen=True, slots=True)
class FileForm:
    """The references that files of one kind may hold.

    Attributes
    ----------
    marker
        Bytes that a file with a reference contains.
    module
        The module that resolves references: ``refers(tree)`` says whether there is one,
        ``materialised(tree, base)`` replaces them, ``admit_references(definitions)`` writes them into the
        definitions of a JSON Schema.
    """

    marker: bytes
    module: str

    def load(self, name: str) -> Callable[..., Any]:
        """Return a function of the module."""
        function: Callable[..., Any] = loaded(f"{self.module}:{name}")
        return function


FILE_FORMS: Mapping[str, FileForm] = MappingProxyType(
    {"freezing": FileForm(b'"fits"', "apportion.estimation.menu_reference")}
)


def materialised(raw: bytes, base: Path) -> bytes | None:
    """Return a file with its references resolved, ``None`` if it has none.

    Parameters
    ----------
    raw
        The whole file.
    base
        The folder that paths in it are relative to.

    Raises
    ------
    InvalidInstance
        If a reference cannot be resolved.
    """
    if not any(form.marker in raw for form in FILE_FORMS.values()):
        return None
    from apportion.reading.json_text import parse

    try:
        tree, problems = parse(raw)
    except InvalidInstance:
        return None
    kind = tree.get("kind") if isinstance(tree, dict) else None
    form = FILE_FORMS.get(kind) if isinstance(kind, str) else None
    if problems or form is None or not form.load("refers")(tree):
        return None
    return json.dumps(form.load("materialised")(tree, base)).encode()


def admit_references(kind: str, definitions: dict[str, Any]) -> None:
    """Let the definitions of a kind's JSON Schema admit its references."""
    if kind in FILE_FORMS:
        FILE_FORMS[kind].load("admit_references")(definitions)

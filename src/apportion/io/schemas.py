"""The JSON Schema of every kind of instance: generated from its types, committed beside them.

``python -m apportion.io.schemas FOLDER`` writes them all; a test holds that the committed ones are up
to date.

A file may say what its instance does not hold: references that reading resolves. A kind with references is
one entry of `FILE_FORMS`; the module it names is loaded when a file has one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from apportion.core.errors import InvalidInstance, one_of
from apportion.core.extension_points import loaded

__all__ = [
    "FILE_FORMS",
    "FileForm",
    "admit_references",
    "committed",
    "committed_text",
    "generated",
    "generated_text",
    "materialised",
]


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
    {"freezing": FileForm(b'"fits"', "apportion.cluster.estimation.menu_reference")}
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
    from apportion.io.text import parse

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


def committed_text(kind: str) -> str:
    """Return the committed schema of a kind as JSON text (draft 2020-12).

    Raises
    ------
    InvalidOption
        If there is no such kind.
    """
    from apportion.instances.kinds import kinds

    one_of("kind", kind, kinds())
    return files(kinds()[kind].schemas).joinpath(f"{kind}.schema.json").read_text(encoding="utf-8")


def committed(kind: str) -> dict[str, Any]:
    """Return the committed schema of a kind; see `committed_text`."""
    schema: dict[str, Any] = json.loads(committed_text(kind))
    return schema


def generated(kind: str) -> dict[str, Any]:
    """Return the schema of a kind as its types say it now, described by their docstrings."""
    import msgspec

    from apportion.instances.kinds import kinds

    root = kinds()[kind].type
    schema = msgspec.json.schema(root)
    admit_references(kind, schema["$defs"])
    for definition in schema["$defs"].values():
        _describe(definition)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://apportion.dev/schemas/{kind}-1.json",
        "title": f"apportion instance: {kind}",
        "description": schema["$defs"][root.__name__]["description"],
        "$ref": schema["$ref"],
        "$defs": schema["$defs"],
    }


def generated_text(kind: str) -> str:
    """Return `generated` as JSON text, indented."""
    return json.dumps(generated(kind), indent=2, ensure_ascii=False) + "\n"


def _describe(definition: dict[str, Any]) -> None:
    """Split a numpydoc docstring: its summary stays, its attributes describe the properties."""
    summary, _, rest = definition.get("description", "").partition("\n\n")
    definition["description"] = " ".join(summary.split())
    for name, text in _attributes(rest).items():
        if name in definition["properties"]:
            definition["properties"][name]["description"] = text
    for name, one in definition["properties"].items():
        if name != "kind" and len(one.get("enum", ())) == 1 and "description" not in one:
            one["description"] = "Says which of several this is."


def _attributes(docstring: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    section = re.search(r"Attributes\n\s*-+\n(.*?)(?=\n\s*\n\s*\w+\n\s*---|\Z)", docstring, re.DOTALL)
    lines = section.group(1).splitlines() if section else []
    names: list[str] = []
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    for line in lines:
        if line.strip() and len(line) - len(line.lstrip()) == margin:
            names = [name.strip() for name in line.split(",")]
        else:
            text = line.strip().replace("`", "")
            found |= {name: f"{found.get(name, '')} {text}".strip() for name in names}
    return found


if __name__ == "__main__":
    from apportion.instances.kinds import KINDS

    for _kind in KINDS:
        (Path(sys.argv[1]) / f"{_kind}.schema.json").write_text(generated_text(_kind), encoding="utf-8")

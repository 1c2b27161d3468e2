"""Write the tables of docstrings as Markdown, which knows no simple tables of reStructuredText."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import griffe

_TABLE = re.compile(
    r"^(?P<rule>=+(?: +=+)+)\n(?:(?P<head>.+)\n(?P=rule)\n)?(?P<rows>(?:.+\n)+?)(?P=rule)$", re.MULTILINE
)


class RestTables(griffe.Extension):
    """Turn every simple table of a docstring into one of Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was just read."""
        if obj.docstring is not None and "====" in obj.docstring.value:
            obj.docstring.value = _TABLE.sub(_as_markdown, obj.docstring.value)


def _as_markdown(found: re.Match[str]) -> str:
    starts = [column.start() for column in re.finditer("=+", found["rule"])]
    rows = [_cells(line, starts) for line in (found["head"] or "", *found["rows"].splitlines())]
    whole: list[list[str]] = []
    for row in rows:
        if row[0] or not whole:
            whole.append(row)
        else:  # a row whose first cell is empty continues the one before
            whole[-1] = [f"{before} {more}".strip() for before, more in zip(whole[-1], row, strict=True)]
    lines = ["| " + " | ".join(row) + " |" for row in whole]
    return "\n".join(["", lines[0], "|" + " --- |" * len(starts), *lines[1:], ""])


def _cells(line: str, starts: list[int]) -> list[str]:
    cells = [line[first:end].strip() for first, end in pairwise([*starts, None])]
    return [cell.replace("|", "\\|") for cell in cells]

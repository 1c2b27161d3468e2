"""The report's tables as Markdown, for the documents."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.reporting.blocks import Chart, Section, Table

__all__ = ["markdown"]


def markdown(title: str, lead: Sequence[str], sections: Sequence[Section]) -> str:
    """Return headings, leads and tables; of a chart its figures, and nothing of what is folded away."""
    parts = [f"# {title}", *lead]
    for section in sections:
        shown = [_block(block) for block in section.blocks if not (isinstance(block, Table) and block.folded)]
        if not shown and not section.lead:
            continue
        parts += [f"## {section.title}", *([section.lead] if section.lead else []), *shown]
    return "\n\n".join(part for part in parts if part) + "\n"


def _block(block: Table | Chart) -> str:
    table = block.figures if isinstance(block, Chart) else block
    title = block.title
    note = "\n\n".join(dict.fromkeys(text for text in (block.note, table.note) if text))
    head = f"### {title}" if title else ""
    grid = _grid(table) if table.rows else ""
    return "\n\n".join(part for part in (head, grid, note) if part)


def _grid(table: Table) -> str:
    words = {0, *table.text_columns}
    rule = ["---" if k in words else "---:" for k in range(len(table.heads))]
    lines = [table.heads, rule, *table.rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Escape what ends a cell or would be read as markup."""
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
    return escaped.replace("*", "\\*").replace("_", "\\_")

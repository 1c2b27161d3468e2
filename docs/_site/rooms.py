"""Draw the rooms of the package and their imports, from the code and the layers in pyproject.toml.

``python docs/_site/rooms.py`` writes ``docs/assets/rooms.svg``; a test holds picture, page and code together.
"""

from __future__ import annotations

import ast
import os
import tomllib
from pathlib import Path

__all__ = ["PICTURE", "VALUES", "arrows", "drawing", "imports", "rows"]

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "assets" / "rooms.svg"
_PACKAGE = ROOT / "src" / "apportion"
_WIDTH, _ROW, _BOX, _TOP = 960, 74, (132, 34), 24
_ACROSS = {
    "cli": 0.5, "draw": 0.2, "service": 0.62, "explanation": 0.4, "live": 0.84, "cluster": 0.7, "scale": 0.88,
    "io": 0.24, "fairness": 0.5, "solving": 0.5, "formulations": 0.5, "solvers": 0.8, "proofs": 0.2,
    "instances": 0.34, "models": 0.6,
}  # fmt: skip
"""Where a room stands, as a share of the width, so that few arrows pass behind others; the rest is spread."""


def imports() -> dict[str, set[str]]:
    """Return which rooms each room imports; a room is a folder or a module at the top of the package."""
    found: dict[str, set[str]] = {}
    for folder, _, files in os.walk(_PACKAGE, followlinks=True):
        for file in sorted(files):
            path = Path(folder, file)
            room = path.relative_to(_PACKAGE).parts[0].removesuffix(".py")
            if path.suffix == ".py" and not room.startswith("__"):
                met = found.setdefault(room, set())
                met |= _imported(ast.parse(path.read_text(encoding="utf-8"))) - {room}
    return {room: met & found.keys() for room, met in found.items()}


def _imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for branch in ast.walk(tree):
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING":
            branch.body = []  # a name for type checkers is no import
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "apportion":
            names |= {f"apportion.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name.split(".")[1] for name in names if name.startswith("apportion.")}


def rows() -> list[list[str]]:
    """Return the layers of the import contract, the uppermost first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each.get("containers") == ["apportion"])
    layers = ([name.strip(" ()") for name in layer.split("|")] for layer in contract["layers"])
    return [row for layer in layers if (row := [name for name in layer if not name.startswith("__")])]


VALUES = "core"
"""The room of values that every other may import; the picture names it without arrows."""


def arrows(known: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the imports between rooms, but those that a longer way of imports implies."""
    direct = {room: met - {VALUES} for room, met in known.items() if room != VALUES}
    reached = {room: _reached(room, direct) for room in direct}
    return sorted(
        (room, other)
        for room, met in direct.items()
        for other in met
        if not any(other in reached[between] for between in met - {other})
    )


def _reached(room: str, direct: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(direct[room])
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += direct[other]
    return found


def drawing() -> str:
    """Return the picture as SVG, the same for the same code."""
    known = imports()
    layers = [row for row in rows() if row != [VALUES]]
    width, height = _BOX
    at: dict[str, tuple[float, float]] = {}
    for level, row in enumerate(layers):
        for place, room in enumerate(row):
            share = _ACROSS.get(room, (place + 0.5) / len(row))
            at[room] = (share * _WIDTH, _TOP + level * _ROW)
    total = _TOP + len(layers) * _ROW + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {total}" font-family="sans-serif" '
        'font-size="14">',
        "<title>The rooms of apportion: an arrow goes from a room to one that it imports</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#7a869a"/></marker></defs>',
        f'<rect width="{_WIDTH}" height="{total}" fill="#ffffff"/>',
    ]
    for upper, lower in arrows(known):
        (x, y), (end_x, end_y) = at[upper], at[lower]
        begin, end = y + height, end_y - 2
        bend = 0.45 * (end - begin)
        parts.append(
            f'<path d="M{x:.0f},{begin:.0f} C{x:.0f},{begin + bend:.0f} {end_x:.0f},{end - bend:.0f} '
            f'{end_x:.0f},{end:.0f}" fill="none" stroke="#7a869a" stroke-width="1.3" '
            f'marker-end="url(#tip)"><title>{upper} imports {lower}</title></path>'
        )
    for room, (x, y) in at.items():
        parts.append(
            f'<rect x="{x - width / 2:.0f}" y="{y:.0f}" width="{width}" height="{height}" rx="7" '
            'fill="#eef2fb" stroke="#3f51b5"/>'
            f'<text x="{x:.0f}" y="{y + 22:.0f}" text-anchor="middle" fill="#1a237e">{room}</text>'
        )
    parts.append(
        f'<text x="{_WIDTH / 2:.0f}" y="{total - 16}" text-anchor="middle" font-size="12" fill="#444">'
        f"used everywhere: {VALUES}</text></svg>"
    )
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(drawing(), encoding="utf-8")

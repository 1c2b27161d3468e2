"""Names that meant nothing to a reader must not come back, nor a function name of several meanings."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

BANNED = frozenset(
    [
        "BesideTenants",
        "BestChoice",
        "ClusterEyes",
        "Claimant",
        "Ending",
        "Eyes",
        "Filling",
        "Flights",
        "FloatMenus",
        "Formulated",
        "Further",
        "GapFillingEyes",
        "Held",
        "Hub",
        "Learnt",
        "Ledger",
        "Lesson",
        "Nature",
        "Offering",
        "Past",
        "PolicyDesk",
        "Rung",
        "ShownBound",
        "Structure",
        "Tilt",
        "WholeMenus",
        "_ROADS",
        "age",
        "in_doubt",
        "kinship",
        "makespan_in_brief",
        "nature",
        "proof_in_brief",
        "rung",
        "second_opinion",
        "take_back",
        "tear",
        "tell_skipped",
        "tilt",
        "tilted",
        "told",
        "unsettled_jobs",
    ]
)
"""See docs/glossary.md for what these are called now."""
BANNED_FILES = frozenset(
    [
        "alone",
        "apart",
        "divided",
        "flights",
        "growing_core",
        "held",
        "hub",
        "in_doubt",
        "kinship",
        "meaning",
        "meet",
        "past",
        "question",
        "second_opinion",
        "shown",
        "skipped",
        "solved",
        "tables_turn",
        "tilt",
        "unsettled",
        "wide",
        "written",
    ]
)
ONCE = frozenset(
    {"decided", "escaped", "held", "listed", "plain", "printable", "settled", "shown", "whole", "_shown"}
)
"""Words that were functions of up to eleven meanings: each is a function at the top of at most one file."""


def _names(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def test_banned_names_do_not_come_back(root: Path) -> None:
    met: dict[str, list[str]] = {}
    tops: dict[str, list[str]] = {}
    for folder, _, files in os.walk(root / "src" / "apportion", followlinks=True):
        for file in files:
            if not file.endswith(".py"):
                continue
            path = Path(folder, file)
            assert path.stem not in BANNED_FILES, path
            words = set(re.findall(r"\w+", text := path.read_text(encoding="utf-8")))
            if not words & BANNED and not ONCE & set(re.findall(r"^def (\w+)", text, re.MULTILINE)):
                continue
            tree = ast.parse(text)
            for name in _names(tree) & BANNED:
                met.setdefault(name, []).append(str(path.relative_to(root)))
            for node in tree.body:
                if isinstance(node, ast.FunctionDef) and node.name in ONCE:
                    tops.setdefault(node.name, []).append(str(path.relative_to(root)))
    assert met == {}
    assert {name: places for name, places in tops.items() if len(places) > 1} == {}

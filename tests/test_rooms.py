"""The rooms of the package: how many and how large, no circle of files, references that lead down."""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import networkx as nx
import pytest

import apportion
from apportion.instances.kinds import kinds

ROOMS = 16
MOST_FILES, MOST_LINES = 440, 600
MOST_ENTERED = {"gap_filling_small.json": 30, "three_teams.json": 55}
"""Files whose functions run in a solve, by example: how many a reader would walk through."""
_REFERENCE = re.compile(r"apportion(?:\.\w+)+:\w+")
_UPWARD = {"apportion.core.extension_points", "apportion.solving.registry"}
"""The only modules whose references in strings may lead to a higher room."""


class Module(NamedTuple):
    """A file of the package."""

    name: str
    path: Path
    text: str
    tree: ast.Module


@pytest.fixture(scope="module")
def modules(root: Path) -> dict[str, Module]:
    """Every module of the package by its dotted name."""
    package = root / "src" / "apportion"
    found = {}
    for folder, _, files in os.walk(package, followlinks=True):
        for file in files:
            if file.endswith(".py"):
                path = Path(folder, file)
                parts = ["apportion", *path.relative_to(package).with_suffix("").parts]
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                text = path.read_text(encoding="utf-8")
                found[name] = Module(name, path, text, ast.parse(text))
    return found


def _imports(module: Module, known: dict[str, Module]) -> Iterator[str]:
    """Yield the modules that one imports when it is imported itself."""
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else node.module


def test_sixteen_rooms_and_nothing_beside_them(root: Path) -> None:
    package = root / "src" / "apportion"
    names = {path.name for path in package.iterdir()} - {"__pycache__"}
    rooms = {name for name in names if (package / name).is_dir()}
    assert len(rooms) == ROOMS
    assert names - rooms == {"__init__.py", "__main__.py", "py.typed"}


def test_files_are_few_and_none_is_long(modules: dict[str, Module]) -> None:
    assert len(modules) <= MOST_FILES
    assert {
        name: lines for name, one in modules.items() if (lines := one.text.count("\n")) > MOST_LINES
    } == {}


def test_no_circle_of_files(modules: dict[str, Module]) -> None:
    graph = nx.DiGraph()
    for name, module in modules.items():
        for other in _imports(module, modules):
            if other in modules and not other.startswith(f"{name}."):  # a package may list what is in it
                graph.add_edge(name, other)
    assert [sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


def test_references_in_strings_lead_down_as_imports_do(root: Path, modules: dict[str, Module]) -> None:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    height = {room.strip(): number for number, row in enumerate(layers) for room in row.split("|")}
    height["apportion"] = -1
    upward = []
    for name, module in modules.items():
        if name in _UPWARD:
            continue
        room = name.split(".")[1] if "." in name else name
        strings = (node.value for node in ast.walk(module.tree) if isinstance(node, ast.Constant))
        for text in strings:
            if isinstance(text, str) and _REFERENCE.fullmatch(text):
                other = text.partition(":")[0]
                assert other in modules, f"{name} refers to {text}"
                if height[other.split(".")[1]] < height[room]:
                    upward.append(f"{name} -> {text}")
    assert upward == []


@pytest.mark.parametrize("example", MOST_ENTERED)
def test_a_plan_passes_through_few_files(root: Path, example: str) -> None:
    package = root / "src" / "apportion"
    ours = tuple(str(one.resolve()) for one in (package, *package.iterdir()))
    instance = apportion.read(root / "examples" / example)
    apportion.solve(instance)  # what is loaded or built once is there now
    entered = set[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        entered.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        apportion.solve(instance)
    finally:
        sys.setprofile(before)
    found = sorted(name for name in map(os.path.realpath, entered) if name.startswith(ours))
    assert 10 < len(found) <= MOST_ENTERED[example], found


NAMING_A_KIND = {
    # exported to everybody: types, and builders in a few lines
    *("apportion", "apportion.io.builders"),
    # a kind's own drawing, its own tables
    *("apportion.draw.allocation_svg", "apportion.draw.freezing_svg", "apportion.draw.gantt_svg"),
    *("apportion.draw.placement_svg", "apportion.cli.summary"),
    # a makespan is no sum of options; Kueue's rounds are one kind's; policies are asked in their own terms
    *("apportion.explanation.makespan", "apportion.explanation.kueue_decision"),
    "apportion.service.view_adapters",
    # who makes instances of one kind
    *("apportion.cluster.policies.freetrain", "apportion.cluster.simulation.snapshot"),
    "apportion.cluster.estimation.model_similarity",
    "apportion.cluster.policies.rounds.greedy_placing",
}
"""All modules above `instances` and `formulations` that name the types of a kind of instance."""


def test_kinds_are_named_where_they_belong_and_nowhere_else(modules: dict[str, Module]) -> None:
    types = {kind.type for kind in kinds().values()}
    types |= {kind.edits.job_type for kind in kinds().values() if kind.edits is not None}
    names = {one.__name__ for one in types}
    found = set()
    for name, module in modules.items():
        if name.split(".")[1:2] in (["instances"], ["formulations"]):
            continue
        inside = ast.walk(module.tree)
        named = {node.id for node in inside if isinstance(node, ast.Name)}
        inside = ast.walk(module.tree)
        named |= {alias.name for node in inside if isinstance(node, ast.ImportFrom) for alias in node.names}
        if named & names:
            found.add(name)
    assert found == NAMING_A_KIND

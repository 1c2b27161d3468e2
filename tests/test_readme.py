"""The programs of the README print what the README says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.one_in(3)
@pytest.mark.parametrize("document", ["README.md", "docs/session.md", "docs/cluster.md"])
def test_the_python_of_a_document_prints_what_it_says(root: Path, document: str) -> None:
    text = (root / document).read_text()
    program = "\n".join(re.findall(r"```python\n(.+?)```", text, flags=re.DOTALL))
    expected = "".join(re.findall(r"```text\n(.+?)```", text, flags=re.DOTALL))
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=root, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == expected


def test_links_of_the_documents_lead_somewhere(root: Path) -> None:
    documents = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]
    for document in documents:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"


def _programs(root: Path, folder: Path) -> list[Path]:
    """Write the Python of every document, its blocks one after the other, as a program each."""
    documents = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    programs = []
    for document in documents:
        blocks = re.findall(r"```python\n(.+?)```", document.read_text(), flags=re.DOTALL)
        if blocks:
            parts = document.relative_to(root).with_suffix("").parts
            programs.append(folder / f"{'_'.join(parts).lower()}.py")
            programs[-1].write_text("\n".join(blocks))
    return programs


@pytest.mark.slow
def test_the_python_of_all_documents_passes_type_checkers(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("basedpyright", reason="the extra dev brings basedpyright")
    programs = _programs(root, tmp_path)
    assert {"readme.py", "docs_session.py", "docs_cluster.py"} <= {path.name for path in programs}
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(root / "src")], "include": [str(tmp_path)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    config = str(root / "pyproject.toml")
    for checker in (  # one run each for all of them: most of the time goes into reading numpy
        ["mypy", "--config-file", config, *map(str, programs)],
        ["basedpyright", "-p", str(tmp_path), "--pythonpath", sys.executable],
    ):
        command = [sys.executable, "-m", *checker]
        run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=600)
        assert run.returncode == 0, run.stdout


PLANS = """
import apportion
import numpy as np

def kinds(
    nodes: apportion.GapFillingInstance,
    menus: apportion.MultipleChoiceKnapsackInstance,
    rows: apportion.MultipleChoiceKnapsack,
) -> None:
    reveal_type(apportion.solve(nodes).require()["allocation"]["a"])
    reveal_type(apportion.solve(menus).require()["choice"]["a"])
    reveal_type(apportion.solve(rows).plan)
    for solution in apportion.solve_many([rows]):
        reveal_type(solution.require())
    reveal_type(apportion.solve(apportion.read("x.json")).require())
    held: apportion.Solution | None = apportion.solve(rows)
    reveal_type(apportion.Session(nodes).decide().require()["allocation"]["a"])
    session: apportion.Session = apportion.Session(menus)
    session.add_job(id="x", options=[], nmae="y")
    session.update_job("x", wieght=2.0)
"""


@pytest.mark.slow
def test_a_type_checker_knows_the_plan_of_every_kind(root: Path, tmp_path: Path) -> None:
    program = tmp_path / "plans.py"
    program.write_text(PLANS)
    command = [sys.executable, "-m", "mypy", "--config-file", str(root / "pyproject.toml"), str(program)]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=600)
    wrong = [line for line in run.stdout.splitlines() if ": error:" in line]
    assert len(wrong) == 2 and '"nmae"' in wrong[0] and '"wieght"' in wrong[1], run.stdout
    revealed = re.findall(r'Revealed type is "(.+)"', run.stdout)
    rows = revealed[3]
    assert rows.startswith("numpy.ndarray[") and "signedinteger" in rows
    assert revealed[0] == "list[str]" and revealed[1] == "str | None", revealed
    assert revealed[2] == f"{rows} | None", revealed
    assert "Mapping[str, " in revealed[4], revealed
    assert revealed[5] == "list[str]", "the plan of a session's decision was Any"

"""The programs of the README print what the README says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("document", ["README.md", "docs/session.md"])
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


@pytest.mark.slow
@pytest.mark.parametrize("document", ["README.md", "docs/session.md", "docs/contract.md"])
def test_the_python_of_a_document_passes_type_checkers(root: Path, tmp_path: Path, document: str) -> None:
    blocks = re.findall(r"```python\n(.+?)```", (root / document).read_text(), flags=re.DOTALL)
    program = tmp_path / "program.py"
    program.write_text("\n".join(blocks))
    settings = {"typeCheckingMode": "basic", "extraPaths": [str(root / "src")], "include": [str(tmp_path)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    config = str(root / "pyproject.toml")
    for checker in (
        ["mypy", "--config-file", config, str(program)],
        ["basedpyright", "-p", str(tmp_path), "--pythonpath", sys.executable],
    ):
        command = [sys.executable, "-m", *checker]
        run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=600)
        assert run.returncode == 0, run.stdout

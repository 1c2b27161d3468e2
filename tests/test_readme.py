"""The programs of the README print what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def test_the_python_of_the_readme_prints_what_it_says(root: Path) -> None:
    text = (root / "README.md").read_text()
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

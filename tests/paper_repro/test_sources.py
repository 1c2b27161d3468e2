"""The code that made a table is found in the history, also where rebasing has renamed its commit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from paper_repro.sources import REPOSITORY, commit_with, digest, told
from paper_repro.tables import Table, write_table

TABLES = [
    path
    for path in sorted((REPOSITORY / "paper_repro").glob("*/results/*.json"))
    if "code" in json.loads(path.read_text()).get("made", {})
]
"""Those made before tables held the digest of their code are left out."""


class _Repository:
    """A small repository with the folders of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for words in (
            ("init", "-q", "-b", "trunk"),
            ("config", "user.name", "n"),
            ("config", "user.email", "e@x"),
        ):
            self.git(*words)
        self.commit("solvers/one.py", "1\n")

    def git(self, *words: str) -> str:
        asked = ["git", "-C", str(self.path), *words]
        return subprocess.run(asked, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    def commit(self, name: str, content: str) -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", name)

    def head(self) -> str:
        return self.git("rev-parse", "--short=12", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> _Repository:
    return _Repository(tmp_path)


def test_a_rebased_commit_is_found_by_its_code(repository: _Repository) -> None:
    repository.git("checkout", "-q", "-b", "study")
    repository.commit("paper_repro/study.py", "2\n")
    code, before = digest(repository.path), repository.head()
    repository.git("checkout", "-q", "trunk")
    repository.commit("docs/page.md", "another's page\n")
    repository.git("checkout", "-q", "study")
    repository.git("rebase", "-q", "trunk")
    assert repository.head() != before
    assert commit_with(code, before, repository.path) == repository.head()


def test_later_changes_hide_nothing(repository: _Repository) -> None:
    code, made = digest(repository.path), repository.head()
    repository.commit("solvers/one.py", "2\n")
    assert digest(repository.path) != code
    assert commit_with(code, repository=repository.path) == made


def test_code_that_nobody_committed_is_found_nowhere(repository: _Repository, tmp_path: Path) -> None:
    (tmp_path / "solvers" / "one.py").write_text("3\n")
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"made": {"commit": repository.head(), "code": digest(tmp_path)}}))
    assert told(table, tmp_path) == "its code is in no commit of this history"
    table.write_text(json.dumps({"made": {"commit": repository.head()}}))
    assert told(table, tmp_path) == "made before tables held the digest of their code"


def test_results_and_documents_are_no_code(repository: _Repository, tmp_path: Path) -> None:
    code = digest(tmp_path)
    repository.commit("paper_repro/results/one.json", "{}")
    repository.commit("paper_repro/README.md", "words")
    assert digest(tmp_path) == code


def test_a_table_holds_the_digest_of_this_code(tmp_path: Path) -> None:
    write_table(tmp_path / "one.json", Table("paper_repro.sources", [{"figure": 1.0}], "none"))
    assert json.loads((tmp_path / "one.json").read_text())["made"]["code"] == digest()


@pytest.mark.slow
def test_the_code_of_every_table_is_in_the_history() -> None:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("no checkout")
    shallow = ["git", "-C", str(REPOSITORY), "rev-parse", "--is-shallow-repository"]
    if (
        subprocess.run(shallow, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
        != "false"
    ):
        pytest.skip("a checkout without its history")
    lost = [path for path in TABLES if not told(path).startswith("its code is that of")]
    assert lost == [], "land the code of a study first, then make its tables"

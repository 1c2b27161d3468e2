"""Which code made a table: a digest of its sources, and the commit of the history that has the same ones.

``python -m paper_repro.sources TABLE...`` says for every table in which commit its code stands.

The name of a commit changes when it is rebased; a digest of what the sources say does not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from apportion.cli.running import in_one_line

__all__ = ["REPOSITORY", "commit_with", "digest", "told"]

REPOSITORY = Path(__file__).parents[1]
_FOLDERS = ("formulations", "instances", "paper_repro", "solvers", "src")
_SUFFIXES = (".c", ".py")
_SHOWN = 16


def digest(repository: Path = REPOSITORY) -> str:
    """Return the digest of the package's and the studies' sources as they are on disk.

    It is SHA-256 over path and Git's own checksum of every file, so that a history can be searched for it
    without checking anything out. Results, documents and whatever else no run reads have no part in it.
    """
    paths = (path for folder in _FOLDERS for path in (repository / folder).rglob("*"))
    files = ((path.relative_to(repository).as_posix(), path) for path in paths if path.is_file())
    return _digest((name, _blob(path.read_bytes())) for name, path in files if name.endswith(_SUFFIXES))


def commit_with(code: str, likely: str = "", repository: Path = REPOSITORY) -> str | None:
    """Return the commit whose sources have a digest, in short.

    Parameters
    ----------
    code
        The digest.
    likely
        A commit to look at first; it counts only as part of the history of this checkout.
    repository
        Where the history is.

    Returns
    -------
    str or None
        The newest such commit, or the likely one; ``None`` if the history of this checkout has none.
    """
    commits = _git(repository, "rev-list", "--abbrev-commit", "--abbrev=12", "HEAD", "--", *_FOLDERS).split()
    first = [one for one in commits if one == likely]
    return next((one for one in (*first, *commits) if _digest(_tree(repository, one)) == code), None)


def told(table: Path, repository: Path = REPOSITORY) -> str:
    """Return in words where the code of a table stands."""
    made = json.loads(table.read_text(encoding="utf-8"))["made"]
    if "code" not in made:
        return "made before tables held the digest of their code"
    found = commit_with(made["code"], made["commit"], repository)
    return "its code is in no commit of this history" if found is None else f"its code is that of {found}"


def _digest(files: Iterable[tuple[str, str]]) -> str:
    lines = "".join(f"{blob} {name}\n" for name, blob in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()[:_SHOWN]


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _tree(repository: Path, commit: str) -> Iterator[tuple[str, str]]:
    """Yield path and checksum of every source of a commit."""
    for entry in _git(repository, "ls-tree", "-r", "-z", commit, "--", *_FOLDERS).split("\0"):
        what, _, name = entry.partition("\t")
        if name.endswith(_SUFFIXES):
            yield name, what.split(" ")[2]


def _git(repository: Path, *words: str) -> str:
    asked = ["git", "-C", str(repository), *words]
    return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=120).stdout


def main() -> None:
    """Print it for every table asked for."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.sources")
    parser.add_argument("tables", type=Path, nargs="+", metavar="TABLE")
    for table in parser.parse_args().tables:
        print(f"{table}: {told(table)}")


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.sources"):
        main()

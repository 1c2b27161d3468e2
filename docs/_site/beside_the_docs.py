"""Take what the documents link to outside of ``docs/`` into the site, so that every link leads somewhere.

A document links to the repository as it stands (``../examples/round.json``); in the site such files lie under
``beside/``. Documents among them become pages, and what they link to comes along too.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_FENCED = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
_ALWAYS = ("CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")
_BESIDE = "beside/"


def on_files(files: Files, config: Any) -> Files:
    """Add the files outside of ``docs/`` that documents lead to."""
    root = Path(config.config_file_path).parent
    known = {file.src_uri for file in files}
    waiting = [root / name for name in _ALWAYS]
    for file in list(files.documentation_pages()):
        waiting += _targets(root, root / "docs" / file.src_uri)
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        name = path.relative_to(root).as_posix()
        if path in seen or name.removeprefix("docs/") in known or not path.is_file():
            continue
        seen.add(path)
        if path.suffix == ".md":
            waiting += _targets(root, path)
            file = File.generated(config, _BESIDE + name, content=path.read_text(encoding="utf-8"))
        else:
            file = File.generated(config, _BESIDE + name, abs_src_path=str(path))
        files.append(file)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links out of ``docs/`` into links into the site."""
    root = Path(config.config_file_path).parent
    here = _original(root, page.file.src_uri)
    site = Path(page.file.src_uri).parent

    def led(match: re.Match[str]) -> str:
        path = _resolved(root, here, match[2])
        if path is None:
            return match[0]
        name = path.relative_to(root).as_posix()
        inside = name.removeprefix("docs/") if name.startswith("docs/") else _BESIDE + name
        return match[1] + Path(os.path.relpath(inside, site)).as_posix() + match[3]

    parts = _FENCED.split(markdown)
    parts[::2] = [_LINK.sub(led, part) for part in parts[::2]]
    return "".join(parts)


def _original(root: Path, uri: str) -> Path:
    """Return where a page of the site stands in the repository."""
    return root / uri.removeprefix(_BESIDE) if uri.startswith(_BESIDE) else root / "docs" / uri


def _targets(root: Path, document: Path) -> list[Path]:
    """Return what a document links to outside of ``docs/``."""
    parts = _FENCED.split(document.read_text(encoding="utf-8"))[::2]
    found = [_resolved(root, document, match[2]) for part in parts for match in _LINK.finditer(part)]
    return [path for path in found if path is not None and not path.is_relative_to(root / "docs")]


def _resolved(root: Path, document: Path, link: str) -> Path | None:
    """Return the file of the repository that a relative link names, ``None`` for anything else."""
    if "://" in link or link.startswith("/"):
        return None
    path = Path(os.path.normpath(document.parent / link))
    return path if path.is_relative_to(root) and path.is_file() else None

"""The site builds strictly, has no dead link, fetches nothing, and is searched from a folder (.ci/docs)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.slow


class _Page(HTMLParser):
    """What a page leads to, what it loads, and the places in it that can be led to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.unnamed_images = 0
        self.language: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("script", "img", "iframe") and "src" in given:
            self.loaded.append(given["src"])
        elif tag == "link" and "href" in given:
            self.loaded.append(given["href"])
        if tag == "html":
            self.language = given.get("lang")
        if tag == "img" and "alt" not in given:
            self.unnamed_images += 1


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors."""
    if find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(root / "src")}
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    """Every page of the site."""
    return {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_no_link_of_any_page_is_dead(site: Path, pages: dict[Path, _Page]) -> None:
    assert len(pages) > 30
    dead = []
    for path, page in pages.items():
        if path.name == "404.html":  # led to from anywhere, so its links are absolute
            continue
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            anchor = unquote(parts.fragment)
            there = target in pages or target.is_file()
            if not there or (anchor and target in pages and anchor not in pages[target].places):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert not dead


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, _Page]) -> None:
    for path, page in pages.items():
        assert not [url for url in page.loaded if urlsplit(url).netloc], path
        assert page.language == "en" and not page.unnamed_images, path
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), (
            sheet
        )


def test_no_markup_of_a_docstring_is_left_unread(site: Path) -> None:
    for path in sorted((site / "reference").glob("*.html")):
        assert not re.search(r"<p>[^<]*(====|----|\.\. \w+::)", path.read_text(encoding="utf-8")), path.name


def test_every_name_of_the_package_is_in_the_reference(pages: dict[Path, _Page]) -> None:
    import apportion

    places = {place.rsplit(".", 1)[-1] for page in pages.values() for place in page.places}
    assert not [name for name in apportion.__all__ if name not in places and name != "__version__"]


def test_the_search_works_from_a_folder(browser: str, site: Path) -> None:
    shown = subprocess.run(
        [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--virtual-time-budget=20000",
            "--dump-dom",
            f"file://{site}/index.html?q=certificate",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    assert re.search(r"\d+ matching documents", shown)
    assert "certificate.html?h=certificate" in shown

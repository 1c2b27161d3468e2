"""The page in a real browser: it shows rounds and prices, fits a phone, and asks nobody but the service."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from apportion.cli.main import main
from apportion.instances.gap_filling.generator import generate
from tests.cli.calling import call
from tests.service.browser import Browser
from tests.service.running import Service, service

PAGE = Path(__file__).parents[2] / "src" / "apportion" / "service" / "page"


def decide_some(running: Service, rounds: int = 6) -> None:
    """Open a session whose nodes come and go, so that some jobs wait, and decide it some times."""
    instance = json.loads(msgspec.json.encode(generate(seed=3, jobs=8, nodes=24)))
    running.ok("POST", "/sessions", {"name": "idle", "instance": instance})
    for k in range(rounds):
        nodes = [f"n{node}" for node in range((24, 40, 12, 30, 8, 6)[k % 6])]
        deltas = [{"op": "set_nodes", "nodes": nodes}]
        running.ok("POST", "/sessions/idle/decisions", {"deltas": deltas})


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("page"), "--workers", "1", "--port", "0") as started:
        decide_some(started)
        ten = {f"gpu-{k}": 3 for k in range(10)}
        options = [{"id": name, "value": k + 1.5, "uses": {name: 2}} for k, name in enumerate(ten)]
        jobs = [{"id": f"j{k}", "options": options, "required": False} for k in range(14)]
        menus = {"schema_version": "1", "sense": "maximize", "capacities": ten, "jobs": jobs}
        instance = {"kind": "multiple_choice_knapsack", **menus}
        started.ok("POST", "/sessions", {"name": "ten", "instance": instance})
        started.ok("POST", "/sessions/ten/decisions", {})
        yield started


def test_the_page_is_small_and_asks_nobody_else() -> None:
    files = sorted(PAGE.iterdir())
    assert [file.name for file in files] == ["page.css", "page.html", "page.js"]
    assert sum(file.stat().st_size for file in files) < 40_000
    for file in files:
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|url\(", text), file.name


SHOWN = "document.body?.dataset.ready"  # a page that is on its way has no body yet
IN_SIGHT = (
    "[...document.querySelectorAll('#plan input, #plan select, #plan svg, #capacities input')]"
    ".every(e => { const box = e.getBoundingClientRect(); return box.left >= 0 && box.width > 15"
    " && box.right <= innerWidth; })"
)
SLIDE = (
    "(() => { const e = document.querySelector('%s'); e.value = %s; "
    "e.dispatchEvent(new Event('input', {bubbles: true})); return true; })()"
)


@pytest.mark.parametrize(("width", "dark"), [(400, False), pytest.param(1600, True, marks=pytest.mark.slow)])
def test_it_shows_rounds_plan_queue_and_prices(
    browser: str, running: Service, tmp_path: Path, width: int, dark: bool
) -> None:
    with Browser(
        browser, tmp_path, f"http://127.0.0.1:{running.port}/#token={running.token}", width, dark
    ) as page:
        assert page.wait(SHOWN) == "6"
        text = page.value("document.body.innerText")
        assert "gap_filling, 8 jobs, revision 6" in text
        assert "5 of 8 jobs wait" in text and "idle_nodes" in text
        assert page.value("document.querySelectorAll('#plan tbody tr').length") == 8
        assert page.value("document.documentElement.scrollWidth") <= width
        assert page.value(IN_SIGHT) is True, "what the text speaks of lay beside the screen at 400 px"
        assert page.value("matchMedia('(prefers-color-scheme: dark)').matches") is dark
        ground = page.value("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(1, 4, 9)" if dark else "rgb(246, 248, 250)")
        assert page.value("location.href").endswith("/")  # the token does not stay in the address
        page.value("document.querySelector('details summary').click()")
        page.wait("document.querySelector('details pre').textContent.length > 60")
        host = f"http://127.0.0.1:{running.port}/"
        asked = [url for url in page.requests if not url.startswith(("data:", "about:"))]
        assert asked and all(url.startswith(host) for url in asked)
        assert len(page.picture()) > 20_000


def test_what_if_by_hand_and_by_the_command_it_names(browser: str, running: Service, tmp_path: Path) -> None:
    """Every figure names the command that reproduces it: the one of the change is run, and agrees."""
    with Browser(browser, tmp_path, f"http://127.0.0.1:{running.port}/#token={running.token}", 1000) as page:
        page.wait(SHOWN)
        page.value(SLIDE % ("#capacities input", 14))
        page.value(SLIDE % ("#plan input[type=range]", 3))
        change = page.wait("document.querySelector('#change').textContent")
        page.wait("document.querySelectorAll('#moves tr').length > 1")
        command = page.value("document.querySelector('#what-if code').textContent")
        assert command.count("--delta") == 2
        words = command.replace("apportion", f"{shlex.quote(sys.executable)} -m apportion")
        done = subprocess.run(f"{words} --json", shell=True, capture_output=True, check=True)
        told = json.loads(done.stdout)
        shown = page.value("document.querySelector('#change').textContent")
        assert f"{told['objective_after']:,.0f}"[:4] in shown, (change, shown)
        assert page.value("document.querySelector('#follow').checked") is False
        page.value("document.querySelector('#reset').click()")
        page.wait("document.querySelector('#change').textContent === ''")

        page.value("document.querySelector('#round').focus()")
        page.press("ArrowLeft")
        assert page.wait(f"{SHOWN} === '5' && {SHOWN}") == "5"
        page.press("Home")
        assert page.wait(f"{SHOWN} === '1' && {SHOWN}") == "1"
        page.press("Tab")
        assert page.value("document.activeElement.tagName") == "BUTTON"
        for command in page.value("[...document.querySelectorAll('code')].map(e => e.textContent)"):
            assert call(main, *shlex.split(command.split("|")[0])[1:]).code == 0


def test_it_says_where_the_token_is_and_draws_all_prices(
    browser: str, running: Service, tmp_path: Path
) -> None:
    """Whoever opened it without a token was not told of the file; of ten prices it drew eight."""
    with Browser(browser, tmp_path, f"http://127.0.0.1:{running.port}/", 800) as page:
        page.wait("document.querySelector('#ask') && !document.querySelector('#ask').hidden")
        assert "apportion serve named on its first line" in page.value("document.body.innerText")
        page.value(
            f"(() => {{ document.querySelector('#token').value = '{running.token}';"
            " document.querySelector('#ask button').click(); return true; })()"
        )
        page.wait(SHOWN)
        page.value(
            "(() => { const e = document.querySelector('#session'); e.value = 'ten';"
            " e.dispatchEvent(new Event('change', {bubbles: true})); return true; })()"
        )
        page.wait("document.querySelectorAll('#prices .key li').length > 5")
        assert page.value("document.querySelectorAll('#prices .key li').length") == 10
        assert page.value("document.querySelectorAll('#prices circle').length") == 10

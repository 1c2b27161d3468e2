"""Hostile requests on what the OpenAPI document says, and beside it: nothing is a 5xx, nothing is harmed."""

from __future__ import annotations

import functools
import http.client
import json
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from apportion.instances.gap_filling.generator import generate
from tests.service.running import Service, service

TEXT = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "s", "../..", "\x00", "%00", "é" * 300, "a" * 3000, "'; DROP TABLE state; --"]),
)
STARTS = [b"", b"POST /sessions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n{", b"GET / HTTP/1.1\r\n"]
LARGE = [2**31, 2**63, 2**64, -(2**63), 1e308, 1e-308]
NUMBER = st.one_of(st.integers(), st.integers(-3, 3), st.floats(), st.sampled_from(LARGE))
LEAF = st.one_of(st.none(), st.booleans(), NUMBER, TEXT)
ANY = st.recursive(
    LEAF,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)
JOBS = st.sampled_from(["j000-AlexNet", "j001-VGG16", "nobody"])


def of_schema(schema: dict[str, Any], parts: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Return values that nearly fit a schema: what is said of a part, or something else now and then."""
    if "$ref" in schema:
        schema = parts[schema["$ref"].rsplit("/", 1)[-1]]
    fitting: st.SearchStrategy[Any] = ANY
    if "const" in schema:
        fitting = st.just(schema["const"])
    elif "enum" in schema:
        fitting = st.sampled_from(schema["enum"])
    elif depth < 4 and ("anyOf" in schema or "oneOf" in schema):
        several = schema.get("anyOf", schema.get("oneOf"))
        fitting = st.one_of([of_schema(each, parts, depth + 1) for each in several])
    elif schema.get("type") == "object" and depth < 4:
        fields = {
            name: of_schema(each, parts, depth + 1) for name, each in schema.get("properties", {}).items()
        }
        needed = {name: fields.pop(name) for name in schema.get("required", []) if name in fields}
        fitting = st.fixed_dictionaries(needed, optional=fields)
    elif schema.get("type") == "array" and depth < 4:
        fitting = st.lists(of_schema(schema.get("items", {}), parts, depth + 1), max_size=3)
    elif schema.get("type") == "string":
        fitting = st.one_of(TEXT, JOBS)
    elif schema.get("type") in ("integer", "number"):
        fitting = NUMBER
    elif schema.get("type") == "boolean":
        fitting = st.booleans()
    return st.one_of(fitting, fitting, fitting, fitting, ANY)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("hostile")
    with service(folder, "--workers", "1", "--log", "error", "--longest", "2", "--sessions", "20") as started:
        instance = json.loads(msgspec.json.encode(generate(seed=3, jobs=4, nodes=12)))
        started.ok("POST", "/sessions", {"name": "s", "instance": instance})
        started.ok("POST", "/sessions/s/decisions", {"time_limit": 2})
        yield started


def requests_of(document: dict[str, Any]) -> st.SearchStrategy[tuple[str, str, Any]]:
    """Return requests on every route of an OpenAPI document."""
    parts, found = document["components"]["schemas"], []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            body = st.none() if method in ("get", "delete") else ANY
            if "requestBody" in operation:
                (content,) = operation["requestBody"]["content"].values()
                body = of_schema(content["schema"], parts)
            filled = st.tuples(NAMES, NUMBERS).map(functools.partial(_filled, path))
            where = st.tuples(filled, QUERIES).map("".join)
            if method != "delete":  # the session that the others ask about stays open
                found.append(st.tuples(st.just(method.upper()), where, body))
    return st.one_of(found)


def _filled(path: str, given: tuple[str, str]) -> str:
    name, number = (quote(text, safe="", errors="replace") or "%20" for text in given)
    return path.replace("{name}", name).replace("{number}", number)


def _query(given: dict[str, str]) -> str:
    return "?" + urlencode(given, errors="replace") if given else ""


NAMES = st.one_of(st.just("s"), st.just("s"), TEXT)
NUMBERS = st.one_of(st.just("1"), st.integers().map(str), TEXT)
ASKED = st.sampled_from(["last", "job", "option", "time_limit", "x"])
QUERIES = st.one_of(st.just(""), st.dictionaries(ASKED, LEAF.map(str), max_size=3).map(_query))


def attack(running: Service, count: int) -> dict[int, int]:
    """Send hostile requests and return how many were answered by which status."""
    statuses: dict[int, int] = {}
    connection = running.connection()
    before = running.ok("GET", "/decisions/1")

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(requests_of(running.ok("GET", "/openapi.json")))
    def ask(request: tuple[str, str, Any]) -> None:
        nonlocal connection
        method, path, body = request
        content = None if body is None else json.dumps(body).encode(errors="surrogatepass")
        try:
            connection.request(method, path, content)
            response = connection.getresponse()
            told = response.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            connection = running.connection()
            raise
        status = response.status
        statuses[status] = statuses.get(status, 0) + 1
        assert status < 500 or status == 504, (request, status, told[:500])
        if status >= 400:
            error = json.loads(told)["error"]
            assert set(error) == {"type", "message", "exit_code", "problems"}, (request, told)

    ask()
    connection.close()
    assert running.ok("GET", "/decisions/1") == before
    return statuses


def test_hostile_requests_are_refused_and_harm_nothing(running: Service) -> None:
    statuses = attack(running, 80)
    assert sum(statuses.values()) >= 80 and statuses.get(200, 0) > 5


@pytest.mark.slow
def test_ten_thousand_hostile_requests(running: Service) -> None:
    statuses = attack(running, 10_000)
    print(statuses)
    assert sum(statuses.values()) >= 10_000


def test_bytes_that_are_no_http_end_the_connection_alone(running: Service) -> None:
    rng = random.Random(5)
    for _ in range(30):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
            raw.settimeout(20)
            raw.connect(os.fspath(running.socket))
            raw.sendall(rng.choice(STARTS) + rng.randbytes(200))
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass
    assert running.ok("GET", "/health")["status"] == "ok"
    assert '"level": "error"' not in Path(running.folder / "log").read_text()

"""Reading: valid files come back equal, and everything wrong with a file is said at once, with its place."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion
from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.core.files import write_whole
from apportion.instances import KINDS
from apportion.instances.gap_filling.generator import generate
from apportion.io import text as io_text
from apportion.io.read import problems_of, read
from tests.strategies import gap_filling_instances, knapsack_instances

JOB: dict[str, Any] = {
    "id": "j0",
    "min_nodes": 1,
    "max_nodes": 2,
    "scaling": {"nodes": [0, 1, 2], "rate": [0, 5.0, 8.0]},
    "rescale_up_s": 18.0,
    "rescale_down_s": 12.0,
    "current_nodes": ["n0"],
}
VALID: dict[str, Any] = {
    "kind": "gap_filling",
    "schema_version": "1",
    "name": "ok",
    "horizon_s": 120.0,
    "nodes": ["n0", "n1"],
    "jobs": [JOB],
}
MENU: dict[str, Any] = {
    "kind": "multiple_choice_knapsack",
    "schema_version": "1",
    "sense": "maximize",
    "capacities": {"gpu": 8},
    "jobs": [{"id": "a", "options": [{"id": "two", "value": 3.0, "uses": {"gpu": 2}}]}],
}


def problems(content: bytes | str | dict[str, Any]) -> list[str]:
    raw = (
        content
        if isinstance(content, bytes)
        else (content if isinstance(content, str) else json.dumps(content)).encode()
    )
    with pytest.raises(InvalidInstance) as caught:
        read(raw)
    assert list(caught.value.problems) == problems_of(raw)
    return [str(problem) for problem in caught.value.problems]


def with_job(**fields: Any) -> dict[str, Any]:
    return {**VALID, "jobs": [{**JOB, **fields}]}


@given(gap_filling_instances(pins=True) | knapsack_instances())
def test_what_is_written_is_read_back(instance: Any) -> None:
    raw = msgspec.json.encode(instance)
    assert read(raw) == instance
    assert read(json.loads(raw)) == instance
    assert problems_of(raw) == []


def test_a_path_a_string_and_a_mapping_are_read(tmp_path: Path) -> None:
    path = tmp_path / "gap.json"
    path.write_text(json.dumps(VALID))
    assert (
        apportion.read(path) == apportion.read(str(path)) == apportion.read(VALID) == read(path.read_bytes())
    )


def test_a_byte_order_mark_is_tolerated() -> None:
    assert read(b"\xef\xbb\xbf" + json.dumps(VALID).encode()) == read(VALID)
    assert problems_of(b"\xef\xbb\xbf" + json.dumps(VALID).encode()) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "$: is empty; an instance is one JSON object"),
        (b" \n", "$: is empty; an instance is one JSON object"),
        (b"\xef\xbb\xbf", "$: is empty; an instance is one JSON object"),
        (b"[]", "$: must be one JSON object, not an array"),
        (b"null", "$: must be one JSON object, not null"),
        (b'"gap"', "$: must be one JSON object, not a string"),
        (b"3", "$: must be one JSON object, not a number"),
        (b"{}", "$.kind: is missing; the kinds are KNOWN"),
        (
            b'{"kind": "tsp"}',
            "$.kind: 'tsp' is no kind of instance; the kinds are KNOWN",
        ),
        (
            b'{"kind": 5}',
            "$.kind: 5 is no kind of instance; the kinds are KNOWN",
        ),
        (
            b'{"kind": []}',
            "$.kind: [] is no kind of instance; the kinds are KNOWN",
        ),
        (b"\xff\xfe{\x00}\x00", "$: is UTF-16 text; an instance is JSON in UTF-8"),
        (b'{"kind": "\xe9"}', "$: byte 0xe9 at offset 10 is not UTF-8; an instance is JSON in UTF-8"),
        (b"\x00\x01\x02", "$: is not JSON: expecting value at line 1, column 1"),
        (b"[" * 100_000, "$: is nested more than 64 levels deep"),
        (b'{"kind":' * 5_000 + b"1" + b"}" * 5_000, "$: is nested more than 64 levels deep"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "$: is nested more than 64 levels deep"),
        (
            b'{"kind": "gap_fil',
            "$: the JSON text is truncated: it breaks off inside what begins at line 1, column 10",
        ),
        (
            b'{"kind": 1,\n "b"',
            "$: the JSON text is truncated: it breaks off inside what begins at line 2, column 5",
        ),
        (b'{"kind": 1} {}', "$: there is more text after the end of the JSON object, at line 1, column 13"),
        (b'{"kind": 01}', "$: is not JSON: expecting ',' delimiter at line 1, column 11"),
    ],
)
def test_what_is_no_instance_at_all_is_one_message(content: bytes, expected: str) -> None:
    assert problems(content) == [expected.replace("KNOWN", ", ".join(KINDS))]


@pytest.mark.parametrize(
    "literal", ["NaN", "Infinity", "-Infinity", "1e400", "-1e999", "1" + "0" * 400, "9" * 6000, "1" * 25]
)
def test_numbers_that_are_none_are_named_with_their_path(literal: str) -> None:
    text = json.dumps(with_job(weight=4242)).replace("4242", literal)
    (problem,) = problems(text)
    shown = literal if len(literal) <= 40 else literal[:37] + "..."
    assert problem == f"$.jobs[0].weight: must be a finite number that fits in 64 bits, not {shown}"


def test_a_lone_surrogate_is_named() -> None:
    text = json.dumps({**VALID, "name": "SURROGATE"}).replace("SURROGATE", "\\ud800")
    assert problems(text) == ["$.name: holds the lone surrogate \\ud800, which is no Unicode text"]
    text = json.dumps(MENU).replace('"gpu"', '"\\udfff"')
    assert any("lone surrogate" in problem for problem in problems(text))


def test_repeated_keys_are_refused_even_when_the_file_is_valid_otherwise() -> None:
    text = json.dumps(VALID).replace('"id": "j0"', '"id": "j9", "id": "j0"')
    assert problems(text) == ["$.jobs[0].id: this key stands more than once in its object"]
    text = json.dumps(MENU).replace('"gpu": 8', '"gpu": 8, "gpu": 9')
    assert problems(text) == ["$.capacities.gpu: this key stands more than once in its object"]
    text = json.dumps(VALID).replace('"horizon_s": 120.0', '"horizon_s": -1, "horizon\\u005fs": -2')
    assert problems(text) == [
        "$.horizon_s: this key stands more than once in its object",
        "$.horizon_s: must be positive, is -2",
    ]


@pytest.mark.parametrize("extra", ["", ', "name": "x: y", "name": "{::}"', ', "name": "\\"", "name": ""'])
def test_large_files_are_searched_for_repeated_keys_too(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_text, "_SMALL", 10)
    raw = (json.dumps({**MENU, "capacities": {"gpu": 8, "a:b": 1, "::": 2}})[:-1] + extra + "}").encode()
    assert io_text.has_repeated_keys(raw) is bool(extra)
    if extra:
        assert problems(raw) == ["$.name: this key stands more than once in its object"]
    else:
        assert len(read(raw).capacities) == 3


@given(
    st.recursive(
        st.none() | st.text(':",{}a ', max_size=4) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(':"a{', max_size=3), inner, max_size=3)
        ),
        max_leaves=12,
    ),
    st.booleans(),
)
def test_the_two_searches_for_repeated_keys_agree(tree: Any, twice: bool) -> None:
    text = json.dumps({"k": tree, "other": 1})
    raw = (text.replace('"other": 1', '"k": 1') if twice else text).encode()
    assert io_text.has_repeated_keys(raw) is twice
    if b"\\" not in raw:
        again = io_text._keys(raw) != io_text._keys(msgspec.json.encode(msgspec.json.decode(raw)))
        assert again is twice


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            {**VALID, "jobs": [JOB, {**JOB, "id": "j1"}]},
            "$.jobs[1].current_nodes[0]: node 'n0' is already held by job 'j0'",
        ),
        (with_job(min_nodes=3), "$.jobs[0].min_nodes: 3 exceeds max_nodes 2"),
        (with_job(min_nodes=0), "$.jobs[0].min_nodes: must be from 1 to 1000000000, not 0"),
        (
            with_job(min_nodes=1.0),
            "$.jobs[0].min_nodes: must be an integer, not 1.0; write 1 (in Python: int(value))",
        ),
        (with_job(min_nodes=1.5), "$.jobs[0].min_nodes: must be an integer, not 1.5"),
        (with_job(min_nodes=True), "$.jobs[0].min_nodes: must be an integer, not true"),
        (
            with_job(min_nodes="1"),
            "$.jobs[0].min_nodes: must be an integer, not '1'; write 1, without quotes",
        ),
        (
            with_job(pinned_count="2"),
            "$.jobs[0].pinned_count: must be an integer, not '2'; write 2, without quotes",
        ),
        (
            with_job(scaling={"nodes": [1, 2], "rate": [0, 8]}),
            "$.jobs[0].scaling.nodes: must start at 0 nodes",
        ),
        (
            with_job(scaling={"nodes": [0, 1], "rate": [0, 8]}),
            "$.jobs[0].scaling.nodes: ends at 1, must reach max_nodes 2",
        ),
        (with_job(scaling=5), "$.jobs[0].scaling: must be an object, not 5"),
        (with_job(weight=-1), "$.jobs[0].weight: must not be negative, is -1"),
        (with_job(colour="red"), "$.jobs[0].colour: is an unknown field"),
        (
            {**VALID, "nodes": ["n0", "n1", "n1"]},
            "$.nodes: node 'n1' stands 2 times, first as [1], again as [2]; each must be unique",
        ),
        ({**VALID, "horizon_s": 0}, "$.horizon_s: must be positive, is 0"),
        ({**VALID, "schema_version": "2"}, "$.schema_version: must be '1', not '2'"),
        ({key: value for key, value in VALID.items() if key != "jobs"}, "$.jobs: is missing"),
        ({**MENU, "sense": "most"}, "$.sense: must be 'maximize' or 'minimize', not 'most'"),
        (
            {**MENU, "capacities": {"tpu": 8}},
            "$.jobs[0].options[0].uses.gpu: is not one of the instance's capacities",
        ),
        (
            {**MENU, "capacities": {"gpu": -8}},
            "$.capacities.gpu: must be from 0 to 1000000000000000000, not -8",
        ),
    ],
)
def test_one_mistake_is_one_message_with_its_path(content: dict[str, Any], expected: str) -> None:
    assert problems(content) == [expected]
    with pytest.raises(InvalidInstance, match=r"\$"):
        read(content)


def test_all_problems_of_a_file_are_listed_at_once() -> None:
    bad = {
        **VALID,
        "horizon_s": -1,
        "zone": "eu",
        "nodes": ["n0", "n1", "n1", 7],
        "jobs": [
            {**JOB, "weight": "heavy"},
            {**JOB, "id": "j1", "min_nodes": 9},
            {**JOB, "id": "j1", "current_nodes": []},
            5,
        ],
    }
    assert sorted(problems(bad)) == sorted(
        [
            "$.horizon_s: must be positive, is -1",
            "$.jobs[1].current_nodes[0]: node 'n0' is already held by job 'j0'",
            "$.zone: is an unknown field",
            "$.nodes: node 'n1' stands 2 times, first as [1], again as [2]; each must be unique",
            "$.nodes[3]: must be a string of 1 to 1000 characters, not 7",
            "$.jobs[0].weight: must be a number, not 'heavy'",
            "$.jobs[1].min_nodes: 9 exceeds max_nodes 2",
            "$.jobs: job id 'j1' stands 2 times, first as [1], again as [2]; each must be unique",
            "$.jobs[3]: must be an object, not 5",
        ]
    )


def test_objects_that_are_not_json_are_refused() -> None:
    loop: dict[str, Any] = {**VALID}
    loop["jobs"] = [loop]
    for bad in ({**VALID, "name": object()}, {**VALID, "nodes": {1, 2}}, loop):
        with pytest.raises(InvalidInstance, match="is no JSON object"):
            read(bad)
    with pytest.raises(InvalidInstance, match=r"\$.horizon_s: must be a finite number"):
        read({**VALID, "horizon_s": float("nan")})


def test_options_of_foreign_files_are_refused_for_json() -> None:
    raw = json.dumps(VALID).encode()
    for options in ({"sense": "max"}, {"index": 1}, {"format": "nonsense"}):
        with pytest.raises(InvalidOption):
            read(raw, **options)  # type: ignore[arg-type]
    assert read(raw, "json") == read(raw)


def test_a_foreign_file_is_known_by_name_unless_it_holds_json(tmp_path: Path) -> None:
    (tmp_path / "mknap7.txt").write_bytes(b"1 1 1 0 5 1 3")
    (tmp_path / "mknap8").write_text(json.dumps(VALID))
    (tmp_path / "other.txt").write_bytes(b"1 1 1 0 5 1 3")
    assert read(tmp_path / "mknap7.txt").name == "mknap7"
    assert read(tmp_path / "mknap8") == read(VALID)
    with pytest.raises(InvalidInstance, match="name its format"):
        read(tmp_path / "other.txt")


def test_a_file_over_the_size_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 256 * 2**20 + 1)
    with pytest.raises(InvalidInstance, match="268,435,457 bytes, more than the 268,435,456"):
        read(path)
    with pytest.raises(InvalidInstance, match="more than the 10 bytes"):
        read(json.dumps(VALID).encode(), size_limit=10)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "absent.json")


def test_a_large_instance_is_read_back() -> None:
    instance = generate(0, jobs=1000, nodes=4608)
    raw = msgspec.json.encode(instance)
    assert len(raw) > 100_000
    assert read(raw) == instance


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    write_whole(path, b"old")
    path.chmod(0o640)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"cannot write .*out.json: No space left on device"):
        write_whole(path, b"newer")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_writing_needs_a_folder_and_a_file_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="cannot write"):
        write_whole(tmp_path / "no" / "out.json", b"")
    with pytest.raises(IsADirectoryError, match="cannot write"):
        write_whole(tmp_path, b"")


def test_a_link_is_followed_and_kept(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_bytes(b"old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_whole(tmp_path / "link.json", b"new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["freezing_small", "matching_gangs", "gap_filling_small", "sia_round"])
def test_one_mistake_is_one_problem(root: Path, name: str) -> None:
    """One mistake anywhere added a false `must be a FreezingConfiguration` for every job."""
    told = json.loads((root / "examples" / f"{name}.json").read_text())
    told["jobs"][1]["banana"] = 1
    assert len(problems(told)) == 1
    told = json.loads((root / "examples" / f"{name}.json").read_text())
    told["jobs"][0]["id"] = 7
    assert len(problems(told)) == 1


def test_thirty_mistakes_among_two_hundred_jobs_are_thirty_problems_in_the_order_of_the_file() -> None:
    mistakes: list[tuple[str, dict[str, Any]]] = [
        ("max_node", {"max_node": 3}),
        ("min_nodes", {"min_nodes": "two"}),
        ("rescale_up_s", {"rescale_up_s": -1.0}),
        ("current_nodes[0]", {"current_nodes": [9999]}),
        ("weigth", {"weigth": 2.0}),
    ]
    jobs, lines, expected = [], [], []
    for number in range(200):
        job = {**JOB, "id": f"job{number}", "current_nodes": []}
        if number % 7 == 3 and len(expected) < 30:
            field, wrong = mistakes[len(expected) % len(mistakes)]
            expected.append((f"$.jobs[{number}].{field}", f"job{number}", number + 2))
            job |= wrong
        jobs.append(job)
        lines.append(json.dumps(job))
    assert len(expected) == 29
    lines[198] = lines[198].replace("job198", "job0")
    head = json.dumps({**VALID, "jobs": []}).removesuffix("[]}")
    text = head + "[\n" + ",\n".join(lines) + "\n]}"
    with pytest.raises(InvalidInstance) as caught:
        read(text.encode())
    found = [(problem.path, problem.job, problem.line) for problem in caught.value.problems]
    assert found == [("$.jobs", None, 1), *expected]
    told = [problem.located() for problem in caught.value.problems]
    assert told[0].endswith("job id 'job0' stands 2 times, first as [0], again as [198]; each must be unique")
    assert told[1].startswith("line 5, column ")
    assert told[1].endswith("$.jobs[3].max_node (job 'job3'): is an unknown field; did you mean 'max_nodes'?")
    assert told[5].endswith("is an unknown field; did you mean 'weight'?")
    columns = [problem.column for problem in caught.value.problems[1:]]
    rows = text.split("\n")
    for (path, _, line), column in zip(expected, columns, strict=True):
        key = path.rpartition(".")[2].partition("[")[0]
        if "[" not in path.rpartition(".")[2]:
            assert column is not None and rows[line - 1][column - 1 :].startswith(f'"{key}"')


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("kind: gap_filling\nhorizon_s: 3\n", "looks like YAML"),
        (",Tcup,Tcdw,Jmin\nJ0,1,2,3\n", "looks like a CSV table"),
        ('{"kind": "gap_filling",}', "no trailing comma"),
        ('{"kind": "gap_filling", "nodes": ["a",]}', "no trailing comma"),
        ('{"kind": "gapfilling"}', "did you mean 'gap_filling'?"),
    ],
)
def test_hints_say_what_the_text_looks_like(text: str, hint: str) -> None:
    assert any(hint in problem for problem in problems(text))


def test_an_object_of_the_caller_has_no_lines() -> None:
    with pytest.raises(InvalidInstance) as caught:
        read({**VALID, "horizon_s": -1})
    assert [problem.line for problem in caught.value.problems] == [None]

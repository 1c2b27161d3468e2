"""Instances as YAML and CSV say what the same instance says in JSON, and their errors say where."""

from __future__ import annotations

import gzip
import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

import apportion
from apportion.cli.main import main
from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.instances.kinds import kinds
from tests.cli.calling import call, process

EXAMPLES = Path("examples")
MENUS = """job,option,value,required,current,v100,cpu
,,,,,8,64
lm,2xv100,3.1,yes,,2,16
lm,4xv100,5,yes,yes,4,32
cv,8xv100,9,no,,8,
"""
MACHINES = """job,machine,time_s,gpus,count
,v100,,,2
lm,v100,3600,1,
lm,k80,7200,1,
cv,v100,100,2,
"""


def problems(path: Path) -> str:
    with pytest.raises(InvalidInstance) as caught:
        apportion.read(path)
    return str(caught.value)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_an_example_in_yaml_is_the_same_instance(path: Path, tmp_path: Path) -> None:
    from ruamel.yaml import YAML

    tree = json.loads(path.read_bytes())
    if len(tree["jobs"]) > 40:  # ruamel.yaml takes seconds for those
        tree["jobs"] = tree["jobs"][:40]
    with (tmp_path / "same.yaml").open("w") as file:
        YAML(typ="safe", pure=True).dump(tree, file)
    assert apportion.read(tmp_path / "same.yaml") == apportion.read(tree)


@pytest.mark.parametrize("kind", kinds())
def test_what_init_writes_is_solved_and_commented(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "start.yaml"
    assert call(main, "init", kind, "-o", path).code == 0
    text = path.read_text()
    assert text.count("#") >= 5 and max(map(len, text.splitlines())) <= 110
    assert call(main, "validate", path).out.startswith(f"valid: {kind}")
    assert json.loads(call(main, "solve", path, "--json").out)["solution"] == "optimal"


def test_init_of_an_unknown_kind_says_which_was_meant() -> None:
    done = call(main, "init", "gapfilling")
    assert done.code == 2 and "did you mean 'gap_filling'?" in done.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2\n", 'found duplicate key "a"'),
        ("a: &x [1]\nb: *x\n", "refers to an anchor at line 2, column 4"),
        ("a: [1\nb: 2", "is not YAML"),
        ("a: !!python/name:os.system\n", "is not YAML"),
        ("- 1\n- 2\n", "must be one JSON object, not an array"),
        ("", "must be one JSON object, not null"),
        ("kind: matching\nobjective: .nan\n", "$.objective"),
    ],
)
def test_yaml_that_is_no_instance_is_one_clear_error(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert words in problems(path)
    assert call(main, "solve", path).code == 3


@pytest.mark.parametrize(
    "deep", ["[" * 20_000 + "]" * 20_000, "".join(" " * k + "-\n" for k in range(70)) + " " * 70 + "- 1"]
)
def test_yaml_nested_deeply_is_refused_where_it_gets_too_deep(deep: str, tmp_path: Path) -> None:
    """40 kB of brackets took 55 seconds: the whole text was parsed before its depth was looked at."""
    path = tmp_path / "deep.yaml"
    path.write_text(deep)
    assert "is nested more than 64 levels deep at line" in problems(path)


def test_problems_of_yaml_stand_at_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "# a comment\nkind: gap_filling\nhorizon_s: 2 min\nnodes: [n0, n0]\njobs:\n"
        "  - id: a\n    min_nodes: -1\n    max_node: 3\n"
    )
    with pytest.raises(InvalidInstance) as refused:
        apportion.read(path)
    problems = refused.value.problems
    told = {problem.path: (problem.line, problem.column) for problem in problems}
    assert told["$.schema_version"] == (2, 1) and told["$.horizon_s"] == (3, 1)
    assert told["$.jobs[0].min_nodes"] == (7, 5) and told["$.jobs[0].max_node"] == (8, 5)
    assert told["$.jobs[0].max_nodes"] == (6, 5)
    assert list(told.values()) == sorted(told.values())
    assert any("line 7, column 5: $.jobs[0].min_nodes (job 'a')" in one.located() for one in problems)


def test_yaml_never_takes_a_name_for_a_date_or_a_truth(tmp_path: Path) -> None:
    path = tmp_path / "names.yaml"
    start = (
        "kind: multiple_choice_knapsack\nschema_version: '1'\nsense: maximize\ncapacities: {8: 3}\njobs:\n"
    )
    path.write_text(start + "  - {id: 2026-11-22, options: [{id: no, value: 1, uses: {8: 2}}]}\n")
    instance: Any = apportion.read(path)
    assert instance.jobs[0].id == "2026-11-22"
    assert instance.jobs[0].options[0].id == "no"
    assert instance.capacities == {"8": 3}


def test_without_the_reader_yaml_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: 1\n")
    monkeypatch.setitem(__import__("sys").modules, "ruamel.yaml", None)
    assert "pip install ruamel.yaml" in problems(path)


def test_a_table_of_menus_is_the_instance_it_says(tmp_path: Path) -> None:
    path = tmp_path / "menus.csv"
    path.write_text(MENUS)
    instance = apportion.read(path)
    assert msgspec.to_builtins(instance) == msgspec.to_builtins(
        apportion.read(
            {
                "kind": "multiple_choice_knapsack",
                "schema_version": "1",
                "sense": "maximize",
                "name": "menus",
                "capacities": {"v100": 8, "cpu": 64},
                "jobs": [
                    {
                        "id": "lm",
                        "required": True,
                        "current": "4xv100",
                        "options": [
                            {"id": "2xv100", "value": 3.1, "uses": {"v100": 2, "cpu": 16}},
                            {"id": "4xv100", "value": 5, "uses": {"v100": 4, "cpu": 32}},
                        ],
                    },
                    {
                        "id": "cv",
                        "required": False,
                        "options": [{"id": "8xv100", "value": 9, "uses": {"v100": 8}}],
                    },
                ],
            }
        )
    )
    assert apportion.read(path, sense="min").sense == "minimize"  # type: ignore[union-attr]


def test_a_table_of_machines_is_a_matching(tmp_path: Path) -> None:
    path = tmp_path / "machines.csv"
    path.write_text(MACHINES)
    solution = apportion.solve(apportion.read(path))
    assert solution.objective == 3700.0  # cv holds both v100 before or after lm
    with pytest.raises(InvalidOption, match="sense does not apply"):
        apportion.read(path, sense="max")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MENUS.replace("3.1", "three"), "line 3, value: must be a number, not 'three'"),
        (MENUS.replace("2,16", "2.5,16"), "line 3, v100: must be a whole number, not '2.5'"),
        (MENUS.replace("2,16", "--2,16"), "line 3, v100: must be a whole number, not '--2'"),
        (MENUS.replace("2,16", "+-2,16"), "line 3, v100: must be a whole number, not '+-2'"),
        (MENUS.replace(",,,,,8,64\n", ""), "no line without a job says how much there is"),
        (MENUS.replace("job,", "jbo,"), "column job is missing"),
        (MENUS + "lm,2xv100\n", "line 6: has 2 cells, the header 7"),
        (MENUS + ",,,,,8,64\n", "line 6: the capacities stand on one line"),
        (MENUS.replace("lm,4xv100,5,yes", "lm,4xv100,5,no"), "line 4, required: job 'lm' is required on one"),
        (MENUS.replace("yes,yes", "yes,perhaps"), "line 4, current: must be yes or no, not 'perhaps'"),
        (MENUS.replace("cpu", "v100"), "column 'v100' stands twice"),
        (MACHINES.replace("time_s", "tiem_s"), "one of the columns time_s, cost, value"),
        (MACHINES.replace("gpus", "gpu"), "'gpu' is no column of such a table; did you mean 'gpus'?"),
        (MACHINES + "lm,v100,1,1,\n", "line 6: job 'lm' is on 'v100' a second time"),
        ("job,option,value\nx,y,nan\n", "line 2, $.jobs[0].options[0].value: must be finite, not nan"),
        ("", "line 1: is empty"),
        ('job,option,value\nx,"y,1\n', "line 2: is no CSV table"),
    ],
)
def test_a_wrong_table_says_line_and_column(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert words in problems(path)
    done = call(main, "solve", path)
    assert done.code == 3
    assert f"{path}: {words}" in done.err or f"{path}: line" in done.err


@pytest.mark.parametrize(
    ("text", "only"),
    [
        (MENUS.replace("value", "vlaue"), "line 1: column value is missing; did you mean 'vlaue'?"),
        (MENUS.replace("option", "optoin"), "a column option, or machine; did you mean 'optoin'?"),
        (
            MENUS.replace("required", "requierd"),
            "is a capacity with an amount here; did you mean 'required'?",
        ),
        (MACHINES.replace("time_s", "tiem_s"), "time_s, cost, value; did you mean 'time_s'?"),
        (MENUS.replace("2,16", "-2,16"), "line 3, $.jobs[0].options[0].uses.v100: must be from 0"),
        (MENUS.replace("8,64", "-8,64"), "line 2, $.capacities.v100: must be from 0"),
        (MACHINES.replace("3600", "-3600"), "line 3, $.jobs[0].on.v100.time_s: must not be"),
    ],
)
def test_a_misspelt_column_or_a_wrong_cell_is_one_error_with_its_line(
    text: str, only: str, tmp_path: Path
) -> None:
    """A misspelt `value` gave five errors, and what broke a rule of its kind had no line."""
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InvalidInstance) as caught:
        apportion.read(path)
    (problem,) = caught.value.problems
    assert only in str(problem)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("mark", [";", "\t"])
def test_what_a_spreadsheet_writes_is_read(mark: str, tmp_path: Path) -> None:
    """Semicolons, which spreadsheets write in many languages, were "a column job is missing"."""
    (tmp_path / "menus.csv").write_text(MENUS)
    (tmp_path / "as").mkdir()
    path = tmp_path / "as" / "menus.csv"
    path.write_text(MENUS.replace(",", mark).replace("32", "32.0"))
    assert apportion.read(path) == apportion.read(tmp_path / "menus.csv")
    path.write_text(MENUS.replace(",", mark).replace("3.1", "3,1"))
    assert "line 3, value: must be a number, not '3,1'; write 3.1" in problems(path)


def test_jobs_are_required_in_every_form_of_an_instance(tmp_path: Path) -> None:
    """Those of a CSV table were optional where YAML, JSON and the builder had them required."""
    table = tmp_path / "x.csv"
    table.write_text("job,option,value,required,gpu\n,,,,4\na,o,1,,2\nb,o,1,no,2\nc,o,1,yes,2\n")
    assert [job.required for job in apportion.read(table).jobs] == [True, False, True]  # type: ignore[union-attr]
    table.write_text("job,option,value,gpu\n,,,4\na,o,-1,2\n")
    built = apportion.Knapsack({"gpu": 4}, name="x").add_job("a", [-1], {"gpu": [2]}, options=["o"])
    assert apportion.read(table) == built.instance()
    assert apportion.solve(apportion.read(table)).objective == -1.0


def test_what_init_writes_is_what_its_name_says_and_is_not_written_over(tmp_path: Path) -> None:
    """A file .json or .csv held YAML, and one that had been edited was written over without a word."""
    for kind in kinds():
        call(main, "init", kind, "-o", tmp_path / "x.yaml", "--force")
        path = tmp_path / f"{kind}.json"
        assert call(main, "init", kind, "-o", path).code == 0
        assert json.loads(path.read_text())["kind"] == kind
        assert apportion.read(path) == apportion.read(tmp_path / "x.yaml")
    for kind in ("multiple_choice_knapsack", "matching"):
        path = tmp_path / f"{kind}.csv"
        assert call(main, "init", kind, "-o", path).code == 0
        assert path.read_text().startswith("job,")
        assert json.loads(call(main, "solve", path, "--json").out)["solution"] == "optimal"
    refused = call(main, "init", "gap_filling", "-o", tmp_path / "gaps.csv")
    assert refused.code == 2 and "FILE.yaml or FILE.json" in refused.err
    path.write_text("mine")
    refused = call(main, "init", "matching", "-o", path)
    assert refused.code == 2 and "--force writes over it" in refused.err and path.read_text() == "mine"


def test_what_init_writes_is_read_by_what_the_readme_installs() -> None:
    """`pip install .` brought no reader of YAML, and `solve` refused what `init` had written."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    assert any(line.startswith("ruamel.yaml") for line in project["dependencies"])


def test_empty_packed_and_mistaken_files_say_what_they_are(tmp_path: Path) -> None:
    """An empty table was read as JSON, a .gz as text that is no UTF-8, a solution had 21 unknown fields."""
    small, solution = EXAMPLES / "gap_filling_small.json", tmp_path / "solution.json"
    for name in ("x.json", "x.csv", "x.yaml"):
        (tmp_path / name).write_text("")
        done = call(main, "solve", tmp_path / name)
        (line,) = done.err.splitlines()
        assert done.code == 3 and str(tmp_path / name) in line and ("empty" in line or "null" in line)
    packed = tmp_path / "menus.csv.gz"
    packed.write_bytes(gzip.compress(MENUS.encode()))
    assert len(apportion.read(packed).jobs) == 2
    (tmp_path / "small.json.gz").write_bytes(gzip.compress(small.read_bytes()))
    assert apportion.read(tmp_path / "small.json.gz") == apportion.read(small)
    packed.write_bytes(packed.read_bytes()[:-9])
    assert "the packed file is cut off" in problems(packed)
    with pytest.raises(InvalidInstance, match="unpacks to more than 50 bytes"):
        apportion.read(gzip.compress(b" " * 99), size_limit=50)
    assert call(main, "solve", small, "-o", solution).code == 0
    for words, said in (
        (("solve", solution), "is a solution, not an instance: `apportion check INSTANCE SOLUTION`"),
        (("check", small, small), "is an instance, not a solution"),
        (("solve", small, "--warm-start", small), "is an instance; a warm start is a stored result"),
    ):
        done = call(main, *words)
        assert done.code == 3 and said in done.out + done.err


def test_ctrl_c_while_a_command_is_loaded_is_one_line() -> None:
    """In the first tenth of a second it was a traceback of 34 lines."""
    source = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name == 'click':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from apportion.__main__ import {}; {}()"
    )
    for command in ("apportion", "solve_instance"):
        done = process(Path(), source.format(command, command), "help")
        assert (done.returncode, done.stdout) == (130, b"")
        assert done.stderr.decode() == f"{command.replace('_', '-')}: interrupted\n"


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("gap_filling_small", "job,allocation"),
        ("freezing_small", "job,gpu_type,gpus,depth,nodes"),
        ("matching_unrelated", "job,assignment"),
        ("sia_round", "job,choice"),
    ],
)
def test_the_plan_is_written_as_a_table_of_all_jobs(name: str, header: str, tmp_path: Path) -> None:
    out = tmp_path / "plan.csv"
    done = call(main, "solve", EXAMPLES / f"{name}.json", "-o", out, "--json")
    lines = out.read_text().splitlines()
    assert lines[0].startswith(header)
    jobs = json.loads((EXAMPLES / f"{name}.json").read_bytes())["jobs"]
    assert [line.split(",")[0] for line in lines[1:]] == [job["id"] for job in jobs]
    if name == "sia_round":
        choice = json.loads(done.out)["plan"]["choice"]
        assert lines[1:] == [f"{job['id']},{choice.get(job['id'], '')}" for job in jobs]


def test_no_plan_is_no_table(tmp_path: Path) -> None:
    path, out = tmp_path / "tight.csv", tmp_path / "plan.csv"
    path.write_text("job,option,value,required,gpu\n,,,,1\na,x,1,yes,2\n")
    done = call(main, "solve", path, "-o", out)
    assert done.code == 4 and not out.exists()
    assert "there is no plan to write" in done.err

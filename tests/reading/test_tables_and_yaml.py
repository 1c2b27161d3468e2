"""Instances as YAML and CSV say what the same instance says in JSON, and their errors say where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import apportion
from apportion.cli.main import main
from apportion.errors import InvalidInstance, InvalidOption
from apportion.instances.kinds import kinds
from tests.cli.calling import call

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
    assert "pip install 'apportion[yaml]'" in problems(path)


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
        (MENUS.replace("job,", "jbo,"), "a column job is missing"),
        (MENUS + "lm,2xv100\n", "line 6: has 2 cells, the header 7"),
        (MENUS + ",,,,,8,64\n", "line 6: the capacities stand on one line"),
        (MENUS.replace("yes,yes", "yes,perhaps"), "line 4, current: must be yes or no, not 'perhaps'"),
        (MENUS.replace("cpu", "v100"), "column 'v100' stands twice"),
        (MACHINES.replace("time_s", "tiem_s"), "one of the columns time_s, cost, value"),
        (MACHINES.replace("gpus", "gpu"), "'gpu' is no column of such a table; did you mean 'gpus'?"),
        (MACHINES + "lm,v100,1,1,\n", "line 6: job 'lm' is on 'v100' a second time"),
        ("job,option,value\nx,y,nan\n", "must be finite, not nan"),
        ("", "is empty"),
    ],
)
def test_a_wrong_table_says_line_and_column(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert words in problems(path)
    assert call(main, "solve", path).code == 3


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

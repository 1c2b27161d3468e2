"""``apportion history``: what people and programs are told of decisions on record."""

from __future__ import annotations

import json
import shlex
import sqlite3
from pathlib import Path

import click
import msgspec
import pytest

import apportion
from apportion.cli.history import SUBCOMMANDS
from apportion.cli.main import command, main
from apportion.io import stored
from apportion.service.record import Record, record_file
from tests.cli.calling import call
from tests.record.deciding import START_S, decide, decided


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Record(record_file(tmp_path / "record")) as record:
        for seed in range(3):
            decide(record, seed, proof=seed == 1)
    return tmp_path / "record"


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_page_ends_with_two_examples_that_parse(name: str) -> None:
    page = call(main, "history", name, "--help")
    assert page.code == 0 and len(SUBCOMMANDS[name].examples) == 2
    context = click.Context(command, info_name="apportion", help_option_names=["-h", "--help"])
    group = command.get_command(context, "history")
    assert isinstance(group, click.Group)
    below = click.Context(group, info_name="history", parent=context)
    for example in SUBCOMMANDS[name].examples:
        assert f"    apportion {example}" in page.out.splitlines()
        words = shlex.split(example)
        found = group.get_command(below, name)
        assert found is not None and words[:2] == ["history", name]
        found.make_context(name, words[2:], parent=below)


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_command_of_the_group_has_loudness_and_a_table_of_defaults(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = call(main, "history", name, "--help")
    assert "-q, --quiet" in page.out and "-v, --verbose" in page.out
    config = folder / "config.toml"
    monkeypatch.setenv("APPORTION_CONFIG", str(config))
    config.write_text(f'[history.{name}]\nrecord = "{folder}"\n')
    words = {"prune": ["--before", "1d", "--dry-run"], "replay": ["--policy", "greedy"]}.get(name, [])
    told = call(main, "history", name, "-q", *words)
    assert told.code == 0, told.err
    assert told.err == "" and told.out
    config.write_text(f'[history.{name}]\nrecrod = "{folder}"\n')
    refused = call(main, "history", name, *words)
    assert refused.code == 2 and f"recrod in [history.{name}] is no option of history {name}" in refused.err
    assert "did you mean 'record'?" in refused.err


def test_the_line_wins_over_the_variable_and_the_table_of_the_group(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = folder / "config.toml"
    monkeypatch.setenv("APPORTION_CONFIG", str(config))
    config.write_text(f'[history.list]\nrecord = "{folder}"\njson = true\nlast = 1\n')
    assert [row["id"] for row in json.loads(call(main, "history", "list").out)] == [3]
    monkeypatch.setenv("APPORTION_HISTORY_LIST_LAST", "2")
    assert [row["id"] for row in json.loads(call(main, "history", "list").out)] == [2, 3]
    assert [row["id"] for row in json.loads(call(main, "history", "list", "--last", 3).out)] == [1, 2, 3]
    config.write_text("[history.lits]\n")
    refused = call(main, "history", "list", "--record", folder)
    assert refused.code == 2 and "did you mean 'list'?" in refused.err


def test_a_mistyped_subcommand_is_recognised() -> None:
    refused = call(main, "history", "explian")
    assert refused.code == 2 and "did you mean 'explain'?" in refused.err


def test_list_says_what_was_decided(folder: Path) -> None:
    shown = call(main, "history", "list", "--record", folder)
    assert shown.code == 0 and shown.out.splitlines()[-1] == "3 decisions"
    rows = json.loads(call(main, "history", "list", "--record", folder, "--last", 2, "--json").out)
    assert [row["id"] for row in rows] == [2, 3] and rows[0]["proof_digest"] and not rows[1]["proof_digest"]
    since = ["--since", "2026-09-21T13:47:00+00:00", "--until", "2026-09-21T13:48:00+00:00"]
    assert START_S == 1_790_000_000  # 2026-09-21 14:13:20 UTC
    assert call(main, "history", "list", "--record", folder, *since).out == "0 decisions\n"


def test_what_is_exported_is_solved_and_checked_by_the_other_commands(folder: Path, tmp_path: Path) -> None:
    for part in ("instance", "result", "proof"):
        done = call(main, "history", "export", 2, "--part", part, "--record", folder, "-o", tmp_path / part)
        assert done.code == 0, done.err
    files = [tmp_path / "instance", tmp_path / "result"]
    assert call(main, "check", *files, "--proof", tmp_path / "proof").code == 0
    lines = call(main, "history", "export", "--record", folder).out.splitlines()
    told = [json.loads(line) for line in lines]
    assert [one["decision"]["id"] for one in told] == [1, 2, 3]
    assert told[1]["result"] == json.loads((tmp_path / "result").read_text())


def test_show_and_explain_a_moment(folder: Path) -> None:
    told = json.loads(call(main, "history", "show", "--record", folder, "--json").out)
    assert told["decision"]["id"] == 3 and told["result"]["solution"] == "optimal"
    job = next(iter(told["result"]["plan"]["allocation"]))
    shown = call(main, "history", "show", 3, "--record", folder)
    assert job in shown.out and "asked by tests" in shown.out
    at = ["--at", "2026-09-21T14:14:30+00:00"]  # between decisions 2 and 3
    explained = json.loads(call(main, "history", "explain", *at, "--record", folder, "--json").out)
    assert explained["decision"] == 2 and explained["feasible"] is True and explained["capacities"]
    one = call(main, "history", "explain", 3, "--job", job, "--record", folder)
    assert one.code == 0 and job in one.out
    assert call(main, "history", "explain", 3, "--job", "nobody", "--record", folder).code == 3
    assert call(main, "history", "show", 3, *at, "--record", folder).code == 2
    assert call(main, "history", "show", "--at", "teatime", "--record", folder).code == 2


def test_check_finds_what_has_become_uncheckable(folder: Path) -> None:
    assert call(main, "history", "check", "--record", folder).code == 0
    connection = sqlite3.connect(record_file(folder))
    with connection:
        connection.execute("UPDATE state SET instance = x'00' WHERE session = 's1'")
    connection.close()
    done = call(main, "history", "check", "--record", folder, "--json")
    told = json.loads(done.out)
    assert done.code == 3 and list(told["failed"]) == ["2"] and told["checked"] == 3


def test_prune_forgets_and_says_how_many(folder: Path) -> None:
    with Record(record_file(folder)) as record:
        for seed in range(3):
            record.close_session(f"s{seed}", at_s=START_S)
    before = ["--before", "2026-09-21T14:14:30+00:00", "--record", folder]
    assert call(main, "history", "prune", *before, "--dry-run").out.startswith("2 decisions")
    assert call(main, "history", "prune", *before).out.startswith("2 decisions forgotten")
    assert len(json.loads(call(main, "history", "list", "--record", folder, "--json").out)) == 1


def test_no_record_is_one_message(tmp_path: Path) -> None:
    for name in ("list", "show", "check", "export"):
        refused = call(main, "history", name, "--record", tmp_path)
        assert refused.code == 2 and refused.err.count("\n") == 1 and "there is no record" in refused.err


def test_replay_says_what_another_policy_would_have_done(folder: Path) -> None:
    told = json.loads(call(main, "history", "replay", "--record", folder, "--json").out)
    assert [one["entry"]["id"] for one in told] == [1, 2, 3]
    for one in told:  # the optimum is what had been decided
        assert one["objective"] == one["entry"]["objective"] and one["termination"] == "optimal"
    other = json.loads(
        call(main, "history", "replay", "--policy", "static", "--record", folder, "--json").out
    )
    assert all(one["objective"] <= two["objective"] for one, two in zip(other, told, strict=True))
    assert call(main, "history", "replay", "--policy", "nonsense", "--record", folder).code == 2
    shown = call(main, "history", "replay", "--record", folder, "--last", 1).out.splitlines()
    assert shown[-1].startswith("1 round; together")


def test_a_replay_over_mixed_kinds_skips_what_its_policy_cannot_decide(folder: Path) -> None:
    """It stopped at the first decision of another kind."""
    menus = apportion.Knapsack({"gpu": 4}).add_job("a", [3, 4], {"gpu": [2, 4]}).instance()
    with Record(record_file(folder)) as record:
        record.open_session("menus", menus, at_s=START_S + 500, asked_by="tests")
        solution = apportion.solve(menus)
        result = stored.encode(stored.document(solution))
        one = decided("menus", 0, 0)
        record.decide(msgspec.structs.replace(one, result=result, at_s=START_S + 500))
        decide(record, 7)
    told = call(main, "history", "replay", "--policy", "greedy", "--record", folder)
    assert told.code == 0
    assert "skipped: there are no policies for multiple_choice_knapsack" in told.out.splitlines()[4 - 1]
    assert told.out.splitlines()[-1].startswith("4 rounds (1 skipped); together")
    every = call(main, "history", "replay", "--policy", "optimal", "--record", folder)
    assert every.out.splitlines()[-1].startswith("5 rounds; together")
    alone = call(main, "history", "replay", "--policy", "greedy", "--session", "menus", "--record", folder)
    assert alone.code == 2 and "there are no policies" in alone.err

"""The group of commands: found by name, by likeness and by shells; its page is its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from apportion.cli.commands import COMMANDS, GROUPS
from apportion.cli.main import command, main
from apportion.cli.solve_instance import main as solve
from tests.cli.calling import GROUP, SOLVE, call

EXAMPLES = [(name, example) for name, listed in COMMANDS.items() for example in listed.examples]


def _found(name: str) -> click.Command:
    found = command.get_command(click.Context(command), name)
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_every_example_is_a_command_line_that_parses(name: str, example: str) -> None:
    first, *words = shlex.split(example.partition(" > ")[0])
    assert first == name
    above = click.Context(command, info_name="apportion", help_option_names=["-h", "--help"])
    _found(name).make_context(name, words, parent=above)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_page_ends_with_two_examples(name: str) -> None:
    shown = call(main, "help", name)
    assert shown.code == 0
    assert shown.out == call(main, name, "--help").out
    lines = [line.strip() for line in shown.out.splitlines()]
    examples = lines[lines.index("Examples:") + 1 :]
    assert [line for line in examples if line.startswith(f"apportion {name}")] == [
        line for line in examples if line
    ]
    assert len(COMMANDS[name].examples) == 2


def test_the_list_of_commands_is_grouped_and_complete_in_eighty_columns() -> None:
    shown = call(main, "help").out
    assert shown == call(main, "--help").out
    assert [line[:-1] for line in shown.splitlines() if line[:-1] in GROUPS] == list(GROUPS)
    for name, listed in COMMANDS.items():
        assert listed.group in GROUPS
        assert any(line.split() == [name, *listed.line.split()] for line in shown.splitlines()), name


@pytest.mark.parametrize(
    ("word", "meant"), [("explian", "explain"), ("solv", "solve"), ("whatif", "what-if")]
)
def test_a_mistyped_command_is_recognised(word: str, meant: str) -> None:
    for words in ((word,), ("help", word)):
        refused = call(main, *words)
        assert refused.code == 2 and f"did you mean {meant!r}?" in refused.err


def test_a_mistyped_choice_is_recognised() -> None:
    refused = call(main, "simulate", "--policy", "gavel-maxmin", "--workload", "x.csv")
    assert refused.code == 2 and "did you mean 'gavel-max-min'?" in refused.err
    refused = call(main, "replay", "--policy", "greedi", "--trace", "generated", "--jobs", "generated")
    assert refused.code == 2 and "did you mean 'greedy'?" in refused.err


def _without_times(text: str) -> list[str]:
    return [line for line in text.splitlines() if " ms" not in line]


def test_solve_is_solve_instance(root: Path) -> None:
    path = root / "examples" / "gap_filling_small.json"
    expected = _without_times(call(solve, path).out)
    assert _without_times(call(main, "solve", path).out) == expected
    run = subprocess.run(
        [sys.executable, "-m", "apportion", "solve", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": f"{root}/src"},
        check=True,
    )
    assert _without_times(run.stdout) == expected


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("apportion si", "plain,simulate"),
        ("apportion replay --policy mall", "plain,malletrain"),
        ("apportion solve ex", "file,ex"),
        ("apportion init mat", "plain,matching"),
        ("apportion schema gap", "plain,gap_filling"),
        ("apportion help what", "plain,what-if"),
        ("apportion solve x.json --backend cp", "plain,cp-sat"),
        ("apportion solve x.json --formulation by_m", "plain,by_machine"),
        ("apportion convert x --format mmk", "plain,mmkp"),
        ("solve-instance x.json --backend hi", "plain,highs"),
    ],
)
def test_shells_complete_commands_policies_and_files(root: Path, words: str, expected: str) -> None:
    program = words.split()[0]
    run = subprocess.run(
        [sys.executable, "-c", GROUP if program == "apportion" else SOLVE],
        capture_output=True,
        text=True,
        timeout=120,
        env={
            **os.environ,
            "PYTHONPATH": f"{root}/src",
            f"_{program.replace('-', '_').upper()}_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
        check=False,
    )
    assert run.stdout == f"{expected}\n", run.stderr


def test_the_page_on_the_command_line_is_what_the_commands_say(root: Path) -> None:
    """After a change of an option: `python -m apportion.cli.reference > docs/cli.md`."""
    made = subprocess.run(  # a process of its own: a command called alone keeps the names of its help option
        [sys.executable, "-m", "apportion.cli.reference"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert (root / "docs" / "cli.md").read_text().split() == made.stdout.split()


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["what-if", "{root}/examples/matching_gangs.json", "--capacity", "V100=+1"], "v100"),
        (
            ["what-if", "{root}/examples/gap_filling_small.json", "--remove-job", "j000-Alexnet"],
            "j000-AlexNet",
        ),
        (["explain", "{root}/examples/gap_filling_small.json", "--job", "j000-alexnet"], "j000-AlexNet"),
        (["explain", "{root}/examples/matching_gangs.json", "--job", "J3"], "j3"),
    ],
)
def test_a_mistyped_name_of_the_instance_is_recognised(root: Path, words: list[str], meant: str) -> None:
    refused = call(main, *(word.format(root=root) for word in words))
    assert refused.code == 3 and f"did you mean {meant!r}?" in refused.err


def test_an_amount_of_thousands_of_digits_is_refused(root: Path) -> None:
    """Python's limit on the digits of a whole number ended it in a traceback."""
    example, amount = root / "examples/matching_gangs.json", "9" * 5_000
    refused = call(main, "what-if", example, "--capacity", f"v100=+{amount}")
    assert refused.code == 2 and "--capacity takes POOL=+N" in refused.err

"""Foreign knapsack files: both layouts, decimals, malformed and truncated files, real benchmark sets."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.instances import MultipleChoiceKnapsackInstance, kind_of
from apportion.instances.readers import FORMATS, guess_format, read_text

TWO_PROBLEMS = b"""2
3 2 9
5 4 3
1 2 3
4 5 6
7 8
1 1 0
2.5
3
4
"""
COUNTED = b"2 2\n5 6\n1\n3 1 2\n2\n4 2 0\n5 3 1\n"
KHAN = b"2 2 2\n 5 6\n 1\n 7.00 1 2\n 8.00 2 3\n 2\n 4 2 0\n 5 3 1\n"


def knapsack(
    raw: bytes, format: str, index: int = 0, sense: str | None = None
) -> MultipleChoiceKnapsackInstance:
    instance = read_text(raw, format, index, sense, "made")
    assert isinstance(instance, MultipleChoiceKnapsackInstance)
    return instance


def message(raw: bytes, format: str, index: int = 0) -> str:
    with pytest.raises(InvalidInstance) as caught:
        read_text(raw, format, index)
    return str(caught.value)


def uses(instance: MultipleChoiceKnapsackInstance) -> list[list[dict[str, int]]]:
    return [[option.uses for option in job.options] for job in instance.jobs]


def optimum(instance: MultipleChoiceKnapsackInstance, whole: bool) -> float:
    """Return the optimum, or the LP relaxation's, by SciPy's general solver straight from the instance."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    options = [(index, option) for index, job in enumerate(instance.jobs) for option in job.options]
    used = np.array([[option.uses.get(name, 0) for _, option in options] for name in instance.capacities])
    once = np.zeros((len(instance.jobs), len(options)))
    once[[index for index, _ in options], np.arange(len(options))] = 1
    least = [1.0 if job.required else 0.0 for job in instance.jobs]
    result = milp(
        [-option.value for _, option in options],
        integrality=np.full(len(options), int(whole)),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(used, ub=list(instance.capacities.values())),
            LinearConstraint(once, lb=least, ub=1),
        ],
        options={"mip_rel_gap": 0},
    )
    assert result.status == 0
    return -float(result.fun)


def test_every_problem_of_an_orlib_file_is_reached_by_its_index() -> None:
    first, second = knapsack(TWO_PROBLEMS, "orlib-mknap"), knapsack(TWO_PROBLEMS, "orlib-mknap", 1)
    assert first.name == "made[0]" and first.sense == "maximize"
    assert first.capacities == {"c0": 7, "c1": 8}
    assert [job.options[0].value for job in first.jobs] == [5, 4, 3]
    assert uses(first) == [[{"c0": 1, "c1": 4}], [{"c0": 2, "c1": 5}], [{"c0": 3, "c1": 6}]]
    assert all(not job.required and [option.id for option in job.options] == ["take"] for job in first.jobs)
    assert second.capacities == {"c0": 4} and second.jobs[0].options[0].value == 2.5


@pytest.mark.parametrize("header", [b"3 2 9\n", b"3 2\n"])
def test_a_single_problem_without_the_leading_count_is_recognised(header: bytes) -> None:
    body = b"5 4 3\n1 2 3\n4 5 6\n7 8\n"
    assert knapsack(header + body, "orlib-mknap").jobs == knapsack(b"1\n3 2 0\n" + body, "orlib-mknap").jobs


def test_decimal_weights_are_scaled_exactly_per_capacity() -> None:
    scaled = knapsack(b"1\n2 2 0\n5.5 4\n0.1 2.25\n7.00 3\n 4.3 9\n", "orlib-mknap")
    assert scaled.capacities == {"c0": 430, "c1": 9}
    assert uses(scaled) == [[{"c0": 10, "c1": 7}], [{"c0": 225, "c1": 3}]]


def test_counted_menus_are_read_with_their_own_lengths() -> None:
    instance = knapsack(COUNTED, "mmkp")
    assert instance.capacities == {"c0": 5, "c1": 6} and instance.name == "made"
    assert [[option.value for option in job.options] for job in instance.jobs] == [[3], [4, 5]]
    assert uses(instance) == [[{"c0": 1, "c1": 2}], [{"c0": 2}, {"c0": 3, "c1": 1}]]
    assert all(job.required for job in instance.jobs)


def test_khans_layout_is_told_apart() -> None:
    instance = knapsack(KHAN, "mmkp")
    assert instance.capacities == {"c0": 5, "c1": 6}
    assert [[option.value for option in job.options] for job in instance.jobs] == [[7, 8], [4, 5]]
    assert uses(instance)[1] == [{"c0": 2}, {"c0": 3, "c1": 1}]


def test_the_sense_can_be_turned() -> None:
    assert knapsack(COUNTED, "mmkp", sense="min").sense == "minimize"
    assert knapsack(COUNTED, "mmkp", sense="max").sense == "maximize"
    with pytest.raises(InvalidOption, match="sense"):
        read_text(COUNTED, "mmkp", sense="up")


def test_line_ends_and_a_byte_order_mark_do_not_matter() -> None:
    windows = b"\xef\xbb\xbf" + TWO_PROBLEMS.replace(b"\n", b"\r\n")
    assert knapsack(windows, "orlib-mknap", 1) == knapsack(TWO_PROBLEMS, "orlib-mknap", 1)


def test_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(InvalidOption, match="orlib-mknap, mmkp"):
        read_text(b"", "gams")


@pytest.mark.parametrize(
    ("raw", "format", "index", "expected"),
    [
        (
            TWO_PROBLEMS,
            "orlib-mknap",
            2,
            "$.problem[2]: does not exist: the file holds 2 problems, index 0 to 1",
        ),
        (COUNTED, "mmkp", 1, "$.problem[1]: does not exist: the file holds 1 problem, index 0 to 0"),
        (TWO_PROBLEMS, "orlib-mknap", -1, "index counts from 0"),
        (b"", "orlib-mknap", 0, "end of file: expected the number of problems"),
        (b"0", "orlib-mknap", 0, "the file holds 0 problems"),
        (TWO_PROBLEMS[:-5], "orlib-mknap", 0, "$.problem[1]: n = 1 and m = 1 need 6 numbers"),
        (
            TWO_PROBLEMS + b"1",
            "orlib-mknap",
            0,
            "line 11, token 1: expected the end of the file after 2 problems",
        ),
        (
            b"2\n1 1 0\n2\n3\n4\nfive",
            "orlib-mknap",
            0,
            "line 6, token 1: expected a finite number, found 'five'",
        ),
        (b"1 1 1 0 2 nan 4", "orlib-mknap", 0, "line 1, token 6: expected a finite number"),
        (b"1 1 1 0 2 1e999 4", "orlib-mknap", 0, "line 1, token 6: expected a finite number"),
        (b"1 1 1 0 2 3_0 4", "orlib-mknap", 0, "line 1, token 6: expected a finite number"),
        (b"1 1 1 0 2 -3 4", "orlib-mknap", 0, "line 1, token 6: expected a use of a capacity from 0"),
        (b"1 1 1 0 2 3 -4", "orlib-mknap", 0, "line 1, token 7: expected a capacity from 0"),
        (b"1 1 1 0 2 1e-20 4", "orlib-mknap", 0, "too many decimals"),
        (b"1 1 1 0 1e30 3 4", "orlib-mknap", 0, "$.jobs[0].options[0].value"),
        (b"1.5 1 1 0 2 3 4", "orlib-mknap", 0, "expected the number of problems, a whole number"),
        (b"1 1e9 1e9 0 2 3 4", "orlib-mknap", 0, "$.problem[0]: n = 1000000000"),
        (COUNTED[:-3], "mmkp", 0, "$.class[1]: 2 items of 1 + 2 numbers need 6; the file has 5 left"),
        (KHAN.replace(b" 2\n 4", b" 3\n 4"), "mmkp", 0, "line 6, token 1: expected class index 2, found 3"),
        (
            KHAN[:-3],
            "mmkp",
            0,
            "2 classes of 2 items of 1 + 2 numbers need 19 numbers in all; the file has 18",
        ),
        (b"", "mmkp", 0, "expected the number of classes"),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(
    raw: bytes, format: str, index: int, expected: str
) -> None:
    assert expected in message(raw, format, index)


@pytest.mark.parametrize(
    ("raw", "format"), [(TWO_PROBLEMS, "orlib-mknap"), (COUNTED, "mmkp"), (KHAN, "mmkp")]
)
def test_mutated_files_are_read_or_refused_never_worse(raw: bytes, format: str) -> None:
    """Cut, overwritten and doubled bytes: an instance or InvalidInstance, nothing else."""
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(400):
        cut, at = (int(place) for place in rng.integers(0, len(raw), 2))
        mutants = (
            raw[:cut],
            raw[:at] + bytes([int(rng.integers(0, 256))]) + raw[at + 1 :],
            raw[:at] + raw[min(at, cut) :],
        )
        for mutant in mutants:
            try:
                instance = read_text(mutant, format)
            except InvalidInstance as error:
                assert error.problems
                refused += 1
            else:
                assert kind_of(instance).name == "multiple_choice_knapsack"
    assert refused > 100


@pytest.mark.parametrize(
    ("file_name", "format"),
    [
        ("mknap1.txt", "orlib-mknap"),
        ("MKNAPCB4", "orlib-mknap"),
        ("mmkp_b_01.txt", "mmkp"),
        ("I07.txt", "mmkp"),
        ("gap.json", None),
    ],
)
def test_the_format_is_guessed_from_the_file_name(file_name: str, format: str | None) -> None:
    assert guess_format(f"some/folder/{file_name}") == format


def test_every_reader_loads() -> None:
    for name, reader in FORMATS.items():
        assert reader.name == name and reader.description and callable(reader.load())


def test_all_seven_problems_of_mknap1_have_their_sizes(data: Path) -> None:
    raw = (data / "or/mkp/mknap1.txt").read_bytes()
    sizes = [
        (len(problem.jobs), len(problem.capacities))
        for problem in (knapsack(raw, "orlib-mknap", k) for k in range(7))
    ]
    assert sizes == [(6, 10), (10, 10), (15, 10), (20, 10), (28, 10), (39, 5), (50, 5)]
    assert "the file holds 7 problems" in message(raw, "orlib-mknap", 7)
    first = knapsack(raw, "orlib-mknap", 0)
    assert [job.options[0].value for job in first.jobs] == [100, 600, 1200, 2400, 500, 2000]
    last_item = {"c0": 41, "c1": 41, "c2": 4, "c3": 12, "c4": 20, "c5": 20, "c8": 4, "c9": 4}
    assert first.jobs[5].options[0].uses == last_item


def test_the_optima_of_mknap1_are_the_published_ones(data: Path) -> None:
    """A general MIP solver, straight from the instance, finds the values in the file's headers."""
    raw = (data / "or/mkp/mknap1.txt").read_bytes()
    optima = [optimum(knapsack(raw, "orlib-mknap", problem), whole=True) for problem in range(7)]
    assert optima == pytest.approx([3800, 8706.1, 4015, 6120, 12400, 10618, 16537])


@pytest.mark.parametrize(("file_name", "rows"), [("mknapcb1.txt", 5), ("mknapcb4.txt", 10)])
def test_chu_and_beasleys_problems_have_their_published_relaxations(
    data: Path, file_name: str, rows: int
) -> None:
    """The LP values of OR-Library's mkcbres.txt, to their printed digits; the best known values are below."""
    raw = (data / "or/mkp" / file_name).read_bytes()
    with (data / "or/mkp/best_known.txt").open() as text:
        stated = [float(line.split()[1]) for line in text if line.startswith(f"{rows}.100-")]
    assert len(stated) == 60
    for problem in (0, 9, 10, 29):
        instance = knapsack(raw, "orlib-mknap", problem)
        assert (len(instance.jobs), len(instance.capacities)) == (100, rows)
        assert optimum(instance, whole=False) == pytest.approx(stated[30 + problem], rel=1e-9)
        assert stated[problem] < stated[30 + problem]


def test_the_mmkp_files_have_their_stated_sizes_and_relaxations(data: Path) -> None:
    """Both layouts: sizes and LP bounds as stated beside the files, computed by another reader."""
    with (data / "or/mmkp/bounds.csv").open() as text:
        rows = list(csv.DictReader(text))
    assert len(rows) >= 8
    for row in rows:
        instance = knapsack((data / "or/mmkp" / row["instance"]).read_bytes(), "mmkp")
        assert len(instance.jobs) == int(row["groups"]) and len(instance.capacities) == int(row["resources"])
        assert sum(len(job.options) for job in instance.jobs) == int(row["items"])
        assert optimum(instance, whole=False) == pytest.approx(float(row["lp_upper_bound"]), abs=1e-3)

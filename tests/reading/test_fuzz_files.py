"""Damaged files: one clear message and exit code 3, or a right answer; never a traceback, never a wrong one.

The answers are judged here by a second reading of the file with the standard library and by slow, obvious
searches that share nothing with the package.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from apportion.cli.main import main as group
from apportion.cli.solve_instance import main as solve
from apportion.instances import (
    GapFillingInstance,
    GapFillingJob,
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
    ScalingCurve,
)
from tests.cli.calling import Called, call
from tests.fuzzing import mutated

GAP = GapFillingInstance(
    schema_version="1",
    name="fuzzed",
    horizon_s=30.0,
    nodes=tuple(f"n{i}" for i in range(9)),
    jobs=tuple(
        GapFillingJob(
            id=f"j{i}",
            min_nodes=1 + i % 2,
            max_nodes=4 + i,
            scaling=ScalingCurve(
                nodes=(0, 1, 2, 4, 8), rate=(0.0, 5.0 + i, 9.0 + i, 15.5 + 2 * i, 20.25 + 3 * i)
            ),
            rescale_up_s=18.0,
            rescale_down_s=12.5,
            current_nodes=(f"n{2 * i}", f"n{2 * i + 1}"),
            weight=1.0 + i / 2,
            **({"pinned_count": 2} if i == 3 else {"forbidden_counts": (3,)} if i == 1 else {}),
        )
        for i in range(4)
    ),
)
MENU = MultipleChoiceKnapsackInstance(
    schema_version="1",
    name="fuzzed",
    sense="maximize",
    capacities={"v100": 7, "a100": 5},
    jobs=tuple(
        KnapsackJob(
            id=f"j{i}",
            required=i % 2 == 0,
            options=tuple(
                KnapsackOption(id=f"o{k}", value=1.5 * k + i, uses={"v100": k} | ({"a100": i} if i else {}))
                for k in range(1, 4)
            ),
            current="o1" if i == 1 else None,
            forbidden=("o3",) if i == 2 else (),
        )
        for i in range(4)
    ),
)
FILES = {"gap_filling": msgspec.json.encode(GAP), "multiple_choice_knapsack": msgspec.json.encode(MENU)}


@pytest.mark.parametrize("kind", sorted(FILES))
def test_the_undamaged_files_are_solved(kind: str) -> None:
    done = call(solve, "-", "--json", stdin=FILES[kind])
    assert done.code == 0
    judge(FILES[kind], done)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", sorted(FILES))
@pytest.mark.parametrize("block", range(10))
def test_damaged_instances_are_refused_or_answered_rightly(kind: str, block: int) -> None:
    answered = 0
    for seed in range(30 * block, 30 * block + 30):
        raw = mutated(FILES[kind], seed)
        done = call(solve, "-", "--json", stdin=raw)
        told = f"seed {seed}: {done.code} {done.err[:300]}"
        assert "Traceback" not in done.err and "internal error" not in done.err, told
        if done.code == 3:
            assert done.out == "" and done.err.strip(), told
            assert refused_rightly(raw), told
        else:
            assert done.code in (0, 4), told
            judge(raw, done)
            answered += 1
    assert answered < 30


def test_validate_agrees_with_solve(tmp_path: Path) -> None:
    for seed in range(100):
        raw = mutated(FILES["gap_filling"], seed)
        checked = call(group, "validate", "-", "--json", stdin=raw)
        told = json.loads(checked.out)
        assert (checked.code == 0) is told["valid"]
        assert told["valid"] is (call(solve, "-", "-o", tmp_path / "out.json", stdin=raw).code != 3)
        assert told["valid"] or all(problem["path"] and problem["message"] for problem in told["problems"])


def test_damaged_results_are_never_verified(tmp_path: Path) -> None:
    path, result = tmp_path / "instance.json", tmp_path / "result.json"
    path.write_bytes(FILES["gap_filling"])
    call(solve, path, "-o", result)
    stored = result.read_bytes().strip()
    for seed in range(150):
        raw = mutated(stored, seed)
        done = call(group, "check", path, "-", stdin=raw)
        assert "Traceback" not in done.err and "internal error" not in done.err, (seed, done.err)
        if done.code != 3:
            assert done.code == 0 and canonical(json.loads(raw)) == canonical(json.loads(stored)), seed


def test_damaged_warm_starts_cost_nothing(tmp_path: Path) -> None:
    path, start = tmp_path / "instance.json", tmp_path / "start.json"
    path.write_bytes(FILES["gap_filling"])
    best = json.loads(call(solve, path, "-o", "-").out)
    for seed in range(60):
        start.write_bytes(mutated(json.dumps(best["plan"] if seed % 2 else best).encode(), seed))
        done = call(solve, path, "--json", "--warm-start", start)
        assert "Traceback" not in done.err and "internal error" not in done.err, (seed, done.err)
        assert done.code in (0, 3), (seed, done.err)
        if done.code == 0:
            assert json.loads(done.out)["objective"] == best["objective"]


def refused_rightly(raw: bytes) -> bool:
    """Whether a file differs from the valid ones: by a repeated key, or once it is read."""
    repeated: list[bool] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated.append(len(dict(pairs)) < len(pairs))
        return dict(pairs)

    try:
        tree = json.loads(raw.decode(), object_pairs_hook=note)
    except (ValueError, RecursionError):
        return True
    return any(repeated) or canonical(tree) not in {canonical(json.loads(valid)) for valid in FILES.values()}


def canonical(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True)


def judge(raw: bytes, done: Called) -> None:
    """Check an answer against the file it answers."""
    instance, told = json.loads(raw), json.loads(done.out)
    plan, objective = told["plan"], told["objective"]
    best = (best_allocation if instance["kind"] == "gap_filling" else best_choice)(instance)
    if done.code == 4:
        assert best is None and plan is None
        return
    value = (allocation_value if instance["kind"] == "gap_filling" else choice_value)(instance, plan)
    scale = max(1.0, abs(value), magnitude(instance))
    assert math.isclose(objective, value, rel_tol=1e-9, abs_tol=1e-12 * scale)
    assert best is not None
    # Beside a value 1e6 times the others the proof may stay a hair open; then it must not be called optimal.
    exact = told["termination"] == "optimal"
    assert exact or (told["termination"] == "gap_reached" and told["gap"] <= 1e-6)
    assert math.isclose(objective, best, rel_tol=1e-9 if exact else 1e-6, abs_tol=1e-12 * scale)


def magnitude(tree: Any) -> float:
    """Return the scale of the terms that may cancel in an objective."""
    if tree["kind"] == "gap_filling":
        return sum(
            job.get("weight", 1.0)
            * max(job["scaling"]["rate"])
            * max(tree["horizon_s"], job["rescale_up_s"], job["rescale_down_s"])
            for job in tree["jobs"]
        )
    return sum(max((abs(option["value"]) for option in job["options"]), default=0) for job in tree["jobs"])


def rate(job: dict[str, Any], count: int) -> Fraction:
    nodes, rates = job["scaling"]["nodes"], [Fraction(value) for value in job["scaling"]["rate"]]
    for i in range(1, len(nodes)):
        if count <= nodes[i]:
            return rates[i - 1] + (rates[i] - rates[i - 1]) * (count - nodes[i - 1]) / (
                nodes[i] - nodes[i - 1]
            )
    return rates[0]


def nodes_now(instance: dict[str, Any], job: dict[str, Any]) -> set[str]:
    """Return what a job has now; nodes that are not idle any more are lost."""
    return set(job.get("current_nodes", [])) & set(instance["nodes"])


def count_value(instance: dict[str, Any], job: dict[str, Any], count: int) -> Fraction:
    held = len(nodes_now(instance, job))
    now = rate(job, held) if held >= job["min_nodes"] else Fraction(0)
    pause = job["rescale_up_s"] if count > held else job["rescale_down_s"] if count < held else 0
    gain = Fraction(instance["horizon_s"]) * rate(job, count) - now * Fraction(pause)
    return Fraction(job.get("weight", 1.0)) * gain


def allowed_counts(instance: dict[str, Any], job: dict[str, Any]) -> list[int]:
    most = min(job["max_nodes"], len(instance["nodes"]))
    counts = [0, *range(job["min_nodes"], most + 1)]
    pinned = job.get("pinned_count")
    return [
        count
        for count in counts
        if (pinned is None or count == pinned) and count not in job.get("forbidden_counts", [])
    ]


def allocation_value(instance: dict[str, Any], plan: dict[str, Any]) -> Fraction:
    assert set(plan) == {"allocation"}
    allocation = plan["allocation"]
    assert set(allocation) <= {job["id"] for job in instance["jobs"]}
    used = [node for nodes in allocation.values() for node in nodes]
    assert len(set(used)) == len(used) and set(used) <= set(instance["nodes"])
    total = Fraction(0)
    for job in instance["jobs"]:
        nodes, held = set(allocation.get(job["id"], [])), nodes_now(instance, job)
        assert len(nodes) in allowed_counts(instance, job)
        assert nodes >= held if len(nodes) >= len(held) else nodes <= held
        total += count_value(instance, job, len(nodes))
    return total


def best_allocation(instance: dict[str, Any]) -> Fraction | None:
    best: list[Fraction | None] = [Fraction(0)] + [None] * len(instance["nodes"])
    for job in instance["jobs"]:
        values = {count: count_value(instance, job, count) for count in allowed_counts(instance, job)}
        best = [
            max(
                (
                    before + value
                    for count, value in values.items()
                    if count <= room and (before := best[room - count]) is not None
                ),
                default=None,
            )
            for room in range(len(best))
        ]
    return max((value for value in best if value is not None), default=None)


def menu(job: dict[str, Any]) -> list[dict[str, Any] | None]:
    options = [
        option
        for option in job["options"]
        if option["id"] not in job.get("forbidden", []) and job.get("pinned") in (None, option["id"])
    ]
    free = not job.get("required", True) and job.get("pinned") is None
    return [*options, None] if free else options


def choice_value(instance: dict[str, Any], plan: dict[str, Any]) -> Fraction:
    assert set(plan) == {"choice"}
    assert set(plan["choice"]) <= {job["id"] for job in instance["jobs"]}
    chosen = []
    for job in instance["jobs"]:
        name = plan["choice"].get(job["id"])
        option = next((option for option in job["options"] if option["id"] == name), None)
        assert (option is None) is (name is None)
        assert option in menu(job)
        chosen.append(option)
    assert fits(instance, chosen)
    return sum((Fraction(option["value"]) for option in chosen if option), Fraction(0))


def fits(instance: dict[str, Any], chosen: list[dict[str, Any] | None]) -> bool:
    return all(
        sum(option["uses"].get(name, 0) for option in chosen if option) <= capacity
        for name, capacity in instance["capacities"].items()
    )


def best_choice(instance: dict[str, Any]) -> Fraction | None:
    values = [
        sum((Fraction(option["value"]) for option in chosen if option), Fraction(0))
        for chosen in map(list, product(*map(menu, instance["jobs"])))
        if fits(instance, chosen)
    ]
    if not values:
        return None
    return max(values) if instance["sense"] == "maximize" else min(values)


FOREIGN = {
    "orlib-mknap": b"2\n3 2 9\n5 4 3\n1 2 3\n3 2 1\n4 4\n2 1 0\n5 6\n1.5 2\n2\n",
    "mmkp": b"2 2\n5 6\n2\n3 1 2\n4 2 2\n2\n1 1 1\n9 4 4\n",
}


@pytest.mark.parametrize("format", sorted(FOREIGN))
def test_damaged_foreign_files_are_refused_or_answered_rightly(format: str) -> None:
    codes = set()
    for seed in range(150):
        raw = mutated(FOREIGN[format], seed)
        done = call(group, "convert", "-", "--format", format, stdin=raw)
        codes.add(done.code)
        assert "Traceback" not in done.err and "internal error" not in done.err, (seed, done.err)
        assert done.code in (0, 3), (seed, done.err)
        if done.code == 0 and len(raw) < 200:
            solved = call(solve, "-", "--json", stdin=done.out.encode())
            assert solved.code in (0, 4), (seed, solved.err)
            judge(done.out.encode(), solved)
    assert codes == {0, 3}

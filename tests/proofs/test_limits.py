"""Where a check gives up: at the states, numbers, steps and seconds of the page, and not at one less."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import apportion
from apportion import Assignment
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.models import MultipleChoiceKnapsack
from apportion.proofs import Claim, Proof, Verdict, certificate, reducing, verify, verifying, walking
from apportion.proofs.bare_models import columns
from apportion.proofs.certificate import MalformedProof, decode, encode, instance_digest
from apportion.proofs.integer_menus import integer_menus
from apportion.proofs.reducing import OverBudget
from apportion.proofs.relaxed_rows import LARGEST_TABLES, cells
from apportion.proofs.verifying import Limits, accepted
from apportion.solving import evidence

Case = tuple[Any, Proof]


def menus(seed: int, capacities: int, scale: int = 1, jobs: int = 12) -> Case:
    """Return jobs of three options each, and the claim of their optimum at one vector of equal prices."""
    rng = np.random.default_rng(seed)
    uses, values = rng.integers(0, 9, (3 * jobs, capacities)), rng.integers(1, 30, 3 * jobs) * scale
    rooms = [2 * jobs + 2 * k for k in range(capacities)]
    model = MultipleChoiceKnapsack.from_arrays(values, uses, range(0, 3 * jobs + 1, 3), rooms, required=False)
    return model, claimed(model, prices=((scale if capacities > 1 else 0,) * capacities,))


def costs() -> Case:
    """Return jobs on machines of which each has room for a few, and rows of the jobs beside the claim."""
    rng = np.random.default_rng(1)
    uses = 2 * rng.integers(2, 7, (11, 3))  # counted in twos
    model = Assignment.from_matrix("cost", rng.integers(3, 20, (11, 3)), uses=uses, capacities=31)
    return model, claimed(model, rows=((-1, 0, -2, 0) * 2 + (-1, 0, -2),))


def claimed(model: Any, **vectors: Any) -> Proof:
    best = apportion.solve(model, deterministic=True)
    assert best.termination == "optimal" and best.objective is not None
    return Proof(
        instance_digest(model), Claim("no_better_plan", best.objective), 0, **{"prices": (), **vectors}
    )


CASES: dict[str, Callable[[], Case]] = {
    "one capacity": lambda: menus(3, 1, jobs=20),
    "several capacities": lambda: menus(22, 3),
    "totals beyond 64 bits": lambda: menus(2, 2, scale=1 << 56, jobs=8),
    "one capacity beyond 64 bits": lambda: menus(5, 1, scale=1 << 56, jobs=14),
    "rows of jobs": costs,
}
case = cache(lambda name: CASES[name]())


def least(ends: Callable[[int], Verdict]) -> int:
    """Return the least limit under which a check ends by itself."""
    low, high = -1, 1
    while ends(high).status == "incomplete":
        low, high = high, 4 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ends(middle).status == "incomplete" else (low, middle)
    return high


# states, numbers kept and steps that each check takes: a later version may take less, never more
ENDS = {
    "one capacity": (184, 14, 929),
    "several capacities": (850, 475, 14_440),
    "totals beyond 64 bits": (154, 572, 100_480),
    "one capacity beyond 64 bits": (437, 990, 127_360),
    "rows of jobs": (123, 392, 135_256),
}


@pytest.mark.parametrize("name", CASES)
def test_a_check_ends_at_its_limits_and_not_one_before(name: str) -> None:
    model, proof = case(name)
    for at, field in enumerate(("states", "kept", "steps")):
        enough = least(lambda most: verify(model, proof, Limits(**{field: most})))  # noqa: B023
        assert enough == ENDS[name][at], field
        ended = verify(model, proof, Limits(**{field: enough}))
        # where too many numbers would be kept, the options of the first job may be looked at one by one
        assert ended.proved and (ended.states == ENDS[name][0] or field == "kept")
        short = verify(model, proof, Limits(**{field: enough - 1}))
        said = f"more than {enough - 1} {'numbers kept' if field == 'kept' else field}"
        assert short.status == "incomplete" and short.why.startswith(said), short


@pytest.mark.parametrize("name", CASES)
def test_a_claim_that_a_plan_beats_by_one_is_refused_by_that_plan(name: str) -> None:
    model, proof = case(name)
    bound = proof.claim.bound or 0.0
    stronger = np.nextafter(bound, -np.inf) if bound > 1e12 else bound - 1
    if isinstance(model, Assignment):
        stronger = bound + 1
    said = verify(model, replace(proof, claim=Claim("no_better_plan", float(stronger))))
    assert said.status == "refused" and "a choice exceeds the threshold by" in said.why and said.states > 0
    assert bound > 1e12 or said.why.endswith("by 1 units")


@pytest.mark.parametrize("seed", range(12))
def test_walks_end_alike_in_parts_of_any_size(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that close leave the others to be walked, whatever their number and size."""
    model, proof = menus(seed, 1 + seed % 3, jobs=9)
    beaten = replace(proof, claim=Claim("no_better_plan", (proof.claim.bound or 0.0) - 1))
    monkeypatch.setattr(walking, "walk_one", lambda *_: None)
    assert verify(model, proof).proved and verify(model, beaten).status == "refused"
    for name, value in (("_CHUNK", 3 + seed), ("_CELLS", 8 + seed), ("_MERGED", 2), ("_FEW", seed % 4)):
        monkeypatch.setattr(walking, name, value)
        assert verify(model, proof).proved and verify(model, beaten).status == "refused"


def test_a_limit_of_seconds_counts_all_parts_of_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brief walk, options of the first job and long walk are one check, whatever part the time goes into."""
    model, proof = case("several capacities")
    monkeypatch.setattr(verifying, "_BRIEF", 60)

    def within(seconds: float | None) -> tuple[Verdict, int]:
        ticks = count()
        monkeypatch.setattr(walking, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
        monkeypatch.setattr(verifying, "time", walking.time)  # type: ignore[attr-defined]
        return verify(model, proof, Limits(seconds=seconds)), next(ticks)

    passed = within(1e9)[1]
    assert within(None)[0].proved and within(passed)[0].proved and within(10.0 * passed)[0].proved
    enough = least(lambda seconds: within(seconds)[0])
    # the last looks at the clock are at levels that close, behind which nothing is asked any more
    assert passed - 3 <= enough <= passed
    short, _ = within(enough - 1)
    assert short.status == "incomplete" and "seconds" in short.why
    assert within(0.0)[0].status == "incomplete"


def test_what_may_be_looked_at_by_options_of_the_first_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where a brief walk has not ended, and as many states in all."""
    model, proof = case("several capacities")
    proof = replace(proof, order=(4,))  # options before its own are not counted
    found = {}
    for brief in range(0, 1200, 4):
        monkeypatch.setattr(verifying, "_BRIEF", brief)
        found[brief] = verify(model, proof)
        assert found[brief].proved
    by_options = {brief: said for brief, said in found.items() if said.why.startswith("the options of a job")}
    whole = {brief for brief, said in found.items() if said.why == "864 states closed"}
    assert by_options and {*found} == {*by_options} | whole and {*range(864, 1200, 4)} <= whole
    states = 785
    assert {said.states for said in by_options.values()} == {states}
    assert states <= min(by_options) <= states + 3 and max(by_options) == 860
    brief = min(by_options)
    monkeypatch.setattr(verifying, "_BRIEF", brief)
    assert verify(model, proof, Limits(states=brief)).status == "incomplete", "nothing is begun anew then"
    assert verify(model, proof, Limits(states=brief + 1)).proved
    refused = verify(model, replace(proof, claim=Claim("no_better_plan", (proof.claim.bound or 0.0) - 1)))
    assert refused.status == "refused" and refused.states > 0


def test_the_options_of_the_first_job_are_granted_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model, proof = case("several capacities")
    first = 4
    proof = replace(proof, order=(first,))
    root = verifying.rooted(verifying.stated(columns(model), proof), proof.prices)
    monkeypatch.setattr(verifying, "_BRIEF", 800)
    options, numbers = int(np.diff(root.menus.offsets)[first]), root.menus.uses.size * 2
    steps = options * numbers
    monkeypatch.setattr(verifying, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setattr(walking, "time", verifying.time)  # type: ignore[attr-defined]
    for granted, seconds, begun in (
        (steps, None, True),
        (steps - 1, None, False),
        (steps, (steps + 0.5) / 1e9, True),
        (steps, (steps - 0.5) / 1e9, False),
        (10 * steps, 1.0, True),
        (steps - 1, 1.0, False),
    ):
        monkeypatch.setattr(verifying, "_BRIEF_STEPS", granted)
        said = verify(model, proof, Limits(seconds=seconds))
        assert said.proved and said.why.startswith("the options of a job") is begun, (granted, seconds)


@pytest.mark.parametrize("name", ["several capacities", "totals beyond 64 bits"])
def test_sizes_are_looked_at_before_anything_is_calculated(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, proof = case(name)
    menus = verifying.stated(columns(model), proof)
    size = menus.worths.size * (1 + 1 + len(menus.capacities))
    monkeypatch.setattr(verifying, "LARGEST_LOSSES", size)
    assert verify(model, proof).proved
    monkeypatch.setattr(verifying, "LARGEST_LOSSES", size - 1)
    said = verify(model, proof)
    assert (said.status, said.why) == ("incomplete", f"more than {size - 1} losses and uses")
    monkeypatch.undo()
    losses = verifying.rooted(menus, proof.prices).losses
    long = losses.dtype == object
    monkeypatch.setattr(verifying, "_LARGEST_LONG", losses.size)
    assert long is (name == "totals beyond 64 bits") and verify(model, proof).proved
    monkeypatch.setattr(verifying, "_LARGEST_LONG", losses.size - 1)
    said = verify(model, proof)
    assert said.proved is not long and ("beyond 64 bits" in said.why) is long
    monkeypatch.setattr(verifying, "_LARGEST_LONG", 0)
    easy = Claim("no_better_plan", 1e30)
    assert verify(model, replace(proof, claim=easy)).proved, "nothing is left to walk"


def test_a_draft_is_walked_by_the_columns_given_and_named_once_it_holds() -> None:
    model, proof = case("several capacities")
    draft = replace(proof, instance="")
    named, verdict = accepted(model, draft, Limits())
    assert verdict.proved and named == proof
    least_room = replace(model, capacities=np.zeros_like(model.capacities))
    bound = apportion.solve(least_room, deterministic=True).objective
    smaller = replace(draft, claim=Claim("no_better_plan", float(bound or 0.0)))
    assert accepted(model, smaller, Limits())[1].status == "refused"
    assert accepted(model, smaller, Limits(), columns(least_room))[1].proved
    kept, verdict = accepted(model, smaller, Limits())
    assert kept is smaller and kept.instance == "" and verdict.status == "refused"


CLAIM = "claim must be no_better_plan with a finite bound, or infeasible with none"


def test_what_a_verdict_says_before_anything_is_walked() -> None:
    model, proof = case("several capacities")
    for wrong, why in (
        (replace(proof, instance="0" * 64), "the proof is about another instance: the digests differ"),
        (replace(proof, order=(12,)), "the order names job 12 of 12"),
        (replace(proof, prices=((1, 1),)), "a price vector has not 3 prices"),
        (replace(proof, rows=((1,) * 11,)), "a vector of rows has not 12 numbers"),
        (replace(proof, instance=5), "instance must be a digest"),
        (replace(proof, claim=Claim("optimal", None)), CLAIM),
        (replace(proof, claim=Claim("infeasible", 1.0)), CLAIM),
        (replace(proof, cuts=({1: 2, "capacity": 0},)), "cuts must be objects"),
        (
            replace(proof, order=((1 << 40),)),
            "order must be a list of whole numbers from 0 to 2**40: positions",
        ),
        (replace(proof, shift=1.5), "shift must be a whole number from -1200 to 1200"),
    ):
        said = verify(model, wrong)
        assert (said.status, said.why, said.states) == ("refused", why, 0)
    jobs = tuple(MatchingJob(f"j{at}", {"a": MatchingEntry(time_s=2.0 + 2 * at)}) for at in range(2))
    machines = (MatchingMachine("a"),)
    shares = MatchingInstance("1", objective="makespan", machines=machines, jobs=jobs, divisible=True)
    holds = Proof(instance_digest(shares), Claim("no_better_plan", 6.0), 0, ((1, 0, 0),))
    assert verify(shares, holds).why == "the prices show it"
    said = verify(shares, replace(holds, claim=Claim("no_better_plan", 6.5)))
    assert (said.status, said.why) == ("refused", "no price vector shows that nothing ends before 6.5")
    alone = replace(holds, prices=(), claim=Claim("no_better_plan", 4.0))  # what the second takes by itself
    assert verify(shares, alone).proved
    assert not verify(shares, replace(alone, claim=Claim("no_better_plan", 4.5))).proved


def test_the_page_says_the_limits() -> None:
    page = (Path(__file__).parents[2] / "docs" / "certificate.md").read_text(encoding="utf-8")
    words = re.sub(r"\s+", " ", page)
    given = Limits()
    for said, number in (
        (r"after (\d+) million states", given.states / 1e6),
        (r"(\d+) billion steps", given.steps / 1e9),
        (r"or (\d+) million numbers kept", given.kept / 1e6),
        (r"beyond (\d+) million numbers in the tables of rows", LARGEST_TABLES / 1e6),
        (r"(\d+) million losses and uses at the root", verifying.LARGEST_LOSSES / 1e6),
        (r"or beyond (\d+),000 of them where totals leave 64 bits", verifying._LARGEST_LONG / 1e3),
        (r"not ended after (\d+),000 states", verifying._BRIEF / 1e3),
        (r"would take more than (\d+) billion steps", verifying._BRIEF_STEPS / 1e9),
    ):
        found = re.findall(said, words)
        assert found and float(found[0]) == number, said
    assert given.seconds is None


@pytest.mark.parametrize("dtype", [np.int64, object])
@pytest.mark.parametrize("seed", range(6))
def test_totals_are_bounded_before_64_bits_are_trusted(
    seed: int, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By four times what jobs, prices and rows can add up to, and by so much exactly."""
    rng = np.random.default_rng(seed)
    sizes, width = rng.integers(1, 4, 5), int(rng.integers(1, 4))
    rows = int(sizes.sum())
    worths, uses = rng.integers(-50, 50, rows), rng.integers(0, 9, (rows, width))
    rooms = [int(room) for room in rng.integers(20, 40, width)]
    menus = integer_menus(worths.astype(dtype), uses.astype(dtype), sizes, rooms, -40 - seed)
    prices = [[int(price) for price in rng.integers(0, 99, width)] for _ in range(2)]
    numbers = [[int(number) for number in rng.integers(-99, 99, 5)] for _ in range(seed % 3)]
    jobs = np.split(np.arange(rows), np.cumsum(sizes)[:-1])
    needs = [sum(int(uses[job, at].max()) for job in jobs) for at in range(width)]
    total = sum(int(np.abs(worths[job]).max()) for job in jobs) + 40 + seed
    total += max(
        sum(price * (need + room + 1) for price, need, room in zip(vector, needs, rooms, strict=True))
        for vector in prices
    )
    total += max([*needs, *rooms]) + 5 + 1
    if numbers:
        of_jobs = [
            sum(abs(one) * (len(job) + 1) for one, job in zip(row, jobs, strict=True)) for row in numbers
        ]
        total += int(np.abs(worths).sum()) + max(of_jobs)
    for most, kind in ((4 * total, object), (4 * total + 1, np.int64)):
        monkeypatch.setattr(reducing, "LARGEST_TOTAL", float(most))
        assert reducing.rooted(menus, prices, numbers).menus.worths.dtype == kind
    with pytest.raises(OverBudget, match="more than 1 steps"):
        reducing.rooted(menus, prices, numbers, reducing.Budget(Limits(steps=1)))


def test_what_a_file_may_be_is_looked_at_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its length, as it is and unpacked, and the memory that its text takes: at the limit it is read."""
    proof = replace(
        case("several capacities")[1], prices=tuple((1 << at, 3**at, 7) for at in range(200, 264))
    )
    text = gzip.decompress(encode(proof))
    packed = gzip.compress(text)
    marks = {b",": 48, b"[": 80, b"{": 240, b'"': 40}
    taken = len(text) + sum(each * text.count(mark) for mark, each in marks.items())
    ratio = -(-len(text) // len(packed))
    for name, data, enough, why in (
        ("LARGEST_DOCUMENT", text, len(text), "it is longer than"),
        ("LARGEST_DOCUMENT", packed, len(text), "unpacked it is longer than"),
        ("LARGEST_RATIO", packed, ratio, "unpacked it is longer than"),
        ("LARGEST_MEMORY", text, taken, f"read it would take {taken} bytes of memory"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(certificate, "SMALL_DOCUMENT", 0)
            patched.setattr(certificate, name, enough)
            assert decode(data) == proof
            patched.setattr(certificate, name, enough - 1)
            with pytest.raises(MalformedProof, match=why):
                decode(data)
    assert str(proof.claim) == f"no plan is better than {proof.claim.bound!r}"
    assert str(Claim("infeasible", None)) == "there is no plan"
    for changed, why in (
        (text.replace(b'"order":[]', b'"order":[],"order":[]'), "a key stands twice"),
        (text.replace(b'"order":[]', b'"order":{}'), "order must be a list"),
    ):
        with pytest.raises(MalformedProof, match=why):
            decode(changed)
    lists = replace(proof, prices=((1,),))
    with pytest.raises(MalformedProof, match="prices must be a list of lists"):
        decode(gzip.decompress(encode(lists)).replace(b"[[1]]", b'["1"]'))


@pytest.mark.parametrize("seed", range(8))
def test_many_states_are_cut_by_the_prices_that_are_lowest_there(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All prices asked of every state say the same, and so does every plan there is."""
    rng = np.random.default_rng(seed)
    slopes = np.append(0, rng.integers(0, 12, 1 + seed))
    heights = np.append(0, rng.integers(-60, 40, 1 + seed))
    left = np.arange(25, -1, -1)
    for slack in rng.integers(0, 60, (20, left.size)):
        plainly = (slack[:, None] + left[:, None] * slopes + heights >= 0).all(axis=1)
        assert np.array_equal(walking._above(left, slack, slopes, heights), plainly)
        with monkeypatch.context() as patched:
            patched.setattr(walking, "_ALL_LINES", 0)
            assert np.array_equal(walking._above(left, slack, slopes, heights), plainly)


def test_tables_of_rows_are_made_up_to_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    model, proof = case("rows of jobs")
    root = reducing.rooted(verifying.stated(columns(model), proof), (), proof.rows * 2)
    numbers = 2 * cells(root.menus)
    order = np.arange(root.jobs.size)
    monkeypatch.setattr(walking, "LARGEST_TABLES", numbers)
    assert walking.walk(root, order, Limits()).status == "proved"
    monkeypatch.setattr(walking, "LARGEST_TABLES", numbers - 1)
    walked = walking.walk(root, order, Limits())
    assert (walked.status, walked.states) == ("incomplete", 0)
    assert walked.why == f"more than {numbers - 1} numbers in the tables of rows"


def test_options_are_dropped_by_rows_whose_tables_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(24)
    uses, values = rng.integers(2, 7, (8, 3)), rng.integers(3, 20, (8, 3))
    model = Assignment.from_matrix("cost", values, uses=uses, capacities=14)
    proof = claimed(model, rows=(tuple(int(-number) for number in rng.integers(2, 12, 8)),) * 2)
    stated = verifying.stated(columns(model), proof)
    without = reducing.rooted(stated, ())
    numbers = 2 * cells(without.menus)
    monkeypatch.setattr(reducing, "LARGEST_TABLES", numbers)
    assert reducing.rooted(stated, (), proof.rows).closed == "job 3 has no option left"
    monkeypatch.setattr(reducing, "LARGEST_TABLES", numbers - 1)
    left = reducing.rooted(stated, (), proof.rows)
    assert not left.closed and left.menus.worths.size == without.menus.worths.size == 10


def test_rows_whose_tables_no_check_makes_are_not_proposed() -> None:
    """A proof of these five jobs was looked for by a table of two terabytes, and the plan was lost by it."""
    large = 272_989_625_490
    beyond = [5, 1, 4, 4, 1, 3, 2, 3, 3, 2 - large, 0, 1 - large, 8]
    values = [999999999999.125, -0.875, -1.0, -0.125, 1000000000000.875, -1000000000000.75, 999999999999.25]
    values += [1.0, -999999999999.375, -0.125, -0.125, 999999999999.125, -1000000000000.875]
    model = Assignment.from_arrays(
        "cost",
        values,
        [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 2],
        [0, 3, 6, 9, 12, 13],
        3,
        uses=[large + more for more in beyond],
        capacities=[545979250989, 1091958501965, 1091958501979],
        required=False,
    )
    solution = apportion.solve(model, proof=True, deterministic=True)
    assert solution.termination == "optimal" and solution.proof is not None
    assert verify(model, solution.proof).proved


def test_memory_that_runs_out_over_a_proof_leaves_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(evidence, "_first_accepted", run_out)
    model, proof = case("several capacities")
    solution = apportion.solve(model, proof=True, deterministic=True)
    assert solution.termination == "optimal" and solution.objective == proof.claim.bound
    assert solution.proof is None and "no proof was found: memory ran out" in solution.notes


@pytest.mark.parametrize("capacities", [0, 2])
@pytest.mark.parametrize("dtype", [np.int64, object])
def test_what_is_left_of_nothing_is_decided(capacities: int, dtype: type) -> None:
    """No job, or jobs of one option each: a walk has only its leaf, or none where that is not worth it."""
    for sizes in ([], [1, 1, 1]):
        uses = np.ones((len(sizes), capacities), dtype=dtype)
        for threshold, status in ((-1 + 4 * len(sizes), "refused"), (4 * len(sizes), "proved")):
            worths = np.full(len(sizes), 4, dtype=dtype)
            root = reducing.rooted(
                integer_menus(worths, uses, sizes, [5] * capacities, threshold), [[1] * capacities]
            )
            walked = walking.walk(root, np.arange(root.jobs.size), Limits())
            assert (walked.status, root.jobs.size) == (status, 0)


def test_numbers_beyond_64_bits_count_by_the_largest_there_can_be() -> None:
    for power in range(0, 240, 2):
        for worth, price, use in ((1 << power, 0, 3), (1 << 70, 1 << power, 3), (5, 1 << 80, 1 << power)):
            worths = np.array([worth, 1, 2, -7], dtype=object)
            uses = np.array([[use, 1], [0, 0], [1, 0], [0, 0]], dtype=object)
            menus = integer_menus(worths, uses, [2, 2], [4 * use, 9], -(1 << 90))
            row = 1 << (power // 2)
            root = reducing.rooted(menus, [[price, 1]], [[row, -2]])
            used = max(4 * use, 9) + 1
            largest = max(worth, 7) + (1 << 90) + max(price, 1) * used * 3 + max(row, 2)
            bits = (largest * (4 + 2 + 1)).bit_length()
            assert root.each == 32 + 4 * (1 + bits // 30)


@pytest.mark.parametrize("power", [89, 119, 149])
def test_numbers_beyond_64_bits_take_four_bytes_more_from_a_power_of_two_on(power: int) -> None:
    worths = np.array([1 << 70, 1, 2, -7], dtype=object)
    uses = np.array([[3, 1], [0, 0], [1, 0], [0, 0]], dtype=object)
    others = (1 << 70) + (1 << 40) * (12 + 1) * 3 + 5
    for more in (0, 1):
        threshold = ((1 << power) - 1) // (4 + 2 + 1) - others + more
        menus = integer_menus(worths, uses, [2, 2], [12, 9], -threshold)
        root = reducing.rooted(menus, [[1 << 40, 1]], [[5, -2]])
        assert root.each == 32 + 4 * (1 + power // 30 + more)


def test_slack_falls_to_what_losses_add_up_to() -> None:
    """Losses of 4 and 6 add up to even numbers: of a slack of 9 a choice can use 8."""
    uses = np.array([[0], [3], [0], [3]])
    for threshold, slack in ((11, 10), (12, 8), (13, 8), (14, 6), (15, 6)):
        root = reducing.rooted(integer_menus(np.array([5, 9, 7, 13]), uses, [2, 2], [7], threshold), ())
        assert (root.losses.tolist(), root.slack.tolist()) == ([[4, 0, 6, 0]], [slack])

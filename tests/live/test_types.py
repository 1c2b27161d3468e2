"""Nodes of several types in one partition: who runs where, what is learnt, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest

from apportion.cli.main import main
from apportion.core.errors import InvalidInstance
from apportion.live.channel.messages import Progress
from apportion.live.controller.actions import Idle, Observation, Why
from apportion.live.controller.advisor import LiveAdvisor
from apportion.live.controller.core import Limits
from apportion.live.controller.deciding import Decision, decide
from apportion.live.controller.harvest import make_policy
from apportion.live.controller.placing import TypedJobs, choose_types
from apportion.live.offers import NodeOffer, Size, misfit
from apportion.live.record.jobs import Job, JobSpec, JobState, Point
from apportion.live.record.requests import waiting
from apportion.live.record.state import Hold, Pilot, State
from apportion.live.record.store import Store
from tests.cli.calling import call

LIMITS = Limits(warm_up_s=1.0, measure_s=4.0)
OFFERS = {
    "a1": NodeOffer(Size(8, 100, "a100"), 4, 8, 100),
    "v1": NodeOffer(Size(8, 100, "v100"), 4, 8, 100),
}
IDLE = ("a1",) * 4 + ("v1",) * 4


def spec(high: int = 4, low: int = 1, **curves: tuple[tuple[int, float], ...]) -> JobSpec:
    return JobSpec(("x",), low, high, "/w", "/c", curves=curves)


def linear(rate: float, most: int = 4) -> tuple[tuple[int, float], ...]:
    return tuple((count, rate * count) for count in range(1, most + 1))


def decided(
    jobs: list[Job],
    idle: tuple[str, ...] = IDLE,
    pilots: tuple[Pilot, ...] = (),
    offers: Mapping[str, NodeOffer] = OFFERS,
) -> Decision:
    state = State("0a1b2c3d")
    state.jobs = {job.number: job for job in jobs}
    state.pilots = {pilot.pilot: pilot for pilot in pilots}
    advisor = LiveAdvisor(LIMITS.warm_up_s, LIMITS.measure_s)
    advisor.recall(jobs)
    seen = Idle(idle, lambda node: 0.0, (), offers)
    policies = partial(make_policy, "freetrain", 120.0, LIMITS)
    return decide(state, seen, policies, advisor, LIMITS, 1000.0, tuple(state.pilots))


def gets(decision: Decision, job: int) -> list[str]:
    return sorted(decision.nodes[place] for place in np.flatnonzero(decision.plan.holder == job))


def some_jobs(chance: np.random.Generator) -> tuple[TypedJobs, list[int]]:
    """Return jobs of chance, some of which run on several types at once, and how many nodes there are."""
    num, types = int(chance.integers(1, 4)), int(chance.integers(2, 4))
    capacities = chance.integers(0, 4, types).tolist()
    rates = np.cumsum(chance.integers(0, 50, (num, types, 5)), axis=2).astype(float)
    rates[:, :, 0] = 0.0
    held, left = np.zeros((num, types), dtype=np.int64), list(capacities)
    for job in range(num):
        for at in chance.choice(types, int(chance.random() < 0.2) + 1, replace=False).tolist():
            held[job, at] = chance.integers(0, min(left[at], 3) + 1)
            left[at] -= int(held[job, at])
    low = chance.integers(1, 3, num)
    jobs = TypedJobs(
        *(rates, chance.random((num, types)) < 0.8, held, low, low + chance.integers(0, 3, num)),
        *(chance.uniform(0, 20, num), chance.uniform(0, 20, num)),
    )
    return jobs, capacities


def worth(jobs: TypedJobs, job: int, type: int, count: int, horizon_s: float) -> float:
    """Return what so many nodes of a type are worth to a job, one option by itself."""
    best = max(float(jobs.rates[job, jobs.allowed[job], 1].max(initial=0.0)), 1e-300)
    here, held = int(jobs.held[job, type]), int(jobs.held[job].sum())
    runs = jobs.rates[job, type, here] if jobs.low[job] <= here == held else 0.0
    if held and here != held:
        main = int(jobs.held[job].argmax())
        runs = jobs.rates[job, main, jobs.held[job, main]] if held >= jobs.low[job] else 0.0
    stall = 0.0 if here == held == count else jobs.up_s[job]
    if here == held and count < held:
        stall = jobs.down_s[job]
    return float((horizon_s * jobs.rates[job, type, count] - runs * stall) / best)


def options_of(jobs: TypedJobs, job: int, capacities: list[int]) -> list[tuple[float, int, int]]:
    """Return a job's options one after the other: what each is worth, its type and its count."""
    return [
        (0.0, -1, 0),
        *(
            (worth(jobs, job, type, count, 60.0), type, count)
            for type in np.flatnonzero(jobs.allowed[job]).tolist()
            for count in range(int(jobs.low[job]), min(int(jobs.high[job]), capacities[type]) + 1)
        ),
    ]


def test_menus_of_types_made_at_once_are_those_made_one_option_after_another() -> None:
    chance, split, stayed = np.random.default_rng(5), 0, 0
    for _ in range(300):
        jobs, capacities = some_jobs(chance)
        menus = jobs.menus(np.array(capacities), 60.0)
        for job in range(jobs.low.size):
            rows = slice(*menus.offsets[job : job + 2].tolist())
            told = [
                (value, type, int(uses.sum()))
                for value, type, uses in zip(
                    menus.values[rows].tolist(), menus.types[rows].tolist(), menus.uses[rows], strict=True
                )
            ]
            assert told == options_of(jobs, job, capacities), "to the last bit"
            pairs = zip(told[1:], menus.uses[rows][1:], strict=True)
            assert all(uses[type] == count for (_, type, count), uses in pairs)
            held = jobs.held[job]
            split += int((held > 0).sum() > 1)
            as_held = [
                row
                for row, (_, type, count) in enumerate(told, rows.start)
                if (type < 0 and not held.any()) or (type >= 0 and count == held[type] == held.sum())
            ]
            assert menus.stays[job] == (as_held[-1] if as_held else -1)
            stayed += bool(as_held)
    assert split > 20 and stayed > 100


def test_types_are_chosen_like_by_trying_everything() -> None:
    chance, busy = np.random.default_rng(3), 0
    for _ in range(60):
        jobs, capacities = some_jobs(chance)
        types = len(capacities)
        options = [options_of(jobs, job, capacities) for job in range(jobs.low.size)]
        best: dict[tuple[int, ...], float] = {}
        for chosen in itertools.product(*options):
            if all(sum(c for _, t, c in chosen if t == type) <= capacities[type] for type in range(types)):
                homes = tuple(type for _, type, _ in chosen)
                best[homes] = max(best.get(homes, -1e300), sum(value for value, _, _ in chosen))
        found = choose_types(jobs, capacities, 60.0)
        assert found is not None
        assert best[tuple(found.tolist())] == pytest.approx(max(best.values()), rel=1e-9)
        busy += any(home >= 0 for home in found.tolist())
    assert busy > 40


def test_every_job_runs_on_one_type_and_on_none_that_it_does_not_name() -> None:
    fast = Job(1, "fast", spec(a100=linear(300.0), v100=linear(100.0)), 0.0)
    either = Job(2, "either", spec(a100=linear(110.0), v100=linear(100.0)), 0.0)
    only = Job(3, "only", spec(1, v100=linear(150.0)), 0.0)
    decision = decided([fast, either, only])
    assert gets(decision, 0) == ["a1"] * 4, "it gains most from the fast type"
    assert set(gets(decision, 1)) == {"v1"}
    assert gets(decision, 2) == ["v1"]
    alone = decided([only], idle=("a1",) * 4)
    assert gets(alone, 0) == [], "it does not run where it has no curve"
    plain = decided([Job(1, "plain", JobSpec(("x",), 1, 8, "/w", "/c", curve=linear(10.0, 8)), 0.0)])
    assert len(set(gets(plain, 0))) == 1, "eight GPUs are idle, four of each type"
    assert len(gets(plain, 0)) == 4


def running(job: Job, node: str, count: int) -> tuple[Pilot, ...]:
    job.state, job.type = JobState.RUNNING, OFFERS[node].size.type
    return tuple(
        Pilot(f"p-{job.number}{n}", node, "t", Hold.HELD, 0.0, job=job.number, type=job.type)
        for n in range(count)
    )


def test_a_job_moves_to_a_faster_type_only_where_that_is_worth_its_standstill() -> None:
    for rate, moves in ((101.0, False), (400.0, True)):
        job = Job(1, "j", spec(2, a100=linear(rate, 2), v100=linear(100.0, 2)), 0.0, up_s=15.0, down_s=15.0)
        decision = decided([job], idle=("a1", "a1"), pilots=running(job, "v1", 2))
        assert gets(decision, 0) == (["a1", "a1"] if moves else ["v1", "v1"])
        assert decision.changes == moves
        told = decision.explain()[0]
        assert told["gets"] == told["held"] == 2


def test_speeds_on_different_types_are_learnt_apart_and_kept() -> None:
    advisor = LiveAdvisor(1.0, 4.0)
    job = Job(1, "j", spec(8), 0.0, state=JobState.RUNNING, generation=1, reporter=0)

    def train(rate: float) -> None:
        for second in range(12):
            line = Progress(job.id, job.generation, 0, "t" * 16, float(second), int(rate * second))
            for learnt in advisor.learn([Observation(Why.PROGRESS, job.copy(), float(second), 2, line)]):
                learnt.write(job)

    job.go_to("a100")
    train(300.0)
    assert job.curve[2].rate == pytest.approx(300.0)
    job.go_to("v100")
    job.generation = 2
    assert job.curve == {}
    train(100.0)
    assert job.curve[2].rate == pytest.approx(100.0)
    assert job.curves["a100"][2].rate == pytest.approx(300.0)
    assert advisor.of("a100").fitted(job, 2)[2] == pytest.approx(300.0)
    assert advisor.of("v100").fitted(job, 2)[2] == pytest.approx(100.0)
    again = LiveAdvisor(1.0, 4.0)
    again.recall([job])
    assert again.of("a100").fitted(job, 2)[2] == pytest.approx(300.0)
    job.go_to("a100")
    assert job.curve[2].rate == pytest.approx(300.0)
    assert set(job.curves) == {"", "v100"}


def test_types_and_shares_are_on_record_and_records_without_them_are_read(tmp_path: Path) -> None:
    state = State("0a1b2c3d", sizes=(Size(8, 100, "a100"),))
    job = Job(1, "j", spec(a100=linear(3.0)), 0.0, type="a100", curves={"v100": {2: Point(5.0, 1.0)}})
    state.jobs[1] = job
    state.pilots["0a1b2c3d-1"] = Pilot("0a1b2c3d-1", "a1", "t", Hold.HELD, 0.0, type="a100")
    store = Store(tmp_path)
    store.commit(state, 0.0)
    assert store.load() == state
    for key, names in (
        ("head", ("sizes",)),
        ("pilot/0a1b2c3d-1", ("type", "share")),
        ("job/1", ("type", "curves")),
    ):
        (old,) = store.connection.execute("SELECT value FROM record WHERE key = ?", (key,)).fetchone()
        told = msgspec.json.decode(old)
        for name in names:
            del told[name]
        value = msgspec.json.encode(told).decode()
        store.connection.execute("UPDATE record SET value = ? WHERE key = ?", (value, key))
    read = store.load()
    assert (read.sizes, read.pilots["0a1b2c3d-1"].type, read.jobs[1].type) == ((), "", "")
    store.close()


def test_what_is_wrong_with_types_is_told() -> None:
    sizes = (Size(8, 100, "a100"), Size(8, 100, "v100"))
    problem = misfit(spec(h100=()), sizes)
    assert problem is not None
    assert (problem.path, "a100, v100" in problem.message) == ("$.curves", True)
    assert misfit(replace_needs(spec(v100=()), 9), sizes) is not None
    assert misfit(spec(v100=()), sizes) is None
    for curves in ({"a b": ()}, {"a": ((2, 1.0), (1, 1.0))}, {"a": ((1, -1.0),)}):
        with pytest.raises(InvalidInstance, match=r"\$\.curves\['a"):
            JobSpec(("x",), 1, 2, "/w", "/c", curves=curves)
    with pytest.raises(InvalidInstance, match="beside curve"):
        JobSpec(("x",), 1, 2, "/w", "/c", curve=((1, 1.0),), curves={"a": ()})


def replace_needs(given: JobSpec, cpus: int) -> JobSpec:
    return JobSpec(("x",), 1, 4, "/w", "/c", cpus_per_rank=cpus, curves=given.curves)


def test_curves_by_type_are_submitted(tmp_path: Path) -> None:
    words = ("submit", "--state", tmp_path, "--max", 4)
    assert call(main, *words, "--curve", "a100=1:100,2:190", "--curve", "v100=", "--", "x").code == 0
    (left,) = waiting(tmp_path)[0]
    assert left.request.spec.curves == {"a100": ((1, 100.0), (2, 190.0)), "v100": ()}  # type: ignore[union-attr]
    assert call(main, *words, "--curve", "1:100", "--curve", "2:100", "--", "x").code == 2
    assert call(main, *words, "--curve", "a=1:x", "--", "x").code == 2
    assert call(main, *words, "--curve", "a=2:1,1:1", "--", "x").code == 3

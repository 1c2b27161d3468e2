"""Nodes that others will want: what Slurm says of it, and re-scales that would not be earned back."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

from apportion.live.controller.actions import Idle, Planned
from apportion.live.controller.advisor import LiveAdvisor
from apportion.live.controller.core import Limits
from apportion.live.controller.deciding import Decision, decide, earned, unearned
from apportion.live.controller.harvest import make_policy
from apportion.live.record.jobs import Job, JobSpec, JobState
from apportion.live.record.requests import Submit
from apportion.live.record.state import Hold, Pilot, State
from apportion.live.slurm.cluster import earliest, planned_of_text, reservations_of_text
from apportion.live.slurm.text import NotUnderstood
from tests.live.model.agents import Checkpoints
from tests.live.model.world import World
from tests.live.test_slurm_text import answers, calls, fake, made

__all__ = ["fake"]

LIMITS = Limits(horizon_s=120.0)
RESERVATIONS = """
ReservationName=maintenance StartTime={start} EndTime=2031-01-01T00:00:00 Nodes=n[1-2],m7 NodeCnt=3 \
Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES Users=ops,admin Accounts=(null) State=INACTIVE
ReservationName=mine StartTime={start} EndTime=2031-01-01T00:00:00 Nodes=n5 Users=me State=INACTIVE
ReservationName=licence StartTime={start} EndTime=2031-01-01T00:00:00 Nodes=(null) Users=ops State=INACTIVE
"""


def moment(in_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + in_s))


# what Slurm says


def test_reservations_and_planned_jobs_say_when_a_node_is_wanted() -> None:
    told = [
        *reservations_of_text(RESERVATIONS.format(start=moment(600.0)), "me"),
        *planned_of_text(
            f"{moment(60.0)}|n[2-3]|big|job\nN/A|(null)|later\n{moment(5.0)}|n9|apportion-x-1\n"
        ),
    ]
    found = earliest(told, time.time())
    assert set(found) == {"n1", "n2", "m7", "n3"}, "neither this user's own reservation nor its pilots"
    assert found["n1"] == pytest.approx(600.0, abs=5.0)
    assert found["n2"] == pytest.approx(60.0, abs=5.0), "the first of both"
    assert list(reservations_of_text("No reservations in the system\n", "me")) == []
    assert earliest([("n1", 5.0)], 10.0) == {"n1": 0.0}
    for wrong in ("2026|n1|x\n", "what\n"):
        with pytest.raises(NotUnderstood):
            list(planned_of_text(wrong))


def test_slurm_is_asked_now_and_then_and_nothing_depends_on_it(fake: Path) -> None:
    answers(fake, "sinfo", "n1|idle\n")
    answers(fake, "squeue", "")
    answers(fake, "scontrol", RESERVATIONS.format(start=moment(600.0)))
    cluster = made(fake, output="text")
    assert 500.0 < cluster.look().wanted_in_s["n1"] <= 600.0
    assert 500.0 < cluster.look().wanted_in_s["n1"] <= 600.0
    assert [call[0] for call in calls(fake)].count("scontrol") == 1
    answers(fake, "scontrol", code=1, err="scontrol: error: Access/permission denied")
    again = made(fake, output="text")
    assert again.look().wanted_in_s == {}


# what pays


def concave(count: int) -> float:
    return 100.0 * count**0.8


def decided(held: int, idle: dict[str, float], most: int = 8, up_s: float = 15.0) -> Decision:
    """Decide for one job that holds some nodes, with idle nodes that are wanted in so many seconds."""
    curve = tuple((count, concave(count)) for count in range(1, 9))
    state, now_s = State("0a1b2c3d"), 1000.0
    job = Job(1, "j", JobSpec(("x",), 1, most, "/w", "/c", curve=curve), 0.0, up_s=up_s, down_s=5.0)
    state.jobs[1] = job
    for number in range(held):
        job.state = JobState.RUNNING
        name = f"i-{number}"
        state.pilots[name] = Pilot(name, f"h{number}", "t", Hold.HELD, 0.0, job=1)
    advisor = LiveAdvisor()
    wanted_s = {node: now_s + in_s for node, in_s in idle.items() if in_s < math.inf}
    seen = Idle(tuple(idle), lambda node: 0.0, (), wanted_s=wanted_s)
    policy = make_policy("freetrain", LIMITS.horizon_s, LIMITS, advisor)
    return decide(state, seen, lambda learnt: policy, advisor, LIMITS, now_s, tuple(state.pilots))


def got(decision: Decision) -> list[str]:
    return sorted(decision.nodes[at] for at in np.flatnonzero(decision.plan.holder == 0))


def test_a_growth_that_is_not_earned_back_in_time_is_not_made() -> None:
    assert got(decided(2, {"a": math.inf, "b": math.inf})) == ["a", "b", "h0", "h1"]
    # from 2 to 4 nodes: 174 to 303 samples/s; 303 (t - 15) > 174 (t + 5) from t = 42 s on
    assert got(decided(2, {"a": 41.0, "b": 41.0})) == ["h0", "h1"]
    assert got(decided(2, {"a": 43.0, "b": 43.0})) == ["a", "b", "h0", "h1"]
    assert got(decided(0, {"a": 14.0})) == [], "it would not even have started"
    assert got(decided(0, {"a": 16.0})) == ["a"]
    assert got(decided(2, {"a": 5.0, "b": math.inf, "c": 5.0})) == ["b", "h0", "h1"], (
        "what stays longer first"
    )
    assert got(decided(1, {"a": 5.0, "b": 300.0}, most=2)) == ["b", "h0"], (
        "beyond the horizon nothing changes"
    )


def test_no_decision_makes_a_rescale_that_loses_by_playing_it_second_by_second() -> None:
    """By another road: samples made until the node goes and the job is back, against doing nothing."""
    chance, refused, made_ = random.Random(4), 0, 0
    for _ in range(150):
        held = chance.randint(1, 3)
        idle = {f"x{n}": chance.choice([math.inf, float(chance.randint(1, 119))]) for n in range(3)}
        up_s = float(chance.randint(1, 40))
        after = got(decided(held, idle, up_s=up_s))
        new = [node for node in after if node.startswith("x")]
        refused += len(new) < len(idle)
        stays_s = min([idle[node] for node in new], default=math.inf)
        if stays_s >= LIMITS.horizon_s:
            continue
        made_ += 1
        grown = kept = 0.0
        for second in range(int(stays_s) + 5):
            grown += concave(len(after)) if up_s <= second < stays_s else 0.0
            kept += concave(held)
        assert grown > kept
    assert refused > 30
    assert made_ > 15


def test_the_largest_count_that_pays_is_found_like_by_trying_all() -> None:
    chance = np.random.default_rng(8)
    cut = 0
    for _ in range(200):
        held, more = int(chance.integers(0, 3)), int(chance.integers(1, 4))
        decision = decided(held, {f"x{n}": math.inf for n in range(more)})
        view, plan = decision.view, np.zeros(held + more, dtype=np.int64)
        stays = np.array([math.inf] * held + chance.uniform(1, 150, more).tolist())
        found = unearned(view, plan, stays, 120.0)
        added = sorted(stays[held:], reverse=True)
        before = concave(held) if held else 0.0
        pays = [
            count
            for count in range(1, more + 1)
            if earned(before, concave(held + count), 15.0, 5.0, added[count - 1], 120.0)
        ]
        best = held + max(pays, default=0)
        assert found == ({} if best == held + more else {0: best})
        cut += bool(found)
    assert cut > 30


def test_the_core_carries_what_slurm_says_to_the_decision() -> None:
    """On the model: a job that runs on one node gets the other one unless that is soon to be wanted."""
    for in_s, grows in ((5.0, False), (600.0, True)):
        advisor = LiveAdvisor()
        policy = make_policy("freetrain", 120.0, LIMITS, advisor)

        def planner(state: State, idle: Idle, now_s: float, connected: Collection[str]) -> Planned:
            made = lambda learnt: policy  # noqa: B023, E731
            return decide(state, idle, made, advisor, LIMITS, now_s, connected).planned()  # noqa: B023

        world = World(("n0", "n1"), planner)
        world.main_takes("n1")
        spec = JobSpec(("train",), 1, 2, "/w", "/w/a", samples=1_000_000, curve=((1, 5.0), (2, 9.0)))
        world.asked.append(Submit("a", 0.0, spec))
        world.folders["a"] = Checkpoints()
        for _ in range(4):
            world.step()
            world.deliver()
            world.wait(1.0)
        world.announce("n1", in_s)
        world.main_returns("n1")
        for _ in range(3):
            world.step()
            world.deliver()
        live = sorted(pilot.node for pilot in world.disk.pilots.values() if pilot.live)
        assert live == (["n0", "n1"] if grows else ["n0"])

"""The controller against a cluster in memory: kills at any point, lost answers, a full disk, liars, hangs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.cluster.policies.gap_filling_view import Plan
from apportion.live.controller.advisor import LiveAdvisor
from apportion.live.controller.controller import POINTS, Controller, Stepped
from apportion.live.controller.core import Limits
from apportion.live.controller.harvest import make_policy
from apportion.live.record.jobs import JobSpec, JobState
from apportion.live.record.requests import Cancel, Submit, apply
from apportion.live.record.state import Hold
from apportion.live.record.store import Store
from tests.budgets import examples
from tests.live.memory_cluster import MemoryCluster, MemoryTrainer

NODES = tuple(f"n{index}" for index in range(5))
LIMITS = Limits(
    interval_s=1.0,
    grace_s=5.0,
    overdue_s=3.0,
    lease_s=20.0,
    connect_s=10.0,
    pending_s=4.0,
    linger_s=3.0,
    hang_s=30.0,
    warm_up_s=1.0,
    measure_s=4.0,
    stall_s=2.0,
)


class Killed(BaseException):
    """SIGKILL, as far as a test in one process can have it."""


@dataclass
class Site:
    """A cluster in memory with a controller that may be killed and started anew."""

    policy: str = "malletrain"
    limits: Limits = LIMITS
    world: MemoryCluster = field(default_factory=lambda: MemoryCluster(NODES))
    store: Store = field(default_factory=lambda: Store(None))
    events: list[dict[str, object]] = field(default_factory=list)
    kill_after: int | None = None
    calls: int = 0
    kills: int = 0
    points: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        advisor = LiveAdvisor(self.limits.warm_up_s, self.limits.measure_s)
        policy = make_policy(self.policy, 60.0, self.limits, advisor)
        self.controller = Controller(
            self.store,
            self.world,
            self.world,
            policy,
            advisor,
            self.limits,
            clock=lambda: self.world.now_s,
            at=self.at,
        )

    def at(self, point: str) -> None:
        assert point in POINTS
        self.calls += 1
        self.points.add(point)
        if self.kill_after is not None and self.calls > self.kill_after:
            self.kill_after = None
            raise Killed(point)

    def step(self) -> Stepped | None:
        try:
            stepped = self.controller.step()
        except Killed:
            self.kills += 1
            self.world.close()
            self.start()
            self.world.reconnect()
            return None
        self.events += stepped.events
        self.invariants()
        return stepped

    def invariants(self) -> None:
        state = self.store.load() if self.kills else self.controller.state
        live = [pilot for pilot in state.pilots.values() if pilot.live]
        assert len({pilot.node for pilot in live}) == len(live), "a node is held twice"
        ranks = [rank for rank in state.ranks.values() if rank.live]
        assert len({rank.pilot for rank in ranks}) == len(ranks), "two ranks on a pilot"
        assert not self.world.broken, self.world.broken

    def run(self, seconds: float) -> None:
        until_s = self.world.now_s + seconds
        while self.world.now_s < until_s:
            self.step()
            self.world.advance(0.5)

    def run_until_done(self, seconds: float = 1500.0) -> None:
        until_s = self.world.now_s + seconds
        while not all(job.ended for job in self.controller.state.jobs.values()):
            assert self.world.now_s < until_s, [
                (job.id, job.state, job.samples, job.message) for job in self.controller.state.jobs.values()
            ]
            self.step()
            self.world.advance(0.5)

    def drain(self) -> None:
        self.controller.state.draining = True
        for _ in range(400):
            stepped = self.step()
            if stepped is not None and stepped.finished:
                self.controller.finish_drain()
                return
            if stepped is None:
                self.controller.state.draining = True
            self.world.advance(0.5)
        raise AssertionError("the drain does not end")

    def submit(
        self, id: str, trainer: MemoryTrainer, low: int = 1, high: int = 5, samples: int = 2000, **fields: Any
    ) -> None:
        self.world.trainers[id] = trainer
        spec = JobSpec(("train",), low, high, "/w", f"/w/{id}", samples=samples, **fields)
        apply(self.controller.state, Submit(id, self.world.now_s, spec), self.world.now_s)
        self.store.commit(self.controller.state, self.world.now_s)

    def job(self, id: str) -> Any:
        return self.controller.state.job(id)

    def told(self, event: str) -> list[dict[str, object]]:
        return [told for told in self.events if told["event"] == event]

    def full_disk(self, full: bool) -> None:
        pages = self.store.connection.execute("PRAGMA page_count").fetchone()[0]
        self.store.connection.execute(f"PRAGMA max_page_count = {pages if full else 1_000_000}")


def concave(speed: float) -> MemoryTrainer:
    return MemoryTrainer(lambda count: speed * count**0.8)


def test_jobs_of_unknown_scaling_are_profiled_downwards_and_end_with_all_their_samples() -> None:
    site = Site()
    site.submit("a", concave(40.0), samples=6000)
    site.submit("b", concave(20.0), samples=3000)
    site.run_until_done()
    for id, samples in (("a", 6000), ("b", 3000)):
        job = site.job(id)
        assert (job.state, job.samples, job.durable) == (JobState.DONE, samples, samples)
        assert site.world.trainers[id].saved == samples
    first = list(site.job("a").curve)
    assert max(first) == len(NODES)
    for count, point in site.job("a").curve.items():
        assert point.rate == pytest.approx(40.0 * count**0.8, rel=0.1)
    assert 1.0 <= site.job("a").down_s <= 10.0
    starts = [len(event["nodes"]) for event in site.told("started") if event["job"] == "a"]  # type: ignore[arg-type]
    assert starts[0] == len(NODES), "profiled from the largest affordable size"
    assert starts[1] < starts[0], "and downwards from there"


@pytest.mark.parametrize(
    "name", ["malletrain", "freetrain", "adaptive", "costate", "equal-share", "greedy", "static"]
)
def test_every_policy_of_the_replay_runs_live(name: str) -> None:
    site = Site(policy=name)
    site.submit("a", concave(40.0))
    site.submit("b", concave(20.0), low=2, high=3)
    site.run(20)
    site.world.main_takes("n1")
    site.run(20)
    site.world.main_returns("n1")
    site.run_until_done()
    site.drain()
    assert {job.samples for job in site.controller.state.jobs.values()} == {2000}


@pytest.mark.parametrize(
    "name", ["malletrain", "freetrain", "adaptive", "costate", "equal-share", "greedy", "static"]
)
def test_a_job_runs_on_the_counts_that_it_lists_alone(name: str) -> None:
    site = Site(policy=name)
    site.submit("a", concave(40.0), high=4, allowed_counts=(1, 2, 4))
    site.submit("b", concave(20.0), low=2, high=4, allowed_counts=(2, 4))
    site.run(20)
    site.world.main_takes("n1")
    site.run(20)
    site.world.main_returns("n1")
    site.run_until_done()
    listed = {"a": {1, 2, 4}, "b": {2, 4}}
    starts = [(str(event["job"]), len(event["nodes"])) for event in site.told("started")]  # type: ignore[arg-type]
    assert {job for job, _ in starts} == set(listed)
    assert all(count in listed[job] for job, count in starts), starts


def test_a_drain_gives_all_nodes_back_and_keeps_the_jobs() -> None:
    site = Site()
    site.submit("a", concave(10.0), samples=100_000)
    site.run(30)
    site.drain()
    assert not any(pilot.state.value != "ended" for pilot in site.world.pilots.values())
    job = site.job("a")
    assert job.state is JobState.QUEUED
    assert job.samples == job.durable == site.world.trainers["a"].saved > 0
    site.run(10)
    assert site.job("a").state is JobState.RUNNING, "the next controller harvests again"


def test_a_cancelled_job_stops_with_its_checkpoint() -> None:
    site = Site()
    site.submit("a", concave(10.0), samples=100_000)
    site.run(20)
    apply(site.controller.state, Cancel("a"), site.world.now_s)
    site.run(10)
    job = site.job("a")
    assert job.state is JobState.CANCELLED
    assert job.samples == site.world.trainers["a"].saved > 0
    assert not site.controller.state.rank_on()


def test_a_node_taken_in_the_middle_of_a_resize() -> None:
    site = Site()
    site.submit("a", concave(10.0), samples=4000)
    while not any(event["event"] == "stopping" for event in site.events):
        site.step()
        site.world.advance(0.5)
    site.world.main_takes("n0")
    site.run(1)
    site.world.main_takes("n3")
    site.run_until_done()
    assert site.job("a").samples == 4000 == site.world.trainers["a"].saved
    assert site.job("a").failures == 0, "a node taken back is no failure of the job"


def test_a_trainer_that_hangs_is_restarted_and_given_up_in_the_end() -> None:
    site = Site()
    site.submit("a", concave(10.0), samples=1000)
    site.submit("h", MemoryTrainer(lambda count: 1.0, hangs=True))
    site.run_until_done(3000)
    assert site.job("a").state is JobState.DONE
    assert site.job("h").state is JobState.FAILED
    assert site.job("h").failures == LIMITS.failures
    assert "no progress" in site.job("h").message


def test_a_job_that_fails_at_once_is_given_up_after_three_times() -> None:
    site = Site()
    site.submit("f", MemoryTrainer(lambda count: 1.0, fails=True))
    site.run_until_done(200)
    assert site.job("f").state is JobState.FAILED
    assert len(site.told("started")) == LIMITS.failures


def test_a_liar_gains_no_nodes() -> None:
    """A claim of a rate is never used; totals that are taken back are not believed again."""
    site = Site()
    site.submit("honest", concave(20.0), samples=100_000)
    liar = MemoryTrainer(lambda count: 20.0 * count**0.3, says=lambda made: 50 * made, claims=1e9)
    site.submit("liar", liar, samples=100_000_000)
    site.run(300)
    job = site.job("liar")
    assert not job.trusted
    assert job.inconsistent > 0
    curve = site.controller.advisor.fitted(job, 5)
    honest = site.controller.advisor.fitted(site.job("honest"), 5)
    assert curve[5] / curve[1] <= 1.2 * honest[5] / honest[1]


def test_a_claimed_rate_that_the_samples_do_not_show_is_ignored() -> None:
    site = Site()
    boast = concave(20.0)
    boast.claims = 1e6
    site.submit("boast", boast, samples=100_000)
    site.run(60)
    job = site.job("boast")
    assert job.inconsistent > 0
    assert "claims" in job.message
    for count, point in job.curve.items():
        assert point.rate == pytest.approx(20.0 * count**0.8, rel=0.1)


def test_a_full_disk_begins_nothing_and_stops_nothing() -> None:
    site = Site()
    site.submit("a", concave(10.0), samples=100_000)
    site.run(40)
    site.full_disk(True)
    made = site.world.trainers["a"].made
    running = {pilot.pilot for pilot in site.world.pilots.values() if pilot.run is not None}
    troubles = []
    for index in range(40):
        filler = JobSpec(("x" * 4000,), 1, 1, "/w", f"/w/{index}")
        apply(site.controller.state, Submit(f"filler{index}", 0.0, filler), 0.0)
        stepped = site.step()
        assert stepped is not None
        troubles.append(stepped.trouble)
        site.world.advance(0.5)
    assert any(trouble is not None and "full" in trouble for trouble in troubles)
    assert {pilot.pilot for pilot in site.world.pilots.values() if pilot.run is not None} == running
    assert site.world.trainers["a"].made > made, "what runs goes on"
    site.full_disk(False)
    site.run(5)
    assert site.job("a").samples >= made, "and nothing that was said is lost"


def test_the_scheduler_away_and_its_answers_lost() -> None:
    site = Site()
    site.world.lose_answers = True
    site.submit("a", concave(10.0), samples=3000)
    site.run(3)
    site.world.lose_answers = False
    site.run(5)
    site.world.reachable = False
    stepped = None
    for _ in range(10):
        stepped = site.step() or stepped
        site.world.advance(0.5)
    assert stepped is not None
    assert stepped.trouble is not None
    site.world.reachable = True
    site.run_until_done()
    assert site.job("a").samples == 3000
    site.drain()


def test_a_broken_connection_loses_no_command() -> None:
    """What was sent into a connection that broke is said again over the next one."""
    site = Site()
    site.world.lose_messages = True
    site.submit("a", concave(10.0), samples=1000)
    site.run(8)
    assert site.job("a").state is JobState.RUNNING
    assert site.world.trainers["a"].began_s is None
    site.world.lose_messages = False
    site.world.drop_connections()
    site.run(5)
    assert site.world.trainers["a"].began_s is not None
    site.run_until_done()
    assert site.job("a").failures == 0


def test_what_is_not_in_a_checkpoint_is_not_on_record() -> None:
    site = Site()
    trainer = concave(10.0)
    trainer.save_every_s = 1000.0
    site.submit("a", trainer, samples=100_000)
    site.run(6)
    assert site.job("a").samples > 0
    for node in NODES:
        site.world.main_takes(node)
    site.run(3)
    assert site.job("a").state is JobState.QUEUED
    assert site.job("a").samples == site.job("a").durable == trainer.saved == 0


def test_an_agent_that_falls_silent_loses_its_pilot() -> None:
    site = Site()
    site.submit("a", concave(10.0), samples=3000)
    site.run(15)
    victim = next(pilot for pilot in site.world.pilots.values() if pilot.run is not None)
    site.world.silence(victim.node)
    site.run_until_done()
    assert victim.state.value == "ended"
    assert site.job("a").samples == 3000


@pytest.mark.parametrize("connected", [True, False])
def test_a_failed_node_is_waited_for_until_its_lease_is_over(connected: bool) -> None:
    """Two generations of a job at once would write into one another's checkpoints."""
    site = Site()
    site.submit("a", concave(10.0), samples=100_000)
    site.run(15)
    while all(pilot.run is None for pilot in site.world.pilots.values() if pilot.node == "n0"):
        site.run(0.5)
    before = site.job("a").generation
    site.world.node_fails("n0", connected)
    site.run(10)
    assert (site.job("a").generation > before) == connected, (
        "an agent that is heard of says when its rank has ended"
    )
    site.run(60)
    assert site.job("a").state is JobState.RUNNING
    assert site.job("a").generation > before
    assert site.job("a").failures == 0
    site.drain()


def test_a_pilot_that_the_scheduler_has_forgotten_is_stopped_first() -> None:
    site = Site()
    site.submit("a", concave(10.0), samples=100_000)
    site.run(15)
    node = next(pilot.node for pilot in site.world.pilots.values() if pilot.run is not None)
    site.world.forget(node)
    forgotten = next(pilot for pilot in site.world.pilots.values() if pilot.forgotten)
    site.run(20)
    assert forgotten.state.value == "ended", "told to leave, since the scheduler does not end it"
    assert site.told("node_lost")
    assert site.job("a").state is JobState.RUNNING
    assert site.job("a").failures == 0


def test_a_plan_that_breaks_a_rule_is_not_carried_out() -> None:
    site = Site()
    site.controller.policy = lambda view: Plan(view.holder + 7)
    site.submit("a", concave(10.0))
    site.run(5)
    assert site.told("invalid_plan")
    assert not site.world.pilots


def test_an_unknown_pilot_of_this_instance_is_an_orphan() -> None:
    site = Site()
    site.world.take("n2", f"{site.controller.state.instance}-99", "t" * 16)
    site.run(3)
    assert site.told("orphan")
    assert all(pilot.state.value == "ended" for pilot in site.world.pilots.values())


def test_max_nodes_is_kept() -> None:
    site = Site(limits=Limits(max_nodes=2, interval_s=1.0, linger_s=3.0, warm_up_s=1.0, measure_s=4.0))
    site.submit("a", concave(10.0), samples=1000)
    while not site.job("a").ended:
        site.step()
        assert sum(pilot.live for pilot in site.controller.state.pilots.values()) <= 2
        site.world.advance(0.5)


def test_every_point_of_a_step_is_one_to_be_killed_at() -> None:
    site = Site()
    site.submit("a", concave(10.0), samples=1000)
    site.run_until_done()
    site.run(10)
    assert site.points == set(POINTS)


ACTIONS = st.one_of(
    st.tuples(st.just("wait"), st.integers(1, 12)),
    st.tuples(st.just("kill"), st.integers(0, 60)),
    st.tuples(st.just("take"), st.integers(0, len(NODES) - 1)),
    st.tuples(st.just("return"), st.integers(0, len(NODES) - 1)),
    st.tuples(st.just("scheduler"), st.integers(0, 2)),
    st.tuples(st.just("disk"), st.integers(0, 1)),
    st.tuples(st.just("fail"), st.integers(0, len(NODES) - 1)),
    st.tuples(st.just("forget"), st.integers(0, len(NODES) - 1)),
    st.tuples(st.just("silence"), st.integers(0, len(NODES) - 1)),
    st.tuples(st.just("cancel"), st.just(0)),
)


def act(site: Site, action: str, number: int) -> None:
    world = site.world
    if action == "wait":
        site.run(number)
    elif action == "kill":
        site.kill_after = site.calls + number
        site.run(3)
    elif action == "take":
        world.main_takes(NODES[number])
        site.run(0.5)
    elif action == "return":
        world.main_returns(NODES[number])
        site.run(0.5)
    elif action == "scheduler":
        world.reachable, world.lose_answers = number != 1, number == 2
        site.run(2)
    elif action == "disk":
        site.full_disk(bool(number))
        site.run(2)
    elif action == "fail":
        world.node_fails(NODES[number], connected=world.now_s % 2 < 1)
        site.run(1)
    elif action == "forget":
        world.forget(NODES[number])
        site.run(1)
    elif action == "silence":
        world.silence(NODES[number])
        site.run(1)
    elif action == "cancel" and not site.job("c").ended:
        site.job("c").cancel = True
        site.run(1)


def check_faults(actions: list[tuple[str, int]]) -> None:
    """No node used twice, no job lost, no pilot orphaned, samples as the trainers' checkpoints have them."""
    site = Site()
    for id, speed, low in (("a", 30.0, 1), ("b", 15.0, 2), ("c", 8.0, 1)):
        site.submit(id, concave(speed), low=low, samples=900)
    for action, number in actions:
        act(site, action, number)
    site.kill_after = None
    site.world.reachable, site.world.lose_answers = True, False
    site.full_disk(False)
    for node in NODES:
        site.world.main_returns(node)
    site.run_until_done()
    site.run(12)
    assert set(site.controller.state.jobs) == {1, 2, 3}
    for job in site.controller.state.jobs.values():
        assert job.state in (JobState.DONE, JobState.CANCELLED), (job.id, job.state, job.message)
        if job.state is JobState.DONE:
            assert job.samples == job.durable == site.world.trainers[job.id].saved == 900
        else:
            assert job.id == "c"
            assert job.samples == job.durable <= site.world.trainers[job.id].saved
    site.drain()
    site.world.advance(site.world.lease_s + 1.0)
    assert all(pilot.state.value == "ended" or pilot.silent for pilot in site.world.pilots.values()), (
        "a pilot is orphaned beyond its lease"
    )
    assert not any(pilot.hold is not Hold.ENDED for pilot in site.controller.state.pilots.values())
    assert not site.world.broken, site.world.broken


@given(st.lists(ACTIONS, min_size=1, max_size=14))
@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
def test_faults_in_any_order(actions: list[tuple[str, int]]) -> None:
    check_faults(actions)


def test_a_forgotten_pilot_on_a_node_that_then_fails_is_waited_for() -> None:
    """Not listed and not connected, its rank once went on for its lease beside the next generation."""
    waits = [("wait", 1)] * 8
    check_faults([*waits, ("take", 0), ("scheduler", 1), ("forget", 1), ("fail", 1)])


def test_a_pilot_whose_order_was_lost_and_that_slurm_forgot_ends_with_its_lease() -> None:
    """Nobody knows of it: its agent is turned away, and there is nothing else that could end it."""
    earlier = [("forget", 0), ("disk", 1), ("disk", 0), ("forget", 0), ("forget", 4)]
    lost = [("scheduler", 2), ("kill", 15), ("wait", 2), ("fail", 3), ("take", 2), ("forget", 4), ("wait", 1)]
    check_faults([*earlier, *lost, ("wait", 1), ("fail", 0), ("forget", 4)])


def test_a_forgotten_pilot_that_is_not_reached_ends_its_rank_with_its_lease() -> None:
    """The controller waits for that; in the cluster in memory the rank went on beside the next generation."""
    before = [("wait", 11), ("take", 0), ("wait", 2), ("take", 1), ("disk", 0), ("wait", 2), ("fail", 4)]
    check_faults([*before, ("wait", 1), ("wait", 1), ("silence", 3), ("wait", 1), ("wait", 1), ("forget", 3)])


def test_a_forgotten_pilot_that_is_not_reached_and_then_lost_ends_with_its_lease() -> None:
    """By the time it is heard of again the controller has written it off, and turns its agent away."""
    before = [("kill", 48), ("cancel", 0), ("return", 0), ("forget", 4), ("cancel", 0), ("silence", 4)]
    check_faults(
        [*before, ("wait", 4), ("wait", 8), ("fail", 4), ("silence", 1), ("wait", 2), ("silence", 1)]
    )


@pytest.mark.slow
@given(st.lists(ACTIONS, min_size=4, max_size=40))
@settings(max_examples=400, suppress_health_check=list(HealthCheck))
def test_many_faults_in_any_order(actions: list[tuple[str, int]]) -> None:
    check_faults(actions)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("first", range(0, 120, 7))
def test_killed_again_and_again(first: int) -> None:
    """Killed every few calls of the hook for the whole life of two jobs."""
    site = Site()
    site.submit("a", concave(30.0), samples=900)
    site.submit("b", concave(15.0), low=2, samples=900)
    site.kill_after = first
    for round in range(60):
        if site.kill_after is None:
            site.kill_after = site.calls + 3 + (first + round) % 11
        site.step()
        site.world.advance(0.5)
    site.kill_after = None
    site.run_until_done()
    assert site.kills > 3
    assert not site.told("failure"), "an exit was acknowledged before it was on disk"
    for job in site.controller.state.jobs.values():
        assert job.samples == site.world.trainers[job.id].saved == 900
    site.drain()
    assert all(pilot.state.value == "ended" for pilot in site.world.pilots.values())

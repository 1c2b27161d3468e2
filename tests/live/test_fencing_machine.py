"""The controller as a state machine: what Slurm, the network and the nodes may do to it, in any order.

Rules cut a node off, let the main queue want it, let Slurm mark it down, forget its pilot or give it
back, kill the controller between any two of its actions, lose answers and messages. After every rule no
job may train in two generations at once and no node may be held twice; in the end every job is done and
no sample is counted twice.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from apportion.live.cluster import ClusterSeen, PilotState
from apportion.live.offers import Share
from apportion.live.record.jobs import JobState
from tests.budgets import examples
from tests.live.memory_cluster import MemoryCluster, MemoryTrainer
from tests.live.test_controller import NODES, Site, concave

GOAL = 900
FAULTS = ("cut_off", "main_takes", "mark_down", "forget", "heal", "main_returns")
"""What happens to a node, by the names of the methods of `FailingCluster`."""
STEPS = (*FAULTS, "wait", "kill")


class FailingCluster(MemoryCluster):
    """The cluster in memory, with nodes that the network cuts off and that Slurm then marks down.

    Slurm ends what runs on a node only through that node's daemon. On a node that is cut off, a pilot to
    be ended stays ``ENDING``; once the node is marked down the pilot counts as ended, whatever goes on
    there. A daemon that comes back ends what Slurm does not know any more.
    """

    def __init__(self, nodes: tuple[str, ...]) -> None:
        super().__init__(nodes)
        self.cut: set[str] = set()
        self.down: set[str] = set()

    def look(self) -> ClusterSeen:
        seen = super().look()
        idle = tuple(node for node in seen.idle if node not in self.down | self.cut)
        return ClusterSeen(idle, seen.pilots, seen.sound - self.down)

    def take(self, node: str, pilot: str, token: str, share: Share | None = None) -> str:
        handle = super().take(node, pilot, token, share)
        if node in self.cut and self.pilots[pilot].state is PilotState.RUNNING:
            self.pilots[pilot].state = PilotState.PENDING
        return handle

    def release(self, handle: str) -> None:
        self._answer()
        for pilot in self.pilots.values():
            if pilot.handle != handle or pilot.state in (PilotState.ENDED, PilotState.LOST):
                continue
            if pilot.node in self.cut and pilot.state is not PilotState.PENDING:
                pilot.state = PilotState.ENDING
            else:
                self._end(pilot, "released")

    def main_takes(self, node: str) -> None:
        if node not in self.cut:
            super().main_takes(node)
            return
        self.main.add(node)
        for pilot in self.pilots.values():
            if pilot.node == node and pilot.state is PilotState.RUNNING:
                pilot.state = PilotState.ENDING

    def cut_off(self, node: str) -> None:
        self.cut.add(node)
        self.silence(node)

    def mark_down(self, node: str) -> None:
        if node not in self.cut:
            return
        self.down.add(node)
        for pilot in self.pilots.values():
            if pilot.node == node and pilot.state is PilotState.RUNNING:
                pilot.state = PilotState.LOST
            elif pilot.node == node and pilot.state is PilotState.ENDING:
                pilot.state = PilotState.ENDED

    def heal(self, node: str) -> None:
        self.cut.discard(node)
        self.down.discard(node)
        for pilot in self.pilots.values():
            if pilot.node == node and pilot.silent and pilot.state is not PilotState.PENDING:
                pilot.silent = False
                if pilot.state is not PilotState.RUNNING or pilot.forgotten:
                    self._end(pilot, "its step is not known any more")


class Fencing(RuleBasedStateMachine):
    """Four nodes and two jobs; most rules meet the same node, where faults come together."""

    nodes = st.one_of(st.none(), st.none(), st.sampled_from(NODES[:4]))
    """``None`` for the node on which the job of one rank began."""

    @initialize()
    def two_jobs_train(self) -> None:
        self.world = FailingCluster(NODES[:4])
        self.site = Site(world=self.world)
        for name, speed, most in (("a", 30.0, 1), ("b", 15.0, 2)):  # a rank alone has no peer to miss
            trainer: MemoryTrainer = concave(speed)
            self.site.submit(name, trainer, low=1, high=most, samples=100 * GOAL)
        self.site.run(16)
        alone = [p.node for p in self.world.pilots.values() if p.run is not None and p.run.job == "a"]
        self.first = alone[0] if alone else NODES[0]

    @rule(seconds=st.integers(1, 6))
    def wait(self, seconds: int) -> None:
        self.site.run(seconds)

    @rule(calls=st.integers(0, 60))
    def kill_the_controller(self, calls: int) -> None:
        self.site.kill_after = self.site.calls + calls
        self.site.run(3)
        self.site.kill_after = None

    @rule(node=nodes)
    def main_queue_takes(self, node: str | None) -> None:
        self.world.main_takes(node or self.first)
        self.site.run(1)

    @rule(node=nodes)
    def main_queue_returns(self, node: str | None) -> None:
        self.world.main_returns(node or self.first)
        self.site.run(1)

    @rule(node=nodes)
    def network_cuts_off(self, node: str | None) -> None:
        self.world.cut_off(node or self.first)
        self.site.run(1)

    @rule(node=nodes)
    def slurm_marks_down(self, node: str | None) -> None:
        self.world.mark_down(node or self.first)
        self.site.run(1)

    @rule(node=nodes)
    def node_heals(self, node: str | None) -> None:
        self.world.heal(node or self.first)
        self.site.run(1)

    @rule(node=nodes)
    def slurm_forgets(self, node: str | None) -> None:
        self.world.forget(node or self.first)
        self.site.run(1)

    @rule(node=nodes, faults=st.lists(st.sampled_from(FAULTS), min_size=3, max_size=6))
    def faults_come_together(self, node: str | None, faults: list[str]) -> None:
        for fault in faults:
            getattr(self.world, fault)(node or self.first)
            self.site.run(1)

    @rule(answers=st.sampled_from(["all", "none", "lost"]))
    def slurm_answers(self, answers: str) -> None:
        self.world.reachable, self.world.lose_answers = answers != "none", answers == "lost"
        self.site.run(2)

    @rule(lost=st.booleans())
    def messages_are_lost(self, lost: bool) -> None:
        self.world.lose_messages = lost
        self.site.run(1)

    @rule()
    def connections_break(self) -> None:
        self.world.drop_connections()
        self.site.run(0.5)

    @invariant()
    def nothing_runs_twice(self) -> None:
        if hasattr(self, "site"):
            self.site.invariants()

    def teardown(self) -> None:
        """With the faults over, every job ends, and what is on record is what the checkpoints hold."""
        if not hasattr(self, "site"):
            return
        world, site = self.world, self.site
        site.kill_after = None
        world.reachable, world.lose_answers, world.lose_messages = True, False, False
        for node in NODES[:4]:
            world.heal(node)
            world.main_returns(node)
        for trainer in world.trainers.values():
            trainer.saved = max(trainer.saved, 99 * GOAL)
            trainer.made = max(trainer.made, float(trainer.saved))
        site.run_until_done()
        for job in site.controller.state.jobs.values():
            assert job.state is JobState.DONE, (job.id, job.state, job.message)
            assert job.samples == job.durable == world.trainers[job.id].saved == 100 * GOAL
        site.drain()


def test_no_two_generations_at_once_whatever_fails() -> None:
    """A node cut off, wanted by the main queue and marked down once let two generations train at once.

    The same sequences every time: a change lands or not by its own doing. The slow run draws others.
    """
    options = settings(
        max_examples=examples(60),
        stateful_step_count=14,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Fencing, settings=options)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_no_two_generations_at_once_in_many_runs(part: int) -> None:
    """4,000 runs, in parts: a limit of the clock holds for each, and a busy machine keeps that."""
    options = settings(
        max_examples=500, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(Fencing, settings=options)


def test_a_node_cut_off_wanted_and_marked_down_is_waited_for() -> None:
    """The shortest way to two generations at once, found by the machine above."""
    world = FailingCluster(NODES[:4])
    site = Site(world=world)
    site.submit("a", concave(30.0), low=1, high=1, samples=90_000)
    site.run(16)
    (node,) = [pilot.node for pilot in world.pilots.values() if pilot.run is not None]
    for fault in (world.cut_off, world.main_takes, world.mark_down):
        fault(node)
        site.run(1)
    site.run(60)
    assert not world.broken
    assert site.job("a").state is JobState.RUNNING, "after the fence the job goes on elsewhere"


def test_a_stop_that_was_lost_on_its_way_is_sent_again() -> None:
    """A rank on a pilot that Slurm has forgotten ends by its agent alone: one lost message kept its job."""
    world = FailingCluster(NODES[:2])
    site = Site(world=world)
    site.submit("a", concave(30.0), low=1, high=1, samples=90_000)
    site.run(6)
    (pilot,) = [pilot for pilot in world.pilots.values() if pilot.run is not None]
    world.lose_messages = True
    world.forget(pilot.node)
    site.run(4)
    assert site.job("a").state is JobState.STOPPING and pilot.run is not None
    world.lose_messages = False
    site.run(10)
    assert pilot.run is None
    assert site.job("a").state is JobState.RUNNING and site.job("a").generation == 2


def test_a_job_whose_start_and_stop_were_both_lost_goes_on() -> None:
    """The shortest way to a job that was stopping to the end of its time, found by the machine above."""
    machine = Fencing()
    machine.two_jobs_train()
    machine.messages_are_lost(True)
    machine.main_queue_takes(None)
    machine.slurm_forgets(None)
    machine.slurm_forgets("n3")
    machine.teardown()
    assert not any(pilot.run for pilot in machine.world.pilots.values())


def every_order_of_faults(depth: int, *first: str) -> int:
    """Play every sequence of `depth` faults, behind the `first`, on one of two nodes; return how many.

    A job of one rank trains on the node.
    """
    played = 0
    for faults in itertools.product(*((fault,) for fault in first), *(STEPS,) * depth):
        world = FailingCluster(NODES[:2])
        site = Site(world=world)
        site.submit("a", concave(30.0), low=1, high=1, samples=90_000)
        site.run(6)
        (node,) = [pilot.node for pilot in world.pilots.values() if pilot.run is not None]
        for fault in faults:
            if fault == "kill":
                site.kill_after = site.calls + 5
            elif fault == "wait":
                site.run(4)
            else:
                getattr(world, fault)(node)
            site.run(1)
        site.kill_after = None
        site.run(8)
        assert not world.broken, (faults, world.broken)
        played += 1
    return played


@pytest.mark.one_in(8)
@pytest.mark.parametrize("first", STEPS)
def test_every_order_of_three_faults(first: str) -> None:
    assert every_order_of_faults(2, first) == 64


@pytest.mark.slow
@pytest.mark.parametrize("first", STEPS)
def test_every_order_of_five_faults(first: str) -> None:
    assert every_order_of_faults(4, first) == 4_096

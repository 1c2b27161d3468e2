"""The cluster in memory says itself when something happens that must never happen."""

from __future__ import annotations

import pytest

from apportion.core.errors import ClusterUnreachable, SchedulerRefused
from apportion.live.channel.messages import STOPPED, Acknowledge, Exited, Leaving, Progress, Run, Stop
from apportion.live.cluster import Channel, Cluster, PilotState
from tests.live.memory_cluster import MemoryCluster, MemoryTrainer

TOKEN = "t" * 16


def run(job: str = "a", generation: int = 1, rank: int = 0, world: int = 1, samples: int | None = 100) -> Run:
    nodes = tuple(f"n{index}" for index in range(world))
    return Run(job, generation, rank, nodes, "h:1", ("x",), "/", "/c", TOKEN, samples)


def site(pilots: int = 2) -> MemoryCluster:
    world = MemoryCluster(("n0", "n1", "n2"))
    for index in range(pilots):
        world.take(f"n{index}", f"i-{index}", TOKEN)
    world.expect({f"i-{index}": TOKEN for index in range(pilots)})
    world.advance(2.0)
    return world


def test_it_is_a_cluster_and_a_channel() -> None:
    world = MemoryCluster(("n0",))
    cluster: Cluster = world
    channel: Channel = world
    assert cluster.look().idle == ("n0",)
    assert channel.address.endswith(":1")


def test_nodes_are_idle_held_or_the_main_queues() -> None:
    world = site()
    world.main_takes("n2")
    assert world.look().idle == ()
    world.take("n2", "i-9", TOKEN)
    states = {pilot.pilot: pilot.state for pilot in world.look().pilots}
    assert states["i-9"] is PilotState.PENDING
    world.main_returns("n2")
    assert {pilot.state for pilot in world.look().pilots} == {PilotState.RUNNING}
    with pytest.raises(SchedulerRefused):
        world.take("n7", "i-10", TOKEN)
    world.reachable = False
    with pytest.raises(ClusterUnreachable):
        world.look()


def test_a_trainer_reports_checkpoints_and_ends() -> None:
    world = site()
    world.trainers["a"] = MemoryTrainer(lambda count: 10.0)
    assert world.send("i-0", run())
    world.advance(3.0)
    lines = [told for _, told in world.receive(0.0) if isinstance(told, Progress)]
    assert lines[-1].samples == 30
    world.send("i-0", Stop("a", 1, 5.0))
    world.advance(2.0)
    (exit,) = [told for _, told in world.receive(0.0) if isinstance(told, Exited)]
    assert (exit.code, exit.asked, world.trainers["a"].saved) == (STOPPED, True, 30)
    world.send("i-0", run(generation=2))
    world.advance(10.0)
    (last,) = [told for _, told in world.receive(0.0) if isinstance(told, Exited)]
    assert last.code == 0
    assert last.last is not None
    assert (last.last.samples, last.last.done) == (100, True)
    assert not world.broken


def test_an_exit_is_said_again_until_it_is_acknowledged() -> None:
    world = site()
    world.send("i-0", run(samples=1))
    world.advance(1.0)
    world.close()
    world.expect({"i-0": TOKEN})
    world.reconnect()
    assert any(isinstance(told, Exited) for _, told in world.receive(0.0))
    world.send("i-0", Acknowledge("a", 1))
    world.reconnect()
    assert world.receive(0.0) == []


def test_a_preempted_pilot_says_that_it_leaves_and_saves_nothing() -> None:
    world = site()
    world.send("i-0", run())
    world.advance(1.0)
    world.receive(0.0)
    world.main_takes("n0")
    told = [message for _, message in world.receive(0.0)]
    assert isinstance(told[0], Leaving)
    assert isinstance(told[1], Exited)
    assert told[1].code == -9
    assert world.trainers["a"].saved == 0


def test_what_must_never_happen_is_written_down() -> None:
    world = site()
    world.send("i-0", run())
    world.send("i-0", run("b"))
    world.send("i-1", run(generation=2))
    world.take("n2", "i-0", TOKEN)
    assert len(world.broken) == 3

"""The controller's step on a model of the world: every order of faults to a depth, and many at random."""

from __future__ import annotations

import copy
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import apportion.live.controller.placing as ordering
import apportion.live.controller.step as core_step
from apportion.live.record.jobs import JobState
from tests.budgets import examples
from tests.live import search, sequences
from tests.live.model.moves import MOVES, Move, draw, fair, play
from tests.live.model.world import Broken, World

ANY_MOVE = st.tuples(st.sampled_from(sorted(MOVES)), st.integers(0, 3), st.integers(0, 23))


class Faults(RuleBasedStateMachine):
    """Two jobs on three nodes; what must always hold is checked after every move and tick."""

    @initialize()
    def two_jobs_train(self) -> None:
        self.world = sequences.begun()

    @rule(move=ANY_MOVE)
    def something_happens(self, move: Move) -> None:
        play(self.world, move)

    @rule(move=ANY_MOVE, node=st.integers(0, 3))
    def two_things_happen_to_a_node(self, move: Move, node: int) -> None:
        play(self.world, ("cut", node, 0))
        play(self.world, (move[0], node, move[2]))
        play(self.world, ("turn", 0, 0))

    @invariant()
    def nothing_is_used_twice(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.planner = fair
            self.world.run_to_the_end()


def test_nothing_breaks_in_sequences_drawn_by_hypothesis() -> None:
    options = settings(
        max_examples=examples(60),
        stateful_step_count=15,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Faults, settings=options)


def test_nothing_breaks_in_random_sequences() -> None:
    start = sequences.begun()
    for number in range(examples(150)):
        world = start.copy()
        sequences.play_all(world, draw(random.Random(f"test {number}"), 20))
        assert world.finished and all(job.ended for job in world.disk.jobs.values())


def test_nothing_breaks_in_any_order_of_three_faults() -> None:
    counts = search.search(3)
    assert counts == [1, 18, 202, 1722], "docs/live.md says how many there are: tell it too"


@pytest.mark.slow
def test_nothing_breaks_in_any_order_of_four_faults() -> None:
    assert sum(search.search(4)) == 14_249, "docs/live.md says how many there are: tell it too"


def test_without_the_fence_both_searches_find_two_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    """What must be found if nothing waits for a lease."""
    monkeypatch.setattr(core_step, "fence_s", lambda limits: 0.0)
    few = [
        step for step in search.STEPS if step[0] in ("turn", "step", "to_agents", "cut", "forget", "block")
    ]
    with pytest.raises(search.Found, match="two generations"):
        search.search(5, moves=few)
    start, found = sequences.begun(), []
    for number in range(60):
        try:
            sequences.play_all(start.copy(), draw(random.Random(f"1 {number}"), 30))
        except Broken as error:
            found.append(str(error))
            if "two generations" in found[-1]:
                break
    assert any("two generations" in error for error in found)


def test_a_step_changes_nothing_it_is_given_and_answers_the_same_twice() -> None:
    chance = random.Random(3)
    world = sequences.begun()

    def twice(core, seen, now_s, limits, planner):  # type: ignore[no-untyped-def]
        before = copy.deepcopy((core.state, seen.outcomes, now_s))
        first, actions = core_step.step(core, seen, now_s, limits, planner)
        second, again = core_step.step(core, seen, now_s, limits, planner)
        assert (core.state, seen.outcomes, now_s) == before
        assert first.state == second.state
        assert (actions.todo, actions.expect) == (again.todo, again.expect)
        return first, actions

    world.step_function = twice
    sequences.play_all(world, draw(chance, 60))
    assert world.steps > 60


# what was found


def test_an_agent_that_called_and_was_cut_off_between_two_steps_is_waited_for() -> None:
    """Its lease was renewed though no step saw it connected: the wait once went on as if it had not been."""
    world = World(("n0", "n1"), fair)
    world.submit("a", samples=1_000_000)
    for move in (*[("turn", 1, 0)] * 4, ("forget", 2, 0), ("block", 2, 0), ("step", 1, 0)):
        play(world, move)
    assert world.disk.jobs[1].generation == 1
    world.wait(7.0)
    world.flap("n0")
    world.wait(6.0)
    for _ in range(16):
        play(world, ("turn", 1, 0))
    assert world.disk.jobs[1].generation == 2, "after the fence it goes on elsewhere"


def test_a_stop_that_was_lost_is_said_again() -> None:
    """A job stayed `stopping` for ever: its stop was lost, its pilot forgotten, its agent connected."""
    world = search.begun()
    play(world, ("die", 1, 1))
    play(world, ("turn", 1, 0))
    world.cancel("a")
    world.step()
    for node in world.nodes:
        world.lose(node)
        world.forget(node)
    world.run_to_the_end()
    assert world.disk.jobs[1].state is JobState.CANCELLED


def test_a_stop_is_lost_for_good_if_it_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_AGAIN_S", 1e9)
    with pytest.raises(Broken, match="do not end"):
        test_a_stop_that_was_lost_is_said_again()


def test_an_hours_jump_of_the_controllers_clock_ends_no_wait_early() -> None:
    """After a boot every wait for a lease begins anew."""
    world: World = search.begun()
    for name, number in (("cut", 0), ("mark_down", 0), ("step", 0), ("reboot", 3), ("step", 0), ("step", 0)):
        play(world, (name, 1 if name == "step" else 3, number))
    assert world.disk.jobs[1].generation == 1

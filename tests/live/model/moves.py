"""What may happen in a model world, by name: drawn at random, by hypothesis, or tried in every order."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from apportion.live.controller.actions import Idle, Place, Planned
from apportion.live.controller.step import Planner
from apportion.live.record.state import State
from tests.live.model.world import World

__all__ = ["MOVES", "Move", "arbitrary", "draw", "fair", "play"]

Move = tuple[str, int, int]
"""What happens, to which node (0: where a rank runs), and a number that it may depend on."""


def fair(state: State, idle: Idle, now_s: float, connected: Collection[str]) -> Planned:
    """Give every job that has not ended one node after the other, as far as its size goes."""
    jobs = [job for job in state.jobs.values() if not job.ended and not job.cancel]
    pilots = sorted((pilot for pilot in state.pilots.values() if pilot.usable), key=lambda pilot: pilot.node)
    nodes = [(pilot.node, pilot.pilot) for pilot in pilots]
    fresh = [(node, None) for node in idle.names]
    room = {job.number: job.spec.max_nodes for job in jobs}
    keeps, homes = {}, dict[int, str]()
    for pilot in pilots:
        at_home = homes.get(pilot.job or 0, pilot.type) == pilot.type
        if pilot.job is not None and room.get(pilot.job, 0) > 0 and at_home:
            keeps[pilot.pilot] = pilot.job
            room[pilot.job] -= 1
            homes[pilot.job] = pilot.type
    places = []
    for node, name in [*nodes, *fresh]:
        number = None if name is None else keeps.get(name)
        if number is None:
            share = None if name is None else state.pilots[name].share
            type = idle.offers[node].size.type if node in idle.offers else ""
            able = [
                job
                for job in room
                if (share is None or share.serves(state.jobs[job].spec))
                and homes.get(job, type) == type
                and state.jobs[job].spec.runs_on(type)
            ]
            number = max(able, key=lambda job: (room[job], -job), default=None)
            number = None if number is None or room[number] < 1 else number
            if number is not None:
                room[number] -= 1
                homes[number] = type
        places.append(Place(node, name, number))
    before = {pilot.pilot: pilot.job for pilot in pilots}
    changes = any(place.job != before.get(place.pilot or "") for place in places)
    return Planned(tuple(places), now_s + 1.0, changes)


def arbitrary(seed: int, nodes: Collection[str]) -> Planner:
    """Return a planner that says anything at all, also what cannot be."""

    def planner(state: State, idle: Idle, now_s: float, connected: Collection[str]) -> Planned:
        chance = random.Random(f"{seed} {round(now_s)} {len(state.pilots)}")
        jobs = [None, *state.jobs, 99]
        named = [pilot.pilot for pilot in state.pilots.values()]
        places = [
            Place(pilot.node, pilot.pilot, chance.choice(jobs), chance.random() < 0.2)
            for pilot in state.pilots.values()
        ]
        places += [Place(node, None, chance.choice(jobs)) for node in [*nodes, *nodes, "nowhere"]]
        places += [Place("anywhere", chance.choice([*named, "no pilot"]), chance.choice(jobs))]
        return Planned(tuple(chance.sample(places, chance.randint(0, len(places)))), now_s + 1.0)

    return planner


def _away(world: World, how: str) -> None:
    world.away = how


def _plans(world: World, number: int) -> None:
    world.planner = fair if number % 2 else arbitrary(number, world.nodes)


def _turns(world: World, number: int) -> None:
    for _ in range(1 + number % 4):
        world.deliver()
        world.step()
        world.deliver()
        world.wait(1.0)


MOVES: Mapping[str, Callable[[World, str, int], None]] = MappingProxyType(
    {
        "turn": lambda world, node, number: _turns(world, number),
        "step": lambda world, node, number: world.step(),
        "listen": lambda world, node, number: world.begin(),
        "wait": lambda world, node, number: world.wait(1 + number % 4),
        "wait_long": lambda world, node, number: world.wait(9 + number % 8),
        "die": lambda world, node, number: world.step(die_after=number % 6),
        "be_dead": lambda world, node, number: world.die(),
        "start": lambda world, node, number: world.start(),
        "reboot": lambda world, node, number: world.reboot((-3600.0, 0.0, 5.0, 3600.0)[number % 4]),
        "to_agents": lambda world, node, number: world.deliver(to_controller=False),
        "to_controller": lambda world, node, number: world.deliver(to_agents=False),
        "lose": lambda world, node, number: world.lose(node),
        "double": lambda world, node, number: world.double(node),
        "flap": lambda world, node, number: world.flap(node),
        "cut": lambda world, node, number: world.cut_off(node),
        "heal": lambda world, node, number: world.heal(node),
        "mark_down": lambda world, node, number: world.mark_down(node),
        "main_takes": lambda world, node, number: world.main_takes(node),
        "main_takes_one": lambda world, node, number: world.main_takes_one(node),
        "announce": lambda world, node, number: world.announce(node, float(number)),
        "main_returns": lambda world, node, number: world.main_returns(node),
        "forget": lambda world, node, number: world.forget(node),
        "remember": lambda world, node, number: world.remember(node),
        "block": lambda world, node, number: world.block(node),
        "unblock": lambda world, node, number: world.blocked.discard(node),
        "freeze": lambda world, node, number: world.freeze(node),
        "thaw": lambda world, node, number: world.thaw(node),
        "kill_agent": lambda world, node, number: world.kill_agent(node),
        "kill_slurmstepd": lambda world, node, number: world.kill_slurmstepd(node),
        "slurm_answers": lambda world, node, number: _away(world, ("", "gone", "unheard")[number % 3]),
        "plan": lambda world, node, number: _plans(world, number),
        "cancel": lambda world, node, number: world.cancel("b"),
    }
)
"""``slurm_answers``: it does, it does nothing, or does what it is asked and the answer is lost."""

_OFTEN = ("turn", "turn", "turn", "step", "wait", "cut", "mark_down", "main_takes", "heal")
_TOGETHER = ("mark_down", "mark_down", "main_takes", "main_takes", "forget", "freeze", "flap", "lose", "die")


def play(world: World, move: Move) -> None:
    """Let something happen."""
    name, node, number = move
    running = [agent.node for agent in world.agents.values() if agent.rank is not None]
    at = running[0] if node == 0 and running else world.nodes[node % len(world.nodes)]
    MOVES[name](world, at, number)
    world.check()


def draw(chance: random.Random, length: int) -> list[Move]:
    """Return a sequence of at least so many moves; most meet one node, where faults come together."""
    names, moves = [*MOVES, *_OFTEN], list[Move]()
    while len(moves) < length:
        node = chance.choice((0, 0, 0, 1, 2))
        if chance.random() < 0.85:
            moves.append((chance.choice(names), node, chance.randrange(24)))
            continue
        at = 1 + chance.randrange(3)
        first = chance.choice(("cut", "cut", "block", "freeze"))
        for name in (first, *chance.sample(_TOGETHER, 3)):
            moves += [(name, at, chance.randrange(24)), ("turn", at, chance.randrange(2))]
        moves += [("turn", at, 3)] * chance.randrange(4)
    return moves

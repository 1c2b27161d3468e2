"""Long random sessions held against cold roads: what they accept, what they become, what they answer.

``python -m tests.session.differential --deltas 500000 [--seconds S] [--seed N]``

Every delta that is applied leaves an instance that reads as valid from its own JSON. Deltas of jobs, nodes,
machines and fields are applied to plain JSON as well, which is then read whole: both roads end with the same
instance, or both refuse. After half of the deltas the session decides, and a cold call on the instance does.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

import apportion
from apportion.core.errors import InvalidInstance
from apportion.core.outcome import relative_gap
from apportion.instances.kinds import kind_of
from apportion.service.decision import Decision
from apportion.service.session import RememberingCompiler, Session
from tests.session.drawn_deltas import drawn_delta
from tests.session.random_instances import SORTS, random_instance

__all__ = ["compared", "patching", "ran"]

LIMIT = 60.0


def patching(instance: Any) -> Session:
    """Return a session that patches small models too."""
    return Session(instance, compiler=RememberingCompiler(least_options=0))


def compared(session: Session) -> Decision:
    """Hold a session's decision against a cold call on the same instance, and return it."""
    warm, cold = session.decide(time_limit=LIMIT), apportion.solve(session.instance, time_limit=LIMIT)
    assert warm.status is cold.termination, (warm, cold, warm.solution.notes, cold.notes)
    if cold.objective is None:
        assert warm.objective is None
        return warm
    assert warm.objective is not None
    assert relative_gap(warm.objective, cold.objective) <= 1e-9, (warm, cold)
    shares = [{level.name: level.share for level in one.levels} for one in (warm.solution, cold)]
    assert shares[0] == shares[1], (warm, cold)
    for own, other in zip(warm.solution.goals, cold.goals, strict=True):
        assert own.value == other.value or not (own.proven and other.proven), (own, other)
    assert apportion.check(session.instance, warm.plan).objective == warm.objective
    return warm


def ran(sort: str, rng: random.Random, count: int, until_s: float | None = None) -> Counter[str]:
    """Draw deltas for one sort of instance and compare after each; return how many came to what.

    Parameters
    ----------
    sort
        One of `SORTS`.
    rng
        The generator of random numbers.
    count
        How many deltas.
    until_s
        What `time.monotonic` says when to stop at the latest.
    """
    told: Counter[str] = Counter()
    while told["applied"] + told["refused"] < count:
        session = patching(random_instance(sort, rng))
        donor = random_instance(sort, rng)
        while type(donor) is not type(session.instance):
            donor = random_instance(sort, rng)
        for _ in range(min(200, count - told["applied"] - told["refused"])):
            if until_s is not None and time.monotonic() > until_s:
                return told
            _one(session, drawn_delta(rng.choice, session.instance, donor), rng, told)
    return told


def _one(session: Session, delta: dict[str, Any], rng: random.Random, told: Counter[str]) -> None:
    before = session.instance
    road = _COLD.get(delta["op"])
    try:
        after = session.apply(delta)
    except InvalidInstance as error:
        told["refused"] += 1
        assert session.instance is before
        assert all(problem.path.startswith("$.deltas[0]") for problem in error.problems), error
        if road is not None:
            told["refused by both roads"] += 1
            assert _read(road, before, delta) is None, (delta, str(error))
        return
    told["applied"] += 1
    assert apportion.read(msgspec.json.encode(after)) == after, delta
    if road is not None:
        told["applied on both roads"] += 1
        assert _read(road, before, delta) == after, delta
    if rng.random() < 0.5:
        plan = compared(session).plan
        told["decided"] += 1
        edits = kind_of(after).edits
        if rng.random() < 0.3 and plan is not None and edits is not None and edits.adopt is not None:
            session.apply({"op": "adopt", "plan": plan})
            told["adopted"] += 1


_Tree = dict[str, Any]
_Road = Callable[[_Tree, dict[str, Any]], None]


def _read(road: _Road, before: Any, delta: dict[str, Any]) -> Any:
    """Return what a delta makes of an instance as JSON that is read whole, ``None`` if it is refused."""
    tree: _Tree = msgspec.to_builtins(before)
    try:
        road(tree, delta)
        return apportion.read(tree)
    except (InvalidInstance, LookupError):
        return None


def _place(tree: _Tree, name: str) -> int:
    return next((at for at, job in enumerate(tree["jobs"]) if job["id"] == name), -1)


def _add_job(tree: _Tree, delta: dict[str, Any]) -> None:
    tree["jobs"] = [*tree["jobs"], delta["job"]]


def _update_job(tree: _Tree, delta: dict[str, Any]) -> None:
    at = _place(tree, delta["job"]["id"])
    if at < 0:
        raise LookupError
    tree["jobs"] = [*tree["jobs"]]
    tree["jobs"][at] = {**tree["jobs"][at], **delta["job"]}


def _remove_job(tree: _Tree, delta: dict[str, Any]) -> None:
    at = _place(tree, delta["id"])
    if at < 0:
        raise LookupError
    tree["jobs"] = [*tree["jobs"][:at], *tree["jobs"][at + 1 :]]
    for rule in tree.get("rules", ()):  # of a placement, whose rules may name jobs and their pods
        if "pairs" in rule and isinstance(rule["pairs"], dict):
            heirs = {pods: _of_others(those, delta["id"]) for pods, those in rule["pairs"].items()}
            rule["pairs"] = _of_others(heirs, delta["id"])
        for field in {"pods", "to", "amount"} & rule.keys():
            rule[field] = _of_others(rule[field], delta["id"])


def _of_others(named: Any, job: str) -> Any:
    """Return what is said of other jobs; anything but lists and mappings as it is."""
    if isinstance(named, dict):
        return {pods: said for pods, said in named.items() if pods.partition("/")[0] != job}
    return named if isinstance(named, int) else [pods for pods in named if pods.partition("/")[0] != job]


def _set_nodes(tree: _Tree, delta: dict[str, Any]) -> None:
    idle = set(delta["nodes"])
    tree["nodes"] = delta["nodes"]
    for job in tree["jobs"]:
        job["current_nodes"] = [node for node in job.get("current_nodes", ()) if node in idle]


def _set_machine(tree: _Tree, delta: dict[str, Any]) -> None:
    machine = delta["machine"]
    pools = {pool["id"]: pool for pool in tree["machines"]}
    tree["machines"] = [*{**pools, machine["id"]: machine}.values()]


def _set_fields(tree: _Tree, delta: dict[str, Any]) -> None:
    tree.update(delta["fields"])


_COLD: dict[str, _Road] = {
    "add_job": _add_job,
    "update_job": _update_job,
    "remove_job": _remove_job,
    "set_nodes": _set_nodes,
    "set_machine": _set_machine,
    "set_fields": _set_fields,
}


def main() -> int:
    """Run as many deltas as asked for and print what came of them; a difference ends the run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deltas", type=int, default=500_000)
    parser.add_argument("--seconds", type=float, default=None, help="stop after so long, whatever is left")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    began, cpu = time.monotonic(), time.process_time()
    until = None if asked.seconds is None else began + asked.seconds
    rng = random.Random(f"differential {asked.seed}")
    told: dict[str, Counter[str]] = {sort: Counter() for sort in SORTS}
    done, turn = 0, 200
    while done < asked.deltas and (until is None or time.monotonic() < until):
        for sort in SORTS:
            told[sort] += ran(sort, rng, min(turn, asked.deltas - done), until)
            done = sum(each["applied"] + each["refused"] for each in told.values())
            if done >= asked.deltas:
                break
    for sort, counts in told.items():
        print(f"{sort}: {', '.join(f'{number} {what}' for what, number in counts.items())}")
    seconds = time.monotonic() - began
    spent = time.process_time() - cpu
    each = 1e3 * spent / max(done, 1)
    print(f"{done} deltas, 0 differences, seed {asked.seed}, {seconds:.0f} s, {each:.2f} ms CPU each")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Answers of a process that has answered much before, against those of a fresh one.

``python -m tests.hunt.reuse --seconds 120 --seed 1`` asks one process about many instances in random order of
backend and limit, cuts calls off while solvers start, kills idle children between calls, hands one instance's
solution to another as a start, lets sessions take deltas, and holds every answer against the truth. Every so
often the same question is put to a fresh process: whatever was asked before, and whatever a session went
through, the answer must be that of a cold solve.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import apportion
from apportion.service.session import Session
from tests.hunt.ask import hard
from tests.hunt.case import INSTANCE, Case, subject_of
from tests.hunt.compare import mismatches
from tests.hunt.draw import KINDS
from tests.hunt.truth import truth_of
from tests.session.differential import patching
from tests.session.drawn_deltas import drawn_delta

__all__ = ["Round", "main"]

_BACKENDS = ("auto", "auto", "highs", "highs", "cp-sat", "cp-sat", "scip")
_LIMITS = (0.001, 0.005, 0.02, 0.06, 0.2, 0.6)
_PATIENCE_S = 20.0
_TOLERANCE = 2e-6
"""Relative error up to which a general solver's claim of optimality passes."""
_KINDS = [kind for kind in KINDS if kind != "tenants"]
_MOST_JOBS = 5
"""Jobs up to which an instance that deltas made is still enumerated."""


class Round:
    """Some calls one after the other, then a question whose answer is compared.

    Parameters
    ----------
    seed
        Decides everything.

    Attributes
    ----------
    wrong
        What was found, in words.
    calls
        How many calls were made.
    deltas
        How many deltas sessions took.
    """

    def __init__(self, seed: str) -> None:
        self._rng = Random(seed)
        self._before: apportion.Solution | None = None
        self.wrong: list[str] = []
        self.calls = self.deltas = 0

    def run(self) -> None:
        """Make the calls, then ask and compare."""
        for _ in range(self._rng.randint(2, 12)):
            case, options = self._drawn(self._rng.choice((*_LIMITS, _PATIENCE_S)))
            self._told(case, options)
            if self._rng.random() < 0.15:
                _kill_a_child()
        case, options = self._drawn(_PATIENCE_S)
        self._same(self._told(case, options), case, options)
        if (session := self._session()) is not None:
            document = json.loads(msgspec.json.encode(session.instance))
            case, options = Case(INSTANCE, document), {"time_limit": _PATIENCE_S}
            self._same(self._told(case, options, session), case, options)

    def _same(self, here: dict[str, Any], case: Case, options: dict[str, Any]) -> None:
        there = fresh(case, options)
        if here != there:
            self.wrong.append(f"differs: {here} here, {there} in a fresh process; {options}\n{case.encode()}")

    def _session(self) -> Session | None:
        """Let a session take deltas and decide in between; ``None`` where what was drawn is no instance."""
        kind = self._rng.choice([kind for kind in _KINDS if KINDS[kind][0] == INSTANCE])
        draw = KINDS[kind][1]
        try:
            session = patching(apportion.read(draw(self._rng, None)))
            donor = apportion.read(draw(self._rng, None))
        except apportion.InvalidInstance:
            return None
        for _ in range(self._rng.randint(1, 8)):
            with suppress(apportion.InvalidInstance):
                session.apply(drawn_delta(self._rng.choice, session.instance, donor))
                self.deltas += 1
            while len(names := [str(job.id) for job in _jobs(session)]) > _MOST_JOBS:
                session.remove_job(self._rng.choice(names))
            if self._rng.random() < 0.5:
                session.decide(time_limit=self._rng.choice(_LIMITS))
        return session

    def _drawn(self, limit: float) -> tuple[Case, dict[str, Any]]:
        kind = self._rng.choice(_KINDS)
        subject, draw = KINDS[kind]
        options = {"backend": self._rng.choice(_BACKENDS), "time_limit": limit}
        return Case(subject, draw(self._rng, None)), options

    def _told(self, case: Case, options: dict[str, Any], session: Session | None = None) -> dict[str, Any]:
        self.calls += 1
        began = time.monotonic()
        start = self._before if self._rng.random() < 0.2 and options["time_limit"] < 1 else None
        try:
            if session is not None:
                solution = session.decide(**options).solution
            else:
                solution = apportion.solve(subject_of(case), warm_start=start, **options)
        except (apportion.InvalidInstance, apportion.InvalidOption, apportion.BackendUnavailable) as error:
            return {"refused": type(error).__name__}
        except Exception as error:
            self.wrong.append(f"raised {type(error).__name__}: {error}; {options}\n{case.encode()}")
            return {"raised": type(error).__name__}
        self._before = solution
        found = mismatches(case, truth_of(case), solution, complete=False, tolerance=_TOLERANCE)
        told = [f"{one.sort}: {one.told}" for one in found if one.sort != "broken"]
        if told:
            self.wrong.append(f"{told}; {options}, {time.monotonic() - began:.2f} s\n{case.encode()}")
        return answer(solution, certain=not hard(case))


def answer(solution: apportion.Solution, *, certain: bool) -> dict[str, Any]:
    """Return what must be the same whatever was asked before; no plan, of which there may be several."""
    told: dict[str, Any] = {"plan": solution.plan is not None}
    if certain:
        told["termination"] = solution.termination.value
        if solution.termination.value == "optimal" and solution.objective is not None:
            told["objective"] = f"{solution.objective:.5g}"
    return told


def fresh(case: Case, options: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a process that has answered nothing yet."""
    asked = json.dumps({"case": case.encode(), "options": options})
    ran = subprocess.run(
        [sys.executable, "-m", "tests.hunt.reuse", "--answer"],
        input=asked,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if ran.returncode:
        return {"ended": ran.returncode, "said": ran.stderr[-300:]}
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def _jobs(session: Session) -> Any:
    return session.instance.jobs


def _kill_a_child() -> None:
    """Kill a child process of this one, as a kernel without memory does."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    with suppress(OSError, IndexError):
        os.kill(int(listed.read_text().split()[-1]), signal.SIGKILL)


def _answered() -> int:
    asked = json.loads(sys.stdin.read())
    case = Case.decode(asked["case"])
    one = Round("fresh")
    print(json.dumps(one._told(case, asked["options"])))
    return 0


def main() -> int:
    """Run rounds until the time is over; the exit code is 1 where anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.hunt.reuse", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--answer", action="store_true", help="answer one question from standard input")
    given = parser.parse_args()
    if given.answer:
        return _answered()
    until, rounds, calls, deltas, wrong = time.monotonic() + given.seconds, 0, 0, 0, list[str]()
    while time.monotonic() < until:
        rounds += 1
        one = Round(f"reuse:{given.seed}:{rounds}")
        one.run()
        calls += one.calls
        deltas += one.deltas
        wrong += one.wrong
        for told in one.wrong:
            print(f"round {rounds}: {told}", flush=True)
    print(f"{calls} calls and {deltas} deltas in {rounds} rounds, each compared with a fresh process")
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

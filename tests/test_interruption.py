"""Ctrl-C: a solve gives its incumbent, a loop of solves stops; neither ever changes a result in silence.

Real signals go to real commands at moments drawn anew; the seed of a failing draw is in its message.
"""

from __future__ import annotations

import ast
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

READY = """
import sys
from importlib import import_module
module, *arguments = sys.argv[1:]
main = import_module(module).main
sys.stderr.write("ready\\n")
sys.stderr.flush()
main(arguments)
"""
PATIENCE_S = 120.0
GENERATED = "--trace generated --machine-nodes 256 --days 1 --jobs generated --json --policy"
REPLAY = GENERATED.split()
SIMULATE = (
    "--profiles {root}/examples/cluster/profiles --workload {root}/examples/cluster/workload.csv --json"
)
LOOPS = {
    "replay freetrain": ["apportion.cli.main", "replay", *REPLAY, "freetrain"],
    "replay malletrain": ["apportion.cli.main", "replay", *REPLAY, "malletrain"],
    "simulate sia": ["apportion.cli.main", "simulate", *SIMULATE.split(), "--policy", "sia"],
    "simulate gavel": ["apportion.cli.main", "simulate", *SIMULATE.split(), "--policy", "gavel-max-min"],
    "explain": ["apportion.cli.main", "explain", "{root}/examples/matching_gangs.json", "--json"],
    "what-if": [
        *("apportion.cli.main", "what-if", "{root}/examples/matching_gangs.json", "--remove-job", "j0"),
        "--json",
    ],
}
TIMES = ("seconds", "versions", "decision_seconds", "times")


class Running:
    """A command in a process of its own that has been loaded and is about to begin."""

    def __init__(self, root: Path, command: list[str]) -> None:
        words = [word.format(root=root) for word in command]
        self.process = subprocess.Popen(
            [sys.executable, "-c", READY, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{root}/src"},
        )
        assert self.process.stderr is not None
        assert self.process.stderr.readline() == b"ready\n"
        self.began = time.perf_counter()

    def interrupted_after(self, seconds: float) -> tuple[int, bytes, bytes]:
        """Send Ctrl-C and return exit code, output and messages."""
        time.sleep(seconds)
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self) -> tuple[int, bytes, bytes]:
        try:
            out, err = self.process.communicate(timeout=PATIENCE_S)
        finally:
            self.process.kill()
        return self.process.returncode, out, err


def told(out: bytes) -> dict[str, object]:
    """Return what a command wrote, without what the clock decides."""
    return {name: value for name, value in json.loads(out).items() if name not in TIMES}


def moments(seed: int, seconds: float, count: int) -> list[float]:
    drawn = random.Random(seed)
    return [drawn.uniform(0.0, 0.9) * seconds for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_solves_stops_at_ctrl_c_and_tells_nothing(root: Path, name: str) -> None:
    """Five of six interrupted replays went on and ended with exit code 0 and other numbers."""
    whole = Running(root, LOOPS[name])
    code, out, err = whole.ended()
    lasted = time.perf_counter() - whole.began
    assert code == 0, err
    seed = time.time_ns() % 2**32
    for seconds in moments(seed, lasted, 3):
        ended, written, said = Running(root, LOOPS[name]).interrupted_after(seconds)
        drawn = f"seed {seed}, {seconds:.3f} of {lasted:.3f} s: {said[-500:]!r}"
        if ended == -signal.SIGINT:  # Python itself was ended, before the command began or after its end
            assert not written or told(written) == told(out), drawn
        elif ended == 0:  # it was faster this time, and had ended
            assert told(written) == told(out), drawn
        else:
            assert (ended, written) == (130, b""), drawn
            assert b"interrupted" in said and b"Traceback" not in said, drawn


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["freetrain", "adaptive"])
def test_an_interrupted_replay_goes_on_from_its_checkpoint_to_the_same_end(
    root: Path, tmp_path: Path, policy: str
) -> None:
    command = ["apportion.cli.main", "replay", *REPLAY, policy]
    code, out, err = Running(root, command).ended()
    assert code == 0, err
    checkpoint, log = tmp_path / "state.npz", tmp_path / "run.jsonl"
    resumed = [*command, "--checkpoint", str(checkpoint), "--log", str(log), "--resume"]
    seed = time.time_ns() % 2**32
    stops = 0
    for seconds in [*moments(seed, 1.5, 1), None]:
        running = Running(root, resumed)
        code, written, err = running.ended() if seconds is None else running.interrupted_after(seconds)
        if written:
            assert told(written) == told(out), f"seed {seed}"
            code = 0
            break
        stops += 1
        assert code in (130, -signal.SIGINT), f"seed {seed}: {err[-500:]!r}"
    assert code == 0
    steps = [line for line in log.read_text().splitlines() if line.startswith('{"time_s"')]
    assert len({json.loads(line)["time_s"] for line in steps}) == len(steps), f"seed {seed}, {stops} stops"


def test_an_interrupted_solve_keeps_the_incumbent_it_has_shown(root: Path) -> None:
    """A makespan of 3190 had been shown, and then there was no plan."""
    show = READY.replace("main(arguments)", SHOWING)
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", show, "apportion.cli.solve_instance"),
            *(f"{root}/examples/matching_gangs.json", "--json", "--time-limit", "60"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{root}/src"},
    )
    try:
        assert process.stderr is not None
        shown = None
        while shown is None:
            line = process.stderr.readline()
            assert line, "ended before anything was shown"
            if line.startswith(b"objective "):
                shown = float(line.split()[1])
        time.sleep(random.Random().uniform(0.0, 0.5))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    answer = json.loads(out)
    assert (process.returncode, answer["termination"]) == (130, "interrupted"), err
    assert answer["check"]["feasible"] and answer["objective"] <= shown


SHOWING = """
from apportion.cli import running
class Shown(running.Progress):
    callback = property(lambda self: self.tell)
    def tell(self, incumbent):
        sys.stderr.write(f"objective {incumbent.objective}\\\\n")
        sys.stderr.flush()
running.Progress = Shown
main(arguments)
""".replace("\\\\n", "\\n")


def test_a_stream_ends_after_the_interrupted_line(root: Path) -> None:
    line = json.dumps(json.loads((root / "examples" / "matching_gangs.json").read_text())).encode() + b"\n"
    running = Running(root, ["apportion.cli.solve_instance", "--stream", "--time-limit", "60"])
    assert running.process.stdin is not None
    running.process.stdin.write(3 * line)
    running.process.stdin.flush()
    code, out, err = running.interrupted_after(1.0)
    answers = [json.loads(answer) for answer in out.splitlines()]
    assert code == 130, err
    assert len(answers) <= 1 and all(answer["termination"] == "interrupted" for answer in answers)


def test_a_solve_that_the_clock_ended_says_so(root: Path) -> None:
    import apportion

    solution = apportion.solve(apportion.read(root / "examples" / "matching_gangs.json"), time_limit=0.5)
    assert solution.termination == "time_limit" and solution.plan is not None


HOLDING = """
import os, signal
from apportion.core.interruption import (
    defer_interrupt, heard, listening, raise_if_interrupted, released, uninterrupted
)
press = lambda: os.kill(os.getpid(), signal.SIGINT)
def raises(call):
    try:
        call()
    except KeyboardInterrupt:
        return True
    return False
standing = signal.getsignal(signal.SIGINT)
with listening():
    assert not heard()
    assert raises(press) and heard() and raises(raise_if_interrupted)  # raised, and remembered
assert signal.getsignal(signal.SIGINT) is standing
with defer_interrupt() as hold:
    press()
    assert hold.struck and not raises(raise_if_interrupted)  # noted, not raised
    def release():
        with released():
            raise AssertionError("a signal that came before is raised at the door")
    assert raises(release)
    with defer_interrupt() as inner:
        assert not inner.struck  # the outer one answers for it
        with released():
            pass
    press()
    assert raises(press)  # the third is raised whatever is held
with defer_interrupt(yields=True):
    def solve():
        with defer_interrupt(), released():
            press()
    assert raises(solve)
signal.signal(signal.SIGINT, lambda number, frame: None)
with defer_interrupt() as hold:
    press()
    assert not hold.struck and not heard()  # a handler of the caller's own is left alone
import threading
def elsewhere():
    with defer_interrupt() as hold, released():
        raise_if_interrupted()
        print("no main thread")
thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
"""


def test_what_is_held_waits_and_what_is_released_is_raised(root: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", HOLDING],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": f"{root}/src"},
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, "no main thread\n"), run.stderr


ROOMS = ("cluster", "explanation", "scale", "live")


def test_every_solve_in_a_loop_is_asked_whether_it_was_interrupted(root: Path) -> None:
    missing = []
    for room in ROOMS:
        for file in sorted((root / "src" / "apportion" / room).rglob("*.py")):
            if "solve(" not in (text := file.read_text()):
                continue
            tree = ast.parse(text)
            wrapped = {
                id(argument)
                for call in ast.walk(tree)
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "uninterrupted"
                for argument in call.args
            }
            for call in ast.walk(tree):
                if not isinstance(call, ast.Call) or id(call) in wrapped:
                    continue
                if ast.unparse(call.func) in ("solve", "engine.solve", "exact.solve", "highs.solve"):
                    missing.append(f"{file.relative_to(root)}:{call.lineno}")
    # `_solve` of the batch, whose answer is yielded first
    assert [place.partition(":")[0] for place in missing] == ["src/apportion/scale/executors.py"]

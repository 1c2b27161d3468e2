"""Train frozen and unfrozen for equal time: ``python -m paper_repro.accuracy [--seeds N] [--device cuda]``.

Needs PyTorch and scikit-learn, whose digits are the data: ``pip install 'apportion[torch]'``. On a processor
time is the processor time of one thread, on a GPU that of the wall, waited for. Every seed trains once
unfrozen, for 1.7 times the budget, and once under every rule for the depth, one after the other.
Effective steps of a frozen training are those after which the unfrozen one of the same seed had reached its
loss; beyond 1.7 budgets they are cut off there, and counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from apportion.cli.running import in_one_line
from paper_repro.accuracy.against_time import course_rows, courses_chart
from paper_repro.intervals import Mean
from paper_repro.progress import Progress
from paper_repro.tables import Table, markdown, write_table

_LONGER = 17
_FIELDS = ("steps", "frozen", "loss", "accuracy", "predicted", "measured", "cut_off")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train; write ``results.json``, ``course.json`` and ``course.svg``, all courses and the profiles."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.accuracy", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("accuracy-out"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=300, help="of an unfrozen training; they set the time")
    parser.add_argument("--device", default="cpu", help="cpu, cuda")
    parser.add_argument("--network", action="append", choices=["cnn", "transformer"], help="default: both")
    parser.add_argument("--quick", action="store_true", help="the CNN, one seed, 40 steps: seconds")
    given = parser.parse_args(arguments)
    if given.quick:
        given.seeds, given.steps, given.network = 1, 40, ["cnn"]
    try:
        import torch

        from paper_repro.accuracy.networks import digits
    except ImportError as error:
        raise SystemExit(f"this trains with PyTorch ({error}); pip install 'apportion[torch]'") from None
    torch.set_num_threads(1)
    device = torch.device(given.device)
    data = digits(device)
    given.out.mkdir(parents=True, exist_ok=True)
    courses: dict[str, dict[str, list[Any]]] = {}
    rows: list[dict[str, Any]] = []
    for name in given.network or ["cnn", "transformer"]:
        courses[name] = {}
        rows += _network(name, data, given, _clock(device), courses[name])
        print("\n".join(markdown(rows)), flush=True)
        (given.out / "courses.json").write_bytes(msgspec.json.encode(courses) + b"\n")
        packages = ("apportion", "numpy", "torch", "scikit-learn")
        seeds = f"0 to {given.seeds - 1}; pilot 1000"
        write_table(given.out / "results.json", Table("paper_repro.accuracy", rows, seeds, packages))
        told = [row for network, seen in courses.items() for row in course_rows(network, seen)]
        write_table(given.out / "course.json", Table("paper_repro.accuracy", told, seeds, packages))
        (given.out / "course.svg").write_text(courses_chart(told), encoding="utf-8")


def _clock(device: Any) -> Callable[[], float]:
    if device.type == "cpu":
        return time.process_time
    import torch

    def waited() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return waited


def _network(
    name: str,
    data: Any,
    given: argparse.Namespace,
    clock: Callable[[], float],
    courses: dict[str, list[Any]],
) -> list[dict[str, Any]]:
    from paper_repro.accuracy.course import Course, Rule, by_profile, to_half, train, unfrozen
    from paper_repro.accuracy.profiling import measured_profile

    progress = Progress(f"trainings of the {name}", 3 + 4 * given.seeds)
    made = measured_profile(name, data, given.steps, 1000, clock)
    (given.out / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
    profile = made.profile()
    assert profile is not None
    rules: dict[str, Rule] = {
        "IceFrog's depths, theta 1": by_profile(profile, 1.0),
        "IceFrog's depths, theta 0.5": by_profile(profile, 0.5),
        "half of the layers after warm-up": to_half,
    }
    progress.step()
    # the second half second: the first one warms up
    train(name, data, unfrozen, 999, 0.5, given.steps, clock)
    progress.step()
    paced = train(name, data, unfrozen, 998, 1.0, given.steps, clock)
    progress.step()
    budget_s = given.steps * paced.seconds[-1] / paced.steps[-1]
    found: dict[str, list[dict[str, float]]] = {}
    for seed in range(given.seeds):
        base = train(name, data, unfrozen, seed, budget_s, given.steps, clock, _LONGER)
        own: dict[str, Course] = {"nothing frozen": base}
        progress.step()
        for label, rule in rules.items():
            own[label] = train(name, data, rule, seed, budget_s, given.steps, clock)
            progress.step()
        for label, course in own.items():
            found.setdefault(label, []).append(_figures(course, base))
            courses.setdefault(label, []).append(course)
    rows = []
    for label, seen in found.items():
        row: dict[str, Any] = {"network": name, "rule": label, "seeds": given.seeds, "budget_s": budget_s}
        for field in _FIELDS:
            mean = Mean.of([one[field] for one in seen])
            row |= {field: mean.value, f"{field}_half": mean.half}
        for field in ("accuracy", "loss"):
            paired = Mean.of(
                [one[field] - zero[field] for one, zero in zip(seen, found["nothing frozen"], strict=True)]
            )
            row |= {f"{field}_more": paired.value, f"{field}_more_half": paired.half}
        rows.append(row)
    return rows


def _figures(course: Any, base: Any) -> dict[str, float]:
    """Return the figures at the budget; effective steps are told as shares of those of the unfrozen run."""
    at = 9
    # of the unfrozen run: the steps after which a loss was first reached
    reached = np.minimum.accumulate(np.log(np.array(base.loss)))
    own = float(np.log(course.loss[at]))
    steps = float(np.interp(-own, -reached, np.array(base.steps, dtype=np.float64)))
    return {
        "steps": course.steps[at] / base.steps[at],
        "frozen": course.frozen,
        "loss": course.loss[at],
        "accuracy": course.accuracy[at],
        "predicted": course.progress[at] / base.steps[at],
        "measured": steps / base.steps[at],
        "cut_off": float(own < reached[-1]),
    }


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.accuracy"):
        main()

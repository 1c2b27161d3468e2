"""Which runs every part of the study needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from paper_repro.icefrog.cases import WORKLOADS, Case

__all__ = [
    "ABLATION",
    "AFTERWARDS",
    "BASELINES",
    "BELIEFS",
    "CAPS",
    "FIXED",
    "FREEZING",
    "LOADED",
    "LOADS",
    "PARTS",
    "STOOD_IN",
    "THETAS",
    "TRUTHS",
    "TUNED",
    "Plan",
    "ablated",
    "believing",
    "cases",
    "plan",
    "reported_thetas",
]

BASELINES = (
    "fifo",
    "srtf",
    "optimus",
    "tiresias",
    "gavel-max-min",
    "gavel-makespan",
    "afs",
    "titan",
    "pollux",
    "sia",
)
"""Every one with its authors' settings, on every workload."""
TUNED: dict[str, Case] = {
    "fifo, rounds of 30 s": Case("", "fifo", round_s=30.0),
    "optimus, rounds of 120 s": Case("", "optimus", round_s=120.0),
    "tiresias, rounds of 30 s": Case("", "tiresias", round_s=30.0),
    "afs, rounds of 120 s": Case("", "afs", round_s=120.0),
    "titan, rounds of 240 s, p -0.5": Case("", "titan", round_s=240.0, power=-0.5),
    "pollux, rounds of 120 s, p -0.5": Case("", "pollux", round_s=120.0, power=-0.5),
}
"""The settings that were best on philly-1, as `tuning` found them: round length, then the knob p.

For those that are not here, Sia among them, the authors' own were best.
"""
FREEZING: dict[str, Case] = {
    "IceFrog, theta 1": Case("", "icefrog", theta=1.0),
    "IceFrog, theta 0.5": Case("", "icefrog", theta=0.5),
    "IceFrog, free, half of the layers": Case("", "icefrog", theta=0.0, deepest=0.5),
    "IceFrog, free, 0.7 of the layers": Case("", "icefrog", theta=0.0, deepest=0.7),
}
STOOD_IN: dict[str, Case] = {
    "IceFrog, theta 1, BERT stands in": Case("", "icefrog", theta=1.0, stand_in="bert"),
    "IceFrog, theta 0.5, BERT stands in": Case("", "icefrog", theta=0.5, stand_in="bert"),
    "IceFrog, theta 1, only measured ones frozen": Case("", "icefrog", theta=1.0, stand_in=None),
    "IceFrog, theta 0.5, only measured ones frozen": Case("", "icefrog", theta=0.5, stand_in=None),
}
"""What the step times of cifar10 and imagenet, which nobody published, may be."""
AFTERWARDS: dict[str, Case] = {
    "Sia, depth afterwards, theta 1": Case("", "sia+depth", theta=1.0),
    "Sia, depth afterwards, theta 0.5": Case("", "sia+depth", theta=0.5),
}
"""What deciding GPUs and depth together is worth is seen beside these."""
LOADS = (0.5, 1.5, 2.0)
LOADED = ("optimus", "tiresias", "afs", "pollux", "sia")
FIXED = ("optimus", "tiresias", "pollux", "sia")
THETAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
CAPS = (0.3, 0.5, 0.7)
TRUTHS = (0.0, 0.5, 1.0, 1.5)
BELIEFS: dict[str, Case] = {
    "the truth": Case("", "icefrog"),
    "psi without phases": Case("", "icefrog", belief="phase-agnostic"),
    "another network's psi": Case("", "icefrog", belief="borrowed"),
    "throughput off by 10 %": Case("", "icefrog", noise=0.1),
    "throughput off by 30 %": Case("", "icefrog", noise=0.3),
    "no penalty: theta 0": Case("", "icefrog", believed_theta=0.0),
    "too much of it: theta 1.5": Case("", "icefrog", believed_theta=1.5),
}
ABLATION: dict[str, Case] = {
    "neither: Tiresias": Case("", "tiresias"),
    "depth alone, on Tiresias' GPUs": Case("", "tiresias+depth"),
    "GPUs alone: Sia": Case("", "sia"),
    "GPUs by Sia, depth afterwards": Case("", "sia+depth"),
    "both together: IceFrog": Case("", "icefrog"),
    "without restart factors": Case("", "icefrog", weigh_restarts=False),
    "without warm-up": Case("", "icefrog", warm_up=0.0),
    "rebuilds that cost nothing": Case("", "icefrog", rebuild_s=0.0),
    "rebuilds of 23 s": Case("", "icefrog", rebuild_s=23.0),
    "accuracy budget 0.65": Case("", "icefrog", budget=0.65),
    "accuracy budget 0.5": Case("", "icefrog", budget=0.5),
    "accuracy budget 0.3": Case("", "icefrog", budget=0.3),
    "penalty cap of 2 jobs": Case("", "icefrog", penalty_cap=2.0),
}
PARTS = ("main", "wide", "ablation", "fixed", "wrong", "beliefs", "depths", "loads")
Plan = Mapping[str, Sequence[str]]
"""Workloads of every part."""


def plan(quick: bool) -> Plan:
    """Return the workloads of every part: all of them; one for a quick run."""
    return dict.fromkeys(PARTS, WORKLOADS[:1] if quick else WORKLOADS)


def cases(part: str, workloads: Sequence[str], quick: bool) -> Iterator[Case]:
    """Yield the runs of a part."""
    for workload in workloads:
        for case in _part(part, quick):
            yield replace(case, workload=workload)


def _part(part: str, quick: bool) -> Iterator[Case]:
    if part in ("main", "wide"):
        gpus = 48 if part == "main" else 64
        for name in BASELINES[-1 if quick else 0 :]:
            yield Case("", name, gpus)
        asked = FREEZING if quick or part == "wide" else TUNED | FREEZING | STOOD_IN | AFTERWARDS
        for case in asked.values():
            yield replace(case, gpus=gpus)
    elif part == "fixed":
        for gpus in (48,) if quick else (48, 64):
            for name in FIXED[-1 if quick else 0 :]:
                yield Case("", name, gpus, adaptive=False)
            for case in FREEZING.values():
                yield replace(case, gpus=gpus, adaptive=False)
    elif part == "loads":
        for load in LOADS[-1:] if quick else LOADS:
            for name in LOADED[-1:] if quick else LOADED:
                yield Case("", name, load=load)
            for asked in list(FREEZING.values())[: 1 if quick else 3]:
                yield replace(asked, load=load)
    elif part == "depths":
        yield Case("", "sia", 48)
        for theta in THETAS[::3] if quick else THETAS:
            for deepest in CAPS[1::2] if quick else CAPS:
                yield Case("", "icefrog", 48, theta=theta, deepest=deepest)
    elif part == "beliefs":
        yield Case("", "sia", 48)
        for theta in TRUTHS[:3:2] if quick else TRUTHS:
            for believed in TRUTHS[:3:2] if quick else TRUTHS:
                for name in ("icefrog", "icefrog-learning"):
                    yield believing(theta, believed, name)
    elif part == "wrong":
        for theta in reported_thetas(quick):
            for asked in list(BELIEFS.values())[: 2 if quick else None]:
                for name in ("icefrog", "icefrog-learning"):
                    yield replace(asked, policy=name, gpus=48, theta=theta)
    else:
        for theta in reported_thetas(quick):
            for asked in list(ABLATION.values())[: 6 if quick else None]:
                yield ablated(asked, theta)


def reported_thetas(quick: bool) -> tuple[float, ...]:
    """Return the thetas of the parts that have few."""
    return (0.5,) if quick else (0.5, 1.0)


def believing(theta: float, believed: float, policy: str) -> Case:
    """Return the run with a believed theta; IceFrog itself is not told what it knows."""
    known = believed == theta and policy == "icefrog"
    return Case("", policy, 48, theta=theta, believed_theta=None if known else believed)


def ablated(asked: Case, theta: float) -> Case:
    """Return the run of an ablation under a theta, which means nothing to who does not freeze."""
    freezes = asked.policy not in ("sia", "tiresias")
    return replace(asked, gpus=48, theta=theta if freezes else 1.0)

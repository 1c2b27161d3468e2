"""The study's tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from paper_repro.icefrog.cases import Case
from paper_repro.icefrog.experiments import (
    ABLATION,
    AFTERWARDS,
    BASELINES,
    BELIEFS,
    CAPS,
    FIXED,
    FREEZING,
    LOADED,
    LOADS,
    THETAS,
    TRUTHS,
    ablated,
    believing,
)
from paper_repro.icefrog.figures import Study

__all__ = ["BAND", "ablation", "claims", "grid", "loads", "policies", "reductions", "wrong_beliefs"]

BAND = (0.36, 0.48)
"""What the paper claims: average completion time lower by so much than the state of the art."""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def policies(study: Study, gpus: int, adaptive: bool | None) -> Iterator[str]:
    """Yield what every policy came to on one cluster."""
    named = {
        name: Case("", name, gpus, adaptive=adaptive) for name in (BASELINES if adaptive is None else FIXED)
    }
    named |= {name: replace(case, gpus=gpus, adaptive=adaptive) for name, case in FREEZING.items()}
    if adaptive is None and gpus == 48:
        named |= {name: replace(case, gpus=gpus) for name, case in AFTERWARDS.items()}
    rows = []
    for name, case in named.items():
        if not study.results(case):
            continue
        average = study.mean(case, lambda one: one.avg_jct_s)
        rows.append(
            [
                name,
                str(average.count),
                average.told(),
                study.mean(case, lambda one: one.p99_jct_s / 3600).told(digits=1),
                study.mean(case, lambda one: one.makespan_s / 3600).told(digits=1),
                study.mean(case, lambda one: one.restarts / 160).told(digits=1),
                study.mean(case, lambda one: one.mean_frozen_fraction).told(digits=2),
                study.mean(case, lambda one: 100 * one.lost_progress).told(digits=1),
                study.mean(case, lambda one: 100 * one.deep_jobs).told(digits=0),
            ]
        )
    yield from _table(
        [
            "policy",
            "workloads",
            "average, s",
            "99th percentile, h",
            "makespan, h",
            "restarts a job",
            "frozen",
            "lost progress, %",
            "jobs beyond 0.65, %",
        ],
        rows,
    )


def reductions(study: Study, gpus: int, adaptive: bool | None) -> Iterator[str]:
    """Yield by how much IceFrog is shorter than every baseline; bold where 36-48 % lies in the interval."""
    rows = []
    for name in BASELINES if adaptive is None else FIXED:
        base = Case("", name, gpus, adaptive=adaptive)
        if not study.results(base):
            continue
        cells = []
        for case in FREEZING.values():
            found = study.shorter(replace(case, gpus=gpus, adaptive=adaptive), base)
            half = found.half or 0.0
            inside = found.value + half >= BAND[0] and found.value - half <= BAND[1]
            told = found.told(100.0)
            cells.append(f"**{told}**" if inside else told)
        rows.append([name, *cells])
    yield from _table(["less than, %", *FREEZING], rows)


def _less(study: Study, case: Case, than: Case) -> str:
    """Return in words by which share a case is shorter, a dash where it was not run."""
    return study.shorter(case, than).told(100.0) if study.results(case) else "-"


def loads(study: Study) -> Iterator[str]:
    """Yield average completion times by load."""
    rows = []
    some = list(FREEZING.items())[:3]
    for load in LOADS:
        named = {name: Case("", name, load=load) for name in LOADED}
        named |= {name: replace(case, load=load) for name, case in some}
        cells = [
            study.mean(case, lambda one: one.avg_jct_s).told() if study.results(case) else "-"
            for case in named.values()
        ]
        if not study.results(named["sia"]):
            continue
        less = [_less(study, replace(case, load=load), named["sia"]) for _, case in some]
        rows.append([f"{load:g}x", *cells, *less])
    head = ["load", *LOADED, *(name for name, _ in some), *(f"{name}: less than Sia, %" for name, _ in some)]
    yield from _table(head, rows)


def grid(study: Study, beliefs: Study) -> Iterator[str]:
    """Yield by how much less than Sia, against theta and depth cap, then against truth and belief.

    The second part may have other workloads.
    """
    sia = Case("", "sia", 48)
    asked = {
        theta: [Case("", "icefrog", 48, theta=theta, deepest=deepest) for deepest in CAPS] for theta in THETAS
    }
    known = {theta: cases for theta, cases in asked.items() if study.results(cases[-1])}
    rows = [
        [
            f"{theta:g}",
            *(_less(study, case, sia) for case in cases),
        ]
        for theta, cases in known.items()
    ]
    yield from _table(["theta \\ deepest", *(f"{deepest:g}" for deepest in CAPS)], rows)
    for name in ("icefrog", "icefrog-learning"):
        rows = [
            [f"{theta:g}"]
            + [
                _less(beliefs, case, sia)
                for case in (believing(theta, believed, name) for believed in TRUTHS)
            ]
            for theta in TRUTHS
        ]
        yield from _table([f"{name}: true theta \\ believed", *(f"{theta:g}" for theta in TRUTHS)], rows)


def wrong_beliefs(study: Study, thetas: Sequence[float]) -> Iterator[str]:
    """Yield what other errors cost, as a share of the average with true beliefs."""
    rows = []
    for theta in thetas:
        truth = Case("", "icefrog", 48, theta=theta)
        for told, asked in BELIEFS.items():
            case = replace(asked, gpus=48, theta=theta)
            if not study.results(case):
                continue
            learning = replace(case, policy="icefrog-learning")
            rows.append(
                [f"{theta:g}", told]
                + [_signed(-100 * study.shorter(one, truth).value) for one in (case, learning)]
            )
    yield from _table(["true theta", "believed", "IceFrog, %", "learning, %"], rows)


def _signed(value: float) -> str:
    return f"{value:+.1f}" if abs(value) >= 0.05 else "0"


def ablation(study: Study, thetas: Sequence[float]) -> Iterator[str]:
    """Yield what every ingredient adds."""
    rows = []
    for theta in thetas:
        sia = Case("", "sia", 48)
        for told, asked in ABLATION.items():
            case = ablated(asked, theta)
            if not study.results(case):
                continue
            rows.append(
                [
                    f"{theta:g}",
                    told,
                    study.mean(case, lambda one: one.avg_jct_s).told(),
                    study.shorter(case, sia).told(100.0),
                    study.mean(case, lambda one: one.restarts / 160).told(digits=1),
                    study.mean(case, lambda one: one.mean_frozen_fraction).told(digits=2),
                    study.mean(case, lambda one: one.worst_frozen).told(digits=2),
                    study.mean(case, lambda one: 100 * one.lost_progress).told(digits=1),
                ]
            )
    head = ["theta", "variant", "average, s", "less than Sia, %", "restarts a job", "frozen", "worst job"]
    yield from _table([*head, "lost progress, %"], rows)


def claims(study: Study, gpus: int, adaptive: bool | None) -> Iterator[str]:
    """Yield, per assumption, against whom 36-48 % is reached, and what deciding together adds."""
    together: list[str] = []
    for told, case in FREEZING.items():
        inside: list[str] = []
        below: list[str] = []
        above: list[str] = []
        for name in BASELINES if adaptive is None else FIXED:
            base = Case("", name, gpus, adaptive=adaptive)
            if not study.results(base):
                continue
            value = study.shorter(replace(case, gpus=gpus, adaptive=adaptive), base).value
            where = below if value < BAND[0] else above if value > BAND[1] else inside
            where.append(f"{name} {100 * value:.0f}")
        if adaptive is None and gpus == 48:
            for name, after in AFTERWARDS.items():
                if after.theta == case.theta:
                    less = study.shorter(replace(case, gpus=gpus), replace(after, gpus=gpus))
                    together.append(f"- {told}: {less.told(100.0)} % less than {name}")
        parts = [("within", inside), ("less", below), ("more", above)]
        yield f"- {told}: " + "; ".join(f"{word}: {', '.join(names)}" for word, names in parts if names)
    yield from together
    yield ""

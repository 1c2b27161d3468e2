"""The study's tables as rows of figures; means over workloads, `±` columns their 95 % half-widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    STOOD_IN,
    THETAS,
    TRUTHS,
    TUNED,
    ablated,
    believing,
)
from paper_repro.icefrog.figures import Study
from paper_repro.intervals import Mean

__all__ = [
    "BAND",
    "ablation",
    "believed_thetas",
    "depths",
    "loads",
    "policies",
    "reductions",
    "together",
    "wrong_beliefs",
]

BAND = (0.36, 0.48)
"""What the paper claims: average completion time lower by so much than the state of the art."""

Row = dict[str, Any]


def _pair(name: str, mean: Mean, scale: float = 1.0) -> Row:
    half = None if mean.half is None else mean.half * scale
    return {name: mean.value * scale, f"± {name}": half}


def _run(study: Study, named: Mapping[str, Case]) -> dict[str, Case]:
    """Return the cases that were run."""
    return {name: case for name, case in named.items() if study.results(case)}


def _baselines(study: Study, gpus: int, adaptive: bool | None) -> dict[str, Case]:
    names = BASELINES if adaptive is None else FIXED
    plain = {name: Case("", name, gpus, adaptive=adaptive) for name in names}
    tuned = {name: replace(case, gpus=gpus) for name, case in TUNED.items()} if adaptive is None else {}
    return _run(study, plain | tuned)


def _variants(study: Study, gpus: int, adaptive: bool | None) -> dict[str, Case]:
    asked = FREEZING | STOOD_IN if adaptive is None else FREEZING
    return _run(study, {name: replace(case, gpus=gpus, adaptive=adaptive) for name, case in asked.items()})


def policies(study: Study, gpus: int, adaptive: bool | None) -> list[Row]:
    """Return what every policy came to on one cluster."""
    after = {name: replace(case, gpus=gpus, adaptive=adaptive) for name, case in AFTERWARDS.items()}
    named = _baselines(study, gpus, adaptive) | _variants(study, gpus, adaptive) | _run(study, after)
    rows = []
    for name, case in named.items():
        average = study.mean(case, lambda one: one.avg_jct_s)
        rows.append(
            {"gpus": gpus, "policy": name, "workloads": average.count}
            | _pair("average, s", average)
            | _pair("99th percentile, h", study.mean(case, lambda one: one.p99_jct_s / 3600))
            | _pair("makespan, h", study.mean(case, lambda one: one.makespan_s / 3600))
            | {"restarts a job": study.mean(case, lambda one: one.restarts / 160).value}
            | {"frozen": study.mean(case, lambda one: one.mean_frozen_fraction).value}
            | {"lost progress, %": study.mean(case, lambda one: 100 * one.lost_progress).value}
            | {"jobs beyond 0.65, %": study.mean(case, lambda one: 100 * one.deep_jobs).value}
        )
    return rows


def reductions(study: Study, gpus: int, adaptive: bool | None) -> list[Row]:
    """Return by how many per cent IceFrog's average completion time is shorter than every baseline's."""
    rows = []
    for label, ours in _variants(study, gpus, adaptive).items():
        for name, theirs in _baselines(study, gpus, adaptive).items():
            less = study.shorter(ours, theirs)
            row = {"gpus": gpus, "policy": label, "less than": name, "workloads": less.count}
            rows.append(row | _pair("less, %", less, 100.0))
    return rows


def together(study: Study) -> list[Row]:
    """Return what deciding GPUs and depth together brings over freezing afterwards what Sia has placed."""
    rows = []
    for label, case in FREEZING.items():
        for name, after in _run(
            study, {one: replace(two, gpus=48) for one, two in AFTERWARDS.items()}
        ).items():
            if after.theta == case.theta:
                less = study.shorter(replace(case, gpus=48), after)
                row = {"policy": label, "less than": name, "workloads": less.count}
                rows.append(row | _pair("less, %", less, 100.0))
    return rows


def _less(study: Study, case: Case, than: Case) -> Row:
    return _pair("less than Sia, %", study.shorter(case, than), 100.0)


def _longer(name: str, study: Study, case: Case, than: Case) -> Row:
    less = study.shorter(case, than)
    half = None if less.half is None else 100.0 * less.half
    return _pair(name, less, -100.0) | {f"± {name}": half}


def loads(study: Study) -> list[Row]:
    """Return average completion times by load, 64 GPUs."""
    rows = []
    for load in LOADS:
        named = {name: Case("", name, load=load) for name in LOADED}
        named |= {name: replace(case, load=load) for name, case in list(FREEZING.items())[:3]}
        for name, case in _run(study, named).items():
            average = study.mean(case, lambda one: one.avg_jct_s)
            row = {"load": load, "policy": name, "workloads": average.count} | _pair("average, s", average)
            rows.append(row | _less(study, case, named["sia"]))
    return rows


def depths(study: Study) -> list[Row]:
    """Return by how much less than Sia, by theta and deepest depth; theta is known."""
    sia, rows = Case("", "sia", 48), []
    for theta in THETAS:
        for deepest in CAPS:
            case = Case("", "icefrog", 48, theta=theta, deepest=deepest)
            if study.results(case):
                row = {"theta": theta, "deepest": deepest, "workloads": len(study.results(case))}
                rows.append(row | _less(study, case, sia))
    return rows


def believed_thetas(study: Study) -> list[Row]:
    """Return by how much less than Sia, by true and believed theta."""
    sia, rows = Case("", "sia", 48), []
    for name in ("icefrog", "icefrog-learning"):
        for theta in TRUTHS:
            for believed in TRUTHS:
                case = believing(theta, believed, name)
                if study.results(case):
                    row = {"policy": name, "theta": theta, "believed": believed, "deepest": case.deepest}
                    rows.append(row | _less(study, case, sia))
    return rows


def wrong_beliefs(study: Study, thetas: Sequence[float]) -> list[Row]:
    """Return what other errors add to the average completion time with true beliefs, per cent."""
    rows = []
    for theta in thetas:
        truth = Case("", "icefrog", 48, theta=theta)
        for label, asked in BELIEFS.items():
            for policy in ("icefrog", "icefrog-learning"):
                case = replace(asked, policy=policy, gpus=48, theta=theta)
                if study.results(case):
                    row = {"theta": theta, "believed": label, "policy": policy}
                    row |= {"workloads": study.shorter(case, truth).count}
                    rows.append(row | _longer("longer, %", study, case, truth))
    return rows


def ablation(study: Study, thetas: Sequence[float]) -> list[Row]:
    """Return what every ingredient adds."""
    sia = Case("", "sia", 48)
    rows = []
    for theta in thetas:
        whole = ablated(ABLATION["both together: IceFrog"], theta)
        for label, asked in ABLATION.items():
            case = ablated(asked, theta)
            if not study.results(case):
                continue
            average = study.mean(case, lambda one: one.avg_jct_s)
            rows.append(
                {"theta": theta, "variant": label, "workloads": average.count}
                | _pair("average, s", average)
                | _less(study, case, sia)
                | _longer("longer than IceFrog, %", study, case, whole)
                | {"restarts a job": study.mean(case, lambda one: one.restarts / 160).value}
                | {"frozen": study.mean(case, lambda one: one.mean_frozen_fraction).value}
                | {"worst job": study.mean(case, lambda one: one.worst_frozen).value}
                | {"lost progress, %": study.mean(case, lambda one: 100 * one.lost_progress).value}
            )
    return rows

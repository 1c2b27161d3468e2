"""The model-similarity policy: three levels of information and caution, one call."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.cluster.estimation.model_similarity import (
    Information,
    ReferenceSpeeds,
    TrainingJob,
    believed_times,
    model_similarity,
)
from apportion.cluster.estimation.similarity import ModelSignature, SimilarityPredictor
from tests.budgets import examples

ARCHITECTURES = ("k80", "p100", "v100")
LEVELS = get_args(Information)


def cluster(
    seed: int, jobs: int, noise: float = 0.1
) -> tuple[ReferenceSpeeds, list[TrainingJob], np.ndarray]:
    """Known models, jobs with measured times, and the jobs' true times."""
    rng = np.random.default_rng(seed)
    gain = {"vgg": (2.0, 6.0), "lstm": (1.1, 1.4), "vit": (3.0, 4.0)}

    def model(number: int) -> tuple[ModelSignature, np.ndarray]:
        family = sorted(gain)[int(rng.integers(3))]
        gmacs = float(rng.lognormal(1.0, 0.7))
        speed = 1000.0 / gmacs * np.array([1.0, *gain[family]]) * np.exp(rng.normal(0.0, noise, 3))
        return ModelSignature(f"{family}{number}", family, gmacs=gmacs), speed

    known = [model(number) for number in range(30)]
    reference = ReferenceSpeeds([s for s, _ in known], np.array([v for _, v in known]), ARCHITECTURES)
    drawn = [model(100 + number) for number in range(jobs)]
    work = rng.uniform(1e3, 1e5, jobs)
    true = work[:, None] / np.array([v for _, v in drawn])
    made = [
        TrainingJob(
            f"j{k}", signature, float(work[k]), dict(zip(ARCHITECTURES, true[k].tolist(), strict=True))
        )
        for k, (signature, _) in enumerate(drawn)
    ]
    return reference, made, true


def only(jobs: list[TrainingJob], *where: str) -> list[TrainingJob]:
    """The jobs with what was measured on some architectures alone, and no work told."""
    return [
        TrainingJob(job.id, job.signature, None, {name: job.measured_s[name] for name in where}, job.gpus)
        for job in jobs
    ]


def test_the_oracle_believes_what_was_measured() -> None:
    reference, jobs, true = cluster(1, 8)
    assert believed_times(jobs, ARCHITECTURES, reference, "oracle") == pytest.approx(true)
    assert believed_times(jobs, ARCHITECTURES, reference) == pytest.approx(true)
    assert believed_times(jobs, ARCHITECTURES, reference, "oracle", caution=2.0) == pytest.approx(true)


def test_a_profile_is_kept_and_scales_the_rest() -> None:
    reference, jobs, true = cluster(2, 8)
    believed = believed_times(only(jobs, "p100"), ARCHITECTURES, reference, "profiled")
    assert believed[:, 1] == pytest.approx(true[:, 1])
    ratio, _ = reference.predict([job.signature for job in jobs], "p100")
    assert believed == pytest.approx(true[:, 1:2] / ratio)


def test_unknown_jobs_are_work_at_predicted_speed() -> None:
    reference, jobs, _ = cluster(3, 8)
    believed = believed_times(jobs, ARCHITECTURES, reference, "similarity")
    speed, _ = reference.predict([job.signature for job in jobs])
    assert believed == pytest.approx(np.array([[job.work] for job in jobs]) / speed)


def test_the_more_is_known_the_closer_it_is() -> None:
    errors = []
    for seed in range(10):
        reference, jobs, true = cluster(seed, 20, noise=0.3)
        unknown = believed_times(jobs, ARCHITECTURES, reference, "similarity")
        one = believed_times(only(jobs, "k80"), ARCHITECTURES, reference, "profiled")
        errors.append([np.abs(np.log(told / true)).mean() for told in (unknown, one)])
    unknown_error, profiled_error = np.mean(errors, axis=0)
    assert profiled_error < unknown_error


def test_the_assignment_follows_the_level() -> None:
    """A model that is unlike its family is only found out by measuring it."""
    known = [ModelSignature("a1", "a"), ModelSignature("b1", "b")]
    reference = ReferenceSpeeds(known, [[1.0, 4.0], [1.0, 1.0]], ["old", "new"])
    jobs = [
        TrainingJob("odd", ModelSignature("a2", "a"), 120.0, {"old": 100.0, "new": 100.0}),
        TrainingJob("plain", ModelSignature("b2", "b"), 100.0, {"old": 100.0, "new": 50.0}),
    ]
    pools = {"old": 1, "new": 1}
    chosen = {
        level: apportion.solve(model_similarity(jobs, pools, reference, level)).require()["assignment"]
        for level in ("similarity", "oracle")
    }
    assert chosen["similarity"] == {"odd": "new", "plain": "old"}
    assert chosen["oracle"] == {"odd": "old", "plain": "new"}


def test_caution_avoids_what_is_uncertain() -> None:
    sure = [ModelSignature(f"s{k}", "sure") for k in range(4)]
    wild = [ModelSignature(f"w{k}", "wild") for k in range(4)]
    speeds = [[1.0, 2.0]] * 4 + [[1.0, 0.7], [1.0, 9.0], [1.0, 0.8], [1.0, 8.0]]
    reference = ReferenceSpeeds([*sure, *wild], speeds, ["old", "new"], lambda: SimilarityPredictor(4))
    jobs = [
        TrainingJob("sure", ModelSignature("x", "sure"), 100.0),
        TrainingJob("wild", ModelSignature("y", "wild"), 100.0),
    ]
    pools = {"old": 1, "new": 1}
    plain, robust = (
        apportion.solve(model_similarity(jobs, pools, reference, "similarity", caution)).require()[
            "assignment"
        ]
        for caution in (0.0, 1.0)
    )
    assert plain == {"sure": "new", "wild": "new"}
    assert robust == {"sure": "new", "wild": "old"}


@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from(LEVELS), st.floats(0.0, 3.0))
@settings(max_examples=examples(40))
def test_laws(seed: int, size: int, level: Information, caution: float) -> None:
    reference, jobs, true = cluster(seed, size)
    told = believed_times(jobs, ARCHITECTURES, reference, level)
    careful = believed_times(jobs, ARCHITECTURES, reference, level, caution)
    assert (careful >= told * (1 - 1e-12)).all()
    assert np.isfinite(told).all()
    longer = [
        TrainingJob(j.id, j.signature, 3.0 * (j.work or 0.0), {a: 3.0 * t for a, t in j.measured_s.items()})
        for j in jobs
    ]
    assert believed_times(longer, ARCHITECTURES, reference, level) == pytest.approx(3.0 * told)
    order = np.random.default_rng(seed).permutation(size)
    assert believed_times([jobs[k] for k in order], ARCHITECTURES, reference, level) == pytest.approx(
        told[order]
    )
    pools = dict.fromkeys(ARCHITECTURES, 2)
    instance = model_similarity(jobs, pools, reference, level, caution)
    solution = apportion.solve(instance, time_limit=5.0)
    assert apportion.check(instance, solution.plan).feasible
    if level == "oracle":
        assert solution.objective is not None
        assert solution.objective >= true.min(axis=1).max() * (1 - 1e-9)


def test_gangs_only_run_where_they_fit() -> None:
    reference, jobs, _ = cluster(4, 2)
    wide = [TrainingJob(job.id, job.signature, job.work, {}, gpus=4) for job in jobs]
    instance = model_similarity(wide, {"k80": 4, "v100": 2}, reference)
    assert all(set(job.on) == {"k80"} for job in instance.jobs)
    assert all(entry.gpus == 4 for job in instance.jobs for entry in job.on.values())


def test_models_measured_on_some_architectures_alone() -> None:
    known = [ModelSignature("a1", "a"), ModelSignature("a2", "a"), ModelSignature("a3", "a")]
    nan = float("nan")
    reference = ReferenceSpeeds(known, [[1.0, 2.0, nan], [1.0, 4.0, nan], [nan, nan, 8.0]], ARCHITECTURES)
    job = TrainingJob("x", ModelSignature("a4", "a"), 80.0, {"k80": 80.0})
    told = believed_times([job], ARCHITECTURES, reference, "similarity")
    assert told[0, 2] == pytest.approx(10.0)
    scaled = believed_times([job], ARCHITECTURES, reference, "profiled")
    assert scaled[0, 0] == 80.0
    assert np.isnan(scaled[0, 2])
    assert set(model_similarity([job], {"k80": 1, "v100": 1}, reference, "profiled").jobs[0].on) == {"k80"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"information": "similarity", "jobs": "measured"}, r"jobs\.j0\.work"),
        ({"information": "profiled", "jobs": "bare"}, r"jobs\.j0\.measured_s: needs a time on one of k80"),
        ({"information": "oracle", "jobs": "bare"}, r"jobs\.j0\.measured_s\.k80: is needed by the oracle"),
        ({"jobs": "nothing"}, r"jobs\.j0: needs its work or a measured time"),
        ({"pools": {"tpu": 1}}, r"pools\.tpu: is no architecture"),
        ({"jobs": "negative"}, r"jobs\.j0\.work: must be a positive finite number"),
    ],
)
def test_what_is_lacking_is_named(change: dict[str, Any], named: str) -> None:
    reference, jobs, _ = cluster(5, 2)
    variants = {
        "measured": only(jobs, "k80"),
        "bare": [TrainingJob(job.id, job.signature, job.work) for job in jobs],
        "nothing": [TrainingJob(job.id, job.signature) for job in jobs],
        "negative": [TrainingJob(job.id, job.signature, -1.0) for job in jobs],
    }
    chosen = variants.get(change.get("jobs", ""), jobs)
    with pytest.raises(apportion.InvalidInstance, match=named):
        model_similarity(
            chosen, change.get("pools", {"k80": 1}), reference, change.get("information", "available")
        )


@pytest.mark.parametrize(
    ("more", "named"), [({"information": "psychic"}, "information"), ({"caution": -1.0}, "caution")]
)
def test_wrong_options_are_named(more: dict[str, Any], named: str) -> None:
    reference, jobs, _ = cluster(6, 1)
    with pytest.raises(apportion.InvalidOption, match=named):
        model_similarity(jobs, {"k80": 1}, reference, **more)


@pytest.mark.parametrize(
    ("speeds", "architectures", "named"),
    [
        ([[1.0]], ["a", "b"], "speeds: must be one row per model"),
        ([[1.0, 0.0]], ["a", "b"], r"speeds\.net\.b: must be positive"),
        ([[1.0, float("nan")]], ["a", "b"], r"speeds\.b: no model was measured"),
        ([[1.0, 2.0]], ["a", "a"], "architectures: must be distinct"),
    ],
)
def test_wrong_references_are_named(speeds: list[list[float]], architectures: list[str], named: str) -> None:
    with pytest.raises(apportion.InvalidInstance, match=named):
        ReferenceSpeeds([ModelSignature("net", "net")], speeds, architectures)

"""The model-similarity policy as an instance: predicted times in, a matching out.

After Thanapol et al., "Scheduling Deep Learning Training in GPU Cluster Using the Model-Similarity-Based
Policy" (ACIIDS 2023), whose full text is not public: the prediction is ours (see
``cluster/estimation/similarity.py``), and instead of giving each job in turn the best free architecture, the
predicted times go into the exact makespan.

One call, three levels of information; W_j is the work, s_ja the predicted speed, m_jb a measured time:

================  ==========================================================================================
``similarity``    unknown jobs: t_ja = W_j / s_ja
``profiled``      measured on some architecture b: t_ja = m_jb * (s_jb / s_ja), the mean over all such b
``oracle``        t_ja = m_ja, measured everywhere
``available``     job by job the best there is: what was measured as it is, the rest profiled, else by
                  similarity
================  ==========================================================================================

The robust variant discounts what is uncertain: a predicted time is multiplied by exp(caution * spread), a
measured one never is.

Measured speeds of known models are tables as timm's benchmark files: a CSV with one row a model, ``model``,
two columns of speeds, and what is known of the model. `held_out` says how well a predictor does on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.cluster.estimation.similarity import ModelSignature, Prediction, SimilarityPredictor, family_of
from apportion.core.errors import InvalidInstance, InvalidOption, Problem, one_of
from apportion.core.files import csv_records, log_skipped_rows
from apportion.instances.matching import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine

__all__ = [
    "HeldOut",
    "Information",
    "ReferenceSpeeds",
    "ReferenceTable",
    "TrainingJob",
    "believed_times",
    "held_out",
    "model_similarity",
    "read_reference",
    "read_signatures",
]


_WIDEST = 1e12
"""Largest ratio of the two speeds of a model, and its inverse the smallest."""
_SHOWN = 40
_FEATURES = MappingProxyType(
    {
        "gmacs": "infer_gmacs",
        "mactivations": "infer_macts",
        "mparams": "param_count",
        "batch": "batch",
        "gpus": "gpus",
    }
)
"""Column of every attribute."""
_KNOWN = ("family", *_FEATURES.values())


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceTable:
    """Models measured on a base and a target architecture.

    Attributes
    ----------
    signatures
        One per model.
    ratio
        float64 [models]: speed on the target over speed on the base.
    unmeasured
        Models without a row that has both speeds.
    skipped
        Rows without a name, and rows of a model after its first one with both speeds.
    """

    signatures: tuple[ModelSignature, ...]
    ratio: NDArray[np.float64]
    unmeasured: tuple[ModelSignature, ...]
    skipped: int


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Errors of predictions made without the row, or without its whole family.

    Attributes
    ----------
    predicted
        float64 [models]: predicted ratios.
    mape, mape_median_guess
        Mean absolute percentage errors of the prediction and of guessing the median of the other rows.
    models
        How many models were predicted.
    """

    predicted: NDArray[np.float64]
    mape: float
    mape_median_guess: float
    models: int


def read_reference(text: str, base_column: str, target_column: str) -> ReferenceTable:
    """Read a CSV with one row a model: ``model``, the two speed columns, and what is known of the model.

    Known columns are ``family``, ``infer_gmacs``, ``infer_macts``, ``param_count``, ``batch`` and ``gpus``;
    without a family it is the leading letters of the name. An empty or 0 speed was not measured. Of several
    rows of a model the first with both speeds counts.

    Raises
    ------
    InvalidInstance
        If a column is missing, stands twice or holds what is no number of at least 0, with its line.
    """
    rows = csv_records(text, ("model", base_column, target_column), _KNOWN)
    measured: dict[str, tuple[ModelSignature, float]] = {}
    lacking: dict[str, ModelSignature] = {}
    skipped = 0
    problems: list[Problem] = []
    for line, row in rows:
        name = row["model"]
        if not name or name in measured:
            skipped += 1
            continue
        before = len(problems)
        base, target = _number(row, base_column, line, problems), _number(row, target_column, line, problems)
        signature = _signature(name, row, line, problems)
        if len(problems) > before or signature is None:
            continue
        if not base or not target:
            lacking.setdefault(name, signature)
            continue
        ratio = target / base
        if not 1.0 / _WIDEST <= ratio <= _WIDEST:
            message = (
                f"is {target:g} where {base_column} is {base:g}: no two GPUs differ by a factor beyond 1e12"
            )
            problems.append(Problem(f"line {line}, {target_column}", message))
            continue
        measured[name] = signature, ratio
    if problems:
        raise InvalidInstance(problems)
    if len(measured) < 2:
        message = f"needs at least two models with both speeds, has {len(measured)}"
        raise InvalidInstance(Problem(f"{base_column}, {target_column}", message))
    signatures, ratios = zip(*measured.values(), strict=True)
    rest = tuple(signature for name, signature in lacking.items() if name not in measured)
    log_skipped_rows("the reference", len(rows), {"without a model, or of one that stands before": skipped})
    return ReferenceTable(signatures, np.array(ratios), rest, skipped)


def read_signatures(text: str) -> dict[str, ModelSignature]:
    """Read what is known of models without running them, by name: the columns of `read_reference` but speeds.

    Raises
    ------
    InvalidInstance
        If the column ``model`` is missing, a model is nameless or stands twice, or a cell is no number of at
        least 0, with its line.
    """
    signatures: dict[str, ModelSignature] = {}
    problems: list[Problem] = []
    for line, row in csv_records(text, ("model",), _KNOWN):
        name = row["model"]
        if not name or name in signatures:
            problems.append(Problem(f"line {line}, model", f"stands twice: {name}" if name else "is empty"))
        elif (signature := _signature(name, row, line, problems)) is not None:
            signatures[name] = signature
    if problems:
        raise InvalidInstance(problems)
    return signatures


def held_out(
    table: ReferenceTable,
    by_family: bool = False,
    predictor: Callable[[], SimilarityPredictor] = SimilarityPredictor,
) -> HeldOut:
    """Predict every model from a table without it, or without its family.

    Raises
    ------
    InvalidInstance
        If leaving a family out leaves nothing.
    """
    families = np.array([signature.family for signature in table.signatures])
    groups = (
        [np.flatnonzero(families == family) for family in np.unique(families)]
        if by_family
        else [np.array([position]) for position in range(len(table.signatures))]
    )
    if len(groups) < 2:
        why = f"is {str(families[0])!r} for every model: leave-one-family-out needs at least two families"
        raise InvalidInstance(Problem("family", why))
    predicted = np.zeros(table.ratio.size)
    guess = np.zeros(table.ratio.size)
    for group in groups:
        rest = np.setdiff1d(np.arange(table.ratio.size), group)
        fitted = predictor().fit([table.signatures[i] for i in rest], table.ratio[rest][:, None])
        predictions: Sequence[Prediction] = fitted.predict([table.signatures[i] for i in group], noise=False)
        predicted[group] = [prediction.speed[0] for prediction in predictions]
        guess[group] = np.median(table.ratio[rest])
    return HeldOut(predicted, _mape(predicted, table.ratio), _mape(guess, table.ratio), table.ratio.size)


def _mape(predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> float:
    return float(100.0 * np.mean(np.abs(predicted / measured - 1.0)))


def _signature(name: str, row: dict[str, str], line: int, problems: list[Problem]) -> ModelSignature | None:
    before = len(problems)
    numbers = {field: _number(row, column, line, problems) for field, column in _FEATURES.items()}
    family = row.get("family") or family_of(name)
    return None if len(problems) > before else ModelSignature(name, family, **numbers)


def _number(row: dict[str, str], column: str, line: int, problems: list[Problem]) -> float | None:
    text = row.get(column, "")
    if not text or text.lower() in ("nan", "none", "null"):
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value >= 0:
        return value
    message = f"must be a number of at least 0, not {text[:_SHOWN]!r}"
    problems.append(Problem(f"line {line}, {column}", message))
    return None


class ReferenceSpeeds:
    """Speeds of known models by architecture: samples per second, or relative to one architecture.

    Parameters
    ----------
    signatures
        The known models.
    speeds
        float64 [models, architectures], positive; NaN where a model was not measured.
    architectures
        Their names.
    predictor
        Makes a predictor that is not fitted yet.

    Raises
    ------
    InvalidInstance
        If shapes do not fit, names stand twice, a speed is not positive, or nothing was measured somewhere.
    """

    def __init__(
        self,
        signatures: Sequence[ModelSignature],
        speeds: ArrayLike,
        architectures: Sequence[str],
        predictor: Callable[[], SimilarityPredictor] = SimilarityPredictor,
    ) -> None:
        self.signatures = tuple(signatures)
        self.architectures = tuple(architectures)
        self.speeds = np.asarray(speeds, dtype=np.float64)
        self._predictor = predictor
        self._fitted: dict[int | None, list[tuple[NDArray[np.int64], SimilarityPredictor]]] = {}
        shape = (len(self.signatures), len(self.architectures))
        if self.speeds.shape != shape or 0 in shape:
            message = (
                f"must be one row per model and one column per architecture, {shape}, at least one of each"
            )
            raise InvalidInstance(Problem("speeds", f"{message}; not {self.speeds.shape}"))
        if len(set(self.architectures)) < len(self.architectures):
            raise InvalidInstance(Problem("architectures", "must be distinct"))
        wrong = np.argwhere(np.isinf(self.speeds) | (self.speeds <= 0))
        if wrong.size:
            model, on = (int(k) for k in wrong[0])
            where = f"speeds.{self.signatures[model].name}.{self.architectures[on]}"
            raise InvalidInstance(Problem(where, f"must be positive, not {self.speeds[model, on]:g}"))
        for on, name in enumerate(self.architectures):
            if np.isnan(self.speeds[:, on]).all():
                raise InvalidInstance(Problem(f"speeds.{name}", "no model was measured there"))

    def predict(
        self, signatures: Sequence[ModelSignature], base: str | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return speeds of models and how uncertain they are.

        Parameters
        ----------
        signatures
            The models.
        base
            The architecture that speeds are relative to; ``None`` for the table's own unit. On the base
            itself the speed is 1 and its spread 0. What was never measured beside the base is NaN.

        Returns
        -------
        float64 [models, architectures], float64 [models, architectures]
            Speeds, and standard deviations of their logarithms.
        """
        shape = (len(signatures), len(self.architectures))
        speed, spread = np.full(shape, np.nan), np.full(shape, np.nan)
        if not len(signatures):
            return speed, spread
        at = None if base is None else self.architectures.index(base)
        for columns, fitted in self._for(at):
            for row, prediction in enumerate(fitted.predict(signatures)):
                speed[row, columns], spread[row, columns] = prediction.speed, prediction.spread
        if at is not None:
            speed[:, at], spread[:, at] = 1.0, 0.0
        return speed, spread

    def _for(self, base: int | None) -> list[tuple[NDArray[np.int64], SimilarityPredictor]]:
        """Return predictors and the architectures that each one predicts."""
        if base not in self._fitted:
            ratio = self.speeds if base is None else self.speeds / self.speeds[:, [base]]
            known = ~np.isnan(ratio)
            groups: dict[bytes, list[int]] = {}
            for on in range(len(self.architectures)):
                if known[:, on].any():
                    groups.setdefault(known[:, on].tobytes(), []).append(on)
            made = []
            for columns in groups.values():
                rows = np.flatnonzero(known[:, columns[0]])
                models = [self.signatures[k] for k in rows.tolist()]
                fitted = self._predictor().fit(models, ratio[rows][:, columns])
                made.append((np.array(columns, dtype=np.int64), fitted))
            self._fitted[base] = made
        return self._fitted[base]


Information = Literal["available", "similarity", "profiled", "oracle"]
_LEVELS = ("available", "similarity", "profiled", "oracle")


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A job to train.

    Attributes
    ----------
    id
        Unique name.
    signature
        What is known of its model.
    work
        How much there is to do, in the unit of the reference speeds: samples where they are samples per
        second, seconds on the base architecture where they are relative to it. Absent where only times were
        measured.
    measured_s
        Seconds the whole job takes by architecture, as far as that was measured.
    gpus
        GPUs it holds at the same time.
    """

    id: str
    signature: ModelSignature
    work: float | None = None
    measured_s: Mapping[str, float] = field(default_factory=dict)
    gpus: int = 1


def model_similarity(
    jobs: Sequence[TrainingJob],
    pools: Mapping[str, int],
    reference: ReferenceSpeeds,
    information: Information = "available",
    caution: float = 0.0,
    name: str = "",
) -> MatchingInstance:
    """Return the makespan instance of jobs whose times are predicted or measured.

    Parameters
    ----------
    jobs
        The jobs.
    pools
        GPUs by architecture. A job that needs more GPUs than a pool has cannot run there.
    reference
        Known models and their speeds on these architectures.
    information
        What may be used of the jobs; see the module.
    caution
        Weight of uncertainty: 0 believes predictions, larger numbers discount uncertain ones.
    name
        Name of the instance.

    Raises
    ------
    InvalidInstance
        If a job lacks what its level of information needs, or a pool is no architecture of the reference.
    InvalidOption
        If there is no such level, or `caution` is negative or not finite.

    Examples
    --------
    >>> import apportion
    >>> from apportion.cluster.estimation.similarity import ModelSignature
    >>> from apportion.cluster.estimation.model_similarity import ReferenceSpeeds
    >>> known = [ModelSignature("vgg16", "vgg"), ModelSignature("densenet121", "densenet")]
    >>> reference = ReferenceSpeeds(known, [[100.0, 390.0], [200.0, 240.0]], ["titan", "a100"])
    >>> jobs = [
    ...     TrainingJob("new-vgg", ModelSignature("vgg19", "vgg"), work=39000.0),
    ...     TrainingJob("new-densenet", ModelSignature("densenet169", "densenet"), work=24000.0),
    ... ]
    >>> instance = model_similarity(jobs, {"titan": 1, "a100": 1}, reference, "similarity")
    >>> apportion.solve(instance).require()["assignment"]
    {'new-vgg': 'a100', 'new-densenet': 'titan'}
    """
    times = believed_times(jobs, tuple(pools), reference, information, caution)
    made = []
    for job, row in zip(jobs, times.tolist(), strict=True):
        on = {
            pool: MatchingEntry(time_s=time, gpus=job.gpus)
            for (pool, count), time in zip(pools.items(), row, strict=True)
            if job.gpus <= count and not math.isnan(time)
        }
        made.append(MatchingJob(id=job.id, on=on))
    machines = tuple(MatchingMachine(id=pool, count=count) for pool, count in pools.items())
    return MatchingInstance("1", "makespan", machines, tuple(made), name=name)


def believed_times(
    jobs: Sequence[TrainingJob],
    pools: Sequence[str],
    reference: ReferenceSpeeds,
    information: Information = "available",
    caution: float = 0.0,
) -> NDArray[np.float64]:
    """Return float64 [jobs, pools]: seconds as believed; NaN where nothing is known of a pair.

    The parameters and errors are those of `model_similarity`.
    """
    one_of("information", information, _LEVELS)
    if not (math.isfinite(caution) and caution >= 0):
        raise InvalidOption(f"caution must be a finite number >= 0, not {caution!r}")
    column = {name: k for k, name in enumerate(reference.architectures)}
    unknown = [pool for pool in pools if pool not in column]
    if unknown:
        raise InvalidInstance(
            [Problem(f"$.pools.{pool}", "is no architecture of the reference") for pool in unknown]
        )
    problems = list(_lacking(jobs, pools, column, information))
    if problems:
        raise InvalidInstance(problems)
    profiled = [
        k
        for k, job in enumerate(jobs)
        if information != "similarity" and any(name in column for name in job.measured_s)
    ]
    rest = sorted(set(range(len(jobs))).difference(profiled))
    predicted = np.full((len(jobs), len(column)), np.nan)
    if information != "oracle":
        for rows, predict in ((rest, _by_work), (profiled, _by_profile)):
            if rows:
                predicted[rows] = predict([jobs[k] for k in rows], reference, column, caution)
    times = predicted[:, [column[pool] for pool in pools]]
    if information != "similarity":
        for row, job in enumerate(jobs):
            for k, pool in enumerate(pools):
                times[row, k] = job.measured_s.get(pool, times[row, k])
    return times


def _lacking(
    jobs: Sequence[TrainingJob], pools: Sequence[str], column: Mapping[str, int], information: Information
) -> Iterator[Problem]:
    """Yield what jobs lack for a level of information, and what is no time."""
    for job in jobs:
        where = f"$.jobs.{job.id}"
        given = {f"measured_s.{name}": time for name, time in job.measured_s.items()}
        given |= {} if job.work is None else {"work": job.work}
        for name, value in given.items():
            if not (math.isfinite(value) and value > 0):
                yield Problem(f"{where}.{name}", f"must be a positive finite number, not {value!r}")
        measured = any(name in column for name in job.measured_s)
        if information == "similarity" and job.work is None:
            yield Problem(f"{where}.work", "is needed where nothing was measured")
        elif information == "profiled" and not measured:
            yield Problem(f"{where}.measured_s", f"needs a time on one of {', '.join(column)}")
        elif information == "available" and job.work is None and not measured:
            yield Problem(where, "needs its work or a measured time")
        elif information == "oracle":
            for pool in pools:
                if pool not in job.measured_s:
                    yield Problem(f"{where}.measured_s.{pool}", "is needed by the oracle")


def _by_work(
    jobs: Sequence[TrainingJob], reference: ReferenceSpeeds, column: Mapping[str, int], caution: float
) -> NDArray[np.float64]:
    speed, spread = reference.predict([job.signature for job in jobs])
    work = np.array([job.work for job in jobs], dtype=np.float64)
    return np.asarray(work[:, None] / speed * np.exp(caution * spread), dtype=np.float64)


def _by_profile(
    jobs: Sequence[TrainingJob], reference: ReferenceSpeeds, column: Mapping[str, int], caution: float
) -> NDArray[np.float64]:
    """Return measured times over speeds relative to where they were measured, in the geometric mean."""
    shape = (len(jobs), len(column))
    total, count = np.zeros(shape), np.zeros(shape)
    for base in column:
        rows = [k for k, job in enumerate(jobs) if base in job.measured_s]
        speed, spread = reference.predict([jobs[k].signature for k in rows], base)
        measured = np.array([jobs[k].measured_s[base] for k in rows], dtype=np.float64)
        seconds = np.log(measured)[:, None] - np.log(speed) + caution * spread
        known = ~np.isnan(seconds)
        total[rows] += np.where(known, seconds, 0.0)
        count[rows] += known
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.exp(total / count), dtype=np.float64)

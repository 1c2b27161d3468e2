"""The job profiling advisor on a live cluster: the simulation's estimator, fed by real reports.

A rate is measured from the samples a trainer says it has trained on and the time its agent's clock shows; a
trainer's own claim of a rate is compared with that and otherwise not used. Nothing is measured while a
generation warms up. A rate far above what fewer nodes make, in proportion, is cut; a job that contradicted
itself too often is taken to scale like the average job. After the idea of MalleTrain's advisor (ICPE 2024,
arXiv:2404.15668).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.profiling import ProfilingAdvisor
from apportion.live.channel.messages import Progress
from apportion.live.controller.actions import Observation, Why
from apportion.live.controller.observing import ProfileUpdate
from apportion.live.record.jobs import Job, Point

__all__ = ["LiveAdvisor"]

_SUPERLINEAR = 1.25
"""A rate per node may exceed that on fewer nodes by so much; more is not believed."""
_CLAIM = 2.0
_SMOOTHING = 0.3
_NEWS = 0.05
"""A smaller relative change of a rate is no reason to decide again."""
_REMEMBERED = 200


@dataclass(slots=True)
class _Window:
    generation: int
    count: int
    first_elapsed_s: float
    from_s: float | None = None
    from_samples: int = 0
    last_s: float = 0.0


@dataclass(slots=True)
class _Stop:
    at_s: float
    count: int


class LiveAdvisor:
    """Measure, learn, and write what was learnt to the jobs' records.

    Parameters
    ----------
    warm_up_s
        Nothing is measured for so long after a generation's first report.
    measure_s
        Time over which a rate is measured.

    Attributes
    ----------
    profiling
        The estimator, shared with the policy.
    type
        Of the nodes that it learns about; empty where types do not matter.
    """

    def __init__(self, warm_up_s: float = 5.0, measure_s: float = 20.0, type: str = "") -> None:
        self.warm_up_s, self.measure_s, self.type = warm_up_s, measure_s, type
        self.profiling = ProfilingAdvisor(disagreement=0.3)
        self._version = 0
        self._others: dict[str, LiveAdvisor] = {}
        self._windows: dict[int, _Window] = {}
        self._stops: dict[int, _Stop] = {}
        self._odd: dict[int, int] = {}

    @property
    def version(self) -> int:
        """A number that rises with everything learnt."""
        return self._version + sum(other.version for other in self._others.values())

    def of(self, type: str) -> LiveAdvisor:
        """Return what learns about a type of node: speeds on different types do not compare."""
        if type == self.type:
            return self
        if type not in self._others:
            self._others[type] = LiveAdvisor(self.warm_up_s, self.measure_s, type)
        return self._others[type]

    def recall(self, jobs: Iterable[Job]) -> None:
        """Learn from the records of jobs, the newest last, as if they were measured now."""
        for job in sorted(jobs, key=lambda job: job.number)[-_REMEMBERED:]:
            for type, curve in {**job.curves, job.type: job.curve}.items() if job.trusted else ():
                for count, point in sorted(curve.items(), reverse=True):
                    self.of(type).profiling.observe(job.number, count, point.rate)

    def learn(self, lessons: Iterable[Observation]) -> tuple[ProfileUpdate, ...]:
        """Learn from what happened to jobs; return what is to be put on their records."""
        updates: dict[int, ProfileUpdate] = {}
        for observation in lessons:
            job = observation.job.copy()
            known = updates.get(job.number)
            if known is not None:
                known.write(job)
            here = self.of(job.type)
            if observation.why is Why.STOPPING:
                here.stopping(job, observation.count, observation.at_s)
            elif observation.why is Why.INTERRUPTED:
                here.interrupted(job)
            elif observation.line is not None:
                here.progress(job, observation.count, observation.line, observation.agrees, observation.at_s)
                updates[job.number] = _learnt(observation.job, job)
        return tuple(updates.values())

    def progress(self, job: Job, count: int, line: Progress, agrees: bool, now_s: float) -> None:
        """Learn from a booked report of a job on `count` nodes; `agrees` is what `accounts.book` said."""
        if line.rank != job.reporter:
            return
        window = self._windows.get(job.number)
        fresh = window is None or (window.generation, window.count) != (line.generation, count)
        if window is None or fresh or not agrees or line.elapsed_s < window.last_s:
            window = _Window(line.generation, count, line.elapsed_s)
            self._windows[job.number] = window
        window.last_s = line.elapsed_s
        if fresh:
            self._stall(job, count, now_s)
        if window.from_s is None:
            if line.elapsed_s >= window.first_elapsed_s + self.warm_up_s:
                window.from_s, window.from_samples = line.elapsed_s, line.samples
            return
        seconds, made = line.elapsed_s - window.from_s, line.samples - window.from_samples
        if seconds < self.measure_s or made <= 0:
            return
        window.from_s, window.from_samples = line.elapsed_s, line.samples
        rate = made / seconds
        if line.rate is not None and not rate / _CLAIM <= line.rate <= rate * _CLAIM:
            job.inconsistent += 1
            job.message = f"claims {line.rate:.6g} samples/s, its samples show {rate:.6g}"
        if job.trusted:
            self._observe(job, count, rate, seconds)

    def stopping(self, job: Job, count: int, now_s: float) -> None:
        """Note when a job that makes progress on `count` nodes is told to stop in order to be resized."""
        window = self._windows.get(job.number)
        if window is not None and window.generation == job.generation:
            self._stops[job.number] = _Stop(now_s, count)

    def interrupted(self, job: Job) -> None:
        """Forget when a job was told to stop: what follows is no measurement of a rescaling."""
        self._stops.pop(job.number, None)

    def fitted(self, job: Job, reach: int) -> NDArray[np.float64]:
        """Return float64 [reach + 1]: the rate a job is believed to reach on 0 to `reach` nodes."""
        if not job.trusted:
            self._neutral(job, reach)
        elif not self.profiling.measured(job.number):
            for count, rate in job.spec.curve_on(self.type):
                self.profiling.observe(job.number, count, rate)
        return self.profiling.predict(job.number, reach)

    def _stall(self, job: Job, count: int, now_s: float) -> None:
        stop = self._stops.pop(job.number, None)
        if stop is None or stop.count == count:
            return
        stall = min(max(now_s - stop.at_s, 0.0), 3600.0)
        known = job.up_s if count > stop.count else job.down_s
        stall = stall if known is None else 0.5 * (known + stall)
        if count > stop.count:
            job.up_s = stall
        else:
            job.down_s = stall
        self._version += 1

    def _observe(self, job: Job, count: int, rate: float, seconds: float) -> None:
        points = self.profiling.measured(job.number)
        known = points.get(count)
        if known is not None:
            if abs(rate / known - 1.0) <= self.profiling.disagreement:
                rate = known + _SMOOTHING * (rate - known)
                self._odd.pop(job.number, None)
            else:
                odd = self._odd.get(job.number, 0) + 1
                self._odd[job.number] = odd
                if odd < 2:
                    return  # one odd stretch may be a hiccup of the machine
                self._odd.pop(job.number, None)
        fewer = [other for other in points if other < count]
        rate = min([rate, *(_SUPERLINEAR * count / other * points[other] for other in fewer)])
        if any(points[other] > _SUPERLINEAR * other / count * rate for other in points if other > count):
            self._forget(job)  # more nodes were said to make more than these here can explain
        before = self.profiling.predict(job.number, count)[count] if points else None
        self.profiling.observe(job.number, count, rate)
        self._write(job, count, seconds)
        if known is None or before is None or abs(rate / before - 1.0) > _NEWS:
            self._version += 1

    def _write(self, job: Job, count: int, seconds: float) -> None:
        """Write the measured points and their standard errors to the job's record."""
        measured = self.profiling.measured(job.number)
        error = self.profiling.error(job.number, max(measured))
        job.curve = {
            other: Point(
                rate, seconds if other == count else job.curve[other].seconds if other in job.curve else 0.0
            )
            for other, rate in sorted(measured.items())
        }
        job.error = {other + 1: round(float(value), 6) for other, value in enumerate(error[:64])}

    def _neutral(self, job: Job, reach: int) -> None:
        """Give a job that is not believed the average job's curve, and nothing to be profiled."""
        wanted = {1 << power for power in range(reach.bit_length())} | {reach}
        if set(self.profiling.measured(job.number)) >= wanted and not job.known_on(self.type):
            return
        self._forget(job)
        average = self.profiling.predict(job.number, reach)
        for count in sorted(wanted):
            self.profiling.observe(job.number, count, float(average[count]))
        if job.type == self.type:
            job.curve, job.error = {}, {}
        job.curves.pop(self.type, None)
        self._version += 1

    def _forget(self, job: Job) -> None:
        known = [number for number, _ in self.profiling.state()["points"]]
        self.profiling.forget(np.array([number for number in known if number != job.number]))


def _learnt(before: Job, job: Job) -> ProfileUpdate:
    message = job.message if job.message != before.message else None
    contradictions = job.inconsistent - before.inconsistent
    return ProfileUpdate(
        *(job.number, job.curve, job.error, job.up_s, job.down_s, contradictions, message), type=job.type
    )

"""Replay of gap filling: idle nodes come and go as recorded, a policy decides, the books are kept.

The accounting is that of BFTrainer's replayer (arXiv:2106.12091), job for job. At every row of the trace:

1. a job makes (time since the last step) x (its rate), less the rescale charge of the last step;
2. a job that loses nodes is charged ``down_s`` x (its rate before), once per step; it keeps the other nodes;
3. jobs with all their samples leave, the excess is taken off: completion is noticed at steps only;
4. nodes join; submitted jobs are admitted first come first served, at most `trainers` at a time;
5. the policy decides; growing charges ``up_s``, shrinking ``down_s``, x the rate before (after step 2, and
   0 below the job's minimum: starting is free). Only the very first map is charged ``up_s`` x the new rate.

A plan is used only if it passes `apportion.cluster.policies.gap_filling_view.check_plan`.

A checkpoint is a replay's whole state in one ``.npz`` of plain arrays and JSON text; nothing is pickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.gap_filling_view import GapFillingView, Policy, check_plan
from apportion.cluster.simulation.admitted import Admitted, HeldNodes
from apportion.cluster.simulation.idle_trace import NodeChanges
from apportion.cluster.simulation.snapshot import Workload
from apportion.cluster.simulation.totals import Series, Step, Totals
from apportion.core.errors import ApportionError, InvalidInstance, InvalidOption, Problem
from apportion.core.files import write_whole
from apportion.core.interruption import defer_interrupt

__all__ = ["SERIES", "Admission", "Replay", "load_checkpoint", "save_checkpoint"]


class Admission:
    """How far the jobs of a workload have been admitted.

    Parameters
    ----------
    jobs
        The workload.
    trainers
        Most jobs admitted at a time.

    Attributes
    ----------
    next_job
        The number of the job that is admitted next, counted on through the rounds of an endless workload.
    started_s
        float64 [jobs]: when each job of a finite workload was admitted, NaN until then.
    """

    def __init__(self, jobs: Workload, trainers: int) -> None:
        if isinstance(trainers, bool) or not isinstance(trainers, int) or trainers < 1:
            raise InvalidOption(f"trainers must be a whole number of at least 1, not {trainers}")
        self.jobs, self.trainers = jobs, trainers
        self.next_job = 0
        self.started_s = np.full(jobs.num_jobs, np.nan)

    @property
    def over(self) -> bool:
        """Whether every job of a finite workload has been admitted."""
        return not self.jobs.endless and self.next_job >= self.jobs.num_jobs

    def admit(self, on: Admitted, at_s: float) -> Admitted:
        """Return the admitted jobs together with those that there is room for."""
        room = self.trainers - on.size
        if room <= 0:
            return on
        ready, last = self.jobs.submitted(at_s), self.next_job + room
        if not self.jobs.endless or ready < self.jobs.num_jobs:
            last = min(last, ready)
        if last <= self.next_job:
            return on
        new = np.arange(self.next_job, last)
        self.next_job = last
        if not self.jobs.endless:
            self.started_s[new] = at_s
        return on.joined_by(new)

    def waiting(self, at_s: float) -> int:
        """Return how many submitted jobs wait to be admitted."""
        if self.jobs.endless:
            return self.jobs.num_jobs
        return max(self.jobs.submitted(at_s) - self.next_job, 0)


SERIES = ("idle", "used", "running", "rate")
_WARM_UP_S = 20.0


class Replay:
    """One replay under way.

    Parameters
    ----------
    changes
        The changes of the idle nodes over time.
    jobs
        The workload.
    policy
        Called at every step with idle nodes and admitted jobs.
    trainers
        Most jobs admitted at a time.
    observers
        Called with every `Step`.

    Attributes
    ----------
    totals
        The sums so far.
    series
        Averages over time of idle nodes, nodes in use, running jobs and rate.
    completed_s
        float64 [jobs]: when each job of a finite workload was seen to be done, NaN until then.
    whole
        Whether it stands between two steps; only then can it be saved.
    """

    def __init__(
        self,
        changes: NodeChanges,
        jobs: Workload,
        policy: Policy,
        trainers: int = 10,
        observers: tuple[Callable[[Step], None], ...] = (),
    ) -> None:
        self._admission = Admission(jobs, trainers)
        self.changes, self.jobs, self.policy, self.trainers = changes, jobs, policy, trainers
        self.observers = observers
        self.totals = Totals()
        self.start_s = self.now_s = float(changes.time_s[0])
        self.series = Series(self.start_s, SERIES)
        self.completed_s = np.full(jobs.num_jobs, np.nan)
        self.seconds = 0.0
        self.whole = True
        self._nodes = HeldNodes(changes.num_nodes)
        self._row = 0
        self._wake_s: float | None = None
        self._first = True
        self._on = Admitted.nobody(jobs)

    @property
    def finished(self) -> bool:
        """Whether every job of a finite workload is done."""
        return self._admission.over and not self._on.size

    @property
    def started_s(self) -> NDArray[np.float64]:
        """When each job of a finite workload was admitted, float64 [jobs], NaN until then."""
        return self._admission.started_s

    def progress(self) -> NDArray[np.float64]:
        """Return float64 [jobs], the share of its work that every job of a finite workload has done."""
        share = np.where(np.isnan(self.completed_s), 0.0, 1.0)
        if not self.jobs.endless:
            share[self._on.number] = np.clip(self._on.done / np.maximum(self._on.work, 1e-300), 0.0, 1.0)
        return share

    def run(self, until_s: float | None = None, steps: int | None = None) -> Totals:
        """Go on until the jobs are done, the record ends, or a limit is reached, and return the sums.

        Parameters
        ----------
        until_s
            Stop before the first step later than this.
        steps
            Stop after this many steps.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C, between two steps; the third press of it ends a step that takes too long, and the
            replay is then not `whole`.
        """
        began = time.perf_counter()
        taken = 0
        with (
            defer_interrupt() as hold
        ):  # a step is whole or not taken: no solver may answer Ctrl-C with a worse plan
            while not (self.finished or hold.struck) and (steps is None or taken < steps):
                at_s, wakes = self._next()
                if at_s >= self.changes.end_s:
                    self._close()
                    break
                if until_s is not None and at_s > until_s:
                    break
                self.whole = False
                self._step(at_s, wakes)
                self.whole = True
                taken += 1
            self.seconds += time.perf_counter() - began
            if hold.struck:
                raise KeyboardInterrupt
        return self.totals

    def advance(self, steps: int) -> bool:
        """Go on for some steps; return whether there is more to do."""
        self.run(steps=steps)
        return not self.finished and self.now_s < self.changes.end_s

    def _next(self) -> tuple[float, bool]:
        """Return when the next step is, infinity for never, and whether the policy asked for it."""
        row_s = float(self.changes.time_s[self._row]) if self._row < self.changes.num_rows else np.inf
        wakes = self._wake_s is not None and self._wake_s < row_s
        return self._wake_s if wakes and self._wake_s is not None else row_s, wakes

    def _step(self, at_s: float, wakes: bool) -> None:
        left, joined = self._taken(wakes)
        lasted = at_s - self.now_s
        measured = np.where(lasted >= self._on.stall_s + _WARM_UP_S, self._on.rate, np.nan)
        made = self._progress(at_s)
        loss, hit = self._depart(left)
        made -= loss
        self._on.done += made
        output, gone = self._complete(made)
        if gone is not None:
            measured = measured[gone]
        self._nodes.join(joined, at_s)
        before = self._on.size
        self._on = self._admission.admit(self._on, at_s)
        measured = np.concatenate((measured, np.full(self._on.size - before, np.nan)))
        rescale_loss, rescaled = self._decide(at_s, measured)
        totals = self.totals
        totals.output += output
        preemption_loss = float(loss.sum())
        totals.preemption_loss += preemption_loss
        totals.preemptions += hit
        totals.rescales += rescaled
        if self.observers:
            step = Step(
                time_s=at_s,
                lasted_s=lasted,
                left=int(left.size),
                joined=int(joined.size),
                preempted=hit,
                finished=0 if gone is None else int(gone.size - np.count_nonzero(gone)),
                jobs=int(self._on.size),
                running=int(np.count_nonzero(self._on.rate)),
                idle=self._nodes.idle,
                used=int(self._on.held.sum()),
                rate=float(self._on.rate.sum()),
                output=output,
                preemption_loss=preemption_loss,
                rescale_loss=rescale_loss,
                rescaled=rescaled,
            )
            for observe in self.observers:
                observe(step)

    def _taken(self, wakes: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Take a row of the record, or the call that a policy asked for; return who leaves and who joins."""
        if wakes:
            self._wake_s = None
            nobody = np.zeros(0, dtype=np.int64)
            return nobody, nobody
        self._row += 1
        self.totals.events += 1
        return self.changes.row(self._row - 1)

    def _progress(self, at_s: float) -> NDArray[np.float64]:
        """Let time pass; return the samples made, the rescale charge taken off."""
        on = self._on
        lasted = at_s - self.now_s
        totals, used = self.totals, int(on.held.sum())
        if lasted > 0:
            running, rate = float(np.count_nonzero(on.rate)), float(on.rate.sum())
            self.series.add(self.now_s, at_s, (float(self._nodes.idle), float(used), running, rate))
        totals.idle_node_s += lasted * self._nodes.idle
        totals.used_node_s += lasted * used
        totals.elapsed_s += lasted
        totals.rescale_loss += float(on.charge.sum())
        made: NDArray[np.float64] = lasted * on.rate - on.charge
        on.charge = np.zeros(made.size)
        self.now_s = at_s
        return made

    def _depart(self, left: NDArray[np.int64]) -> tuple[NDArray[np.float64], int]:
        """Take nodes away; return the samples charged per job and how many jobs were hit."""
        on = self._on
        loss = np.zeros(on.size)
        if not left.size:
            return loss, 0
        lost = self._nodes.leave(left, self.now_s, on.size)
        hit = lost > 0
        loss[hit] = on.down_s[hit] * on.rate[hit]
        on.held -= lost
        return loss, int(np.count_nonzero(loss))

    def _complete(self, made: NDArray[np.float64]) -> tuple[float, NDArray[np.bool_] | None]:
        """Let finished jobs go; return the output of this step, and which jobs stay if any goes."""
        on = self._on
        over = on.done - on.work
        done = over >= 0
        output = float(made.sum())
        if not done.any():
            return output, None
        excess = float(over[done].sum())
        self.totals.excess += excess
        self.totals.finished += int(np.count_nonzero(done))
        if not self.jobs.endless:
            self.completed_s[on.number[done]] = self.now_s
        stay = ~done
        self._nodes.free_those_of_all_but(stay)
        self._on = on.kept(stay)
        return output - excess, stay

    def _decide(self, at_s: float, measured: NDArray[np.float64]) -> tuple[float, int]:
        """Ask the policy, check its plan, book the charges; return the samples charged and jobs resized."""
        on = self._on
        if not self._nodes.idle or not on.size:
            on.stopped()
            return 0.0, 0
        nodes = self._nodes.numbers()
        view = GapFillingView(
            time_s=at_s,
            jobs=on.number,
            rates=on.believed,
            min_nodes=on.low,
            max_nodes=on.high,
            up_s=on.up_s,
            down_s=on.down_s,
            remaining=np.maximum(on.work - on.done, 0.0),
            nodes=nodes,
            holder=self._nodes.holder[nodes],
            idle_since_s=self._nodes.idle_since_s[nodes],
            departed_after_s=self._nodes.departed_after_s(),
            waiting=self._admission.waiting(at_s),
            measured=measured,
        )
        self._nodes.forget_departed()
        plan = self.policy(view)
        counts = check_plan(view, plan)
        self.totals.decisions += 1
        on.resize(counts, first=self._first)
        self._first = False
        self._nodes.holder[nodes] = plan.holder
        self._wake_s = plan.wake_s if plan.wake_s is not None and plan.wake_s > at_s else None
        return float(on.charge.sum()), int(np.count_nonzero(on.charge))

    def _close(self) -> None:
        """Let the last row last until the record ends."""
        if self.now_s >= self.changes.end_s:
            return
        made = self._progress(self.changes.end_s)
        self._on.done += made
        output, _ = self._complete(made)
        self.totals.output += output

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later, as arrays and numbers."""
        return {
            **{name: getattr(self, name) for name in _STATE},
            "started_s": self._admission.started_s,
            "_next_job": self._admission.next_job,
            **self._on.state(),
            **self._nodes.state(),
            "totals": self.totals.as_dict(),
            "series": self.series.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state of a replay of the same changes, jobs and trainers."""
        for name in _STATE:
            setattr(self, name, state[name])
        self._admission.started_s, self._admission.next_job = state["started_s"], state["_next_job"]
        self._on = Admitted.restored(self.jobs, state)
        self._nodes.restore(state)
        self.totals = Totals.from_dict(state["totals"])
        self.series.restore(state["series"])


_STATE = ("now_s", "seconds", "completed_s", "_row", "_wake_s", "_first")


def save_checkpoint(replay: Replay, path: str | Path, policy: str, log_bytes: int | None = None) -> None:
    """Write the state of a replay, whole or not at all.

    A policy with memory offers ``state()`` (a JSON-ready dictionary) and ``restore(state)``.

    Raises
    ------
    ApportionError
        If the replay was ended within a step.
    """
    if not replay.whole:
        raise ApportionError("the replay was ended within a step and cannot be saved")
    state = replay.state()
    arrays = {key: value for key, value in state.items() if isinstance(value, np.ndarray)}
    rest = {key: value for key, value in state.items() if key not in arrays}
    remembers = getattr(replay.policy, "state", None)
    kept = {
        "replay": rest,
        "policy": None if remembers is None else remembers(),
        "of": _identity(replay, policy),
        "log_bytes": log_bytes,
    }
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, told=np.array(json.dumps(kept)), **arrays)
    write_whole(path, buffer.getvalue())


def load_checkpoint(replay: Replay, path: str | Path, policy: str) -> int | None:
    """Set a fresh replay to a saved state and return the length its log had then.

    Raises
    ------
    InvalidInstance
        If the file is no checkpoint, or is one of another trace, workload, policy or number of trainers.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
        kept: dict[str, Any] = json.loads(str(arrays.pop("told")))
        same = kept["of"] == _identity(replay, policy)
        state, remembered, log_bytes = (
            kept["replay"],
            kept["policy"],
            kept["log_bytes"],
        )
    except Exception as error:  # zipfile, zlib, json and numpy raise a dozen kinds on damaged files
        reason = str(error) or type(error).__name__
        raise InvalidInstance(Problem(str(path), f"is no checkpoint: {reason}")) from error
    if not same:
        raise InvalidInstance(
            Problem(str(path), "is a checkpoint of another trace, workload, policy or trainers")
        )
    replay.restore({**state, **arrays})
    restore = getattr(replay.policy, "restore", None)
    if restore is not None and remembered is not None:
        restore(remembered)
    return None if log_bytes is None else int(log_bytes)


def _identity(replay: Replay, policy: str) -> str:
    """Return a digest of all that a replay's course depends on."""
    changes, jobs = replay.changes, replay.jobs
    digest = hashlib.sha256(json.dumps([policy, replay.trainers, jobs.endless, list(jobs.ids)]).encode())
    digest.update(repr(replay.policy).encode() if hasattr(replay.policy, "__dataclass_fields__") else b"")
    for array in (
        *(changes.time_s, changes.left, changes.left_at, changes.joined, changes.joined_at),
        *(jobs.curve, jobs.rates, jobs.believed, jobs.min_nodes, jobs.max_nodes),
        *(jobs.up_s, jobs.down_s, jobs.work, jobs.submitted_s),
    ):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()

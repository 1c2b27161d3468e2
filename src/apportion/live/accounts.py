"""The books of a job: what it has trained on, as its trainer says, and which of that contradicts itself.

The record follows the trainer's newest report, because only the trainer knows what its checkpoint holds. A
report that cannot be true beside the ones before is counted: after `apportion.live.jobs.DISTRUST` of them the
job's speed is not learnt from its reports any more, so that no job gains nodes by what it says.
"""

from __future__ import annotations

from apportion.live.jobs import DISTRUST, Job
from apportion.live.messages import Progress

__all__ = ["book", "close_books", "open_books"]


def open_books(job: Job, now_s: float) -> None:
    """Begin a generation: nothing was reported yet."""
    job.reporter, job.done_rank, job.heard_s = None, None, now_s


def book(job: Job, line: Progress, now_s: float) -> bool:
    """Book a report of the running generation; return whether it agrees with those before."""
    job.dropped = max(job.dropped, line.dropped)
    if job.reporter is None:
        return _first(job, line, now_s)
    if line.rank != job.reporter:
        return True
    wrong = 0
    if line.samples < job.samples:
        # samples trained on cannot become fewer while the ranks run, save for who falls back to a checkpoint
        wrong = 1 if line.samples == line.durable and line.samples >= job.durable else DISTRUST
    durable = job.durable if line.durable is None else line.durable
    if durable > line.samples or durable < job.durable or _beyond(job, line.samples):
        wrong = max(wrong, 1)
    if line.samples > job.samples:
        job.heard_s = now_s
    job.samples, before = line.samples, job.durable
    job.durable = min(durable, line.samples)
    if job.durable > before and not wrong:
        job.failures = 0
    if line.done:
        job.done_rank = line.rank
    job.inconsistent += wrong
    return not wrong


def close_books(job: Job, stopped: bool) -> None:
    """End a generation: what is not in a checkpoint is lost.

    Parameters
    ----------
    job
        The job.
    stopped
        Whether its ranks ended by themselves with a checkpoint, as far as they said.
    """
    job.claimed = job.durable if stopped and job.reporter is not None else None
    job.samples = job.durable
    job.reporter = None


def _first(job: Job, line: Progress, now_s: float) -> bool:
    job.reporter, job.heard_s = line.rank, now_s
    wrong = 0
    restored = line.samples if line.durable is None else line.durable
    if job.claimed is not None and line.samples < job.claimed:
        wrong = DISTRUST
        job.message = f"began at {line.samples} samples, its checkpoint was said to hold {job.claimed}"
    if restored > line.samples or _beyond(job, line.samples):
        wrong = max(wrong, 1)
    job.samples, job.durable = line.samples, min(restored, line.samples)
    if line.done:
        job.done_rank = line.rank
    job.inconsistent += wrong
    return not wrong


def _beyond(job: Job, samples: int) -> bool:
    return job.spec.samples is not None and samples > job.spec.samples

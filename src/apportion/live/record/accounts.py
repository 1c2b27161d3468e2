"""The books of a job: what it has trained on, as its trainer says, and which of that contradicts itself.

Any rank may report the job's totals. The record follows what the ranks say, because only the trainer knows
what its checkpoint holds. A report that cannot be true beside the ones before is counted: after
`apportion.live.record.jobs.DISTRUST` of them the job's speed is not learnt from its reports any more,
so that no job gains nodes by what it says.
"""

from __future__ import annotations

from apportion.live.channel.messages import Progress
from apportion.live.record.jobs import DISTRUST, Job

__all__ = ["book", "close_books", "open_books"]


def open_books(job: Job, now_s: float) -> None:
    """Begin a generation: nothing was reported yet."""
    job.said, job.reporter, job.done_rank, job.heard_s = {}, None, None, now_s


def book(job: Job, line: Progress, now_s: float) -> bool:
    """Book a report of the running generation; return whether it agrees with those before."""
    job.dropped = max(job.dropped, line.dropped)
    if job.done_rank is not None and line.rank != job.done_rank:
        return True  # a rank that is late
    before = job.said.get(line.rank)
    durable = _durable(job, line, before)
    wrong = int(durable > line.samples or _beyond(job, line.samples))
    durable = min(durable, line.samples)
    if not job.said:
        wrong = max(wrong, _first(job, line, durable))
        job.heard_s = now_s
    elif before is not None:
        wrong = max(wrong, _against(before, line, durable))
    if job.reporter is None and before is not None and line.samples > before[0]:
        job.reporter = line.rank
    job.said[line.rank] = (line.samples, durable)
    samples, saved = job.samples, job.durable
    job.samples = max(count for count, _ in job.said.values())
    job.durable = min(max(saved, durable), job.samples)
    if line.done:
        job.done_rank, job.samples, job.durable = line.rank, line.samples, line.samples
    if job.samples > samples:
        job.heard_s = now_s
    if job.durable > saved and not wrong:
        job.failures = 0
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
    job.claimed = job.durable if stopped and job.said else None
    job.samples = job.durable
    job.said, job.reporter = {}, None


def _durable(job: Job, line: Progress, before: tuple[int, int] | None) -> int:
    """Return the samples in a checkpoint by a report; one that does not say repeats what is known."""
    if line.durable is not None:
        return line.durable
    if before is not None:
        return before[1]
    return job.durable if job.said else line.samples


def _first(job: Job, line: Progress, durable: int) -> int:
    """Take in the first report of a generation, which tells what was restored; return what is wrong."""
    job.samples, job.durable = line.samples, durable
    if job.claimed is None or line.samples >= job.claimed:
        return 0
    job.message = f"began at {line.samples} samples, its checkpoint was said to hold {job.claimed}"
    return DISTRUST


def _against(before: tuple[int, int], line: Progress, durable: int) -> int:
    """Return how far a rank's report contradicts the one before it."""
    if line.samples < before[0]:
        # samples trained on cannot become fewer while the ranks run, save for who falls back to a checkpoint
        return 1 if line.samples == durable >= before[1] else DISTRUST
    return int(durable < before[1])


def _beyond(job: Job, samples: int) -> bool:
    return job.spec.samples is not None and samples > job.spec.samples

"""Worker processes and the tasks they carry out: hard deadlines, no queue without end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable

from apportion.service.messages import Busy, Late, WorkerLost
from apportion.service.tasks import HEAD_BYTES, Answer, Better, Task, decode_answer, frame, size_of

__all__ = ["Pool", "Seat"]

_READY_S = 120.0
_SMOOTHING = 0.1


class Seat:
    """A place for one worker process; a process that was killed is followed by another.

    Attributes
    ----------
    held
        The revision of every session that its process holds, as far as the service knows.
    """

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def pid(self) -> int | None:
        """The process id, ``None`` while there is no process."""
        return None if self._process is None else self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether there is a process that is not known to have ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start a process and wait until it is ready."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "apportion.service.worker", str(theirs.fileno())),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=2,  # what native solvers print is no answer
                start_new_session=True,
            )
        self._reader, self._writer = await asyncio.open_connection(sock=ours)
        self.held.clear()
        async with asyncio.timeout(_READY_S):
            await self._next()

    async def stop(self) -> None:
        """Kill the process, and what it has started, and wait for its end."""
        process, self._process = self._process, None
        self.held.clear()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def carry_out(self, task: Task, better: Callable[[Better], None]) -> Answer:
        """Send a task and return its answer; `better` is called with every plan on the way."""
        if self._writer is None:
            await self.start()
        assert self._writer is not None
        try:
            self._writer.write(frame(task))
            await self._writer.drain()
            while True:
                answer = await self._next()
                if not isinstance(answer, Better):
                    return answer
                better(answer)
        except (OSError, EOFError) as error:
            raise WorkerLost("the worker process has ended in the middle of its task") from error

    async def _next(self) -> Answer:
        assert self._reader is not None
        head = await self._reader.readexactly(HEAD_BYTES)
        return decode_answer(await self._reader.readexactly(size_of(head)))


class Pool:
    """So many workers, and at most so many tasks that wait for one.

    Parameters
    ----------
    workers
        How many processes.
    waiting
        How many tasks may wait for a worker; one more is refused with `Busy`.

    Attributes
    ----------
    killed
        How many workers were killed, by why.
    """

    def __init__(self, workers: int, waiting: int) -> None:
        self._idle: list[Seat] = []
        self._seats = [Seat() for _ in range(workers)]
        self._limit = waiting
        self._queue: deque[asyncio.Future[Seat]] = deque()
        self._mean_s = 0.1
        self._restarts: set[asyncio.Task[None]] = set()
        self._closed = False
        self.killed = {"late": 0, "gone": 0, "lost": 0}

    @property
    def waiting(self) -> int:
        """How many tasks wait for a worker."""
        return len(self._queue)

    @property
    def busy(self) -> int:
        """How many workers are at work, or are being started again."""
        return len(self._seats) - len(self._idle)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [seat.pid for seat in self._seats if seat.pid is not None]

    async def start(self) -> None:
        """Start all workers."""
        await asyncio.gather(*(seat.start() for seat in self._seats))
        self._idle = list(self._seats)

    async def close(self) -> None:
        """Kill all workers."""
        self._closed = True
        for restart in self._restarts:
            restart.cancel()
        await asyncio.gather(*(seat.stop() for seat in self._seats))

    def forget(self, session: str) -> None:
        """Give the instance of a session whole to whoever decides it next."""
        for seat in self._seats:
            seat.held.pop(session, None)

    async def run(
        self,
        make: Callable[[Seat], Task],
        time_limit: float,
        deadline_s: float,
        better: Callable[[Better], None] = lambda _: None,
        session: str = "",
    ) -> Answer:
        """Have a task carried out.

        Parameters
        ----------
        make
            Returns the task for the worker that gets it, which may hold the session or not.
        time_limit
            Seconds that the task is meant to take.
        deadline_s
            Seconds, the wait for a worker included, after which the worker is killed.
        better
            Called with every plan on the way.
        session
            A worker that holds this session is preferred.

        Raises
        ------
        Busy
            If too many tasks wait; it says in how many seconds to ask again.
        Late
            If the deadline passed.
        WorkerLost
            If the worker's process ended by itself.
        """
        began = time.monotonic()
        seat = self._idle_seat(session)
        if seat is None:
            if len(self._queue) >= self._limit:
                raise Busy(self._again_s(time_limit))
            try:
                async with asyncio.timeout(deadline_s):
                    seat = await self._next_seat()
            except TimeoutError:
                raise Late("no worker was free before the deadline") from None
        why = "gone"
        try:
            async with asyncio.timeout(began + deadline_s - time.monotonic()):
                answer = await seat.carry_out(make(seat), better)
            why = ""
        except TimeoutError:
            why = "late"
            raise Late("the worker was ended at its deadline") from None
        except WorkerLost:
            why = "lost"
            raise
        finally:
            if why:
                self._replace(seat, why)
            else:
                self._give_back(seat)
        self._mean_s += _SMOOTHING * (time.monotonic() - began - self._mean_s)
        return answer

    def _idle_seat(self, session: str) -> Seat | None:
        """Return an idle seat, best one that holds the session; those whose process has ended get another."""
        for seat in [each for each in self._idle if not each.is_alive]:
            self._idle.remove(seat)
            self._replace(seat, "lost")
        if not self._idle:
            return None
        holding = [seat for seat in self._idle if session in seat.held]
        seat = max(holding, key=lambda each: each.held[session]) if holding else self._idle[0]
        self._idle.remove(seat)
        return seat

    async def _next_seat(self) -> Seat:
        """Wait in line for a seat."""
        turn: asyncio.Future[Seat] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled() or not turn.done():
                with contextlib.suppress(ValueError):
                    self._queue.remove(turn)
            else:  # it was given a seat in the same moment
                self._give_back(turn.result())
            raise

    def _give_back(self, seat: Seat) -> None:
        """Hand a seat to who has waited longest; it never lies idle while somebody waits."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(seat)
                return
        self._idle.append(seat)

    def _replace(self, seat: Seat, why: str) -> None:
        self.killed[why] += 1
        restart = asyncio.create_task(self._again(seat))
        self._restarts.add(restart)
        restart.add_done_callback(self._restarts.discard)

    async def _again(self, seat: Seat) -> None:
        while not self._closed:
            try:
                await seat.stop()
                await seat.start()
            except Exception as error:  # whatever it is, the service must not go on with one worker less
                logging.getLogger("apportion.service").warning("a worker does not start", exc_info=error)
                await asyncio.sleep(1.0)
                continue
            self._give_back(seat)
            return

    def _again_s(self, time_limit: float) -> float:
        return max(1.0, min(time_limit, self._mean_s) * (len(self._queue) + 1) / len(self._seats))

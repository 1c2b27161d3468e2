"""Demonstration trainer in PyTorch: a small network on synthetic data, data-parallel by gloo on CPUs.

    apportion submit --min 1 --max 8 --samples 200000 -- python -m apportion.live.trainers.torch_gloo

Its ranks meet at a file in the job's private folder (`apportion.live.trainers.torch_store`), whether the
agent started them or `apportion.live.trainers.torchrun` did. Counting and checkpoints are those of the
NumPy trainer.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Any

from apportion.live.trainer_protocol import STOPPED, Assignment, Reporter, Stopped, StopSignal
from apportion.live.trainers.checkpoints import INPUTS, draw, durable_samples, restore, save, share, targets
from apportion.live.trainers.torch_store import open_store

if TYPE_CHECKING:
    import torch

__all__ = ["main"]

Counts = dict[str, int]


class _Training:
    """One rank's run of one generation."""

    def __init__(self, assignment: Assignment, given: argparse.Namespace) -> None:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(given.seed)
        self.assignment, self.given = assignment, given
        self.model = torch.nn.Sequential(
            torch.nn.Linear(INPUTS, given.hidden), torch.nn.Tanh(), torch.nn.Linear(given.hidden, 1)
        ).double()
        self.optimiser = torch.optim.SGD(self.model.parameters(), given.step_size, momentum=0.9)
        self.reporter = Reporter(assignment)
        self.counts: Counts = {"samples": 0, "steps": 0, "ledger": 0}
        self.loss: float | None = None
        self.durable = 0
        self.rank, self.world = assignment.rank, assignment.world_size
        self.ready = False

    def run(self) -> int:
        """Train until done, told to stop, or a peer is lost; return the exit code."""
        import torch.distributed as distributed

        self._meet()
        # until here SIGTERM just ends this process: there is nothing to save, and gloo waits deaf to signals
        self.stop = StopSignal()
        try:
            self._restore()
            self.ready = True
            self._report()
            self._train()
        except (Stopped, RuntimeError) as reason:
            if isinstance(reason, RuntimeError):  # what gloo raises when a peer is gone
                print(f"rank {self.rank}: {reason}", flush=True)
            if self.ready and (durable_samples(self.assignment.checkpoint) or 0) < self.counts["samples"]:
                self._save()
            if self.ready and self.rank == 0:
                self._report()
            goal, held = self.assignment.samples, durable_samples(self.assignment.checkpoint)
            code = 0 if goal is not None and held is not None and held >= goal else STOPPED
            os._exit(code)  # gloo's threads may wait for a peer that is gone
        distributed.destroy_process_group()
        return 0

    def _meet(self) -> None:
        import torch.distributed as distributed

        if self.assignment.rendezvous[0].startswith("127."):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        waits = timedelta(seconds=60)
        if "TORCHELASTIC_RUN_ID" in os.environ:
            self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            distributed.init_process_group("gloo", "env://", timeout=waits)
        else:
            store = open_store(self.assignment, self.world)
            distributed.init_process_group(
                "gloo", store=store, rank=self.rank, world_size=self.world, timeout=waits
            )

    def _restore(self) -> None:
        import torch

        if self.rank == 0:
            restore(self.assignment.checkpoint, self._read)
            self._save()
        self._sum(torch.zeros(1))  # rank 0 has saved: read the same
        if self.rank:
            restore(self.assignment.checkpoint, self._read)
        self.durable = self.counts["samples"]

    def _read(self, file: IO[bytes]) -> bool:
        import torch

        held = torch.load(file, weights_only=True)
        self.model.load_state_dict(held["model"])
        self.optimiser.load_state_dict(held["optimiser"])
        self.counts, self.loss = dict(held["counts"]), held["loss"]
        return True

    def _write(self, file: IO[bytes]) -> None:
        import torch

        held = {"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict()}
        torch.save({**held, "counts": self.counts, "loss": self.loss}, file)

    def _train(self) -> None:
        import torch

        goal = self.assignment.samples
        begun_s, begun_at, saved_s = time.monotonic(), self.counts["samples"], time.monotonic()
        while goal is None or self.counts["samples"] < goal:
            self.stop.check()
            begin = self.counts["samples"]
            end = begin + self.given.batch * self.world
            end = end if goal is None else min(end, goal)
            begin_own, end_own = share(begin, end, self.rank, self.world)
            inputs = draw(self.given.seed, begin_own, end_own)
            error = self.model(torch.from_numpy(inputs)) - torch.from_numpy(targets(inputs))
            squared = (error * error).sum()
            self.optimiser.zero_grad()
            (0.5 * squared).backward()
            gradients = [
                parameter.grad for parameter in self.model.parameters() if parameter.grad is not None
            ]
            numbers = float((begin_own + end_own - 1) * (end_own - begin_own) // 2)
            own = torch.tensor([float(squared.detach()), numbers], dtype=torch.float64)
            flat = torch.cat([*(gradient.flatten() for gradient in gradients), own])
            self._sum(flat)
            at = 0
            for gradient in gradients:
                gradient.copy_(flat[at : at + gradient.numel()].view_as(gradient) / (end - begin))
                at += gradient.numel()
            self.optimiser.step()
            self._count(end - begin, float(flat[-2]) / (end - begin), int(flat[-1]))
            if self.rank == 0:
                now = time.monotonic()
                if now - saved_s >= self.given.save_every_s:
                    self._save()
                    saved_s = now
                if self.reporter.due():
                    self._report((end - begun_at) / max(now - begun_s, 1e-9))
        if self.rank == 0:
            self._save()
            self._report(done=True)
        self._sum(torch.zeros(1))

    def _count(self, samples: int, loss: float, ledger: int) -> None:
        self.counts["samples"] += samples
        self.counts["steps"] += 1
        self.counts["ledger"] += ledger
        self.loss = loss if self.loss is None else 0.9 * self.loss + 0.1 * loss

    def _sum(self, vector: torch.Tensor) -> None:
        """Sum over ranks in place; wait in small steps, so that SIGTERM is seen while a peer is slow."""
        import torch.distributed as distributed

        work: Any = distributed.all_reduce(vector, async_op=True)
        waits = 0
        while not work.is_completed():
            self.stop.check()
            waits += 1
            time.sleep(min(0.0002 * waits, 0.01))
        work.wait()

    def _save(self) -> None:
        own = self.assignment
        self.durable = save(own.checkpoint, own.generation, self.counts["samples"], self._write)

    def _report(self, rate: float | None = None, done: bool = False) -> None:
        if self.rank == 0:
            count = self.counts
            self.reporter.say(count["samples"], count["steps"], self.durable, rate, self.loss, done)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as the environment says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m apportion.live.trainers.torch_gloo")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--batch", type=int, default=32, help="samples a step on every node")
    parser.add_argument("--step-size", type=float, default=0.02)
    parser.add_argument("--save-every-s", type=float, default=2.0)
    given = parser.parse_args(arguments)
    return _Training(Assignment.from_environment(), given).run()


if __name__ == "__main__":
    raise SystemExit(main())

"""Demonstration trainer in NumPy: a small network on synthetic data, data-parallel over the job's nodes.

    apportion submit --min 1 --max 8 --samples 200000 -- python -m apportion.live.trainers.numpy_mlp

It really trains: gradients of every rank's share are summed, the loss falls, and falls on from the checkpoint
after every resize. Every sample is counted exactly: the ledger of a checkpoint is the sum of the numbers of
all samples trained, N (N - 1) / 2 after N samples if none was left out or taken twice (to N = 10**8).

``--rates 1:100,2:190,4:350`` holds every step to the speed of a given scaling curve (samples per second by
nodes) by waiting: several "nodes" on a few cores then scale as the curve says.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from apportion.live.trainer_protocol import STOPPED, Assignment, Reporter, Stopped, StopSignal
from apportion.live.trainers.checkpoints import durable_samples, restore, save
from apportion.live.trainers.star import PeerLost, Star
from apportion.live.trainers.synthetic import INPUTS, draw, share, targets

__all__ = ["Network", "State", "main", "train"]

Vector = NDArray[np.float64]


@dataclass(slots=True)
class State:
    """Everything a checkpoint holds.

    Attributes
    ----------
    weights, momentum
        float64 [parameters].
    samples, steps, ledger
        Samples trained, optimiser steps, and the sum of the numbers of the samples.
    loss
        Running mean of the squared error, ``None`` before the first step.
    """

    weights: Vector
    momentum: Vector
    samples: int = 0
    steps: int = 0
    ledger: int = 0
    loss: float | None = None

    def write(self, file: IO[bytes]) -> None:
        """Write a checkpoint."""
        counts = np.array([self.samples, self.steps, self.ledger], dtype=np.int64)
        loss = np.array([np.nan if self.loss is None else self.loss])
        np.savez(file, weights=self.weights, momentum=self.momentum, counts=counts, loss=loss)

    @classmethod
    def read(cls, file: IO[bytes]) -> State:
        """Read a checkpoint."""
        with np.load(file, allow_pickle=False) as held:
            samples, steps, ledger = held["counts"].tolist()
            loss = float(held["loss"][0])
            return cls(
                held["weights"], held["momentum"], samples, steps, ledger, None if np.isnan(loss) else loss
            )


class Network:
    """One hidden layer of hyperbolic tangents, mean squared error.

    Parameters
    ----------
    hidden
        Units of the hidden layer.
    """

    def __init__(self, hidden: int = 32) -> None:
        self.hidden = hidden
        self.parameters = hidden * (INPUTS + 2) + 1

    def begin(self, seed: int) -> State:
        """Return a fresh state."""
        weights = np.random.default_rng(seed).normal(0.0, 0.3, self.parameters)
        return State(weights, np.zeros(self.parameters))

    def gradient(self, weights: Vector, inputs: Vector, wanted: Vector) -> tuple[Vector, float]:
        """Return the gradient of half the squared error, and the squared error, summed over samples."""
        cut = self.hidden * INPUTS
        first = weights[:cut].reshape(INPUTS, self.hidden)
        bias, second = weights[cut : cut + self.hidden], weights[cut + self.hidden : -1]
        active = np.tanh(inputs @ first + bias)
        error = active @ second + weights[-1] - wanted[:, 0]
        back = (error[:, None] * second) * (1.0 - active * active)
        gradient = np.concatenate(
            [(inputs.T @ back).ravel(), back.sum(axis=0), active.T @ error, [error.sum()]]
        )
        return gradient, float(error @ error)


class _Training:
    """One rank's run of one generation."""

    def __init__(self, assignment: Assignment, stop: StopSignal, given: argparse.Namespace) -> None:
        self.assignment, self.stop, self.given = assignment, stop, given
        self.network = Network(given.hidden)
        self.reporter = Reporter(assignment)
        self.state: State | None = None
        self.durable = 0

    def run(self) -> int:
        """Train until done, told to stop, or a peer is lost; return the exit code."""
        try:
            star = Star(self.assignment, self.stop)
            state = self.state = self._agree(star)
            self._report(state)
            self._train(star, state)
        except (Stopped, PeerLost) as reason:
            if isinstance(reason, PeerLost):
                print(f"rank {self.assignment.rank}: {reason}", flush=True)
            self._save_what_is_not_saved()
            goal, held = self.assignment.samples, durable_samples(self.assignment.checkpoint)
            return 0 if goal is not None and held is not None and held >= goal else STOPPED
        finally:
            self.stop.ignore()
        return 0

    def _agree(self, star: Star) -> State:
        """Return what rank 0 restored, on every rank."""
        held = self.network.begin(self.given.seed)
        if self.assignment.rank == 0:
            held = restore(self.assignment.checkpoint, State.read) or held
            if held.weights.size != self.network.parameters:
                raise SystemExit(f"the checkpoint holds {held.weights.size} weights: another --hidden?")
            save(self.assignment.checkpoint, self.assignment.generation, held.samples, held.write)
        numbers = [held.samples, held.steps, held.ledger, np.nan if held.loss is None else held.loss]
        flat = np.concatenate([held.weights, held.momentum, numbers])
        if self.assignment.rank:
            flat[:] = 0.0
        flat = star.sum(flat)
        size = self.network.parameters
        samples, steps, ledger = (int(number) for number in flat[2 * size : 2 * size + 3])
        self.durable = samples
        loss = None if np.isnan(flat[-1]) else float(flat[-1])
        return State(flat[:size].copy(), flat[size : 2 * size].copy(), samples, steps, ledger, loss)

    def _train(self, star: Star, state: State) -> None:
        world, rank = self.assignment.world_size, self.assignment.rank
        goal, rate = self.assignment.samples, _rate_at(self.given.rates, world)
        begun_s, begun_at, saved_s = time.monotonic(), state.samples, time.monotonic()
        free_at_s = begun_s
        while goal is None or state.samples < goal:
            self.stop.check()
            end = state.samples + self.given.batch * world
            end = end if goal is None else min(end, goal)
            free_at_s = max(free_at_s, time.monotonic() - 0.05)  # catch up a little, not a lot
            free_at_s += (end - state.samples) / rate if rate is not None else 0.0
            begin_own, end_own = share(state.samples, end, rank, world)
            inputs = draw(self.given.seed, begin_own, end_own)
            gradient, error = self.network.gradient(state.weights, inputs, targets(inputs))
            numbers = float((begin_own + end_own - 1) * (end_own - begin_own) // 2)
            total = star.sum(np.concatenate([gradient, [error, numbers]]), free_at_s)
            self._apply(state, total, end - state.samples)
            if rank == 0:
                now = time.monotonic()
                if now - saved_s >= self.given.save_every_s:
                    self._save(state)
                    saved_s = time.monotonic()
                if self.reporter.due():
                    self._report(state, (state.samples - begun_at) / max(now - begun_s, 1e-9))
        if rank == 0:
            self._save(state)
            self._report(state, done=True)
        star.sum(np.zeros(1))  # nobody leaves before the last checkpoint is on disk

    def _apply(self, state: State, total: Vector, count: int) -> None:
        state.momentum = self.given.momentum * state.momentum + total[:-2] / count
        state.weights = state.weights - self.given.step_size * state.momentum
        loss = float(total[-2]) / count
        state.loss = loss if state.loss is None else 0.9 * state.loss + 0.1 * loss
        state.samples += count
        state.steps += 1
        state.ledger += int(total[-1])

    def _save(self, state: State) -> None:
        own = self.assignment
        self.durable = save(own.checkpoint, own.generation, state.samples, state.write)

    def _save_what_is_not_saved(self) -> None:
        """Save if nobody has saved as much; rank 0 says what is safe now."""
        if self.state is None:
            return
        if (
            self.assignment.rank == 0
            or (durable_samples(self.assignment.checkpoint) or 0) < self.state.samples
        ):
            self._save(self.state)
            self._say(self.state)

    def _report(self, state: State, rate: float | None = None, done: bool = False) -> None:
        if self.assignment.rank == 0:
            self._say(state, rate, done)

    def _say(self, state: State, rate: float | None = None, done: bool = False) -> None:
        self.reporter.say(state.samples, state.steps, self.durable, rate, state.loss, done)


def _curve(text: str) -> list[tuple[int, float]]:
    """Read ``1:100,2:190``."""
    points = []
    for part in text.split(","):
        nodes, _, rate = part.partition(":")
        points.append((int(nodes), float(rate)))
        if points[-1][0] < 1 or not points[-1][1] > 0:
            raise argparse.ArgumentTypeError(f"{part}: nodes and samples per second must be positive")
    return sorted(points)


def _rate_at(curve: list[tuple[int, float]] | None, nodes: int) -> float | None:
    if curve is None:
        return None
    return float(np.interp(nodes, [0, *(at for at, _ in curve)], [0.0, *(rate for _, rate in curve)]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as the environment says; return the exit code."""
    stop = StopSignal()
    parser = argparse.ArgumentParser(prog="python -m apportion.live.trainers.numpy_mlp")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--batch", type=int, default=32, help="samples a step on every node")
    parser.add_argument("--step-size", type=float, default=0.02)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--save-every-s", type=float, default=2.0)
    parser.add_argument("--rates", type=_curve, help="hold to this curve, NODES:SAMPLES_PER_S,...")
    return train(Assignment.from_environment(), stop, parser.parse_args(arguments))


def train(assignment: Assignment, stop: StopSignal, given: argparse.Namespace) -> int:
    """Run one rank; return its exit code."""
    return _Training(assignment, stop, given).run()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the node may be wanted: no time is spent on tidying up

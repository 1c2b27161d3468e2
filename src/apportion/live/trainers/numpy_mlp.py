"""Demonstration trainer in NumPy: a small network on synthetic data, data-parallel over the job's nodes.

    apportion submit --min 1 --max 8 --samples 200000 -- python -m apportion.live.trainers.numpy_mlp

It really trains: gradients of every rank's share are summed, the loss falls, and falls on from the checkpoint
after every resize. Every sample is counted exactly: the ledger of a checkpoint is the sum of the numbers of
all samples trained, N (N - 1) / 2 after N samples if none was left out or taken twice (to N = 10**8).

``--rates 1:100,2:190,4:350`` holds every step to the speed of a given scaling curve (samples per second by
nodes) by waiting: several "nodes" on a few cores then scale as the curve says.

Sums over ranks by way of rank 0, over TCP: small vectors, few ranks, and nobody waits in vain.

Ranks recognise one another by the job's token before a number is taken. A peer that is lost shows at once as
`PeerLost`, SIGTERM as `Stopped`; neither leaves a sum half applied.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import hmac
import os
import secrets
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

from apportion.live.trainer_protocol import STOPPED, Assignment, Reporter, Stopped, StopSignal
from apportion.live.trainers.checkpoints import INPUTS, draw, durable_samples, restore, save, share, targets

__all__ = ["Network", "PeerLost", "Star", "State", "main", "train"]


Vector = NDArray[np.float64]
_CLAIM = struct.Struct("!qq32s")


class PeerLost(ConnectionError):
    """A rank is gone, or says nothing any more."""


class Star:
    """The connections of one generation.

    Parameters
    ----------
    assignment
        Ranks and rendezvous.
    stop
        What ends every wait.
    timeout_s
        Longest wait for a peer.

    Raises
    ------
    PeerLost
        If not every rank came together in time.
    Stopped
        If SIGTERM came first.
    """

    def __init__(self, assignment: Assignment, stop: StopSignal, timeout_s: float = 60.0) -> None:
        self._assignment, self._stop, self._timeout_s = assignment, stop, timeout_s
        self._peers: list[socket.socket] = []
        end = time.monotonic() + timeout_s
        if assignment.world_size == 1:
            return
        if assignment.rank == 0:
            self._gather(end)
        else:
            self._join(end)

    def sum(self, own: Vector, not_before_s: float = 0.0) -> Vector:
        """Return the sum of every rank's vector, the same to the bit on all of them.

        Parameters
        ----------
        own
            float64 of the same length on every rank.
        not_before_s
            Rank 0 lets nobody go on before this time of `time.monotonic`; others' is not looked at.
        """
        if self._assignment.rank:
            self._send(self._peers[0], own.tobytes())
            return np.frombuffer(self._receive(self._peers[0], own.nbytes))
        total = own.copy()
        for peer in self._peers:
            total += np.frombuffer(self._receive(peer, own.nbytes))
        while (left := not_before_s - time.monotonic()) > 0:
            if self._stop.wait(self._peers, left):
                raise PeerLost("a peer left in the middle of a step")  # nobody speaks out of turn
        data = total.tobytes()
        for peer in self._peers:
            self._send(peer, data)
        return total

    def close(self) -> None:
        """Close every connection."""
        for peer in self._peers:
            peer.close()

    def _gather(self, end: float) -> None:
        host, port = self._assignment.rendezvous
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        by_rank: dict[int, socket.socket] = {}
        with socket.create_server((host, port), family=family) as listener:
            while len(by_rank) < self._assignment.world_size - 1:
                if not self._stop.wait([listener], end - time.monotonic()):
                    missing = self._assignment.world_size - 1 - len(by_rank)
                    raise PeerLost(f"{missing} ranks did not come")
                connection, _ = listener.accept()
                rank = self._recognise(connection)
                if rank is None or rank in by_rank:
                    connection.close()
                else:
                    by_rank[rank] = connection
        self._peers = [by_rank[rank] for rank in sorted(by_rank)]

    def _recognise(self, connection: socket.socket) -> int | None:
        """Return the rank of whoever connected, if it knows the job's token."""
        try:
            connection.settimeout(2.0)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            nonce = secrets.token_bytes(32)
            connection.sendall(nonce)
            rank, generation, proof = _CLAIM.unpack(_exactly(connection, _CLAIM.size))
            right = self._proof(nonce, rank, b"rank")
            known = 0 < rank < self._assignment.world_size and generation == self._assignment.generation
            if not hmac.compare_digest(proof, right) or not known:
                return None
            connection.sendall(self._proof(nonce, rank, b"hub"))
        except (OSError, struct.error):
            return None
        return int(rank)

    def _join(self, end: float) -> None:
        rank = self._assignment.rank
        while True:
            connection: socket.socket | None = None
            try:
                connection = socket.create_connection(self._assignment.rendezvous, timeout=2.0)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                nonce = _exactly(connection, 32)
                claim = (rank, self._assignment.generation, self._proof(nonce, rank, b"rank"))
                connection.sendall(_CLAIM.pack(*claim))
                if hmac.compare_digest(_exactly(connection, 32), self._proof(nonce, rank, b"hub")):
                    self._peers = [connection]
                    return
            except OSError:
                pass
            if connection is not None:
                connection.close()
            if time.monotonic() > end:
                raise PeerLost("rank 0 does not answer")
            self._stop.wait([], 0.05)

    def _proof(self, nonce: bytes, rank: int, who: bytes) -> bytes:
        message = nonce + struct.pack("!qq", rank, self._assignment.generation) + who
        return hmac.new(self._assignment.token.encode(), message, hashlib.sha256).digest()

    def _send(self, peer: socket.socket, data: bytes) -> None:
        try:
            peer.settimeout(self._timeout_s)
            peer.sendall(data)
        except OSError as error:
            raise PeerLost(str(error)) from error

    def _receive(self, peer: socket.socket, size: int) -> bytes:
        data = bytearray()
        end = time.monotonic() + self._timeout_s
        while len(data) < size:
            if not self._stop.wait([peer], end - time.monotonic()):
                raise PeerLost("a peer says nothing")
            try:
                part = peer.recv(size - len(data))
            except OSError as error:
                raise PeerLost(str(error)) from error
            if not part:
                raise PeerLost("a peer is gone")
            data += part
        return bytes(data)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    with contextlib.suppress(TimeoutError):
        while len(data) < size and (part := connection.recv(size - len(data))):
            data += part
    if len(data) < size:
        raise ConnectionError("too little was said")
    return data


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

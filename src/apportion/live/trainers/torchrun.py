r"""Runs scripts written for ``torchrun`` under the harvest, unchanged but for reports; the meeting is sealed.

    apportion submit --min 1 --max 8 -- \
        python -m apportion.live.trainers.torchrun --nnodes 1:8 -- train.py ARGUMENTS

Every start of the job is a world of fixed size: the nodes given now, ``--nproc-per-node`` ranks on each,
with the variables that ``torchrun`` would set. ``torchrun`` itself is not started, because its rendezvous
keeps pickled state in a store without a secret; the ranks meet at a file in the job's private folder
instead (`apportion.live.trainers.torch_store`). If a node is taken away the ranks end and the controller
starts the job anew. The script saves a checkpoint at SIGTERM and now and then under
``APPORTION_CHECKPOINT``, and reports as `apportion.live.trainer_protocol` says.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from apportion.live.trainer_protocol import STOPPED, Assignment

__all__ = ["environment_of", "main"]

_END_S = 10.0
"""Ranks whose peer on this node has failed may take so long to save and end."""


def environment_of(
    assignment: Assignment, base: Mapping[str, str], local_rank: int, per_node: int
) -> dict[str, str]:
    """Return the environment of one rank on this node: `base` with the variables that ``torchrun`` sets.

    Parameters
    ----------
    assignment
        Who this node is.
    base
        The environment to start from.
    local_rank, per_node
        The rank's number on this node, and how many there are on every node.
    """
    host, port = assignment.rendezvous
    return {
        **base,
        "OMP_NUM_THREADS": base.get("OMP_NUM_THREADS", "1"),
        **({"GLOO_SOCKET_IFNAME": base.get("GLOO_SOCKET_IFNAME", "lo")} if host.startswith("127.") else {}),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(per_node),
        "GROUP_RANK": str(assignment.rank),
        "GROUP_WORLD_SIZE": str(assignment.world_size),
        "RANK": str(assignment.rank * per_node + local_rank),
        "WORLD_SIZE": str(assignment.world_size * per_node),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": f"{assignment.job}-{assignment.generation}",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this node's ranks as the environment says; return the exit code the agent is to see."""
    asked = False
    ranks: list[subprocess.Popen[bytes]] = []

    def stop(number: int, frame: object) -> None:
        nonlocal asked
        asked = True
        _signal(ranks, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    parser = argparse.ArgumentParser(prog="python -m apportion.live.trainers.torchrun")
    parser.add_argument("--nnodes", default="1:1024", metavar="MIN:MAX")
    parser.add_argument("--nproc-per-node", default="1", metavar="N|gpu")
    parser.add_argument("script", nargs="+", help="the training script and its arguments, after --")
    given = parser.parse_args(arguments)
    least, _, most = given.nnodes.partition(":")
    if not least.isdecimal() or not (most or least).isdecimal():
        parser.error(f"--nnodes: {given.nnodes} is not MIN:MAX")
    assignment = Assignment.from_environment()
    if not int(least) <= assignment.world_size <= int(most or least):
        parser.error(
            f"--nnodes: the job was given {assignment.world_size} nodes, not {given.nnodes}; "
            "submit it with the same --min and --max"
        )
    per_node = _per_node(parser, given.nproc_per_node)
    command = [sys.executable, "-m", "apportion.live.trainers.torch_store", *given.script]
    for local_rank in range(per_node):
        if asked:
            break
        environment = environment_of(assignment, os.environ, local_rank, per_node)
        ranks.append(subprocess.Popen(command, env=environment))
    if asked:
        _signal(ranks, signal.SIGTERM)
    code = _wait(ranks)
    if code == 0 and len(ranks) == per_node:
        return 0
    return STOPPED if asked else code if code > 0 else 128 - code


def _per_node(parser: argparse.ArgumentParser, asked: str) -> int:
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if asked not in ("gpu", "auto"):
        parser.error(f"--nproc-per-node: {asked} is neither a number nor gpu")
    import torch

    return max(int(torch.cuda.device_count()), 1)


def _wait(ranks: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all ranks; once one has failed the others are stopped. Return the first code that is not 0."""
    failed: int | None = None
    end_s = 0.0
    while any(rank.poll() is None for rank in ranks):
        codes = [rank.returncode for rank in ranks if rank.returncode]
        if codes and failed is None:
            failed, end_s = codes[0], time.monotonic() + _END_S
            _signal(ranks, signal.SIGTERM)
        if failed is not None and time.monotonic() > end_s:
            _signal(ranks, signal.SIGKILL)
        time.sleep(0.05)
    return failed if failed is not None else next((rank.returncode for rank in ranks if rank.returncode), 0)


def _signal(ranks: list[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for rank in ranks:
        with contextlib.suppress(ProcessLookupError):
            rank.send_signal(number)


if __name__ == "__main__":
    raise SystemExit(main())

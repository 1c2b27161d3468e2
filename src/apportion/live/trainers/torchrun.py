r"""Adapter for ``torchrun``: elastic PyTorch training under the harvest, scripts unchanged but for reports.

    apportion submit --min 1 --max 8 -- \
        python -m apportion.live.trainers.torchrun --nnodes 1:8 -- train.py ARGUMENTS

Every start of the job becomes ``torchrun --nnodes MIN:NOW`` at the job's rendezvous: it begins as soon as all
nodes given now are there, and if one is taken away torchrun goes on with those left (MIN at least) until the
controller starts the job anew. The script reads torchrun's variables as ever, saves a checkpoint at SIGTERM
and now and then under ``APPORTION_CHECKPOINT``, and reports as `apportion.live.trainer_protocol` says.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from apportion.live.trainer_protocol import STOPPED, Assignment

__all__ = ["command_of", "main"]


def command_of(
    assignment: Assignment, least: int, most: int, per_node: str, script: Sequence[str]
) -> list[str]:
    """Return the argument list of ``torchrun`` for one start of a job.

    Parameters
    ----------
    assignment
        Who this node is.
    least, most
        The job's ``--nnodes MIN:MAX``; most becomes the number of nodes given now.
    per_node
        torchrun's ``--nproc-per-node``.
    script
        The training script and its arguments.
    """
    nodes = min(assignment.world_size, most)
    host, port = assignment.rendezvous
    here = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    serves = str(assignment.rank == 0).lower()
    return [
        sys.executable,
        *("-m", "torch.distributed.run"),
        f"--nnodes={min(least, nodes)}:{nodes}",
        f"--nproc-per-node={per_node}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={here}",
        f"--rdzv-id={assignment.job}-{assignment.generation}",
        # whether this node keeps the store: torchrun would otherwise guess it from host names
        f"--rdzv-conf=is_host={serves},join_timeout=120,last_call_timeout=2",
        "--max-restarts=3",
        *script,
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``torchrun`` as the environment says; return the exit code the agent is to see."""
    asked = False
    child: subprocess.Popen[bytes] | None = None

    def stop(number: int, frame: object) -> None:
        nonlocal asked
        asked = True
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    parser = argparse.ArgumentParser(prog="python -m apportion.live.trainers.torchrun")
    parser.add_argument("--nnodes", default="1:1024", metavar="MIN:MAX")
    parser.add_argument("--nproc-per-node", default="1")
    parser.add_argument("script", nargs="+", help="the training script and its arguments, after --")
    given = parser.parse_args(arguments)
    least, _, most = given.nnodes.partition(":")
    if not least.isdecimal() or not (most or least).isdecimal():
        parser.error(f"--nnodes: {given.nnodes} is not MIN:MAX")
    assignment = Assignment.from_environment()
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    if assignment.rendezvous[0].startswith("127."):
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    command = command_of(assignment, int(least), int(most or least), given.nproc_per_node, given.script)
    if asked:
        return STOPPED
    child = subprocess.Popen(command, env=environment)
    if asked:
        child.send_signal(signal.SIGTERM)
    while (code := child.poll()) is None:
        time.sleep(0.05)
    if code == 0:
        return 0
    return STOPPED if asked else code if code > 0 else 128 - code


if __name__ == "__main__":
    raise SystemExit(main())

"""Checkpoints: a replay's whole state in one ``.npz`` of plain arrays and JSON text; nothing is pickled."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from apportion.errors import ApportionError, InvalidInstance, Problem
from apportion.files import write_whole
from apportion.simulation.replay import Replay

__all__ = ["load_checkpoint", "save_checkpoint"]


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

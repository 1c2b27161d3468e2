"""What the replay command reads: any known trace format and job table, by the look of the file."""

from __future__ import annotations

from pathlib import Path

from apportion.errors import InvalidInstance, Problem
from apportion.simulation.idle_trace import IdleTrace, read_idle_trace

__all__ = ["read_trace"]


def read_trace(path: str | Path, nodes: int | None = None, cores_per_node: int = 1) -> IdleTrace:
    """Read a trace of idle nodes from ``.npz``, a pickled frame, an SWF log or ``sacct -P`` text.

    Parameters
    ----------
    path
        ``*.npz``; ``*.pkl`` or ``*.pickle`` (the authors' frame); ``*.swf`` (also ``.gz``); else ``sacct
        -P`` text.
    nodes
        Nodes of the machine of a job log; by default what the log says.
    cores_per_node
        Cores that an SWF log counts as one node.

    Raises
    ------
    InvalidInstance
        If the file cannot be read or holds no such thing.
    """
    path = Path(path)
    name = path.name.lower().removesuffix(".gz")
    if not path.is_file():
        raise InvalidInstance(Problem(str(path), "cannot be read: there is no such file"))
    if name.endswith(".npz"):
        return read_idle_trace(path)
    if name.endswith((".pkl", ".pickle", ".tar", ".tgz")):
        from apportion.simulation.pickled_frame import read_pickled_frame

        return read_pickled_frame(path)
    from apportion.simulation.placement import idle_trace_of_jobs

    if name.endswith(".swf"):
        from apportion.simulation.swf import read_swf

        return idle_trace_of_jobs(read_swf(path, cores_per_node), nodes)
    from apportion.simulation.sacct import read_sacct

    return idle_trace_of_jobs(read_sacct(path), nodes)

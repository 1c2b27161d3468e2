"""The plain depth-first search of `forty_lines.c`, compiled by the system's ``cc`` when it is asked for.

Four vectors of prices: those of the linear relaxation (HiGHS as scipy carries it), the same times 0.8 and
times 1.2, and one drawn around them; of the choices that were tried these took the fewest nodes. Jobs are
ordered by how clearly their best option wins at the first vector, options by their losses there. All of that
is prepared here and not counted: the search is timed alone.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from benchmarks.peers.matrices import matrices_of

__all__ = ["Found", "NoCompiler", "Prepared", "compiled"]

_SOURCE = Path(__file__).with_suffix(".c")
_POINTER = ctypes.POINTER(ctypes.c_int64)
_MOST = 2**62


class NoCompiler(Exception):
    """There is no C compiler, or it failed; the message says which."""


class _State(ctypes.Structure):
    """`Search` of the C source."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("jobs", "rooms", "vectors", "scale")),
        *((name, _POINTER) for name in ("first", "worth", "use", "price", "rest")),
        *((name, _POINTER) for name in ("left", "choice", "best_choice")),
        *((name, ctypes.c_int64) for name in ("best", "nodes", "until", "late")),
    )


@dataclass(frozen=True, slots=True)
class Found:
    """How a search ended.

    Attributes
    ----------
    value
        Of the best choice; ``None`` where none was found.
    rows
        int64 [jobs]: the row chosen for each job, -1 for none.
    nodes
        Options that were tried.
    cpu_s
        Processor seconds of the search alone.
    proven
        Whether it ended before its limit.
    """

    value: int | None
    rows: NDArray[np.int64]
    nodes: int
    cpu_s: float
    proven: bool


def compiled(folder: Path, compiler: str | None = None) -> ctypes.CDLL:
    """Compile the search into a folder and load it.

    Parameters
    ----------
    folder
        A folder of the caller, for as long as the search is used.
    compiler
        The C compiler; ``CC`` of the environment or ``cc`` by default.

    Raises
    ------
    NoCompiler
        If there is none, or it fails.
    """
    name = compiler or os.environ.get("CC") or "cc"
    found = shutil.which(name)
    if found is None:
        raise NoCompiler(f"no C compiler: {name} is not there")
    library = folder / "forty_lines.so"
    command = [found, "-O3", "-std=c11", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing was said"]
        raise NoCompiler(f"{name} did not compile the search: {said[0]}")
    return ctypes.CDLL(str(library))


class Prepared:
    """A knapsack of whole values, to be maximised, as the search takes it.

    Raises
    ------
    ValueError
        If values are not whole, are minimised, or are too large for the search.
    """

    def __init__(self, model: MultipleChoiceKnapsack, scale: int = 1 << 20) -> None:
        if model.sense != "maximize" or bool((model.values != np.rint(model.values)).any()):
            raise ValueError("the forty lines maximise whole values")
        sizes = np.diff(model.offsets) + ~model.required
        job = np.repeat(np.arange(model.num_jobs), sizes)
        rows = np.full(job.size, -1, dtype=np.int64)
        none = np.zeros(job.size, dtype=np.bool_)
        none[(np.cumsum(sizes) - sizes)[~model.required]] = True
        rows[~none] = np.arange(model.num_options)
        worth = np.where(none, 0, model.values[rows]).astype(np.int64)
        use = np.where(none[:, None], 0, model.uses[rows])
        relaxed = _prices(model)
        drawn = relaxed * np.exp(0.3 * np.random.default_rng(0).standard_normal(relaxed.size))
        price = np.rint(scale * np.array((relaxed, 0.8 * relaxed, 1.2 * relaxed, drawn))).astype(np.int64)
        if (
            scale * float(np.abs(model.values).max(initial=1)) * model.num_jobs + _largest(model, price)
            > _MOST
        ):
            raise ValueError("the forty lines count in 64 bits, and this does not fit")
        score = scale * worth - price @ use.T
        starts = np.cumsum(sizes) - sizes
        best = np.maximum.reduceat(score, starts, axis=1)
        loss = best[0][job] - score[0]
        options = np.lexsort((loss, job))
        clear = np.full(model.num_jobs, np.iinfo(np.int64).max)
        several = sizes > 1
        clear[several] = loss[options[starts[several] + 1]]
        order = np.argsort(-clear, kind="stable")
        rank = np.argsort(order)
        options = options[np.argsort(rank[job[options]], kind="stable")]
        rest = np.zeros((len(price), model.num_jobs + 1), dtype=np.int64)
        rest[:, :-1] = best[:, order[::-1]].cumsum(axis=1)[:, ::-1]
        first = np.concatenate(([0], np.cumsum(sizes[order])))
        self._scale, self._order, self._rows = scale, order, rows[options]
        self._capacities = model.capacities.astype(np.int64)
        self._given = tuple(
            np.ascontiguousarray(one, dtype=np.int64)
            for one in (first, worth[options], use[options], price, rest)
        )

    def search(self, library: ctypes.CDLL, cpu_s: float) -> Found:
        """Search for so many processor seconds at most."""
        left, jobs = self._capacities.copy(), self._order.size
        choice, best_choice = np.zeros((2, jobs), dtype=np.int64)
        vectors, nothing = len(self._given[3]), -(2**61)
        arrays = (one.ctypes.data_as(_POINTER) for one in (*self._given, left, choice, best_choice))
        until = int(1e6 * (time.process_time() + cpu_s))
        state = _State(jobs, left.size, vectors, self._scale, *arrays, nothing // self._scale, 0, until, 0)
        began = time.process_time()
        library.search(ctypes.byref(state))
        took = time.process_time() - began
        rows = np.full(jobs, -1, dtype=np.int64)
        found = state.best > nothing // self._scale
        if found:
            rows[self._order] = self._rows[best_choice]
        return Found(state.best if found else None, rows, state.nodes, took, not state.late)


def _largest(model: MultipleChoiceKnapsack, price: NDArray[np.int64]) -> float:
    """Return what the prices of all capacities, or of the largest uses, come to at most."""
    most = np.maximum(model.uses.max(axis=0, initial=0) * model.num_jobs, model.capacities)
    return float((price.astype(np.float64) @ most).max())


def _prices(model: MultipleChoiceKnapsack) -> NDArray[np.float64]:
    """Return the multipliers of the linear relaxation, float64 [capacities] >= 0; 0 if there is none."""
    from scipy.optimize import linprog
    from scipy.sparse import vstack

    form = matrices_of(model)
    rows = vstack((form.coupling, form.one_option, -form.one_option))
    limits = np.concatenate((form.limits, np.ones(model.num_jobs), -form.one_option_lower))
    solved = linprog(-form.values, A_ub=rows, b_ub=limits, bounds=(0.0, None), method="highs")
    if solved.x is None:
        return np.zeros(form.limits.size)
    prices: NDArray[np.float64] = np.maximum(-solved.ineqlin.marginals[: form.limits.size], 0.0)
    return prices

"""SciPy's compiled shortest augmenting paths, without importing the rest of `scipy.optimize`.

Crouse (IEEE Transactions on Aerospace and Electronic Systems 52, 2016). `scipy.optimize` takes a third of a
second to import, ten times as long as a matching of 800 by 800; the one routine needs 5 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["matching"]

_Routine = Callable[[NDArray[np.float64]], tuple[NDArray[np.int64], NDArray[np.int64]]]


def matching(cost: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows and columns of a cheapest matching of a dense matrix; infinity forbids a pair.

    Raises
    ------
    ValueError
        If no matching covers the shorter side.
    """
    return _routine()(cost)


@cache
def _routine() -> _Routine:
    if "scipy.optimize" not in sys.modules and (alone := _alone()) is not None:
        return alone
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment


def _alone() -> _Routine | None:
    """Load the extension by its file, where SciPy keeps it today; ``None`` where it is not."""
    package = find_spec("scipy")  # its own import would cost another 30 ms
    folders = (
        [] if package is None else [Path(at) / "optimize" for at in package.submodule_search_locations or ()]
    )
    found = [path for at in folders for end in EXTENSION_SUFFIXES if (path := at / f"_lsap{end}").exists()]
    if not found:
        return None
    spec = spec_from_file_location("_lsap", found[0])
    if spec is None or spec.loader is None:
        return None
    module: Any = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError:
        return None
    routine: _Routine | None = getattr(module, "linear_sum_assignment", None)
    return routine

"""A silent, single-threaded HiGHS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import highspy

__all__ = ["new_highs"]


def new_highs(seconds: float | None) -> highspy.Highs:
    """Return a solver that prints nothing; every option is checked to be taken."""
    import highspy

    highs = highspy.Highs()
    options: dict[str, Any] = {"output_flag": False, "threads": 1}
    if seconds is not None:
        options["time_limit"] = max(seconds, 1e-3)
    for name, value in options.items():
        if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise RuntimeError(f"HiGHS refuses the option {name} = {value!r}")
    return highs

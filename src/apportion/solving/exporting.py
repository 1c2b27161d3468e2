"""The compiled linear model of an instance as an LP or MPS file."""

from __future__ import annotations

from typing import cast

from apportion import registry
from apportion.formulations.protocol import LinearFormulation
from apportion.instances import Instance, kind_of
from apportion.solving.compiling import compiled, structured

__all__ = ["exported"]


def exported(instance: Instance, to: str, formulation: str | None = None) -> bytes:
    """Compile an instance and return its linear model as text, in the instance's own names.

    Parameters
    ----------
    instance
        The instance.
    to
        ``"lp"`` or ``"mps"``.
    formulation
        Name of the formulation; the kind's first one by default.

    Raises
    ------
    InvalidOption
        If the kind has no such formulation.
    """
    from apportion.solvers.general import export

    entry = registry.formulation(kind_of(instance).name, formulation)
    if entry.produces == "linear":
        model = cast(LinearFormulation, compiled(instance, entry)).model
    else:
        model = structured(instance, entry).lowered(None).model
    text: str = export.to_lp(model) if to == "lp" else export.to_mps(model)
    return text.encode()

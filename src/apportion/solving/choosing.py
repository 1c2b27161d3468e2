"""Which backend takes a formulation: the one that was asked for, or the registry's own choice."""

from __future__ import annotations

from apportion import registry
from apportion.errors import InvalidOption

__all__ = ["chosen_backend"]


def chosen_backend(
    backend: str | registry.Backend, entry: registry.FormulationEntry
) -> tuple[registry.Backend, str]:
    """Return the backend for a formulation, and why it is this one.

    Raises
    ------
    InvalidOption
        If it takes models of another kind.
    BackendUnavailable
        If it is unknown or missing.
    """
    if isinstance(backend, registry.Backend):
        chosen, reason = backend, "given by the caller"
    elif backend == "auto":
        name = "highs" if entry.produces == "linear" else "exact"
        why = {
            "knapsack": "the formulation is a multiple-choice knapsack, which the exact solver takes whole",
            "assignment": "the formulation is an assignment, which our own solvers take as it is",
            "linear": "the formulation is a general MILP",
        }[entry.produces]
        return registry.backend(name, entry.produces), f"auto: {why}"
    else:
        chosen, reason = registry.backend(backend, entry.produces), "asked for"
    if chosen.accepts not in ("linear", entry.produces):
        raise InvalidOption(
            f"backend {chosen.name!r} takes {chosen.accepts}s; formulation {entry.name!r} is a "
            f"{entry.produces} model, choose highs, cp-sat or scip"
        )
    return chosen, reason

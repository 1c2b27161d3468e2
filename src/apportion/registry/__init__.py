"""The tables of backends and formulations; what an entry names is imported when it is first used."""

from apportion.registry.backends import BACKENDS, Backend, backend
from apportion.registry.formulations import FORMULATIONS, FormulationEntry, formulation

__all__ = ["BACKENDS", "FORMULATIONS", "Backend", "FormulationEntry", "backend", "formulation"]

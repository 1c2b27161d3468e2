"""A compiler with memory: a changed instance is compiled from the formulation of the one before."""

from __future__ import annotations

from typing import Any

from apportion.formulations.protocol import Formulation
from apportion.instances.draft import is_tenanted
from apportion.registry import FormulationEntry
from apportion.solving.compiling import compiled, structured
from apportion.solving.structure import Structure
from apportion.solving.subject import Subject

__all__ = ["RememberingCompiler"]

_WORTH_PATCHING = 4096
"""Options; 1,300 of gap filling are compiled whole in half the time that patching them takes."""


class RememberingCompiler:
    """Called as `apportion.solving.compiling.structured`; it keeps the last formulation of every entry.

    A formulation that can be patched (``patched(instance)``, of menus) is: jobs that are the same objects
    keep their part of the arrays. Everything else is compiled again.

    Parameters
    ----------
    least_options
        Options of a model from which on patching it is tried; smaller ones are compiled sooner, unless
        nothing but capacities has changed.

    Attributes
    ----------
    patched
        How often a formulation was patched.
    compiled
        How often one was compiled whole.
    """

    def __init__(self, least_options: int = _WORTH_PATCHING) -> None:
        self._least_options = least_options
        self._known: dict[str, Formulation] = {}
        self.patched = 0
        self.compiled = 0

    def __call__(self, subject: Subject, entry: FormulationEntry) -> Structure:
        """Return the structured model of an instance as an entry says."""
        return structured(subject, entry, self._compile)

    def __reduce__(self) -> tuple[type[RememberingCompiler], tuple[int]]:
        return (RememberingCompiler, (self._least_options,))  # what is compiled is not sent anywhere

    def _compile(self, subject: Subject, entry: FormulationEntry) -> Formulation:
        earlier: Any = self._known.pop(entry.name, None)  # given up to the patch, also where that is torn
        patch = getattr(earlier, "patched", None)
        found: Formulation | None = None
        if patch and self._is_worth_patching(earlier, subject) and not is_tenanted(subject):
            found = patch(subject)
        if found is None:
            found = compiled(subject, entry)
            self.compiled += 1
        else:
            self.patched += 1
        self._known[entry.name] = found
        return found

    def _is_worth_patching(self, earlier: Any, subject: Any) -> bool:
        """Return whether a model is large, or all of its jobs are as they were."""
        return earlier.model.num_options >= self._least_options or earlier.instance.jobs is subject.jobs

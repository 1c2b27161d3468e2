"""One question of the hunt: what is solved, on which inner path, with which options; all of it is JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import apportion

__all__ = ["Case", "subject_of"]

INSTANCE, MENUS, ASSIGNMENT = "instance", "menus", "assignment"
TENANTS = "tenants"
"""What instances of any kind are called whose jobs belong to tenants."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question.

    Attributes
    ----------
    subject
        ``instance`` (a JSON instance), ``menus`` or ``assignment`` (arguments of ``from_arrays``).
    document
        The instance or the arguments.
    path
        Name of the inner path it is sent along, see `tests.hunt.paths`.
    options
        Keyword arguments of `apportion.solve`.
    note
        What went wrong, in words; for stored cases.
    """

    subject: str
    document: dict[str, Any]
    path: str = "plain"
    options: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def kind(self) -> str:
        """The kind of the instance, or the sort of bare arrays."""
        if self.subject != INSTANCE:
            return self.subject
        return TENANTS if "tenants" in self.document else str(self.document["kind"])

    def with_document(self, document: dict[str, Any]) -> Case:
        """Return the same question about something else."""
        return replace(self, document=document)

    def encode(self) -> str:
        """Return the case as JSON; floats keep every digit."""
        told = {
            "note": self.note,
            "subject": self.subject,
            "path": self.path,
            "options": self.options,
            "document": self.document,
        }
        return json.dumps(told, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def decode(cls, text: str) -> Case:
        """Read a case back."""
        told = json.loads(text)
        return cls(told["subject"], told["document"], told["path"], told["options"], told["note"])

    @classmethod
    def read(cls, path: Path) -> Case:
        """Read a stored case."""
        return cls.decode(path.read_text(encoding="utf-8"))


def subject_of(case: Case) -> Any:
    """Return what `apportion.solve` is called with.

    Raises
    ------
    InvalidInstance
        If the package refuses it.
    """
    if case.subject == MENUS:
        import numpy as np

        told = case.document
        uses = np.array(told["uses"], dtype=np.int64).reshape(len(told["values"]), len(told["capacities"]))
        return apportion.MultipleChoiceKnapsack.from_arrays(
            np.array(told["values"], dtype=np.float64),
            uses,
            np.array(told["offsets"], dtype=np.int64),
            np.array(told["capacities"], dtype=np.int64),
            required=np.array(told["required"], dtype=np.bool_),
            sense=told["sense"],
        )
    if case.subject == ASSIGNMENT:
        import numpy as np

        told = case.document
        return apportion.Assignment.from_arrays(
            told["goal"],
            np.array(told["values"], dtype=np.float64),
            np.array(told["machine"], dtype=np.int64),
            np.array(told["offsets"], dtype=np.int64),
            told["machines"],
            uses=np.array(told["uses"], dtype=np.int64),
            capacities=None if told["capacities"] is None else np.array(told["capacities"], dtype=np.int64),
            required=np.array(told["required"], dtype=np.bool_),
        )
    return apportion.read(case.document)

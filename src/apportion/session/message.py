"""What every message that changes the instance of a session can do, whatever it changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct

from apportion.instances.draft import Draft

__all__ = ["Message", "name_of"]


class Message(Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    """A change of an instance, with the tag ``op``."""

    blamed: ClassVar[str] = ""
    """The field of the message that a problem of the whole instance is reported at."""

    def apply(self, draft: Draft, path: str) -> None:
        """Change a draft; problems are reported at paths that begin with `path`."""
        raise NotImplementedError

    def words(self) -> str:
        """Return the change in a few words."""
        raise NotImplementedError


def name_of(part: Any) -> str:
    """Return the id of a job or of a pool of machines, given as an object or as decoded from JSON."""
    name = part.get("id") if isinstance(part, Mapping) else getattr(part, "id", None)
    return str(name)

"""What every instance does when it is printed, written or taken into a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from apportion.core.display import Displayable
from apportion.core.extension_points import loaded

__all__ = ["DisplayableInstance"]


class DisplayableInstance(Displayable):
    """The methods for people that instances of all kinds share."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the instance as the JSON object that `apportion.read` reads."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def table(self) -> dict[str, list[Any]]:
        """Return the menus as columns, those that ``add_jobs`` of the kind's builder takes."""
        found: dict[str, list[Any]] = loaded("apportion.instances.tables:menu_table")(self)
        return found

    def _head(self, most: int) -> Mapping[str, list[Any]]:
        found: Mapping[str, list[Any]] = loaded("apportion.instances.tables:menu_table")(self, most)
        return found

    def _facts(self) -> Mapping[str, str]:
        return {"instance": repr(self).strip("<>")}

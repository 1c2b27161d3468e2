"""What every builder of instances does: add jobs, one by one or from a table, and hand the instance out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from msgspec.structs import replace

from apportion.building.tables import columns_of, groups
from apportion.errors import InvalidInstance
from apportion.instances.draft import Draft
from apportion.instances.plain import plain
from apportion.reading.parts import part

__all__ = ["Builder", "kept"]

_I = TypeVar("_I")


class Builder(Generic[_I]):
    """An instance that grows; every job is checked when it is added.

    Methods return the builder, so that calls can be chained; `instance` hands out what there is so far.
    """

    def __init__(self, begun: Any) -> None:
        self._draft = Draft(begun)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.instance()!r}>"

    def _repr_html_(self) -> str:
        html: str = self.instance()._repr_html_()  # type: ignore[attr-defined]
        return html

    def instance(self) -> _I:
        """Return the instance as it is now.

        Raises
        ------
        InvalidInstance
            If a rule between jobs is broken.
        """
        found: _I = self._draft.instance()  # type: ignore[assignment]
        return found

    def add_jobs(self, table: Any) -> Self:
        """Add jobs from a table; the class says which columns there are.

        Parameters
        ----------
        table
            A DataFrame of pandas or polars, anything with the dataframe interchange protocol, or a mapping
            from column names to sequences. Columns that belong to a job are read from its first row; an
            empty cell (``None``, NaN) is no value.

        Raises
        ------
        InvalidInstance
            If a column is missing or a job breaks a rule; nothing is added then.
        """
        columns = columns_of(table)
        missing = [name for name in ("job", *self._row_columns()) if name not in columns]
        if missing:
            lacking = f"there is no column {missing[0]!r}; there are {', '.join(columns) or 'none'}"
            raise InvalidInstance.at("$.jobs", lacking)
        before = self._draft.copied()
        try:
            for name, rows in groups(columns):
                self._check_cells(name, rows)
                self._add_rows(name, rows)
        except BaseException:
            self._draft = before
            raise
        return self

    def _check_cells(self, name: str, rows: list[dict[str, Any]]) -> None:
        for column in self._row_columns():
            if any(column not in row for row in rows):
                raise InvalidInstance.at(f"$.jobs.{name}", f"the column {column!r} has an empty cell")

    def _row_columns(self) -> Sequence[str]:
        """Return the columns that every row of a table has beside ``job``."""
        return ()

    def _add_rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Add one job of a table."""
        raise NotImplementedError

    def _add(self, job: Mapping[str, Any]) -> Self:
        """Add a job given by its fields; those that are ``None`` keep their default."""
        where = f"$.jobs[{len(self._draft)}]"
        given = {name: value for name, value in job.items() if value is not None}
        self._draft.add(part(self._draft.base, self._draft.edits.job_type, given, where), where)
        return self

    def _set(self, **fields: Any) -> Self:
        self._draft.change_around(lambda instance: replace(instance, **fields))
        return self


def kept(row: Mapping[str, Any], used: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a row beside those that were used; ``job`` is never one."""
    return {name: plain(value) for name, value in row.items() if name not in used and name != "job"}

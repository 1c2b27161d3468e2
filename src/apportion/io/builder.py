"""What every builder of instances does: add jobs, one by one or from any table, and hand the instance out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from msgspec.structs import replace

from apportion.core.errors import InvalidInstance
from apportion.instances.draft import Draft
from apportion.instances.fields import plain_value
from apportion.io.places import part

__all__ = ["Builder", "columns_of", "groups", "kept"]


def columns_of(table: Any) -> dict[str, list[Any]]:
    """Return the columns of a table as lists of plain numbers and strings.

    Raises
    ------
    InvalidInstance
        If it is no table, or its columns are not equally long.

    Notes
    -----
    A column of whole floats, ``2.0``, is one of integers.
    """
    if isinstance(table, Mapping):
        names, column = list(table), table.__getitem__
    elif hasattr(table, "column_names") and hasattr(table, "column"):  # pyarrow
        names, column = list(table.column_names), table.column
    elif hasattr(table, "columns") and hasattr(table, "__getitem__"):  # pandas, polars
        names, column = list(table.columns), table.__getitem__
    elif hasattr(table, "__dataframe__"):
        return columns_of(_exchanged(table))
    else:
        expected = "a DataFrame, or a mapping from column names to sequences"
        raise InvalidInstance.at("$.jobs", f"{type(table).__name__} is no table; give {expected}")
    columns = {str(name): _whole(_listed(column(name))) for name in names}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {length}" for name, length in lengths.items())
        raise InvalidInstance.at("$.jobs", f"the columns are not equally long ({shown})")
    return columns


def groups(columns: Mapping[str, list[Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield every job with its rows, in the order in which jobs come; empty cells are left out of rows."""
    jobs: dict[str, list[dict[str, Any]]] = {}
    names = list(columns)
    for cells in zip(*columns.values(), strict=True):
        row = {name: cell for name, cell in zip(names, cells, strict=True) if not _is_empty(cell)}
        jobs.setdefault(str(row.get("job")), []).append(row)
    yield from jobs.items()


def _exchanged(table: Any) -> Any:
    """Return the pandas DataFrame of something that only speaks the interchange protocol."""
    import warnings

    from pandas.api.interchange import from_dataframe

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas 3 advises its callers against the protocol
        return from_dataframe(table)


def _listed(column: Any) -> list[Any]:
    for method in ("to_list", "tolist", "to_pylist"):
        if callable(getattr(column, method, None)):
            return list(plain_value(getattr(column, method)()))
    return list(plain_value(list(column)))


def _whole(cells: list[Any]) -> list[Any]:
    """Return a column of nothing but whole floats as integers: pandas makes floats of those beside a gap."""
    given = [cell for cell in cells if not _is_empty(cell)]
    if not given or not all(isinstance(cell, float) and cell.is_integer() for cell in given):
        return cells
    return [cell if _is_empty(cell) else int(cell) for cell in cells]


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and cell != cell)


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
    return {name: plain_value(value) for name, value in row.items() if name not in used and name != "job"}

"""Tables in: columns by name out of whatever holds a table, and the rows of every job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apportion.errors import InvalidInstance
from apportion.instances.plain import plain

__all__ = ["columns_of", "groups"]


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
            return list(plain(getattr(column, method)()))
    return list(plain(list(column)))


def _whole(cells: list[Any]) -> list[Any]:
    """Return a column of nothing but whole floats as integers: pandas makes floats of those beside a gap."""
    given = [cell for cell in cells if not _is_empty(cell)]
    if not given or not all(isinstance(cell, float) and cell.is_integer() for cell in given):
        return cells
    return [cell if _is_empty(cell) else int(cell) for cell in cells]


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and cell != cell)

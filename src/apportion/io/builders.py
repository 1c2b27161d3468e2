"""Instances in a few lines of Python, a builder for every kind: lists and arrays as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, Self, TypeVar

from msgspec.structs import replace

from apportion.core.errors import InvalidInstance, quoted_names
from apportion.instances.draft import Draft
from apportion.instances.fields import plain_value
from apportion.instances.freezing import FreezingInstance
from apportion.instances.gap_filling import GapFillingInstance
from apportion.instances.matching import MatchingInstance
from apportion.instances.multiple_choice_knapsack import MultipleChoiceKnapsackInstance
from apportion.io.places import part
from apportion.io.read import read

__all__ = ["Freezing", "GapFilling", "Knapsack", "Matching"]


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
    columns = {str(name): _integers(_cells(column(name))) for name in names}
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


def _cells(column: Any) -> list[Any]:
    for method in ("to_list", "tolist", "to_pylist"):
        if callable(getattr(column, method, None)):
            return list(plain_value(getattr(column, method)()))
    return list(plain_value(list(column)))


def _integers(cells: list[Any]) -> list[Any]:
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


def _begun(kind: str, fields: Mapping[str, Any]) -> Any:
    tree = {name: plain_value(value) for name, value in fields.items() if value is not None}
    return read({"kind": kind, "schema_version": "1", "jobs": [], **tree})


_MOST_NODES = 10_000_000
"""Nodes that are named by number."""


def _mapping(path: str, given: Any) -> Mapping[str, Any]:
    """Return a mapping with plain values."""
    found = plain_value(given)
    if not isinstance(found, Mapping):
        raise InvalidInstance.at(path, f"must be a mapping, not {found!r:.60}")
    return found


def _list(path: str, given: Any) -> list[Any]:
    """Return a sequence or an array as a list of plain values."""
    found = plain_value(given)
    if isinstance(found, str | Mapping) or not isinstance(found, Iterable):
        raise InvalidInstance.at(path, f"must be a sequence, not {found!r:.60}")
    return [*found]


class GapFilling(Builder[GapFillingInstance]):
    """Idle nodes and malleable jobs.

    A table has one row per job and node count: the columns ``job``, ``nodes`` and ``rate``, and any field of
    a job.

    Parameters
    ----------
    nodes
        Names of the idle nodes, or how many there are: then they are ``n0``, ``n1``, ...
    horizon_s
        How long the allocation is expected to last, seconds.
    **fields
        Other fields of the instance, ``name`` for instance.

    Examples
    --------
    >>> from apportion import GapFilling, solve
    >>> cluster = GapFilling(nodes=8).add_job("a", rates=[10, 19, 27, 34]).add_job("b", rates=[12, 23, 33])
    >>> {job: len(nodes) for job, nodes in solve(cluster.instance()).require()["allocation"].items()}
    {'a': 4, 'b': 3}
    """

    def __init__(self, nodes: int | Sequence[str], horizon_s: float = 120.0, **fields: Any) -> None:
        count = plain_value(nodes)
        if isinstance(count, int) and not 0 <= count <= _MOST_NODES:
            raise InvalidInstance.at("$.nodes", f"must be from 0 to {_MOST_NODES:,} nodes, not {count:,}")
        names = [f"n{index}" for index in range(count)] if isinstance(count, int) else count
        super().__init__(_begun("gap_filling", {"nodes": names, "horizon_s": horizon_s, **fields}))

    def add_job(
        self,
        id: str,
        rates: Sequence[float] | Mapping[int, float] | Any,
        *,
        min_nodes: int | None = None,
        max_nodes: int | None = None,
        rescale_up_s: float = 0.0,
        rescale_down_s: float = 0.0,
        **fields: Any,
    ) -> Self:
        """Add a job.

        Parameters
        ----------
        id
            Its name.
        rates
            Samples per second on 1, 2, 3, ... nodes; or by node count, linear in between and from 0.
        min_nodes, max_nodes
            The fewest and the most nodes it runs on; 1, and the last one of `rates`, by default.
        rescale_up_s, rescale_down_s
            Seconds it stands still when it grows or shrinks.
        **fields
            Other fields of a job: ``current_nodes``, ``weight``, ``pinned_count`` and so on;
            ``allowed_counts`` may be ``"powers_of_two"``, or a range such as ``range(4, 65, 4)``.
        """
        given = plain_value(rates)
        if not isinstance(given, Mapping):
            given = dict(enumerate(given if isinstance(given, list) else [given], start=1))
        try:
            curve = {0: 0.0, **{int(count): rate for count, rate in given.items()}}
        except (ValueError, OverflowError):
            said = f"must be by whole numbers of nodes, not by {quoted_names(given)}"
            raise InvalidInstance.at(f"$.jobs.{id}.rates", said) from None
        counts = sorted(curve)
        if fields.get("allowed_counts") == "powers_of_two":
            most = counts[-1] if max_nodes is None else int(max_nodes)
            powers = (2**power for power in range(most.bit_length()))
            fields["allowed_counts"] = [count for count in powers if (min_nodes or 1) <= count <= most]
        return self._add(
            {
                "id": id,
                "min_nodes": 1 if min_nodes is None else min_nodes,
                "max_nodes": counts[-1] if max_nodes is None else max_nodes,
                "scaling": {"nodes": counts, "rate": [curve[count] for count in counts]},
                "rescale_up_s": rescale_up_s,
                "rescale_down_s": rescale_down_s,
                **fields,
            }
        )

    def _row_columns(self) -> Sequence[str]:
        return ("nodes", "rate")

    def _add_rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        rates = {row["nodes"]: row["rate"] for row in rows}
        self.add_job(name, rates, **kept(rows[0], ("nodes", "rate")))


class Knapsack(Builder[MultipleChoiceKnapsackInstance]):
    """Jobs that pick one option each, options that use capacities.

    A table has one row per option: the columns ``job``, ``option``, ``value``, one by the name of every
    capacity, and any field of a job.

    Parameters
    ----------
    capacities
        How much there is of each, by name.
    sense
        ``"maximize"`` or ``"minimize"`` the sum of the chosen values.
    **fields
        Other fields of the instance, ``name`` for instance.

    Examples
    --------
    >>> from apportion import Knapsack, solve
    >>> menus = Knapsack({"gpu": 4}).add_job("a", values=[3, 4], uses={"gpu": [2, 4]})
    >>> solve(menus.add_job("b", [2], {"gpu": [2]}).instance()).require()
    {'choice': {'a': '0', 'b': '0'}}
    """

    def __init__(
        self,
        capacities: Mapping[str, int],
        sense: Literal["maximize", "minimize"] = "maximize",
        **fields: Any,
    ) -> None:
        begun = {"capacities": capacities, "sense": sense, **fields}
        super().__init__(_begun("multiple_choice_knapsack", begun))

    def add_job(
        self,
        id: str,
        values: Sequence[float] | Any,
        uses: Mapping[str, Sequence[int] | Any],
        *,
        options: Sequence[str] | None = None,
        required: bool = True,
        goals: Mapping[str, Sequence[int] | Any] | None = None,
        **fields: Any,
    ) -> Self:
        """Add a job.

        Parameters
        ----------
        id
            Its name.
        values
            What every option is worth.
        uses
            By capacity, what every option takes of it.
        options
            Names of the options; ``"0"``, ``"1"``, ... by default.
        required
            Whether the job must get one of them.
        goals
            By goal of the instance (its field ``goals``), what every option adds to it.
        **fields
            Other fields of a job: ``current``, ``pinned``, ``forbidden``.
        """
        where = f"$.jobs.{id}"
        worth = _list(f"{where}.values", values)
        taken = {
            name: _list(f"{where}.uses.{name}", use) for name, use in _mapping(f"{where}.uses", uses).items()
        }
        names = [str(index) for index in range(len(worth))]
        names = names if options is None else _list(f"{where}.options", options)
        wanted = {
            name: _list(f"{where}.goals.{name}", worths)
            for name, worths in _mapping(f"{where}.goals", goals or {}).items()
        }
        lengths = {"options": len(names), **{name: len(use) for name, use in (taken | wanted).items()}}
        wrong = {name: length for name, length in lengths.items() if length != len(worth)}
        if wrong:
            what, length = next(iter(wrong.items()))
            raise InvalidInstance.at(where, f"{what} has {length} entries, values has {len(worth)}")
        menu = [
            {"id": name, "value": value, "uses": {capacity: use[at] for capacity, use in taken.items()}}
            for at, (name, value) in enumerate(zip(names, worth, strict=True))
        ]
        for at, option in enumerate(menu if wanted else ()):
            option["goals"] = {goal: worths[at] for goal, worths in wanted.items()}
        return self._add({"id": id, "options": menu, "required": required, **fields})

    def _row_columns(self) -> Sequence[str]:
        return ("option", "value")

    def _add_rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        capacities = list(self._draft.base.capacities)
        options = [str(row["option"]) for row in rows]
        uses = {capacity: [row.get(capacity, 0) for row in rows] for capacity in capacities}
        more = kept(rows[0], ("option", "value", *capacities))
        self.add_job(name, [row["value"] for row in rows], uses, options=options, **more)


class Matching(Builder[MatchingInstance]):
    """Jobs that each go to one pool of machines.

    A table has one row per job and pool: the columns ``job``, ``machine``, the field that the objective reads
    (``time_s``, ``cost`` or ``value``), and perhaps ``uses``, ``gpus`` and ``required``.

    Parameters
    ----------
    machines
        How many machines every pool has, by name; or pools as objects with ``id``, ``count``, ``capacity``.
    objective
        ``"makespan"``, ``"cost"`` or ``"value"``.
    **fields
        Other fields of the instance: ``divisible``, ``name``.

    Examples
    --------
    >>> from apportion import Matching, solve
    >>> pools = Matching({"v100": 1, "k80": 1}).add_job("a", {"v100": 2, "k80": 6})
    >>> solve(pools.add_job("b", {"v100": 3, "k80": 4}).instance()).objective
    4.0
    """

    def __init__(
        self,
        machines: Mapping[str, int] | Sequence[Any],
        objective: Literal["makespan", "cost", "value"] = "makespan",
        **fields: Any,
    ) -> None:
        pools: Any = machines
        self._counted = isinstance(machines, Mapping)
        if isinstance(machines, Mapping):
            pools = [{"id": name, "count": count} for name, count in machines.items()]
        super().__init__(_begun("matching", {"machines": pools, "objective": objective, **fields}))

    def add_job(self, id: str, on: Mapping[str, Any], *, required: bool = True) -> Self:
        """Add a job.

        Parameters
        ----------
        id
            Its name.
        on
            By pool, the number that the objective reads, or an object of the entry's fields.
        required
            Whether it must run.
        """
        field = self._draft.base.field
        room = {pool.id for pool in self._draft.base.machines if pool.capacity is not None}
        given = _mapping(f"$.jobs.{id}.on", on)
        for name, entry in given.items():
            if isinstance(entry, Mapping) and "uses" in entry and self._counted and name not in room:
                said = f"machines were given as counts, so {name} has no capacity: uses would mean nothing"
                raise InvalidInstance.at(
                    f"job {id}: {name}.uses", f"{said}; give pools with id, count, capacity"
                )
        entries = {
            name: {field: entry} if isinstance(entry, int | float) else entry for name, entry in given.items()
        }
        return self._add({"id": id, "on": entries, "required": required})

    def _row_columns(self) -> Sequence[str]:
        return ("machine", self._draft.base.field)

    def _add_rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        own = ("time_s", "cost", "value", "uses", "gpus")
        on = {str(row["machine"]): {field: row[field] for field in own if field in row} for row in rows}
        self.add_job(name, on, required=bool(rows[0].get("required", True)))


class Freezing(Builder[FreezingInstance]):
    """A round of jobs that pick GPU type, GPU count and frozen depth.

    A table has one row per job, place and depth: the columns ``job``, ``layers``, ``gpu_type``, ``gpus``,
    ``depth`` and ``effective_progress``, perhaps ``penalty_millionths``, and any field of a job.

    Parameters
    ----------
    gpus
        How many GPUs there are of each type.
    round_s
        Length of the round, seconds.
    **fields
        Other fields of the instance: ``gpus_per_node``, ``power``, ``queue_penalty`` and so on.

    Examples
    --------
    >>> from apportion import Freezing, solve
    >>> menu = {("v100", 1): {0: 10.0, 4: 14.0}, ("v100", 2): {0: 19.0}}
    >>> solve(Freezing({"v100": 1}).add_job("a", layers=8, menu=menu).instance()).require()["configuration"]
    {'a': {'gpu_type': 'v100', 'gpus': 1, 'depth': 4}}
    """

    def __init__(self, gpus: Mapping[str, int], round_s: float = 60.0, **fields: Any) -> None:
        super().__init__(_begun("freezing", {"gpus": gpus, "round_s": round_s, **fields}))

    def add_job(
        self, id: str, layers: int, menu: Mapping[tuple[str, int], Mapping[int, float]], **fields: Any
    ) -> Self:
        """Add a job.

        Parameters
        ----------
        id
            Its name.
        layers
            How many layers it has.
        menu
            By GPU type and count: effective progress, samples per second, by frozen depth.
        **fields
            Other fields of a job: ``current``, ``age_s``, ``restart_s``, ``weight`` and so on.
        """
        try:
            rows = [
                {"gpu_type": name, "gpus": gpus, "depths": sorted(depths), "effective_progress": progress}
                for (name, gpus), depths in menu.items()
                for progress in [[depths[depth] for depth in sorted(depths)]]
            ]
        except (AttributeError, LookupError, TypeError, ValueError):
            said = "must be by (GPU type, count), and there effective progress by frozen depth"
            raise InvalidInstance.at(f"$.jobs.{id}.menu", said) from None
        return self._add({"id": id, "layers": layers, "menu": rows, **fields})

    def _row_columns(self) -> Sequence[str]:
        return ("layers", "gpu_type", "gpus", "depth", "effective_progress")

    def _add_rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        places: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for row in rows:
            places.setdefault((str(row["gpu_type"]), row["gpus"]), []).append(row)
        menu = []
        for (gpu_type, gpus), found in places.items():
            found.sort(key=lambda row: row["depth"])
            penalties = [row["penalty_millionths"] for row in found if "penalty_millionths" in row]
            menu.append(
                {
                    "gpu_type": gpu_type,
                    "gpus": gpus,
                    "depths": [row["depth"] for row in found],
                    "effective_progress": [row["effective_progress"] for row in found],
                    "penalty_millionths": penalties,
                }
            )
        more = kept(rows[0], (*self._row_columns(), "penalty_millionths"))
        self._add({"id": name, "layers": rows[0]["layers"], "menu": menu, **more})

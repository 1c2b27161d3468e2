"""A placement as one question: every chooser takes one of its columns, rows keep the rules.

Factors of rows may be negative; `Program.question` shifts them, as every chooser takes exactly one column:
a - b <= r is a + (B - b) <= r + B where b is at most B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementOption,
    PlacementPods,
)
from apportion.instances.placement.site import Site

__all__ = [
    "NOTHING",
    "Class",
    "Form",
    "Integers",
    "Kinds",
    "PodsAt",
    "Program",
    "Question",
    "Row",
    "Shape",
    "summed",
]

Integers = NDArray[np.int64]
_MOST_CELLS = 4_000_000
"""Columns times rows from which on what columns use is kept sparse."""
Shape = tuple[tuple[int, int, int], ...]
"""How pods lie: class, node and count."""


class Form(NamedTuple):
    """A sum over columns, plus a constant."""

    columns: Integers
    factors: NDArray[Any]
    constant: Any = 0

    @classmethod
    def of(cls, columns: ArrayLike, factors: ArrayLike = 1, constant: Any = 0) -> Form:
        """Return a form of columns, with one factor each or one for all."""
        at = np.asarray(columns, dtype=np.int64)
        return cls(at, np.broadcast_to(np.asarray(factors), at.shape), constant)

    def __add__(self, other: Form) -> Form:  # type: ignore[override]
        return Form(
            np.concatenate((self.columns, other.columns)),
            np.concatenate((self.factors, other.factors)),
            self.constant + other.constant,
        )

    def at(self, taken: Integers) -> int:
        """Return what it is where these columns are taken, int64 [columns] of 0 and 1."""
        return int((taken[self.columns] * self.factors).sum()) + int(self.constant)

    def times(self, factor: Any) -> Form:
        """Return the form so many times."""
        if isinstance(factor, int) and factor == 1:
            return self
        return Form(self.columns, self.factors * factor, self.constant * factor)


NOTHING = Form.of([])


class Class(NamedTuple):
    """Pods of one name of one option: the job, the option, and what they are."""

    job: PlacementJob
    option: PlacementOption
    pods: PlacementPods


Settle = Callable[[Integers], int]
"""From the columns that are taken, int64 [columns] of 0 and 1, to the position of one that follows."""


class PodsAt(NamedTuple):
    """A chooser of where pods are: their class, and the node it is about, ``None`` if it says the node."""

    chooser: int
    of: int
    node: int | None


@dataclass(slots=True)
class Row:
    """A form that is at most its room."""

    name: str
    form: Form
    room: int


class Kinds(NamedTuple):
    """The kinds of pods of a program: those at one node, or bundle of nodes, that need the same.

    Attributes
    ----------
    needs
        int64 [kinds, limited resources].
    node
        int64 [kinds].
    of
        int64 [entries of `Program.placed`]: their kind.
    """

    needs: Integers
    node: Integers
    of: Integers


class Question(NamedTuple):
    """What is asked: choosers with columns, rows over them, and goals.

    Attributes
    ----------
    offsets
        int64 [choosers + 1].
    columns
        int64 [columns]: which columns of the program these are.
    cells
        For every use of a row its column, its row and how much, int64 [uses] each.
    names, rooms
        The rows' names, and how much there is.
    goals
        By goal what every column adds, and what is there whatever is taken.
    """

    offsets: Integers
    columns: Integers
    cells: tuple[Integers, Integers, Integers]
    names: list[str]
    rooms: Integers
    goals: list[tuple[list[Any], Any]]

    def objective(self) -> list[Fraction]:
        """Return what every column adds to the first goal; the first chooser also what is there anyway."""
        worth, constant = self.goals[0]
        shared = {id(one): one for one in worth}  # options of one value share the number
        exact = {key: Fraction(one) for key, one in shared.items()}
        found = [exact[id(one)] for one in worth]
        if constant:
            first = int(self.offsets[1])
            found[:first] = [one + Fraction(constant) for one in found[:first]]
        return found

    def beside(self, rows: Sequence[Row]) -> Question:
        """Return the same with further rows, as they are for the columns that are asked about."""
        columns, numbers, uses = ([one] for one in self.cells)
        for number, row in enumerate(rows, len(self.names)):
            at = np.searchsorted(self.columns, row.form.columns)
            there = self.columns[np.minimum(at, self.columns.size - 1)] == row.form.columns
            columns.append(at[there])
            numbers.append(np.full(int(there.sum()), number, dtype=np.int64))
            uses.append(row.form.factors[there])
        cells = np.concatenate(columns), np.concatenate(numbers), np.concatenate(uses)
        rooms = np.append(self.rooms, np.array([row.room for row in rows], dtype=np.int64))
        return self._replace(cells=cells, names=[*self.names, *(row.name for row in rows)], rooms=rooms)

    def table(self) -> Any:
        """Return int64 [columns, rows]: what columns use of every row; sparse beyond `_MOST_CELLS` cells."""
        columns, rows, uses = self.cells
        shape = self.columns.size, len(self.names)
        if shape[0] * shape[1] > _MOST_CELLS:
            from scipy.sparse import csc_array

            return csc_array((uses, (columns, rows)), shape=shape)
        found = np.zeros(shape, dtype=np.int64)
        found[columns, rows] = uses
        return found


@dataclass
class Program:
    """Choosers, columns, and what of pods every column places.

    Attributes
    ----------
    instance, site
        What it is of.
    choosers
        Names.
    starts
        The first column of every chooser.
    labels
        Names of the columns.
    values
        What columns are worth.
    classes
        Pods of options.
    entries
        Column, class, node, count: what columns place.
    chosen
        By job and option the columns that mean that it gets it.
    waiting
        By job the columns that mean that it gets nothing; none where no column means that.
    rows
        The rows.
    whole, optional
        Jobs that are one chooser; jobs of one option whose pods may have a node each or not.
    stopped
        By job whether it is stopped, once that was asked.
    scopes
        By column that says where a job lies, bool [nodes]: there.
    pods_at
        The choosers that say where pods are.
    settled
        By chooser whose column follows from others, which.
    told_by
        A name among the rows by which these are told from the rows of the same instance in other words.
    """

    instance: PlacementInstance
    site: Site
    choosers: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    values: list[Fraction] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)
    entries: list[tuple[int, int, int, int]] = field(default_factory=list)
    chosen: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    waiting: dict[str, list[int]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    whole: set[str] = field(default_factory=set)
    optional: set[str] = field(default_factory=set)
    stopped: dict[str, Form] = field(default_factory=dict)
    scopes: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    pods_at: list[PodsAt] = field(default_factory=list)
    settled: dict[int, Settle] = field(default_factory=dict)
    told_by: str = ""
    _used: dict[tuple[int, ...], Form] = field(default_factory=dict)
    _exact: dict[float, Fraction] = field(default_factory=dict)
    _worths: dict[tuple[int, float, float, int], tuple[Fraction, Fraction]] = field(default_factory=dict)
    """By what a column was worth, kept alive here, and what it places: the number before and after."""

    def chooser(self, name: str) -> None:
        """Begin a chooser."""
        self.choosers.append(name)
        self.starts.append(len(self.labels))

    def column(self, label: str, value: Fraction = Fraction(0)) -> int:
        """Add a column to the last chooser."""
        self.labels.append(label)
        self.values.append(value)
        return len(self.labels) - 1

    def exact(self, value: float) -> Fraction:
        """Return a value as one number for all that have it."""
        if value not in self._exact:
            self._exact[value] = Fraction(value)
        return self._exact[value]

    def place(self, column: int, of: int, node: int, count: int) -> None:
        """Let a column place pods, and be worth what they are."""
        pods = self.classes[of].pods
        self.entries.append((column, of, node, count))
        if pods.value or pods.value_at:
            before, there = self.values[column], self.site.value_at(pods, node)
            key = id(before), pods.value, there, count
            if key not in self._worths:
                each = self.exact(pods.value) + self.exact(there)
                self._worths[key] = before, before + count * each
            self.values[column] = self._worths[key][1]

    def row(self, name: str, form: Form, room: int) -> None:
        """Add a row: the form is at most the room."""
        self.rows.append(Row(name, form, room - int(form.constant)))

    def derived(self, name: str, labels: Iterable[str], settle: Settle) -> Integers:
        """Add a chooser whose column follows from others, and return its columns.

        Parameters
        ----------
        name, labels
            Of the chooser and of its columns.
        settle
            ``settle(taken)``: the position of its column where these columns are taken, int64 [columns].
        """
        self.settled[len(self.choosers)] = settle
        self.chooser(name)
        return np.array([self.column(label) for label in labels], dtype=np.int64)

    def flag(self, name: str, holds: Callable[[Integers], bool]) -> Form:
        """Add a chooser of no and yes, and return as a form whether it is yes."""
        return Form.of(self.derived(name, ("no", "yes"), lambda taken: int(holds(taken)))[1:])

    def number(self, name: str, most: int, form: Form, base: int = 0, unit: int = 1) -> Form:
        """Add a chooser of a number up to `most`, at least (form - base) / unit; return it as a form."""

        def settle(taken: Integers) -> int:
            return min(most, max(0, -((base - form.at(taken)) // unit)))

        columns = self.derived(name, map(str, range(most + 1)), settle)
        return Form.of(columns, np.arange(most + 1))

    @cached_property
    def free(self) -> dict[str, Integers]:
        """By resource int64 [nodes]: what others do not use."""
        return self.site.free_each()

    @cached_property
    def placed(self) -> tuple[Integers, Integers, Integers, Integers]:
        """int64 [entries] each: column, class, node, count; no column places pods from here on."""
        table = np.array(self.entries, dtype=np.int64).reshape(-1, 4)
        return table[:, 0], table[:, 1], table[:, 2], table[:, 3]

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of pods."""
        limited, (_, of, node, _) = self.site.limited, self.placed
        needs = np.array([[one.pods.takes(name) for name in limited] for one in self.classes], dtype=np.int64)
        table = np.column_stack((node, needs.reshape(-1, len(limited))[of]))
        each, kind = np.unique(table, axis=0, return_inverse=True)
        return Kinds(each[:, 1:], each[:, 0], kind.ravel())

    @cached_property
    def chooser_of(self) -> Integers:
        """int64 [columns that place pods]: their chooser."""
        sizes = np.diff([*self.starts, len(self.labels)])
        return np.repeat(np.arange(len(self.starts)), sizes)

    def inside(self, nodes: NDArray[np.bool_], classes: NDArray[Any], each: Any = 1) -> Form:
        """Return how many pods of some classes, counted so much each, are at some nodes."""
        column, of, node, count = self._of_classes(classes)
        there = nodes[node]
        factor = count[there] * (np.asarray(each)[of[there]] if np.ndim(each) else each)
        return summed(column[there], factor)

    def stays(self, classes: NDArray[Any], each: Any = 1) -> Form:
        """Return how many of the pods of some classes that run stay where they are."""
        column, of, node, count = self._of_classes(classes)
        kept = np.minimum(count, self.now[of, node])
        some = kept > 0
        factor = kept[some] * (np.asarray(each)[of[some]] if np.ndim(each) else each)
        return summed(column[some], factor)

    def _of_classes(self, classes: NDArray[Any]) -> list[Integers]:
        """Return the entries of `placed` of some classes, bool [classes] or which they are."""
        some = np.flatnonzero(classes) if classes.dtype == np.bool_ else classes
        some = some[self._ends[1][some] > 0]
        first = int(self._ends[0][some].min()) if some.size else 0
        last = int(self._ends[1][some].max()) if some.size else 0
        of = self.placed[1][first:last]
        mine = classes[of] if classes.dtype == np.bool_ else np.isin(of, classes)
        return [one[first:last][mine] for one in self.placed]

    @cached_property
    def of_job(self) -> dict[str, list[int]]:
        """By job its classes."""
        found: dict[str, list[int]] = {}
        for at, one in enumerate(self.classes):
            found.setdefault(one.job.id, []).append(at)
        return found

    @cached_property
    def _ends(self) -> tuple[Integers, Integers]:
        """Where the entries of every class begin and end; entries of a job stand together."""
        of = self.placed[1]
        first = np.full(len(self.classes), of.size, dtype=np.int64)
        last = np.zeros(len(self.classes), dtype=np.int64)
        np.minimum.at(first, of, np.arange(of.size))
        np.maximum.at(last, of, np.arange(1, of.size + 1))
        return first, last

    @cached_property
    def now(self) -> Integers:
        """int64 [classes, nodes]: how many pods of this name are at every node now, or in every bundle."""
        found = np.zeros((len(self.classes), len(self.site.nodes)), dtype=np.int64)
        for at, one in enumerate(self.classes):
            if one.job.current is not None:
                for node, count in one.job.current.on.get(one.pods.name, {}).items():
                    if node in self.site.number:
                        found[at, self.site.number[node]] += count
        return found

    def is_open(self, job: PlacementJob) -> bool:
        """Return whether a job may get anything."""
        return job.id in self._open

    @cached_property
    def _open(self) -> set[str]:
        return {name for name, _ in self.chosen} | {one.job.id for one in self.classes}

    def alone(self, form: Form) -> bool:
        """Return whether all columns of a form that places pods belong to one chooser."""
        return form.columns.size > 0 and np.unique(self.chooser_of[form.columns]).size == 1

    def used(self, name: str, form: Form, most: int) -> Form:
        """Return 1 where a form of counts is not 0, as a form; `most` is what it is at most."""
        if form.columns.size == 0:
            return NOTHING
        if self.alone(form):
            return Form.of(form.columns)
        key = tuple(form.columns.tolist())
        if key not in self._used:
            self._used[key] = self.flag(f"{name} is used", lambda taken: form.at(taken) > 0)
            self.row(f"{name} is used", form + self._used[key].times(-most), 0)
        return self._used[key]

    def beyond(self, name: str, form: Form, base: int, most: int) -> Form:
        """Return how much a form of counts is beyond a base, as a form; `most` is what that is at most."""
        if form.columns.size == 0 or most <= 0:
            return NOTHING
        if self.alone(form):
            return Form(form.columns, np.maximum(form.factors - base, 0))
        excess = self.number(name, most, form, base)
        self.row(name, form + excess.times(-1), base)
        return excess

    def question(self, goals: Sequence[Form]) -> Question:
        """Return what is asked, without columns that no plan takes and rows that always hold."""
        alive = np.ones(len(self.labels), dtype=np.bool_)
        starts = np.array([*self.starts, len(self.labels)], dtype=np.int64)
        forms = [summed(row.form.columns, np.asarray(row.form.factors, np.int64)) for row in self.rows]
        while True:
            offsets = np.concatenate(([0], np.cumsum(alive)))[starts]
            renumbered = np.cumsum(alive) - 1
            owner = np.repeat(np.arange(starts.size - 1), np.diff(offsets))
            dead, kept = np.zeros(int(alive.sum()), dtype=np.bool_), []
            for row, form in zip(self.rows, forms, strict=True):
                here = alive[form.columns]
                columns, uses, room = _shifted(
                    renumbered[form.columns[here]], form.factors[here], row.room, owner, offsets
                )
                dead[columns[uses > room]] = True
                if room < 0:  # no plan at all
                    dead[:] = True
                kept.append((columns, uses, room))
            if not dead.any():
                break
            alive[np.flatnonzero(alive)[dead]] = False
        most = [_most(columns, uses, owner) > room for columns, uses, room in kept]
        rows = [(row.name, *one) for row, one, some in zip(self.rows, kept, most, strict=True) if some]
        cells = (
            np.concatenate([one[1] for one in rows] or [np.zeros(0, np.int64)]),
            np.repeat(np.arange(len(rows)), [one[1].size for one in rows]),
            np.concatenate([one[2] for one in rows] or [np.zeros(0, np.int64)]),
        )
        columns = np.flatnonzero(alive)
        worths = [(_spread(goal, alive), goal.constant) for goal in goals]
        names, rooms = [one[0] for one in rows], [max(0, one[3]) for one in rows]
        if self.told_by:  # a row of nothing: prices of these rows are not taken for those of others
            names, rooms = [*names, self.told_by], [*rooms, 0]
        return Question(offsets, columns, cells, _distinct(names), np.array(rooms, dtype=np.int64), worths)


def summed(columns: Integers, factors: NDArray[Any]) -> Form:
    """Return a form in which every column stands once, in order."""
    if (columns[1:] > columns[:-1]).all():
        return Form(columns, factors)
    unique, back = np.unique(columns, return_inverse=True)
    totals = np.zeros(unique.size, dtype=np.asarray(factors).dtype)
    np.add.at(totals, back, factors)
    return Form(unique, totals)


def _shifted(
    columns: Integers, factors: NDArray[Any], room: int, owner: Integers, offsets: Integers
) -> tuple[Integers, Integers, int]:
    """Return a row whose factors are at least 0, and 0 for some column of every chooser; columns ascend."""
    if not columns.size:
        return columns, factors, room
    first = _firsts(owner[columns])
    touched, count = owner[columns[first]], np.diff(first, append=columns.size)
    begins, ends = offsets[touched], offsets[touched + 1]
    smallest = np.minimum.reduceat(factors, first)  # 0 where the row does not name a column
    least = np.where(count == ends - begins, smallest, np.minimum(smallest, 0))
    named, uses = columns, factors
    if (least < 0).any():
        below = least < 0
        whole = [np.arange(*ends_of) for ends_of in zip(begins[below], ends[below], strict=True)]
        named = np.union1d(columns, np.concatenate(whole))
        uses = np.zeros(named.size, dtype=np.int64)
        uses[np.searchsorted(named, columns)] = factors
    uses = uses - least[np.searchsorted(touched, owner[named])]
    some = uses > 0
    return named[some], uses[some], room - int(least.sum())


def _firsts(owners: Integers) -> Integers:
    """Return where every owner begins, of owners that ascend."""
    return np.flatnonzero(np.diff(owners, prepend=-1))


def _most(columns: Integers, uses: Integers, owner: Integers) -> int:
    """Return what the columns of a row come to at most."""
    return int(np.maximum.reduceat(uses, _firsts(owner[columns])).sum()) if columns.size else 0


def _spread(goal: Form, alive: NDArray[np.bool_]) -> list[Any]:
    worth: list[Any] = [0] * alive.size
    for column, factor in zip(goal.columns.tolist(), goal.factors.tolist(), strict=True):
        worth[column] = factor if worth[column] == 0 else worth[column] + factor
    return [one for one, kept in zip(worth, alive.tolist(), strict=True) if kept]


def _distinct(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return found

"""The exceptions of the package, what each means as an exit code, and what was meant by a mistyped name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

__all__ = [
    "ApportionError",
    "BackendUnavailable",
    "ClusterUnreachable",
    "EncryptionMissing",
    "InUse",
    "InvalidInstance",
    "InvalidOption",
    "NoPlan",
    "Problem",
    "SchedulerMissing",
    "SchedulerRefused",
    "StateUnwritable",
    "UnknownJob",
    "did_you_mean",
    "error_object",
    "one_of",
    "quoted_names",
    "reason",
]


class ApportionError(Exception):
    """Base class of every error this package raises on purpose."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an input: where it is and what to do about it.

    Attributes
    ----------
    path
        JSON path of the offending value, for instance ``$.jobs[3].min_nodes``.
    message
        What is wrong and what a correct value looks like.
    line, column
        Where it stands in the text, from 1; ``None`` where there is no text or the place is not known.
    job
        Id of the job that it is about, ``None`` without one.
    """

    path: str
    message: str
    line: int | None = field(default=None, compare=False)
    column: int | None = field(default=None, compare=False)
    job: str | None = field(default=None, compare=False)

    @classmethod
    def of_decoding(cls, error: Exception, path: str = "$") -> Problem:
        """Return what msgspec says of a value at a path; where within it, msgspec's text alone tells."""
        message, _, place = str(error).partition(" - at ")
        if message == "Expected `int`, got `float`":
            message = "must be a whole number without a decimal point: write 2, not 2.0 (in Python: int(2.0))"
        return cls(f"{path}{place.strip('`')[1:]}", message)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"

    def located(self) -> str:
        """Return the problem with all that is known of its place, in one line."""
        place = "" if self.line is None else f"line {self.line}, column {self.column}: "
        job = "" if self.job is None else f" (job {self.job!r})"
        return f"{place}{self.path}{job}: {self.message}"

    def as_json(self) -> dict[str, str | int]:
        """Return what is known of it: ``path``, ``message``, and ``line``, ``column`` and ``job``."""
        fields = {name: getattr(self, name) for name in ("path", "message", "line", "column", "job")}
        return {name: value for name, value in fields.items() if value is not None}


_TOLD = 50
"""Problems in the text of an error; all of them are in `InvalidInstance.problems`."""


class InvalidInstance(ApportionError, ValueError):
    """An instance (or a stored solution) is not valid; `problems` lists everything found.

    It is a ``ValueError`` so that msgspec reports it as a validation error when it is raised while decoding.

    Parameters
    ----------
    problems
        What is wrong.
    file
        The file that it was found in, ``None`` where there is none or the problems name it themselves.
    """

    exit_code = 3

    def __init__(
        self, problems: Problem | list[Problem] | tuple[Problem, ...], file: str | None = None
    ) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        self.file = file
        message = [str(problem) for problem in self.problems[:_TOLD]]
        if len(self.problems) > _TOLD:
            message.append(f"and {len(self.problems) - _TOLD} more")
        super().__init__(f"{'' if file is None else f'{file}: '}{'; '.join(message)}")

    def in_file(self, file: str) -> InvalidInstance:
        """Return the same error with the file that it was found in, unless it is named already."""
        named = self.file is not None or all(problem.path.startswith(file) for problem in self.problems)
        return self if named else InvalidInstance(self.problems, file)

    @classmethod
    def at(cls, path: str, message: str) -> InvalidInstance:
        """Return the error for one problem at one JSON path."""
        return cls(Problem(path, message))

    def __reduce__(self) -> tuple[type[InvalidInstance], tuple[tuple[Problem, ...], str | None]]:
        return (InvalidInstance, (self.problems, self.file))


class InvalidOption(ApportionError, ValueError):
    """An option of a call is out of its range; the message names the option and its range."""

    exit_code = 2


class BackendUnavailable(ApportionError):
    """A backend is unknown, not installed, or cannot answer this kind of model."""

    exit_code = 7


class NoPlan(ApportionError):
    """A plan was required of a solution that has none."""

    exit_code = 5


def error_object(error: Exception) -> dict[str, Any]:
    """Return an error as programs are told of it: ``type``, ``message``, ``exit_code`` and ``problems``."""
    problems = error.problems if isinstance(error, InvalidInstance) else ()
    return {
        "type": type(error).__name__,
        "message": str(error) or type(error).__name__,
        "exit_code": error.exit_code if isinstance(error, ApportionError) else ApportionError.exit_code,
        "problems": [problem.as_json() for problem in problems],
    }


def reason(error: Exception) -> str:
    """Return what went wrong, in words: of an error of the system neither its number nor its path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def quoted_names(names: Iterable[str]) -> str:
    """Return the first ten of some names, quoted and separated by commas, for the text of an error."""
    shown = [repr(name) for name in islice(names, 11)]
    return ", ".join(shown[:10]) + (", ..." if len(shown) > 10 else "")


def did_you_mean(given: object, names: Iterable[str]) -> str:
    """Return ``"; did you mean 'NAME'?"`` for the name most like the given one, else an empty text."""
    if not isinstance(given, str):
        return ""
    from difflib import get_close_matches

    known = {_plain(name): name for name in names}
    close = get_close_matches(_plain(given), known, n=1, cutoff=0.7)
    return f"; did you mean {known[close[0]]!r}?" if close else ""


def one_of(option: str, given: object, names: Iterable[str]) -> None:
    """Refuse what is not in a list of names.

    Raises
    ------
    InvalidOption
        It names the option, all names, and the one that may have been meant.
    """
    known = tuple(names)
    if given not in known:
        raise InvalidOption(
            f"{option} must be one of {', '.join(known)}, not {given!r}{did_you_mean(given, known)}"
        )


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


class ClusterUnreachable(ApportionError):
    """The scheduler does not answer; what was asked of it may or may not have happened."""

    exit_code = 7


class SchedulerMissing(ApportionError):
    """The scheduler's commands are not installed here."""

    exit_code = 7


class EncryptionMissing(ApportionError):
    """No certificate for the channel to the nodes can be made here; it is never spoken in clear."""

    exit_code = 7


class SchedulerRefused(ApportionError):
    """The scheduler refused; nothing has changed."""


class InUse(ApportionError):
    """Another controller works on this state folder."""

    exit_code = 6


class StateUnwritable(ApportionError):
    """The state file cannot be written (disk full, read-only): nothing new is begun until it can."""


class UnknownJob(ApportionError, ValueError):
    """There is no job of that id."""

    exit_code = 3

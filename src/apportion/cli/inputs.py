"""Every file that a command reads: how it is recognised, read, and told in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

__all__ = ["INPUTS", "Input", "judged"]


@dataclass(frozen=True, slots=True)
class Input:
    """One kind of file besides instances.

    Attributes
    ----------
    reader
        Which commands read it.
    told
        Reads a path and says in one line what is in it; raises what the command would raise.
    suffixes
        Names that end so are taken for it.
    columns
        A CSV table with all these columns is taken for it.
    """

    reader: str
    told: Callable[[Path], str]
    suffixes: tuple[str, ...] = ()
    columns: frozenset[str] = frozenset()


def judged(path: str) -> str:
    """Return the kind of input that a path seems to be: a key of `INPUTS`, or ``instance``."""
    if path == "-":
        return "instance"
    place = Path(path)
    if place.is_dir():
        return "freezing-profiles" if [*place.glob("*/freezing.json")] else "profiles"
    name = place.name.lower().removesuffix(".gz")
    for kind, known in INPUTS.items():
        if name.endswith(known.suffixes):
            return kind
    if not name.endswith(".csv") or not place.is_file():
        return "instance"
    from apportion.simulation.packed import content

    first = content(place).decode("utf-8", "replace").lstrip("\ufeff").partition("\n")[0]
    header = {cell.strip().strip('"') for cell in first.split(",")}
    fitting = (kind for kind, known in INPUTS.items() if known.columns and known.columns <= header)
    return next(fitting, "instance")


def _jobs(path: Path) -> str:
    from apportion.simulation.job_table import read_job_table

    return f"{len(read_job_table(path))} jobs"


def _trace(path: Path) -> str:
    from apportion.simulation.inputs import read_trace

    trace = read_trace(path)
    return f"{trace!r}".strip("<>")


def _curves(path: Path) -> str:
    from apportion.simulation.snapshot import read_curves

    return f"{len(read_curves(path))} throughput curves"


def _durations(path: Path) -> str:
    from apportion.simulation.cluster.durations import read_durations

    return f"{read_durations(path).submitted_s.size} jobs"


def _workload(path: Path) -> str:
    from apportion.errors import InvalidOption
    from apportion.estimation.training.profiles import read_applications
    from apportion.simulation.cluster.workload import read_workload

    beside = path.parent / "profiles"
    if not beside.is_dir():
        raise InvalidOption(
            f"{path} names applications, and there is no folder profiles beside it: "
            f"`apportion simulate --profiles FOLDER --workload {path}` reads both"
        )
    return f"{len(read_workload(path, read_applications(beside)))} jobs"


def _steps(path: Path) -> str:
    from apportion.estimation.measured_steps import read_steps

    return f"{read_steps(_text(path)).seconds.size} measured steps"


def _layers(path: Path) -> str:
    from apportion.estimation.measured_steps import read_layers

    return f"{read_layers(_text(path)).depths.size} depths"


def _profiles(path: Path) -> str:
    from apportion.estimation.training.profiles import read_applications

    return f"applications {', '.join(read_applications(path))}"


def _freezing(path: Path) -> str:
    from apportion.estimation.training.freezing_file import read_freezing

    return f"applications {', '.join(read_freezing(path))}"


def _text(path: Path) -> str:
    from apportion.errors import InvalidInstance, Problem

    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInstance(Problem(str(path), f"is no text in UTF-8: {error.reason}")) from None


INPUTS: Mapping[str, Input] = MappingProxyType(
    {
        "trace": Input("replay and snapshot", _trace, (".npz", ".pkl", ".pickle", ".tar", ".tgz", ".swf")),
        "jobs": Input("replay and snapshot", _jobs, columns=frozenset({"Tcup", "Tcdw"})),
        "curves": Input("replay", _curves),
        "durations": Input("simulate", _durations, columns=frozenset({"timestamp", "duration", "num_gpus"})),
        "workload": Input("simulate", _workload, columns=frozenset({"name", "time", "application"})),
        "profiles": Input("simulate", _profiles),
        "freezing-profiles": Input("simulate", _freezing),
        "steps": Input("fit", _steps, columns=frozenset({"local_bsz", "step_time"})),
        "layers": Input("fit", _layers, columns=frozenset({"frozen_layers", "param_frac_unfrozen"})),
    }
)
"""By what `validate --as` calls them; a new one is one entry."""

"""Jobs of a log that are known by GPUs and duration alone: they run at one speed on the GPUs asked for.

Whose the jobs of a workload are: a column of the workload, and a file of tenants.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.belief import SpeedBelief
from apportion.cluster.policies.rounds.cluster_view import Claims, Nodes
from apportion.cluster.simulation.rounds.job_states import Beliefs, JobStates
from apportion.core.errors import InvalidInstance, Problem, did_you_mean, reason
from apportion.core.files import log_skipped_rows, optional_columns, text_columns
from apportion.instances.fields import Amount, Name
from apportion.instances.tenants import Tenant, Tree, tree_of
from apportion.instances.tenants.rules import check_tenants

__all__ = [
    "DurationLog",
    "FixedDurations",
    "TenantsFile",
    "claims_from",
    "durations_known",
    "read_claims",
    "read_durations",
    "read_tenants",
]


_SHOWN = 20


class TenantsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tenants of a simulated cluster.

    Attributes
    ----------
    tenants
        The tree; capacities of quotas are GPU types.
    first_come
        Tenants whose jobs are served one after the other.
    gpu_cost
        Cost of a GPU and hour by type; 1 where absent.
    """

    tenants: tuple[Tenant, ...]
    first_come: tuple[Name, ...] = ()
    gpu_cost: dict[Name, Amount] = {}


def read_tenants(path: str | Path, nodes: Nodes) -> TenantsFile:
    """Read and check a file of tenants.

    Raises
    ------
    InvalidInstance
        With every problem and its JSON path.
    """
    try:
        file = msgspec.json.decode(Path(path).read_bytes(), type=TenantsFile)
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    counted = nodes.gpus_by_type
    gpus = dict(zip(nodes.types, counted.tolist(), strict=True))
    problems: list[Problem] = []
    owner = SimpleNamespace(tenants=file.tenants, jobs=(), fairness=msgspec.UNSET)
    check_tenants(owner, gpus, problems)
    if not problems:
        leaves = tree_of(file.tenants).leaves
        for index, name in enumerate(file.first_come):
            if name not in leaves:
                hint = did_you_mean(name, leaves)
                problems.append(Problem(f"$.first_come[{index}]", f"no tenant without children{hint}"))
    for name in file.gpu_cost:
        if name not in gpus or file.gpu_cost[name] <= 0:
            problems.append(Problem(f"$.gpu_cost.{name}", "must be the positive cost of a GPU type"))
    if problems:
        raise InvalidInstance(problems[:_SHOWN])
    return file


def read_claims(
    workload: str | Path, tenants: str | Path | None, nodes: Nodes, submitted_s: NDArray[np.float64]
) -> Claims | None:
    """Return the claims of a workload's jobs, in the order of its rows.

    The columns tenant, weight and deadline_s (seconds after submission) of the workload may be absent.

    Returns
    -------
    Claims or None
        ``None`` where neither a column nor a file says anything.

    Raises
    ------
    InvalidInstance
        If a tenant is unknown, or a number is wrong.
    """
    path = Path(workload)
    columns = optional_columns(path, ("tenant", "weight", "deadline_s"))
    if not columns and tenants is None:
        return None
    if tenants is None:
        names = sorted(set(columns.get("tenant", ["everybody"])))
        file = TenantsFile(tuple(Tenant(id=name) for name in names))
    else:
        file = read_tenants(tenants, nodes)
    leaves = tree_of(file.tenants).leaves
    if "tenant" not in columns and len(leaves) > 1:
        raise InvalidInstance(Problem(f"{path}, line 1", "the header lacks tenant: whose the jobs are"))
    owners = columns.get("tenant", [leaves[0]] * submitted_s.size)
    problems = [
        Problem(
            f"{path}, row {row}", f"no tenant without children is called {name!r}{did_you_mean(name, leaves)}"
        )
        for row, name in enumerate(owners, start=1)
        if name not in leaves
    ]
    weight = _numbers(path, "weight", columns, submitted_s.size, 1.0, problems)
    within = _numbers(path, "deadline_s", columns, submitted_s.size, np.inf, problems)
    if problems:
        raise InvalidInstance(problems[:_SHOWN])
    return claims_from(file, nodes, owners, weight, submitted_s + within)


def claims_from(
    file: TenantsFile,
    nodes: Nodes,
    owners: Sequence[str],
    weight: NDArray[np.float64],
    deadline_s: NDArray[np.float64],
) -> Claims:
    """Return the claims of jobs whose tenants are known.

    A tenant's own GPUs are its guarantees; where nobody has one, all GPUs are divided by the weights of the
    tree.
    """
    tree = tree_of(file.tenants)
    leaves = tree.leaves
    share = np.array([_share(tree, name) for name in leaves])
    share = share / share.sum() if share.sum() > 0 else np.full(share.size, 1 / share.size)
    counted = nodes.gpus_by_type
    if any(tenant.quotas for tenant in file.tenants):
        guarantees = [tree.guarantees(name) for name in nodes.types]
        entitled = np.array([[of_type[leaf] for of_type in guarantees] for leaf in leaves], dtype=np.int64)
    else:
        entitled = np.stack([_divided(int(count), share) for count in counted], axis=1)
    number = {name: place for place, name in enumerate(leaves)}
    return Claims(
        tenants=leaves,
        share=share,
        entitled=entitled,
        first_come=np.array([name in file.first_come for name in leaves], dtype=np.bool_),
        tenant=np.array([number[name] for name in owners], dtype=np.int64),
        weight=weight,
        deadline_s=deadline_s,
        gpu_cost=np.array([file.gpu_cost.get(name, 1.0) for name in nodes.types]),
    )


def _share(tree: Tree, leaf: str) -> float:
    """Return the product of a tenant's parts of its siblings' weights, down from the top."""
    part = 1.0
    for name in tree.path(leaf):
        above = tree.nodes[name].parent
        equals = tree.roots if above is None else tree.nodes[above].children
        total = sum(tree.nodes[equal].tenant.weight for equal in equals)
        part *= tree.nodes[name].tenant.weight / total if total else 0.0
    return part


def _divided(gpus: int, share: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return whole GPUs by share, largest remainders first."""
    exact = gpus * share
    whole = np.floor(exact + 1e-9).astype(np.int64)
    owed = np.argsort(-(exact - whole), kind="stable")[: gpus - int(whole.sum())]
    whole[owed] += 1
    return whole


def _numbers(
    path: Path,
    name: str,
    columns: Mapping[str, Sequence[str]],
    size: int,
    missing: float,
    problems: list[Problem],
) -> NDArray[np.float64]:
    found = np.full(size, missing)
    for row, text in enumerate(columns.get(name, ())):
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not 0 < value < 1e12:
            problems.append(
                Problem(f"{path}, row {row + 1}", f"{name} must be a positive number, is {text!r}")
            )
        else:
            found[row] = value
    return found


_COLUMNS = ("timestamp", "duration", "num_gpus")
_SHOWN = 20


@dataclass(frozen=True, slots=True, eq=False)
class DurationLog:
    """Jobs in order of submission.

    Attributes
    ----------
    submitted_s
        float64 [jobs]: seconds since the first submission.
    duration_s
        float64 [jobs]: seconds it takes on the GPUs it asked for.
    gpus
        int64 [jobs].
    """

    submitted_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    gpus: NDArray[np.int64]


def read_durations(path: str | Path) -> DurationLog:
    """Read a CSV (or CSV.gz) with timestamp (``YYYY-MM-DD HH:MM:SS``), duration and num_gpus.

    Jobs of no GPU or no time are skipped, and a warning is logged that says how many.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, a column is missing or a field is wrong (with its line).
    """
    path = Path(path)
    lines = text_columns(path, _COLUMNS)
    problems: list[Problem] = []
    rows: list[tuple[float, float, int]] = []
    skipped = Counter[str]()
    for line, (timestamp, duration, gpus) in lines:
        try:
            job = _timestamp(timestamp), _duration(duration), _gpus(gpus)
        except ValueError as error:
            problems.append(Problem(f"{path}, line {line}", str(error)))
            continue
        if job[1] <= 0:
            skipped["of no time"] += 1
        elif job[2] <= 0:
            skipped["of no GPU"] += 1
        else:
            rows.append(job)
    if problems or not rows:
        raise InvalidInstance(problems[:_SHOWN] or Problem(str(path), "has no job"))
    log_skipped_rows(path, len(lines), skipped)
    rows.sort(key=lambda job: job[0])
    table = np.array(rows, dtype=np.float64)
    return DurationLog(table[:, 0] - table[0, 0], table[:, 1], table[:, 2].astype(np.int64))


def _timestamp(text: str) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"timestamp must be YYYY-MM-DD HH:MM:SS, not {text!r:.60}") from None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def _duration(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not -1e10 < seconds < 1e10:
        raise ValueError(f"duration must be seconds below 1e10, not {text!r:.60}")
    return seconds


def _gpus(text: str) -> int:
    try:
        gpus = int(text)
    except ValueError:
        gpus = -1
    if not 0 <= gpus <= 1_000_000:
        raise ValueError(f"num_gpus must be a whole number up to 1000000, not {text!r:.60}")
    return gpus


class FixedDurations:
    """Jobs of one epoch whose progress is seconds, whatever GPUs they run on.

    Parameters
    ----------
    log
        The jobs.
    """

    def __init__(self, log: DurationLog) -> None:
        self._duration_s = log.duration_s

    def epochs(self, job: int) -> int:
        """Return 1: the work of a job is one epoch."""
        return 1

    def layers(self, job: int) -> int:
        """Return 1: nothing is frozen."""
        return 1

    def progress_at(self, job: int, epoch: int) -> float:
        """Return 0 at the start and the duration at the end."""
        return float(self._duration_s[job]) if epoch else 0.0

    def rate(
        self, job: int, epoch: int, progress: float, placement: tuple[int, ...], gpu_type: str, depth: int
    ) -> float:
        """Return 1 second of progress a second."""
        return 1.0


def durations_known(log: DurationLog, gpu_types: tuple[str, ...]) -> Beliefs:
    """Return beliefs that know every duration."""
    speeds = dict.fromkeys(gpu_types, 1.0)

    def belief(job: int, states: JobStates) -> SpeedBelief:
        return SpeedBelief(speeds, int(log.gpus[job]), float(log.duration_s[job] - states.progress[job]))

    return belief

"""Every reader of foreign bytes, with valid files to begin with."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

__all__ = ["READERS", "Reader", "endured"]

_ROOT = Path(__file__).resolve().parents[2]
_EXAMPLES = _ROOT / "examples"
_SLURM = tuple(
    word.encode()
    for word in (
        *("SwitchName=", "BlockName=", "BlockSizes=", "AggregatedBlock=", "NodeName=", "JobId=", "Nodes="),
        *("Switches=", "CfgTRES=", "AllocTRES=", "gres/gpu=", "Gres=", "NumNodes=", "ReqTRES=", "[1-9]", "#"),
    )
)
_KUEUE = tuple(
    word.encode()
    for word in (
        *(
            '"kind":"Workload"',
            '"kind":"Cohort"',
            '"kind":"ClusterQueue"',
            '"kind":"LocalQueue"',
            '"apiVersion"',
        ),
        *(
            '"kueue.x-k8s.io/v1beta1"',
            '"spec"',
            '"status"',
            '"podSets"',
            '"resourceGroups"',
            '"flavors"',
            '"count"',
        ),
        *('"nominalQuota"', '"borrowingLimit"', '"lendingLimit"', '"parentName"', '"cohort"', '"minCount"'),
        *('"fairSharing"', '"weight"', '"preemption"', '"taints"', '"tolerations"', '"creationTimestamp"'),
        *('"500m"', '"1Gi"', '"1e99"', '"0.1n"', '"-1"', '"2026-11-22T00:00:00Z"'),
    )
)
_MENUS = "job,option,value,required,current,gpu\n,,,,,4\na,x,1.5,no,yes,2\na,y,2,no,,3\nb,z,1,yes,,1\n"


@dataclass(frozen=True, slots=True)
class Reader:
    """One way in.

    Attributes
    ----------
    name
        What it is called on the command line.
    read
        Reads bytes and returns whatever it makes of them.
    seeds
        Returns valid files.
    words
        Words of the format that a mutator may put in.
    """

    name: str
    read: Callable[[bytes], Any]
    seeds: Callable[[], list[bytes]]
    words: tuple[bytes, ...] = ()


def endured(reader: Reader, raw: bytes) -> bool:
    """Read bytes; return whether they were accepted, false for an error of the package's own."""
    from apportion.core.errors import ApportionError

    try:
        reader.read(raw)
    except ApportionError:
        return False
    return True


@contextlib.contextmanager
def _file(raw: bytes, name: str) -> Iterator[Path]:
    path = Path(_folder()) / name
    path.write_bytes(raw)
    yield path


@cache
def _folder() -> str:
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    return tempfile.mkdtemp(prefix="fuzz-readers-", dir=base)


def _instance(raw: bytes) -> Any:
    import apportion

    return apportion.read(raw)


def _yaml(raw: bytes) -> Any:
    import apportion

    return apportion.read(raw, format="yaml")


def _kueue(raw: bytes) -> Any:
    from apportion.instances.readers.kueue import read_dump

    return read_dump(raw)


def _slurm(raw: bytes) -> Any:
    from apportion.instances.readers.slurm import read_slurm
    from apportion.instances.readers.slurm_topology import split_topology
    from apportion.io.text import tree_of

    topology, records = split_topology(raw)
    return read_slurm(records, topology=tree_of(topology) if topology else None)


def _starters() -> list[bytes]:
    return [path.read_bytes() for path in (_ROOT / "instances/schemas").glob("*.starter.yaml")]


def _foreign(format: str) -> Callable[[bytes], Any]:
    def read(raw: bytes) -> Any:
        import apportion

        return apportion.read(
            raw, format=format, sense=None if format in ("gavel", "rcmax", "csv") else "max"
        )

    return read


def _trace(name: str) -> Callable[[bytes], Any]:
    def read(raw: bytes) -> Any:
        from apportion.cluster.simulation.snapshot import read_trace

        with _file(raw, name) as path:
            return read_trace(path)

    return read


def _at(place: str, name: str) -> Callable[[bytes], Any]:
    """Return a reader that takes a path."""
    module, function = place.split(":")

    def read(raw: bytes) -> Any:
        from importlib import import_module

        with _file(raw, name) as path:
            return getattr(import_module(module), function)(path)

    return read


def _text(place: str) -> Callable[[bytes], Any]:
    """Return a reader that takes a text."""
    module, function = place.split(":")

    def read(raw: bytes) -> Any:
        from importlib import import_module

        return getattr(import_module(module), function)(raw.decode("utf-8", "replace"))

    return read


def _workload(raw: bytes) -> Any:
    from apportion.cluster.simulation.rounds.scenario import read_workload

    with _file(raw, "workload.csv") as path:
        return read_workload(path, _applications())


@cache
def _applications() -> Any:
    from apportion.cluster.estimation.training.application import read_applications

    return read_applications(_EXAMPLES / "cluster/profiles")


def _placements(raw: bytes) -> Any:
    from apportion.cluster.estimation.training.step_times import StepTimes

    with _file(raw, "placements.csv") as path:
        return StepTimes.read(path, None)


@cache
def _small() -> tuple[Any, dict[str, Any]]:
    import apportion
    from apportion.io import stored

    instance = apportion.read(_EXAMPLES / "gap_filling_small.json")
    return instance, json.loads(stored.encode(stored.document(apportion.solve(instance))))


def _stored(raw: bytes) -> Any:
    """Verify a stored solution; only the true one may verify."""
    from apportion.io import stored
    from apportion.io.text import parse

    tree, problems = parse(raw)
    if problems:
        return None
    instance, _ = _small()
    return stored.verify(instance, tree)


def _warm_start(raw: bytes) -> Any:
    """Solve from a start that is any JSON at all."""
    import apportion

    try:
        start = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = apportion.solve(_small()[0], warm_start=start)
    if solution.termination.value != "optimal":
        raise AssertionError(f"a start changed the answer to {solution.termination}")
    return solution


def _example(*names: str) -> Callable[[], list[bytes]]:
    return lambda: [(_EXAMPLES / name).read_bytes() for name in names]


def _literal(*texts: str) -> Callable[[], list[bytes]]:
    return lambda: [text.encode() for text in texts]


_TREES = """- topology: a
  cluster_default: true
  tree: {switches: [{switch: t, children: "s[0-1]"}, {switch: s0, nodes: n0}, {switch: s1, nodes: n1}]}
- topology: b
  block: {block_sizes: [1, 2], blocks: [{block: b0, nodes: "n[0-1]"}]}
NodeName=n0 State=IDLE CfgTRES=cpu=8
"""
_MODEL = """switches: {core: {switches: [leaf]}}
blocks: [{switch: leaf, nodes: ["n[0-1]"], annotations: {x/domain: d, x/sub-domain: e}}]
NodeName=n0 State=IDLE CfgTRES=cpu=8
"""
_TOPOLOGY = (b"- topology:", b"switches:", b"blocks:", b"{", b"}", b"[", b"]", b"nodes:", b"flat: true")

_SWF = """; MaxNodes: 4
; MaxProcs: 8
1 0 0 100 2 -1 -1 2 -1 -1 1 1 1 1 -1 -1 -1 -1
2 50 50 200 5 -1 -1 -1 -1 -1 1 1 1 1 -1 -1 -1 -1
4 400 0 100 -1 -1 -1 8 -1 -1 1 1 1 1 -1 -1 -1 -1
"""
_SACCT = """JobID|Start|End|NNodes|
1|2026-01-31T12:00:00|2026-01-31T13:00:00|2|
1.batch|2026-01-31T12:00:00|2026-01-31T13:00:00|1|
2|1769869800|1769880000|3|
3|Unknown|Unknown|1|
""".replace("|\n", "\n")
_JOBS = ",Tcup,Tcdw,Jmin,Jmax,Pmax,tsub_s\n0-AlexNet,18,12,1,8,1e6,0\n1-ResNet18,20,10,2,4,5e5,30.5\n"
_DURATIONS = "timestamp,duration,num_gpus\n2020-01-01 00:00:10,100.5,1\n2020-01-01 00:01:00,20,4\n"
_GAVEL = '{"v100": {"(\'ResNet-18 (batch size 16)\', 1)": {"null": 20.5}, "(\'LM\', 2)": {"null": 3}}}'


def _npz() -> list[bytes]:
    import numpy as np

    buffer = io.BytesIO()
    np.savez(
        buffer,
        node=np.array([0, 1, 1]),
        start_s=np.array([0.0, 5.0, 20.0]),
        end_s=np.array([10.0, 15.0, 30.0]),
        event_s=np.array([0.0, 5.0, 10.0, 15.0, 20.0, 30.0]),
        node_names=np.array(["a", "b"]),
        t0=np.array("2020-01-01T00:00:00"),
    )
    return [buffer.getvalue()]


def _frames() -> list[bytes]:
    """Return pickled frames of several protocols, where pandas can make them; plain and packed."""
    import pandas

    when = pandas.to_datetime(["2021-02-10 00:08:52", "2021-02-10 00:09:02", "2021-02-10 00:09:12"])
    table = [[1, 0], [1, 1], [0, 1]]
    frame = pandas.DataFrame(table, index=when, columns=pandas.Index(["a", "b"], dtype=object), dtype="int8")
    found = []
    for protocol in (2, 4, 5):
        buffer = io.BytesIO()
        frame.to_pickle(buffer, protocol=protocol, compression=None)
        found.append(buffer.getvalue())
    return [*found, gzip.compress(found[0])]


def _documents() -> list[bytes]:
    return [json.dumps(_small()[1]).encode()]


def _plans() -> list[bytes]:
    told = _small()[1]
    return [json.dumps(told).encode(), json.dumps(told["plan"]).encode()]


_JSON = (
    b'"nodes"',
    b'"jobs"',
    b'"kind"',
    b"null",
    b"true",
    b"1e400",
    b"-0",
    b"NaN",
    b"Infinity",
    b"1" + 320 * b"0",
    b'"\\ud800"',
    b"[[",
    b"{}",
)

READERS: Mapping[str, Reader] = MappingProxyType(
    {
        reader.name: reader
        for reader in (
            Reader(
                "instance",
                _instance,
                _example(
                    "gap_filling_small.json",
                    "freezing_small.json",
                    "matching_gangs.json",
                    "matching_shares.json",
                    "matching_assignment.json",
                ),
                _JSON,
            ),
            Reader(
                "pickled-frame",
                _at("paper_repro.pickled_frame:read_pickled_frame", "trace.pkl"),
                _frames,
                (b"cnumpy\n", b"R.", b"tb", b"\x93", b"O8", b"M8"),
            ),
            Reader("npz", _trace("trace.npz"), _npz, (b"PK\x03\x04", b"\x93NUMPY", b"descr", b"|O")),
            Reader("swf", _trace("log.swf"), _literal(_SWF), (b"; MaxProcs: ", b"1e308", b"-1", b"\x1f\x8b")),
            Reader("sacct", _trace("log.txt"), _literal(_SACCT), (b"|", b"T", b"Unknown", b"NNodes")),
            Reader(
                "job-table",
                _at("apportion.cluster.simulation.job_table:read_job_table", "jobs.csv"),
                _literal(_JOBS),
            ),
            Reader(
                "curves",
                _at("apportion.cluster.simulation.snapshot:read_curves", "curves.json"),
                _literal('{"AlexNet": {"nodes": [0, 1, 8], "rate": [0, 10.5, 70]}}'),
                _JSON,
            ),
            Reader(
                "durations",
                _at("apportion.cluster.simulation.rounds.workload_files:read_durations", "log.csv"),
                lambda: [_DURATIONS.encode(), gzip.compress(_DURATIONS.encode())],
            ),
            Reader("workload", _workload, _example("cluster/workload.csv")),
            Reader(
                "placements",
                _placements,
                lambda: [
                    p.read_bytes() for p in sorted(_EXAMPLES.glob("cluster/profiles/*/placements*.csv"))
                ],
            ),
            Reader(
                "measured-steps",
                _text("apportion.cluster.estimation.measured_steps:read_steps"),
                _literal(
                    "placement,local_bsz,step_time,frozen_layer,sync_time\n1,32,0.5,0,0\n22,64,0.7,3,0.1\n"
                ),
            ),
            Reader(
                "layers",
                _text("apportion.cluster.estimation.measured_steps:read_layers"),
                _literal("frozen_layers,forward,backward\n0,1.0,1.0\n2,1.0,0.5\n"),
            ),
            Reader("orlib-mknap", _foreign("orlib-mknap"), _literal("1\n3 2 9\n5 4 3\n1 2 3\n3 2 1\n4 4\n")),
            Reader("orlib-gap", _foreign("orlib-gap"), _literal("1\n2 3\n1 2 3\n3 2 1\n1 1 2\n2 1 1\n3 3\n")),
            Reader("orlib-assign", _foreign("orlib-assign"), _literal("2\n1 2\n3 4\n", "2\n1 1 5\n2 2 6\n")),
            Reader("mmkp", _foreign("mmkp"), _literal("2 2 2\n4 5\n1\n3 1 2\n4 2 1\n2\n5 2 2\n1 1 1\n")),
            Reader(
                "rcmax", _foreign("rcmax"), _literal("3 2\n0 4 1 5\n0 3 1 6\n0 2 1 2\n", "2 2\n4 5\n3 6\n")
            ),
            Reader("kueue", _kueue, _example("kueue/dump.json"), (*_JSON, *_KUEUE)),
            Reader("kueue-topology", _kueue, _example("kueue/topology.json"), (*_JSON, *_KUEUE)),
            Reader("slurm", _slurm, _example("slurm_site.txt"), _SLURM),
            Reader("slurm-topology", _slurm, _literal(_TREES, _MODEL), (*_SLURM, *_TOPOLOGY)),
            Reader("gavel", _foreign("gavel"), _literal(_GAVEL), _JSON),
            Reader(
                "csv", _foreign("csv"), _literal(_MENUS, "job,machine,cost,uses\n,a,,\nx,a,3,1\ny,b,2.5,2\n")
            ),
            Reader(
                "yaml",
                _yaml,
                _starters,
                (b"&a ", b"*a", b": ", b"- ", b"!!python/name:os.system", b"2026-01-01"),
            ),
            Reader("stored", _stored, _documents, (*_JSON, b'"certificate"', b'"plan"', b'"bound"')),
            Reader("warm-start", _warm_start, _plans, (*_JSON, b'"allocation"', b'"multipliers"')),
        )
    }
)
"""Every reader by name."""

"""Foreign logs: pickled frames without trust, SWF, sacct, the placement rule; and the generator."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paper_repro.pickled_frame import main as convert
from paper_repro.pickled_frame import read_pickled_frame

from apportion.cluster.estimation.training.step_times import StepTimes
from apportion.cluster.simulation.idle_trace import IdleTrace, generated_trace, node_changes
from apportion.cluster.simulation.job_logs import JobLog, read_sacct, read_swf
from apportion.cluster.simulation.job_table import generated_jobs
from apportion.cluster.simulation.placement import idle_trace_of_jobs
from apportion.cluster.simulation.rounds.workload_files import read_durations
from apportion.cluster.simulation.snapshot import read_trace
from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.core.files import unpacked
from tests.simulation.averages import mean_idle

STATES = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1]], dtype=np.int8)


def frame(columns: Any = ("a01n01", "a01n02", "b03n04")) -> Any:
    pandas = pytest.importorskip("pandas", reason="the frame to be read is made with pandas")
    when = pandas.to_datetime(
        ["2021-02-10 00:08:52", "2021-02-10 00:09:02", "2021-02-10 00:09:12", "2021-02-10 00:10:12"]
    )
    return pandas.DataFrame(STATES, index=when, columns=pandas.Index(columns, dtype=object))


def expected(trace: IdleTrace) -> None:
    assert trace.node.tolist() == [0, 1, 2]
    assert trace.start_s.tolist() == [0, 10, 20] and trace.end_s.tolist() == [20, 80, 80]
    assert trace.event_s.tolist() == [0, 10, 20, 80]
    assert trace.names == ("a01n01", "a01n02", "b03n04") and trace.t0 == "2021-02-10T00:08:52"


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickled_frame_is_read_without_pandas(tmp_path: Path, protocol: int) -> None:
    plain = tmp_path / "frame.pkl"
    frame().to_pickle(plain, protocol=protocol)
    expected(read_pickled_frame(plain))
    zipped = tmp_path / "frame.pkl.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    expected(read_pickled_frame(zipped))
    with tarfile.open(tmp_path / "frame.tar.gz", "w:gz") as archive:
        archive.add(plain, "dataset/frame.pkl")
    expected(read_pickled_frame(tmp_path / "frame.tar.gz"))
    convert([str(plain), str(tmp_path / "frame.npz")])
    expected(read_trace(tmp_path / "frame.npz"))
    with pytest.raises(InvalidInstance, match=r"pickled frames are not read: python -m paper_repro"):
        read_trace(plain)


def test_a_frame_cut_to_some_rows_and_columns_is_read(tmp_path: Path) -> None:
    """The authors' replayer starts at row 1000 of the first columns."""
    frame().iloc[1:, :2].to_pickle(tmp_path / "part.pkl")
    trace = read_pickled_frame(tmp_path / "part.pkl")
    assert trace.names == ("a01n01", "a01n02") and trace.node.tolist() == [0, 1]


class Evil:
    """A pickle that runs a command when it is loaded by the ordinary loader."""

    def __init__(self, call: Any, *given: Any) -> None:
        self.call, self.given = call, given

    def __reduce__(self) -> Any:
        return self.call, self.given


@pytest.mark.parametrize(
    "evil",
    [
        Evil(os.system, "touch pwned"),
        Evil(eval, "1"),
        Evil(getattr, {}, "get"),
        Evil(np.fromfile, "/etc/hostname"),
        Evil(np.load, "x.npy"),
        Evil(open, "pwned", "w"),
    ],
)
def test_a_pickle_that_names_anything_else_is_refused(
    tmp_path: Path, evil: Evil, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evil.pkl").write_bytes(pickle.dumps({"table": STATES.T, "evil": evil}))
    with pytest.raises(InvalidInstance, match="neither an array nor a frame"):
        read_pickled_frame("evil.pkl")
    assert not Path("pwned").exists()


def named(module: str, name: str) -> bytes:
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def counted(code: bytes, raw: bytes) -> bytes:
    return code + struct.pack("<I", len(raw)) + raw


OBJECTS = (  # dtype("O8") whose flags deny that it holds objects: numpy would read pointers from bytes
    named("numpy", "dtype") + b"(" + counted(b"X", b"O8") + b"\x89\x88tR(K\x03" + counted(b"X", b"|")
) + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
ARRAY = b"((K\x01t" + counted(b"X", b"O") + counted(b"B", b"A" * 8) + b"tR."
BUFFER = b"(" + counted(b"B", b"A" * 16) + OBJECTS + b"(K\x02t" + counted(b"X", b"C") + b"tR."
POINTERS = (
    b"\x80\x03" + named("numpy", "ndarray") + ARRAY,
    b"\x80\x03" + named("numpy._core.numeric", "_frombuffer") + BUFFER,
)


@pytest.mark.parametrize("raw", POINTERS)
def test_a_pickle_cannot_make_numpy_follow_a_pointer_of_the_file(tmp_path: Path, raw: bytes) -> None:
    """In a process of its own, for such a file used to end it by a signal."""
    path = tmp_path / "trace.pkl"
    path.write_bytes(raw)
    code = "import sys; from apportion.cluster.simulation.snapshot import read_trace; read_trace(sys.argv[1])"
    ended = subprocess.run([sys.executable, "-c", code, path], capture_output=True, timeout=300, check=False)
    assert ended.returncode == 1 and b"InvalidInstance" in ended.stderr


@pytest.mark.parametrize("protocol", [2, 5])
def test_no_damage_to_a_pickle_does_more_than_an_error(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "frame.pkl"
    frame().to_pickle(path, protocol=protocol)
    sound, rng = path.read_bytes(), np.random.default_rng(protocol)
    refused = 0
    for _ in range(500):
        damaged = bytearray(sound)
        for at in rng.integers(0, len(sound), rng.integers(1, 4)):
            damaged[at] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            read_pickled_frame(path)
        except InvalidInstance:
            refused += 1
    assert 100 < refused < 500


def test_what_is_packed_is_unpacked_up_to_a_limit_and_damage_is_told(tmp_path: Path) -> None:
    path = tmp_path / "frame.pkl.gz"
    path.write_bytes(gzip.compress(b"\x00" * 10**6))
    with pytest.raises(ValueError, match="unpacks to more than 1,000 bytes"):
        unpacked(path.read_bytes(), most=1000)
    assert unpacked(path.read_bytes()) == b"\x00" * 10**6
    for damaged in (path.read_bytes()[:-9], b"\x1f\x8bnothing"):
        path.write_bytes(damaged)
        for read in (read_pickled_frame, read_swf, read_durations):
            with pytest.raises(InvalidInstance):
                read(path)


def test_other_pickles_say_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(InvalidInstance, match="one table of numbers, found 0"):
        read_pickled_frame(path)
    path.write_bytes(pickle.dumps(STATES.T.copy()))
    with pytest.raises(InvalidInstance, match="no instants"):
        read_pickled_frame(path)
    for damaged in (b"", b"\x80\x04", b"\x1f\x8b", b"c\\y\n\n.", os.urandom(64)):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInstance):
            read_pickled_frame(path)


SWF = """; MaxNodes: 4
; MaxProcs: 8
1 0 0 100 2 -1 -1 2 -1 -1 1 1 1 1 -1 -1 -1 -1
2 50 50 200 5 -1 -1 -1 -1 -1 1 1 1 1 -1 -1 -1 -1
3 60 -1 200 2 -1 -1 -1 -1 -1 0 1 1 1 -1 -1 -1 -1
4 400 0 100 -1 -1 -1 8 -1 -1 1 1 1 1 -1 -1 -1 -1
"""


def test_swf_by_hand(tmp_path: Path) -> None:
    """Job 3 has no known wait; job 4 has requested processors only; two cores make a node."""
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress(SWF.encode()))
    log = read_swf(path, 2)
    assert log.machine_nodes == 4 and log.name == "log"
    assert log.start_s.tolist() == [0, 100, 400] and log.end_s.tolist() == [100, 300, 500]
    assert log.nodes.tolist() == [1, 3, 4]
    trace = idle_trace_of_jobs(log)
    spells = sorted(zip(trace.node.tolist(), trace.start_s.tolist(), trace.end_s.tolist(), strict=True))
    assert spells == [(0, 300, 400), (1, 0, 100), (1, 300, 400), (2, 0, 100), (2, 300, 400), (3, 0, 400)]
    assert mean_idle(node_changes(read_trace(path, cores_per_node=2))) == pytest.approx(
        (100 + 200 + 200 + 400) / 400
    )


def test_swf_lines_that_are_wrong_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.swf"
    path.write_text("; MaxNodes: 4\n1 0 0 100\n")
    with pytest.raises(InvalidInstance, match="line 2: expected 18 numbers"):
        read_swf(path)
    path.write_text("; nothing\n")
    with pytest.raises(InvalidInstance, match="holds no job"):
        read_swf(path)


def test_sacct_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(
        "JobID|Start|End|NNodes|State\n"
        "1|2026-01-31T12:00:00|2026-01-31T12:10:00|2|COMPLETED\n"
        "1.batch|2026-01-31T12:00:00|2026-01-31T12:10:00|1|COMPLETED\n"
        "2|2026-01-31T12:05:00|Unknown|2|RUNNING\n"
        "3|2026-01-31T12:20:00|2026-01-31T12:30:00|3|FAILED\n"
    )
    log = read_sacct(path)
    assert (
        log.start_s.tolist() == [0, 300, 1200]
        and log.end_s.tolist() == [600, 1800, 1800]
        and log.nodes.tolist() == [2, 2, 3]
    )
    assert len(read_trace(path).names) == 5 and len(read_trace(path, 5).names) == 5
    path.write_text(
        "JobID|Start|End|NNodes\n1|soon|2026-01-31T12:10:00|2\n1||later|2\n1|2026-01-31T12:00:00|later|2\n"
    )
    with pytest.raises(InvalidInstance, match=r"line 2.*line 4"):
        read_sacct(path)
    path.write_text('JobID|Start|End|NNodes|JobName\n1|2026-01-31T12:00:00|2026-01-31T12:10:00|2|"one\n')
    assert read_sacct(path).nodes.tolist() == [2]
    path.write_text("JobID|Start|End|NNodes\n1|2026-01-31T12:10:00\n")
    with pytest.raises(InvalidInstance, match="line 2: has 2 cells, the header 4"):
        read_sacct(path)
    path.write_text("JobID,Start\n1,2\n")
    with pytest.raises(InvalidInstance, match="sacct -P"):
        read_sacct(path)


def test_placed_jobs_leave_as_many_idle_nodes_as_the_log_says() -> None:
    """Without maintenance and short spells the number of idle nodes does not depend on the placement rule."""
    rng = np.random.default_rng(4)
    start = np.sort(rng.integers(0, 90_000, 150)).astype(float)
    log = JobLog(start, start + rng.integers(500, 3000, 150), rng.integers(1, 4, 150), 40)
    trace = idle_trace_of_jobs(log)
    for at in rng.uniform(20_000, 70_000, 60).tolist():
        busy = int(log.nodes[(log.start_s <= at) & (at < log.end_s)].sum())
        short = 40 - busy - trace.idle_at(at).size
        assert 0 <= short <= 6, "only spells shorter than 70 s are missing"


def test_maintenance_is_dropped() -> None:
    """Nothing runs from 1000 s to 11,000 s: nobody knows that the machine is up."""
    log = JobLog(np.array([0.0, 11_000.0]), np.array([1000.0, 12_000.0]), np.array([50, 50]), 100)
    trace = idle_trace_of_jobs(log)
    assert not (((trace.start_s < 11_000) & (trace.end_s > 1000)).any())
    assert trace.idle_at(500.0).size == trace.idle_at(11_500.0).size == 50


@pytest.mark.slow
def test_the_recorded_job_logs_become_traces(data: Path) -> None:
    trace = read_trace(data / "swf/UniLu-Gaia-2014-1.swf.gz", 154, 13, most_cut=0.25)
    changes = node_changes(trace)
    assert len(trace.names) == 154 and 30 < mean_idle(changes) < 90 and changes.num_rows > 10_000


@pytest.mark.slow
def test_theta_becomes_a_trace(data: Path) -> None:
    """Mean utilisation of 2022 is 0.760; what is idle beyond maintenance is below a quarter."""
    trace = read_trace(data / "swf/theta_2022.swf.gz")
    assert len(trace.names) == 4360 and 0.1 < mean_idle(node_changes(trace)) / 4360 < 0.24


def test_generated_traces_have_the_published_statistics() -> None:
    for nodes, per_hour in ((256, 23.0), (1024, 40.6)):
        trace = generated_trace(3, nodes)
        changes = node_changes(trace)
        length = trace.end_s - trace.start_s
        assert changes.num_rows / 336 == pytest.approx(per_hour, rel=0.1)
        assert mean_idle(changes) / nodes == pytest.approx(0.0827, rel=0.12)
        assert np.median(length) == pytest.approx(475, rel=0.1) and length.mean() == pytest.approx(
            1192, rel=0.12
        )
        shares = [(length < bound).mean() for bound in (120, 300, 600, 1200, 3600, 7200)]
        assert shares == pytest.approx([0.151, 0.402, 0.558, 0.710, 0.911, 0.980], abs=0.04)
    again = generated_trace(3, 256)
    assert np.array_equal(again.start_s, generated_trace(3, 256).start_s)
    with pytest.raises(InvalidOption):
        generated_trace(1, 0)


def test_generated_jobs_are_the_published_mix() -> None:
    jobs = generated_jobs(5)
    assert len(jobs) == 1001 and len({job.id.split("-")[1] for job in jobs}) == 7
    assert np.mean([job.rescale_up_s for job in jobs]) == pytest.approx(18, abs=0.1)
    assert {job.rescale_up_s for job in generated_jobs(5, 50, "hpo")} == {18.0}
    with pytest.raises(InvalidOption, match="mix"):
        generated_jobs(1, 5, "nas")


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInstance, match="no such file"):
        read_trace(tmp_path / "nothing.npz")


@pytest.mark.parametrize("digits", ["\u00b2", "1\u00b2", "0", "-4", "4.0", ""])
def test_a_placement_is_one_digit_a_node(tmp_path: Path, digits: str) -> None:
    """A superscript two is a digit that is no number: it ended in a traceback."""
    table = tmp_path / "placements.csv"
    table.write_text("placement,local_bsz,step_time,sync_time\n4,1,0.1,0.2\n44,1,0.2,0.3\n")
    assert StepTimes.read(table, None).seconds((4, 4), 1) == (0.2, 0.3)
    table.write_text(f"placement,local_bsz,step_time,sync_time\n4,1,0.1,0.2\n{digits},1,0.2,0.3\n")
    with pytest.raises(InvalidInstance, match=r"line 3.*one digit a node"):
        StepTimes.read(table, None)


def test_a_placement_of_thousands_of_nodes_is_read(tmp_path: Path) -> None:
    """Python's limit on the digits of a whole number ended it in a traceback."""
    table = tmp_path / "placements.csv"
    table.write_text(f"placement,local_bsz,step_time,sync_time\n{'4' * 5_000},1,0.1,0.2\n")
    assert StepTimes.read(table, None).seconds((4,) * 5_000, 1) == (0.1, 0.2)


def test_rows_that_are_skipped_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Pending jobs and unknown ends went in silence."""
    log = tmp_path / "jobs.txt"
    log.write_text(
        "JobID|Start|End|NNodes\n1|100|200|2\n2|Unknown|Unknown|1\n3|150|Unknown|1\n1.batch|100|200|2\n4|100|200|0\n"
    )
    assert read_sacct(log).nodes.tolist() == [2, 1]
    assert caplog.messages == [
        f"{log}: 3 of 5 rows skipped: 1 not started (pending), 1 job steps, 1 of no node",
        f"{log}: 1 of 5 rows have not ended: taken as running to the last time",
    ]
    caplog.clear()
    swf = tmp_path / "log.swf"
    line = "{} 0 {} {} 4 -1 -1 4 -1 -1 1 1 1 1 1 -1 -1 -1\n"
    swf.write_text(line.format(1, 5, 60) + line.format(2, -1, 60) + line.format(3, 5, 0))
    assert read_swf(swf).nodes.tolist() == [4]
    assert caplog.messages == [f"{swf}: 2 of 3 rows skipped: 1 that never ran, 1 with an unknown wait"]

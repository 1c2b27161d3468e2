"""Snapshots: the trace against a plain loop, the rules of admission and share, every kind of bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from apportion.cluster.simulation import (
    IdleTrace,
    SubmittedJob,
    read_curves,
    read_idle_trace,
    read_job_table,
    snapshot,
    snapshot_from_files,
)
from apportion.core.errors import ApportionError, InvalidInstance, InvalidOption
from apportion.instances.gap_filling.schema import PUBLISHED_CURVES, equal_share

HEADER = ",Tcup,Tcdw,Jmin,Jmax,Pmax,tsub_s\n"
INSTANTS = (0, 2396, 72_743, 123_456.5, 500_000, 654_321, 1_000_001, 1_289_436.9)


def job(
    index: int, model: str = "vgg16", low: int = 1, high: int = 64, submitted: float = 0.0
) -> SubmittedJob:
    return SubmittedJob(f"J{index}-{model}", 18.0, 12.0, low, high, 1.3e8, submitted)


@pytest.fixture
def trace() -> IdleTrace:
    """Nodes a and c idle from 0; at 10 s a leaves and b joins; at 30 s everything ends."""
    return IdleTrace.from_arrays(
        node=[2, 0, 1],
        start_s=[0, 0, 10],
        end_s=[30, 10, 20],
        event_s=[0, 10, 20, 30],
        names=["a", "b", "c"],
        t0="noon",
    )


@pytest.fixture(scope="session")
def summit(data: Path) -> IdleTrace:
    return read_idle_trace(data / "bftrainer/summit_idle_intervals.npz")


def test_intervals_are_closed_at_their_start_and_open_at_their_end(trace: IdleTrace) -> None:
    assert [trace.idle_at(at).tolist() for at in (0, 9.99, 10, 19.5, 20, 29)] == [
        [0, 2],
        [0, 2],
        [1, 2],
        [1, 2],
        [2],
        [2],
    ]
    assert [trace.previous_event(at) for at in (0, 5, 10, 10.5, 30)] == [None, 0.0, 0.0, 10.0, 20.0]
    assert trace.mean_idle() == pytest.approx((30 + 10 + 10) / 30)


def test_a_node_that_left_since_the_previous_event_is_lost_to_its_job(trace: IdleTrace) -> None:
    instance = snapshot(trace, [job(0), job(1)], PUBLISHED_CURVES, 10, 2)
    assert instance.nodes == ("b", "c")
    assert [member.current_nodes for member in instance.jobs] == [(), ("c",)]
    assert instance.name == "trace at 10 s of noon" and instance.horizon_s == 120.0
    between = snapshot(trace, [job(0), job(1)], PUBLISHED_CURVES, 15, 2, horizon_s=60)
    assert [member.current_nodes for member in between.jobs] == [("b",), ("c",)] and between.horizon_s == 60.0


def test_before_the_first_event_nobody_holds_a_node(trace: IdleTrace) -> None:
    assert all(not member.current_nodes for member in snapshot(trace, [job(0)], PUBLISHED_CURVES, 0, 1).jobs)


def test_trainers_are_the_first_submitted_jobs_at_every_instant(trace: IdleTrace) -> None:
    jobs = [job(0, submitted=25), job(1, submitted=12), job(2, submitted=11), job(3, submitted=12)]

    def admitted(at: float, trainers: int) -> list[str]:
        return [member.id[:2] for member in snapshot(trace, jobs, PUBLISHED_CURVES, at, trainers).jobs]

    assert admitted(15, 2) == ["J2", "J1"]
    assert admitted(15, 4) == ["J2", "J1", "J3", "J0"]
    assert admitted(5, 3) == ["J2", "J1", "J3"]


def test_curves_are_found_by_suffix_whatever_the_letter_case(trace: IdleTrace) -> None:
    jobs = [job(0, "ALEXNET"), job(1, "vgg16"), job(2, "my-net")]
    curves = {**PUBLISHED_CURVES, "My-Net": PUBLISHED_CURVES["MobileNet"]}
    scaling = [member.scaling for member in snapshot(trace, jobs, curves, 5, 3).jobs]
    assert scaling == [PUBLISHED_CURVES[name] for name in ("AlexNet", "VGG16", "MobileNet")]


@pytest.mark.parametrize(
    ("nodes", "low", "high", "expected"),
    [
        (0, [1, 1], [4, 4], [0, 0]),
        (7, [1, 1, 1], [64, 64, 64], [3, 2, 2]),
        (6, [3, 3], [64, 64], [3, 3]),
        (5, [3, 3], [64, 64], [5, 0]),
        (9, [5, 1, 1], [6, 2, 64], [0, 2, 7]),
        (9, [7, 1, 1], [9, 2, 3], [0, 2, 3]),
        (20, [1, 1], [4, 4], [4, 4]),
        (3, [1, 1, 1, 1], [2, 2, 2, 2], [2, 1, 0, 0]),
        (3, [], [], []),
    ],
)
def test_equal_share_by_hand(nodes: int, low: list[int], high: list[int], expected: list[int]) -> None:
    assert equal_share(nodes, low, high) == expected


def test_equal_share_never_breaks_a_limit() -> None:
    rng = np.random.default_rng(5)
    for _ in range(500):
        low = rng.integers(1, 6, rng.integers(1, 7)).tolist()
        high = [least + int(rng.integers(0, 9)) for least in low]
        nodes = int(rng.integers(0, 40))
        share = equal_share(nodes, low, high)
        assert sum(share) <= nodes
        assert all(
            got == 0 or least <= got <= most for got, least, most in zip(share, low, high, strict=True)
        )
        spare = nodes - sum(share)
        grow = [most - got if got else most for got, most in zip(share, high, strict=True)]
        for got, least, room in zip(share, low, grow, strict=True):
            assert spare == 0 or room == 0 or (got == 0 and spare < least)


def test_the_published_curves_are_the_published_numbers() -> None:
    """Efficiencies at 2 to 64 nodes as published beside the rates, to their three digits."""
    efficiency = {
        "AlexNet": (0.919, 0.740, 0.711, 0.650, 0.574, 0.444),
        "VGG16": (1.001, 0.983, 0.970, 0.961, 0.948, 0.919),
        "ResNet18": (1.014, 0.979, 0.948, 0.934, 0.867, 0.787),
        "DenseNet": (0.986, 0.972, 0.961, 0.947, 0.910, 0.912),
        "MnasNet1": (0.925, 0.885, 0.889, 0.845, 0.804, 0.773),
        "ShuffleNet": (0.929, 0.882, 0.900, 0.859, 0.818, 0.801),
        "MobileNet": (0.969, 0.936, 0.906, 0.874, 0.846, 0.798),
    }
    assert list(PUBLISHED_CURVES) == list(efficiency)
    for name, expected in efficiency.items():
        curve = PUBLISHED_CURVES[name]
        assert curve.nodes == (0, 1, 2, 4, 8, 16, 32, 64) and curve.rate[0] == 0
        computed = [
            rate / (count * curve.rate[1])
            for count, rate in zip(curve.nodes[2:], curve.rate[2:], strict=True)
        ]
        assert computed == pytest.approx(expected, abs=6e-4)


def test_summit_idle_nodes_agree_with_a_plain_loop(summit: IdleTrace, data: Path) -> None:
    raw = np.load(data / "bftrainer/summit_idle_intervals.npz", allow_pickle=False)
    rows = list(zip(raw["node"].tolist(), raw["start_s"].tolist(), raw["end_s"].tolist(), strict=True))
    for at in INSTANTS:
        looped = sorted(node for node, start, end in rows if start <= at < end)
        assert summit.idle_at(at).tolist() == looped


def test_summit_has_its_published_averages(summit: IdleTrace) -> None:
    assert summit.mean_idle() == pytest.approx(391.4, abs=0.05)
    assert summit.mean_idle() / len(summit.names) == pytest.approx(0.0827, abs=5e-5)
    counts = [summit.idle_at(at).size for at in summit.event_s[:-1:40]]
    assert max(counts) <= 4654
    change = np.zeros(int(summit.last_s) + 1)
    np.add.at(change, summit.start_s.astype(int), 1)
    np.add.at(change, np.minimum(summit.end_s, summit.last_s).astype(int), -1)
    per_second = np.cumsum(change)[:-1]
    assert per_second.mean() == pytest.approx(summit.mean_idle(), rel=1e-9) and per_second.max() == 4654
    quantiles = np.quantile(per_second, [0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99])
    assert quantiles.tolist() == [1, 4, 13, 81, 502, 1161, 1732, 3469]


@pytest.mark.parametrize("at", INSTANTS)
def test_a_snapshot_of_summit_keeps_the_rules(data: Path, at: float) -> None:
    folder = data / "bftrainer"
    instance = snapshot_from_files(
        folder / "summit_idle_intervals.npz", folder / "ImageNet-imgps-jobs.csv", at, 20
    )
    raw = np.load(folder / "summit_idle_intervals.npz", allow_pickle=False)
    names = raw["node_names"].tolist()

    def idle(instant: float) -> list[str]:
        return [names[node] for node in raw["node"][(raw["start_s"] <= instant) & (instant < raw["end_s"])]]

    assert list(instance.nodes) == idle(at)
    events = raw["event_s"][raw["event_s"] < at]
    before = idle(float(events[-1])) if events.size else []
    queue = list(before)
    assert len(instance.jobs) == 20
    quota, left = divmod(len(before), len(instance.jobs))
    for member in instance.jobs:
        share = min(64, quota + left)
        left -= share - min(64, quota)
        mine, queue = queue[:share], queue[share:]
        assert list(member.current_nodes) == [node for node in mine if node in set(instance.nodes)]
    assert instance.jobs[0].id == "J00000-AlexNet" and instance.jobs[0].rescale_up_s == 17.788
    assert f"at {at:.12g} s" in instance.name


def test_the_real_job_table_is_read_whole(data: Path) -> None:
    jobs = read_job_table(data / "bftrainer/ImageNet-imgps-jobs.csv")
    assert len(jobs) == 1001 and len({entry.id.partition("-")[2] for entry in jobs}) == 7
    assert np.mean([entry.rescale_up_s for entry in jobs]) == pytest.approx(17.99, abs=0.01)
    assert np.mean([entry.rescale_down_s for entry in jobs]) == pytest.approx(12.00, abs=0.01)
    assert {(entry.min_nodes, entry.max_nodes, entry.work_samples) for entry in jobs} == {(1, 64, 1.3e8)}


def test_a_curves_file_replaces_the_published_table(tmp_path: Path, trace: IdleTrace) -> None:
    path = tmp_path / "curves.json"
    path.write_text(json.dumps({"mine": {"nodes": [0, 64], "rate": [0, 6.4]}}))
    assert snapshot(trace, [job(0, "Mine")], read_curves(path), 5, 1).jobs[0].scaling.rate == (0, 6.4)
    with pytest.raises(InvalidInstance, match=r"1 of 1 jobs have no name of a curve .*the curves are mine"):
        snapshot(trace, [job(0)], read_curves(path), 5, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"a": 1}',
        '{"a": {"nodes": [0], "rate": ["x"]}}',
        '{"a": {"nodes": [0.5], "rate": [0]}}',
        "[" * 9999,
    ],
)
def test_a_bad_curves_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "curves.json").write_text(text)
    with pytest.raises(InvalidInstance, match="is no table of curves"):
        read_curves(tmp_path / "curves.json")


@pytest.mark.parametrize("at", [-1, 30, 31, float("nan"), float("inf")])
def test_an_instant_outside_the_trace_is_refused(trace: IdleTrace, at: float) -> None:
    with pytest.raises(InvalidOption, match="covers from 0 up to but not including 30 s since noon"):
        snapshot(trace, [job(0)], PUBLISHED_CURVES, at, 1)


@pytest.mark.parametrize("trainers", [0, -3, 2])
def test_a_number_of_trainers_out_of_range_is_refused(trace: IdleTrace, trainers: int) -> None:
    with pytest.raises(InvalidOption, match="from 1 to the number of jobs, 1"):
        snapshot(trace, [job(0)], PUBLISHED_CURVES, 5, trainers)


def test_bad_curves_and_horizons_are_refused(trace: IdleTrace) -> None:
    with pytest.raises(InvalidInstance, match=r"1 of 1 jobs have no name of a curve .*'J0'"):
        snapshot(trace, [SubmittedJob("J0", 1, 1, 1, 2, 1, 0)], PUBLISHED_CURVES, 5, 1)
    with pytest.raises(InvalidInstance, match="must reach max_nodes 65"):
        snapshot(trace, [job(0, high=65)], PUBLISHED_CURVES, 5, 1)
    with pytest.raises(InvalidInstance, match="horizon_s"):
        snapshot(trace, [job(0)], PUBLISHED_CURVES, 5, 1, horizon_s=0)
    with pytest.raises(InvalidInstance, match="only by letter case"):
        snapshot(trace, [job(0)], {"A": PUBLISHED_CURVES["VGG16"], "a": PUBLISHED_CURVES["VGG16"]}, 5, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty"),
        ("id,Tcup\nx,1\n", "line 1: the header lacks Tcdw, Jmin, Jmax, Pmax, tsub_s"),
        ("Tcup,Tcdw,Jmin,Jmax,Pmax,tsub_s\n", "lacks the unnamed first column"),
        (HEADER + "a-b,1,2,1,2,3\n", "line 2: has 6 cells, the header 7"),
        (
            HEADER + "a-b,1,2,1,2,3,4\nc-d,x,2,1,2,3,4\n",
            "line 3, column Tcup: expected seconds, at least 0, found 'x'",
        ),
        (HEADER + "a-b,1,-2,1,2,3,4\n", "line 2, column Tcdw"),
        (HEADER + "a-b,1,nan,1,2,3,4\n", "line 2, column Tcdw"),
        (HEADER + "a-b,1,2,1.5,2,3,4\n", "line 2, column Jmin: expected a whole number"),
        (HEADER + "a-b,1,2,3,2,3,4\n", "line 2, column Jmax: 2 is less than Jmin 3"),
        (HEADER + "a-b,1,2,1,2,3,inf\n", "line 2, column tsub_s"),
        (HEADER + ",1,2,1,2,3,4\n", "line 2, column 1: expected the job's id"),
        (
            HEADER + "a-b,1,2,1,2,3,4\na-b,1,2,1,2,3,4\n",
            "line 3, column 1: job 'a-b' stands in line 2 already",
        ),
        (HEADER + '"a-b,1,2,1,2,3,4\n', "is no CSV table"),
    ],
)
def test_a_bad_job_table_is_refused_with_line_and_column(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "jobs.csv").write_text(text)
    with pytest.raises(InvalidInstance) as caught:
        read_job_table(tmp_path / "jobs.csv")
    assert expected in str(caught.value)


def good() -> dict[str, object]:
    return {
        "node": np.array([0, 1, 0], dtype=np.int16),
        "start_s": np.array([0, 0, 8]),
        "end_s": np.array([5, 9, 9]),
        "event_s": np.array([0, 5, 8, 9]),
        "node_names": np.array(["a", "b"]),
        "t0": np.array("noon"),
    }


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"node": None, "t0": None}, "$.node: is missing; expected integers [intervals]; $.t0: is missing"),
        ({"node": np.array([0, 1])}, "equally long"),
        ({"node": np.array([0.5, 1, 0])}, "$.node: expected integers [intervals], found float64 [3]"),
        ({"node": np.array([0, 2, 0])}, "$.node[1]: must be from 0 to 1, is 2"),
        ({"end_s": np.array([5, 0, 9])}, "$.end_s[1]: must exceed start_s 0, is 0"),
        ({"end_s": np.array([5, np.nan, 9])}, "$.end_s[1]"),
        ({"end_s": np.array([8.5, 9, 9])}, "node 'a' has overlapping intervals from 0 and 8 s"),
        ({"event_s": np.array([0, 5, 5])}, "$.event_s[2]: 5 does not exceed"),
        ({"event_s": np.array([], dtype=int)}, "$.event_s: must hold at least two"),
        ({"node_names": np.array(["a", "a"])}, "$.node_names: must be distinct"),
        ({"t0": np.array(["x"])}, "$.t0: expected one text, found <U1 [1]"),
        ({"node": np.array([None, 1, 2], dtype=object)}, "cannot be read as an .npz archive"),
    ],
)
def test_a_bad_trace_is_refused(tmp_path: Path, changed: dict[str, object], expected: str) -> None:
    arrays = {name: array for name, array in {**good(), **changed}.items() if array is not None}
    np.savez(tmp_path / "trace.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(InvalidInstance) as caught:
        read_idle_trace(tmp_path / "trace.npz")
    assert expected in str(caught.value)


def test_damaged_trace_files_are_refused_without_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    np.savez_compressed(path, **good())  # type: ignore[arg-type]
    assert read_idle_trace(path).idle_at(8.5).tolist() == [0, 1]
    whole = path.read_bytes()
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(150):
        at = int(rng.integers(0, len(whole)))
        for mutant in (whole[:at], whole[:at] + bytes([int(rng.integers(0, 256))]) + whole[at + 1 :]):
            path.write_bytes(mutant)
            try:
                read_idle_trace(path)
            except ApportionError:
                refused += 1
    assert refused > 150
    np.save(tmp_path / "single.npy", np.arange(3))
    with pytest.raises(InvalidInstance, match="is a single array"):
        read_idle_trace(tmp_path / "single.npy")
    with pytest.raises(InvalidInstance, match="cannot be read"):
        read_idle_trace(tmp_path / "absent.npz")

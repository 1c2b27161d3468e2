"""What becomes of job logs, beside a count second by second: nodes shared, named and counted, odd rows."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from apportion.cli.main import main
from apportion.cluster.simulation.idle_trace import IdleTrace
from apportion.cluster.simulation.job_logs import read_sacct, read_swf
from apportion.cluster.simulation.rounds.workload_files import read_durations
from apportion.cluster.simulation.snapshot import read_curves, read_trace
from apportion.core.errors import InvalidInstance
from tests.budgets import examples
from tests.cli.calling import call

HORIZON = 1_700
"""Seconds of a drawn log: shorter than what counts as maintenance."""
_ORIGIN = 1_770_000_000


def _time(second: int, form: str) -> str:
    at = _ORIGIN + second
    if form == "epoch":
        return str(at)
    if form == "zone":
        return datetime.fromtimestamp(at, timezone(timedelta(hours=2))).isoformat()
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat()


def _listed(nodes: list[int]) -> str:
    """Write nodes as Slurm does, runs of numbers as ranges."""
    parts, rest = [], sorted(nodes)
    while rest:
        first = last = rest.pop(0)
        while rest and rest[0] == last + 1:
            last = rest.pop(0)
        parts.append(f"{first:02d}-{last:02d}" if last > first else f"{first:02d}")
    return f"n[{','.join(parts)}]" if len(parts) > 1 or "-" in parts[0] else f"n{parts[0]}"


def _drawn(rng: random.Random) -> tuple[str, dict[int, list[bool]]]:
    """Return an accounting text with NodeList and by node whether it is busy in every second."""
    form = rng.choice(["iso", "epoch", "zone"])
    machine = rng.randint(1, 12)
    rows, had, last, first = [], [], 0, HORIZON
    for job in range(rng.randint(1, 25)):
        for _ in range(rng.choice([1, 1, 1, 2])):  # a job that was requeued has a row per run
            start = rng.randrange(HORIZON - 1)
            end: int | None = min(start + rng.randrange(300), HORIZON)
            nodes = rng.sample(range(machine), rng.randint(1, machine))
            name = rng.choice([f"{job}", f"{job}_{rng.randrange(9)}"])
            sort = rng.random()
            if sort < 0.1:
                rows.append(f"{name}|Unknown|Unknown|{len(nodes)}|None assigned|PENDING")
                continue
            if sort < 0.15:
                rows.append(f"{name}|{_time(start, form)}|{_time(start + 1, form)}|0|None assigned|CANCELLED")
                continue
            if sort < 0.3:
                end = None
            stop = "Unknown" if end is None else _time(end, form)
            rows.append(f"{name}|{_time(start, form)}|{stop}|{len(nodes)}|{_listed(nodes)}|X")
            rows.append(f"{name}.batch|{_time(start, form)}|{stop}|1|{_listed(nodes[:1])}|X")
            if end is None or end > start:
                had.append((start, end, nodes))
                first, last = min(first, start), max(last, start if end is None else end)
    busy: dict[int, list[bool]] = {}
    for start, end, nodes in had:
        for node in nodes:
            seconds = busy.setdefault(node, [False] * (last - first))
            for second in range(start - first, (last if end is None else end) - first):
                seconds[second] = True
    return "\n".join(["JobID|Start|End|NNodes|NodeList|State", *rows, ""]), busy


def _runs(idle: list[bool]) -> list[tuple[int, int]]:
    """Return the spells of idle seconds that are long enough to be used."""
    found, since = [], None
    for second, free in enumerate([*idle, False]):
        if free and since is None:
            since = second
        elif not free and since is not None:
            found.append((since, second))
            since = None
    return [(start, end) for start, end in found if end - start >= 70]


def _spells(trace: IdleTrace) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for node, start, end in zip(trace.node.tolist(), trace.start_s, trace.end_s, strict=True):
        found.setdefault(str(trace.names[node]), []).append((int(start), int(end)))
    return {name: sorted(spells) for name, spells in found.items()}


def test_nodes_that_a_log_names_are_idle_to_the_second(tmp_path: Path) -> None:
    path, compared = tmp_path / "log.txt", 0
    for seed in range(examples(200)):
        rng = random.Random(seed)
        text, busy = _drawn(rng)
        path.write_text(text)
        wanted = {
            f"n{node:02d}": runs for node, own in busy.items() if (runs := _runs([not one for one in own]))
        }
        if not wanted:
            with pytest.raises(InvalidInstance, match=r"no node is ever idle|holds no job"):
                read_trace(path)
            continue
        spare = rng.randrange(3)
        trace = read_trace(path, len(busy) + spare)
        found = _spells(trace)
        seconds = len(next(iter(busy.values())))
        unnamed = [found.pop(name) for name in list(found) if name not in wanted]
        assert found == wanted, seed
        assert unnamed == [[(0, seconds)]] * (spare if seconds >= 70 else 0)
        compared += 1
    assert compared > 0.6 * examples(200)


def test_nodes_that_a_log_counts_are_idle_as_many_as_are_left(tmp_path: Path) -> None:
    """In node seconds: which node a job had is nobody's word."""
    path, rng = tmp_path / "log.txt", random.Random(3)
    for _ in range(examples(50)):
        jobs = []
        for _ in range(rng.randint(1, 20)):
            start = rng.randrange(HORIZON - 1)
            jobs.append((start, rng.randint(start + 1, HORIZON), rng.randint(1, 3)))
        first, last = min(start for start, *_ in jobs), max(end for _, end, _ in jobs)
        use = np.zeros(HORIZON, dtype=int)
        for start, end, nodes in jobs:
            use[start:end] += nodes
        rows = [f"{k}|{_time(s, 'epoch')}|{_time(e, 'epoch')}|{n}" for k, (s, e, n) in enumerate(jobs)]
        path.write_text("\n".join(["JobID|Start|End|NNodes", *rows]))
        machine = int(use.max()) + 1
        trace = read_trace(path, machine)
        idle = float((trace.end_s - trace.start_s).sum())
        free = (machine - use[first:last]).sum()
        assert free - idle < 70 * (2 * len(jobs) + machine) and idle <= free
        if use.max() > 1 and use.sum() > 0:
            small = max(int(use.max()) // 2, 1)
            cut = int(np.maximum(use - small, 0).sum())
            if cut > 0.5 * use.sum():
                with pytest.raises(InvalidInstance, match=r"node hours, of which .* fit on"):
                    read_trace(path, small)


def _refused(read: Callable[[Path], object], path: Path, text: str, match: str) -> None:
    path.write_text(text)
    with pytest.raises(InvalidInstance, match=match):
        read(path)


def test_times_with_a_zone_are_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(
        "JobID|Start|End|NNodes\n"
        "1|2026-03-02T08:00:00+02:00|2026-03-02T09:00:00+02:00|1\n"
        "2|2026-03-02T06:00:00+00:00|2026-03-02T06:30:00+00:00|1\n"
    )
    assert read_sacct(path).start_s.tolist() == [0.0, 0.0]
    zone = "1|2026-03-02T08:00:00+02:00|2026-03-02T09:00:00+02:00|1"
    text = f"JobID|Start|End|NNodes\n{zone}\n2|2026-03-02T06:00:00|2026-03-02T06:30:00|1\n"
    _refused(read_sacct, path, text, "some times have a zone and others none")


def test_cores_are_counted_where_nodes_are_not(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    text = "JobID|AllocCPUS|Start|End\n1|72|0|3600\n2|37|0|60\n"
    path.write_text(text)
    assert read_sacct(path, 36).nodes.tolist() == [2, 2]
    _refused(read_sacct, path, text, r"AllocCPUS and no NNodes.*--cores-per-node")
    path.write_text(text.replace("|", ","))
    assert read_sacct(path, 36).nodes.tolist() == [2, 2]
    _refused(read_sacct, path, text.replace("|", "   "), "padded with blanks; sacct -P separates")
    _refused(read_sacct, path, "JobID|Start|End|NNodes\n1|soon|9|2\n", r"line 2: Start must be 2026.*'soon'")
    _refused(read_sacct, path, "JobID|Start|End|NNodes\n1|0|9|two\n", "line 2: NNodes must be a whole number")
    _refused(read_sacct, path, "JobID|Start|End|NodeList\n1|0|9|n[1-x]\n", "line 2: NodeList .* is no list")


_LINE = "{} 0 0 {} {} -1 -1 {} -1 -1 {} 1 1 1 1 -1 -1 -1\n"


def test_partial_executions_count_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Job 1 is listed whole and in two parts; of job 2 only the parts are there."""
    path = tmp_path / "log.swf"
    rows = [(1, 300, 4, 4, 1), (1, 100, 4, 4, 2), (1, 200, 4, 4, 3), (2, 50, 2, 2, 2), (2, 60, 2, 2, 3)]
    path.write_text("".join(_LINE.format(*row) for row in rows))
    log = read_swf(path)
    assert (log.end_s - log.start_s).tolist() == [300.0, 50.0, 60.0] and log.rows == 5
    assert "2 partial executions of jobs that are listed whole" in caplog.text


def test_a_header_with_nodes_and_processors_is_read_as_nodes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log.swf"
    path.write_text("; MaxNodes: 10\n; MaxProcs: 120\n" + _LINE.format(1, 100, 30, 30, 1))
    log = read_swf(path)
    assert (log.machine_nodes, log.nodes.tolist()) == (10, [3])
    assert "taken are 12 processors a node" in caplog.text
    log = read_swf(path, 1)
    assert (log.machine_nodes, log.nodes.tolist()) == (120, [30])


def test_more_nodes_than_the_machine_has_are_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("JobID|Start|End|NodeList\n1|0|900|n[1-3]\n2|1000|1900|n4\n")
    with pytest.raises(InvalidInstance, match="names 4 nodes, the machine is said to have 3"):
        read_trace(path, 3)
    assert len(read_trace(path).names) == 4 and len(read_trace(path, 6).names) == 6


def test_jobs_of_no_gpu_or_no_time_are_counted_and_fields_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One row of 0 GPUs refused the whole log, and one message stood for every fault."""
    path = tmp_path / "gpus.csv"
    head = "timestamp,duration,num_gpus\n"
    path.write_text(f"{head}2026-01-01 00:00:00,60,0\n2026-01-01T00:00:10,60,2\n2026-01-01 00:00:20,0,1\n")
    assert read_durations(path).gpus.tolist() == [2]
    assert f"{path}: 2 of 3 rows skipped: 1 of no GPU, 1 of no time" in caplog.text
    _refused(
        read_durations, path, f"{head}1577836800,60,1\n", "line 2: timestamp must be YYYY-MM-DD HH:MM:SS"
    )
    _refused(read_durations, path, f"{head}2026-01-01 00:00:00,1h,1\n", "line 2: duration must be seconds")
    _refused(read_durations, path, f"{head}2026-01-01 00:00:00,60,8.0\n", "num_gpus must be a whole number")


@pytest.mark.parametrize(
    ("curve", "message"),
    [
        ('{"nodes": [0, 2, 1], "rate": [0, 1, 2]}', r"\$.a.nodes\[2\]: 1 does not exceed 2"),
        ('{"nodes": [0, 1], "rate": [0, 1, 2]}', r"\$.a.rate: has 3 points, nodes has 2"),
        ('{"nodes": [1, 2], "rate": [0, 1]}', r"\$.a.nodes: must start at 0 nodes"),
        ('{"nodes": [], "rate": []}', r"\$.a.nodes: must start at 0 nodes"),
    ],
)
def test_a_file_of_curves_keeps_the_rules_of_an_instance(tmp_path: Path, curve: str, message: str) -> None:
    _refused(read_curves, tmp_path / "curves.json", f'{{"a": {curve}}}', message)


def test_a_log_is_judged_by_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text("JobID|Start|End|NNodes\n1|0|900|2\n2|1900|2900|2\n")
    assert call(main, "validate", path).out == "valid: trace, IdleTrace 'jobs': 2 nodes, 2 idle intervals\n"
    packed = tmp_path / "jobs.txt.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert len(read_trace(packed, 3).names) == 3

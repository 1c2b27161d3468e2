"""What a line of ``solve-instance --stream`` costs beyond the solve itself."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import msgspec
import numpy as np

from apportion.instances.gap_filling.generator import generate
from benchmarks.timing import provenance


def main() -> None:
    """Send instances one by one to a warm process; print median and 95th percentile of the overhead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--lines", type=int, default=200)
    arguments = parser.parse_args()
    lines = [
        msgspec.json.encode(generate(seed=seed, jobs=arguments.jobs, nodes=arguments.nodes)) + b"\n"
        for seed in range(arguments.lines)
    ]
    child = subprocess.Popen(
        [sys.executable, "-m", "apportion.cli.solve_instance", "--stream"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    overhead, solving = [], []
    for number, line in enumerate(lines):
        began = time.perf_counter()
        child.stdin.write(line)
        child.stdin.flush()
        answer = json.loads(child.stdout.readline())
        elapsed = time.perf_counter() - began
        if number >= 10:  # imports and first-call costs are not the line's
            solving.append(answer["times"]["solve"])
            overhead.append(elapsed - answer["times"]["solve"])
    child.stdin.close()
    child.wait()
    print(f"{arguments.lines} lines of {arguments.jobs} jobs x {arguments.nodes} nodes, first 10 left out")
    for name, seconds in (("solve", solving), ("overhead", overhead)):
        median, high = np.percentile(seconds, [50, 95]) * 1e3
        print(f"{name:<9} median {median:.2f} ms, 95th percentile {high:.2f} ms")
    print(provenance())


if __name__ == "__main__":
    main()

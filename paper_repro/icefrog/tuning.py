"""Which settings suit every baseline best: ``python -m paper_repro.icefrog.tuning --data FOLDER``.

Round lengths first, then the knob p of those that have one, on philly-1 and 48 GPUs. What is best there is
the tuned row of every baseline in the study (`experiments.TUNED`). Writes ``tuning.json``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from apportion.cli.running import in_one_line
from apportion.cluster.policies.names import cluster_policy
from paper_repro.icefrog.cases import WORKLOADS, Case
from paper_repro.icefrog.experiments import BASELINES
from paper_repro.icefrog.store import Runs
from paper_repro.tables import Table, markdown, write_table

__all__ = ["tuned"]

_ROUNDS_S, _GAVEL_S = (30.0, 60.0, 120.0, 240.0), (180.0, 360.0, 720.0, 1920.0)
_POWERS = {"sia": (-1.0, -0.5, 0.5), "pollux": (-2.0, -1.0, -0.5), "titan": (-2.0, -1.0, -0.5)}


def tuned(runs: Runs, policy: str) -> Iterator[dict[str, Any]]:
    """Yield a row for every setting tried; published settings stand as themselves.

    Of equal averages the published setting is best, then the one tried first.
    """
    published_s = cluster_policy(policy).round_s
    rounds = _GAVEL_S if policy.startswith("gavel") else _ROUNDS_S
    cases = {
        round_s: Case(WORKLOADS[0], policy, 48, round_s=None if round_s == published_s else round_s)
        for round_s in sorted(rounds, key=lambda one: one != published_s)
    }
    runs.run(cases.values())
    average = {round_s: runs[case].avg_jct_s for round_s, case in cases.items()}
    best_s = min(average, key=lambda one: average[one])
    for round_s in rounds:
        yield _row(policy, round_s, None, average[round_s], round_s == best_s)
    base = cases[best_s]
    powers = {
        power: Case(WORKLOADS[0], policy, 48, round_s=base.round_s, power=power)
        for power in _POWERS.get(policy, ())
    }
    runs.run(powers.values())
    own = {power: runs[case].avg_jct_s for power, case in powers.items()}
    least = min([average[best_s], *own.values()])
    for power, average_s in own.items():
        yield _row(policy, best_s, power, average_s, average_s == least < average[best_s])


def _row(policy: str, round_s: float, power: float | None, average_s: float, best: bool) -> dict[str, Any]:
    told = {"policy": policy, "rounds of, s": round_s, "p": "as published" if power is None else power}
    return told | {"average, s": average_s, "best": best}


def main(arguments: Sequence[str] | None = None) -> None:
    """Try the settings, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.icefrog.tuning")
    parser.add_argument("--data", type=Path, required=True, help="folder with pollux and sia")
    parser.add_argument("--out", type=Path, default=Path("icefrog-out"))
    parser.add_argument("--workers", type=int, default=2, help="processes")
    given = parser.parse_args(arguments)
    (given.data / "pollux").stat()  # missing, that is all that is said
    given.out.mkdir(parents=True, exist_ok=True)
    runs = Runs(given.data, given.out / "runs.jsonl", given.workers)
    rows = [row for policy in BASELINES for row in tuned(runs, policy)]
    print("\n".join(markdown(rows)))
    write_table(
        given.out / "tuning.json", Table("paper_repro.icefrog.tuning", rows, f"workload {WORKLOADS[0]}")
    )


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.icefrog.tuning"):
        main()

"""The command line of the hunt."""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path

from tests.hunt.ask import asked
from tests.hunt.case import Case
from tests.hunt.draw import KINDS
from tests.hunt.hunting import hunt
from tests.hunt.paths import PATHS

HONEST = frozenset({"unproven", "broken", "no_plan", "order_decides"})
"""Mismatches that claim nothing wrong: no proof, an error with its reason, another digit of a bound."""

_MOST_BYTES = 6 * 2**30
"""Addresses that the hunt may have: a case that asks for more is a mismatch, not the end of the machine."""


def main() -> int:
    """Hunt, or replay stored cases; the exit code is 1 where anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.hunt", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to hunt")
    parser.add_argument("--cases", type=int, help="how many cases at most")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other cases")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this kind (repeatable)")
    parser.add_argument("--path", action="append", choices=list(PATHS), help="only this path (repeatable)")
    parser.add_argument("--out", type=Path, default=Path("build/hunted"), help="where mismatches are stored")
    parser.add_argument("--counts", type=Path, help="append the counts to this file, one line of JSON a run")
    parser.add_argument("--label", default="", help="what --counts calls this run, a commit for instance")
    parser.add_argument("--gate", action="store_true", help="exit 1 for wrong answers only, see HONEST")
    parser.add_argument("--list", action="store_true", help="only list the inner paths, and what each forces")
    parser.add_argument("--replay", type=Path, nargs="+", help="answer stored cases instead")
    given = parser.parse_args()
    if given.list:
        print("\n".join(path.described() for path in PATHS.values()))
        return 0
    if given.replay:
        return _replay(given.replay)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    tally = hunt(
        given.seconds,
        given.seed,
        given.kind or list(KINDS),
        given.path or list(PATHS),
        given.out,
        given.cases,
    )
    print(tally.table())
    if given.counts is not None:
        with given.counts.open("a", encoding="utf-8") as file:
            file.write(tally.line(given.label, given.seed))
    wrong = sum(n for (_, _, sort), n in tally.wrong.items() if not (given.gate and sort in HONEST))
    if given.gate:
        print(f"{wrong} wrong answers; the other mismatches end as unproven or as an error that says why")
    return 1 if wrong else 0


def _replay(files: list[Path]) -> int:
    bad = 0
    for file in files:
        wrong = asked(Case.read(file)).wrong
        bad += bool(wrong)
        print(f"{file}: {'; '.join(f'{one.sort}: {one.told}' for one in wrong) or 'right'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

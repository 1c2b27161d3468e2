"""The command line: killed and survived by module; it exits with 1 under 95 % of those without a reason."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tests.mutation.running import tried
from tests.mutation.targets import TARGETS

ENOUGH = 0.95
REASONS = Path(__file__).with_name("survivors.txt")


def main() -> int:
    """Run the mutants of every module, or of those named."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--module", action="append", choices=list(TARGETS), help="only this one (repeatable)")
    parser.add_argument("--most", type=int, default=200, help="mutants of one module at most, drawn")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--again", type=Path, help="only the survivors that this output of a run names")
    given = parser.parse_args()
    lines = [] if given.again is None else given.again.read_text(encoding="utf-8").splitlines()
    again = {line.split("survivor ", 1)[1].split(": ", 1)[1] for line in lines if "survivor " in line}
    reasons = REASONS.read_text(encoding="utf-8") if REASONS.exists() else ""
    killed = looked_at = 0
    broken = False
    for module in given.module or TARGETS:
        result = tried(module, TARGETS[module], given.most, given.seed, again)
        broken |= result.failed_unchanged
        dead = result.looked_at - len(result.survivors)
        changes = {one: one.split(": ", 1)[1] for one in result.survivors}
        # a mere number stands in many lines, of which its reason is about one
        known = {
            one for one, own in changes.items() if f"{module}:{own}" in reasons and re.search("[a-z]", own)
        }
        killed, looked_at = killed + dead, looked_at + result.looked_at - len(known)
        share = f"{dead} of {result.looked_at} killed, {len(known)} with a reason, of {result.total} in all"
        print(f"{module:56}{'a test fails unchanged' if result.failed_unchanged else share}", flush=True)
        for survivor in result.survivors:
            print(f"  {'known ' if survivor in known else ''}survivor {survivor}", flush=True)
    print(f"{killed} of {looked_at} without a reason killed: {killed / max(looked_at, 1):.1%}")
    return 1 if broken or killed < ENOUGH * looked_at else 0


if __name__ == "__main__":
    sys.exit(main())

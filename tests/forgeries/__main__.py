"""Forge results and proofs: exit code 1 where a false claim is called derived, or a true one refused."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.forgeries.forging import HEADER, KINDS, Tally, cut_short, forged


def main() -> int:
    """Forge in turns over the kinds until so many forgeries claim something false; print counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.forgeries", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="forgeries that claim something false")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this kind (repeatable)")
    parser.add_argument("--one", type=int, help="only the instance of this number")
    given = parser.parse_args()
    tallies = {kind: Tally() for kind in given.kind or KINDS}
    number = 0 if given.one is None else given.one
    while True:
        for kind, tally in tallies.items():
            forged(kind, given.seed, number, tally)
            cut_short(kind, given.seed, number, tally)
        number += 1
        if given.one is not None or sum(tally.false for tally in tallies.values()) >= given.count:
            break
    print(HEADER)
    of: Counter[str] = Counter()
    for kind, tally in tallies.items():
        print(tally.line(kind))
        of.update(tally.of)
    whole = {name: sum(getattr(tally, name) for tally in tallies.values()) for name in ("forged", "false")}
    accepted = sum(tally.accepted for tally in tallies.values())
    refused = sum(tally.refused_true for tally in tallies.values())
    claims = sorted(claim for claim in of if "false" in claim)
    print("\nforgeries with something false, by kind and claim:", ", ".join(claims))
    for kind, tally in tallies.items():
        print(f"{kind:28} " + " ".join(f"{tally.of[claim]:7}" for claim in claims))
    print("\nforgeries with something false, by claim and by mutator (one may count several times)")
    for claim, count in sorted(of.items()):
        print(f"{claim:36} {count:9}")
    for tally in tallies.values():
        for wrong in tally.wrong[:20]:
            print(wrong)
    print(
        f"{whole['forged']} forged, {whole['false']} false, {accepted} accepted, {refused} true ones refused"
    )
    return 1 if accepted or refused else 0


if __name__ == "__main__":
    sys.exit(main())

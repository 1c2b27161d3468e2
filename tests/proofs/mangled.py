"""Run the checker in C under the address and undefined-behaviour sanitizers on mutated statements and proofs.

    python -m tests.proofs.mangled --count 20000 --seed 1 [--kind K]

Statements and proofs are those of solved instances; both are changed, by bytes (flipped, cut, doubled) and by
meaning (a value of the JSON replaced, removed, repeated). Whatever stands there the program must end with one
of its words and touch no byte that is not its own; where it says that a claim is true, the reference says so
too, or stops at a limit. Else the exit code is 1.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from apportion.proofs import reference
from apportion.proofs.certificate import encode
from apportion.proofs.statement import statement_of
from tests.proofs.agreement import built, proof_of
from tests.proofs.claims import KINDS

__all__ = ["SANITIZED", "mangled", "run"]

SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_PER_CASE = 40
"""Mutations of one statement and its proof."""
_VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 0.5, 1e300, 5e-324, -0.0, 2**31, 2**63, 2**64, 10**30, -(10**40)),
    *("", "x", "0" * 64, "\u00e4", "[", True, None, [], {}, [[]], [0], {"": 0}),
)
_LIMITS = {"MOST_STATES": "2000", "ASAN_OPTIONS": "detect_leaks=0"}


def run(program: Path, statement: bytes, proof: bytes) -> tuple[str, str]:
    """Return the word that the program ends with, ``unread`` for no statement, and what went wrong."""
    with tempfile.TemporaryDirectory() as name:
        paths = Path(name) / "statement.json", Path(name) / "proof.json"
        for path, data in zip(paths, (statement, proof), strict=True):
            path.write_bytes(data)
        done = subprocess.run([program, *paths], capture_output=True, check=False, env=_LIMITS, timeout=120)
    word = done.stdout.partition(b":")[0].decode(errors="replace")
    if done.returncode == 3 and not done.stdout:
        return "unread", ""
    if (done.returncode, word) in {(0, "true"), (1, "false"), (2, "incomplete")}:
        return word, ""
    return word, f"exit code {done.returncode}: {done.stderr.decode(errors='replace')[:2000]}"


def mangled(kind: str, seed: int, number: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield mutations of the statement and the proof of one drawn instance, as they are first."""
    rng = Random(f"mangled {kind} {seed}/{number}")
    proof, instance = proof_of(KINDS[kind].case(rng))
    if proof is None:
        return
    stated = {key: part for key, part in statement_of(instance).items() if key != "plan"}
    documents = json.loads(json.dumps(stated)), json.loads(gzip.decompress(encode(proof)))
    yield _text(documents[0]), _text(documents[1])
    for _ in range(_PER_CASE):
        changed = [deepcopy(document) for document in documents]
        which = rng.choice(((0,), (1,), (1,), (0, 1)))
        by_bytes = rng.random() < 0.4
        for at in () if by_bytes else which:
            for _ in range(rng.choice((1, 1, 2, 3))):
                changed[at] = _replaced(rng, changed[at])
        texts = [_text(document) for document in changed]
        for at in which if by_bytes else ():
            texts[at] = _bytes_changed(rng, texts[at])
        yield texts[0], texts[1]


def _text(document: Any) -> bytes:
    return json.dumps(document).encode()


def _bytes_changed(rng: Random, data: bytes) -> bytes:
    """Return a text with a byte flipped, a piece removed, doubled or moved, or its end cut off."""
    at = rng.randrange(len(data))
    piece = data[at : at + rng.choice((1, 1, 2, 5, 40))]
    elsewhere = rng.randrange(len(data))
    return rng.choice(
        (
            data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :],
            data[:at] + data[at + len(piece) :],
            data[:at] + piece + data[at:],
            data[:elsewhere] + piece + data[elsewhere:],
            data[:at],
            data[:at] + rng.choice((b"9" * 50, b"[" * 3000, b'"', b"\\u", b"\0", b"-", b"e99")) + data[at:],
        )
    )


def _replaced(rng: Random, document: Any) -> Any:
    """Return a document with one value replaced, removed or repeated."""
    places = list(_places(document))
    if not places:
        return rng.choice(_VALUES)
    parent, key = rng.choice(places)
    how = rng.random()
    if how < 0.15:
        del parent[key]
    elif how < 0.3 and isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), deepcopy(parent[key]))
    elif how < 0.5:
        other, name = rng.choice(places)
        parent[key] = deepcopy(other[name])
    elif how < 0.7 and isinstance(parent[key], int | float):
        parent[key] += rng.choice((-1, 1, 0.5, 2**40))
    else:
        parent[key] = deepcopy(rng.choice(_VALUES))
    return document


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    if not isinstance(document, dict | list):
        return
    for key in list(document) if isinstance(document, dict) else range(len(document)):
        yield document, key
        yield from _places(document[key])


def _differs(word: str, statement: bytes, proof: bytes) -> str:
    """Return what is wrong where the program calls a claim true and the reference calls it false."""
    if word != "true":
        return ""
    try:
        shown, why = reference.check(json.loads(statement), gzip.compress(proof, mtime=0))
    except UnicodeDecodeError:
        return ""  # the program does not decode names
    except ValueError as wrong:
        return f"true, but no JSON to others: {wrong}"
    return f"true, the reference: {why}" if shown is False else ""


def main() -> int:
    """Mutate in turns over the kinds until there were so many; print counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.mangled", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many mutated pairs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this kind (repeatable)")
    given = parser.parse_args()
    said: Counter[str] = Counter()
    wrong, number = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        program = built(Path(folder), SANITIZED)
        if program is None:
            print("no compiler of C")
            return 2
        while said.total() < given.count:
            for kind in given.kind or KINDS:
                for statement, proof in mangled(kind, given.seed, number):
                    word, broken = run(program, statement, proof)
                    said[word] += 1
                    broken = broken or _differs(word, statement, proof)
                    if broken:
                        wrong += 1
                        print(f"{kind} {given.seed}/{number}: {broken}\n{statement!r}\n{proof!r}"[:6000])
            number += 1
    print(", ".join(f"{count} {word}" for word, count in said.most_common()), f"- {wrong} wrong", sep=" ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Hold three checkers of proofs against each other: the package's, the reference in one file, the one in C.

    python -m tests.proofs.agreement --count 100000 --seed 1 [--kind K]

Of drawn instances of every kind the proof of a solve, and forgeries of it by meaning
(`tests.forgeries.mutating`), cuts that were made up among them. A checker may end as incomplete, by a limit
or because the one in C does not read a shape.
Where two of them say something, they must say the same:
else the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import apportion
from apportion.instances.tenants.ledger import under_floors
from apportion.proofs import Proof, reference
from apportion.proofs.certificate import Cut, encode, instance_digest
from apportion.proofs.statement import statement_of
from apportion.proofs.walking import Limits
from tests.forgeries.mutating import OF_PROOFS
from tests.proofs.claims import KINDS

__all__ = ["Tally", "built", "compared", "drawn", "proof_of"]

_SOURCE = Path(__file__).parents[2] / "examples" / "checker" / "checker.c"
_LIMITS = Limits(states=20_000, kept=2_000_000, steps=50_000_000)
_STATES = 3_000
_LIMIT_OF_C = {"MOST_STATES": str(10 * _STATES)}
_FORGERIES = 40
"""Proofs of one instance, the true one among them."""
_SAID = {True: "proved", False: "refused", None: "incomplete"}
_OF_C = {"true": "proved", "false": "refused", "incomplete": "incomplete"}


@dataclass(slots=True)
class Tally:
    """What the checkers said.

    Attributes
    ----------
    instances, proofs
        How many.
    said
        Proofs by checker and what it said.
    wrong
        Where two of them differ.
    """

    instances: int = 0
    proofs: int = 0
    said: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def line(self, kind: str) -> str:
        """Return a line of the table."""
        told = (f"{self.said[who, what]:8}" for who in WHO for what in ("proved", "refused", "incomplete"))
        return f"{kind:28}{self.proofs:8}  {'  '.join(told)}  {len(self.wrong):6}"


WHO = ("package", "reference", "C")


def built(folder: Path, flags: Sequence[str] = ()) -> Path | None:
    """Return the checker in C, compiled with further flags; ``None`` where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    program = folder / "checker"
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", *flags, "-o", program, _SOURCE, "-lm"], check=True)
    return program


def compared(
    instance: Any,
    proofs: Sequence[bytes],
    program: Path | None,
    tally: Tally,
    name: str,
    states: int = _STATES,
) -> None:
    """Ask all checkers about proofs of one instance, the reference up to so many states, and count."""
    statement = json.loads(json.dumps(statement_of(instance)))
    by_c = [None] * len(proofs) if program is None else list(_by_c(program, statement, proofs))
    tally.instances += 1
    for at, (data, of_c) in enumerate(zip(proofs, by_c, strict=True)):
        verdict = apportion.verify(instance, data, _LIMITS)
        with mock.patch.object(reference, "MOST_STATES", states):
            shown, why = reference.check(statement, data)
        told = {"package": verdict.status, "reference": _SAID[shown]} | ({} if of_c is None else {"C": of_c})
        tally.proofs += 1
        tally.said.update(told.items())
        if len(set(told.values()) - {"incomplete"}) > 1:
            tally.wrong.append(f"{name}, proof {at}: {told} ({verdict.why}; {why})")


def _by_c(program: Path, statement: Any, proofs: Sequence[bytes]) -> Iterator[str]:
    import zlib

    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name) / "statement.json", *(Path(name) / str(at) for at in range(len(proofs)))]
        paths[0].write_text(json.dumps({key: part for key, part in statement.items() if key != "plan"}))
        for path, data in zip(paths[1:], proofs, strict=True):
            path.write_bytes(zlib.decompress(data, wbits=31))
        asked = subprocess.run(
            [program, *paths], capture_output=True, text=True, check=False, env=_LIMIT_OF_C
        )
        lines = asked.stdout.splitlines()
        if len(lines) != len(proofs):
            raise RuntimeError(f"the checker in C ended with {asked.returncode}: {asked.stderr}")
        yield from (_OF_C[line.partition(":")[0]] for line in lines)


def drawn(kind: str, seed: int, number: int, program: Path | None, tally: Tally) -> None:
    """Draw an instance of a kind, forge its proof, and compare."""
    name = f"{kind} {seed}/{number}"
    rng = Random(f"agreement {name}")
    instance = KINDS[kind].case(rng)
    proof, held = proof_of(instance)
    if proof is None:
        return
    other = proof_of(KINDS[kind].case(rng))[0]
    known = [one for one in (proof, other) if one is not None]
    proofs, stated = [proof], statement_of(held)
    for _ in range(_FORGERIES - 1):
        forged = proof
        for _ in range(rng.choice((1, 1, 2))):
            forged = OF_PROOFS[rng.choice(list(OF_PROOFS))](rng, forged, known)
        if rng.random() < 0.2:
            forged = replace(forged, cuts=(*forged.cuts, *_cuts(rng, stated)))
        if rng.random() < 0.95:
            forged = replace(forged, instance=instance_digest(held))
        proofs.append(forged)
    compared(held, [encode(one) for one in proofs], program, tally, name)


def _cuts(rng: Random, statement: Any) -> Iterator[Cut]:
    """Yield a cut about a pool, a type of GPU or a capacity, whether its reason holds or not."""
    jobs, rooms = len(statement["jobs"]), len(statement["capacities"])
    if rng.random() < 0.5:
        yield {"capacity": rng.randint(0, rooms), "divisor": rng.choice((0, 1, 2, 3, 4, 7, 1 << 61))}
    if rng.random() < 0.5:
        least = {
            str(rng.randint(0, jobs)): rng.choice((0, 1, 2, 3, 4, 1 << 61)) for _ in range(rng.randint(0, 3))
        }
        others = rng.choice((1, 2, 3, 4, 8, 1 << 62))
        yield {"capacity": rng.randint(0, rooms), "thresholds": least, "others": others}
    some = rng.sample(range(jobs), rng.randint(1, min(jobs, 4))) if jobs else []
    excluded = rng.random() < 0.5
    if statement["pools"]:
        at = rng.randrange(len(statement["pools"]))
        count = statement["pools"][at]["count"]
        weights = [rng.choice((0, 1, 1, 2, 5)) for _ in range(count)] if count < 100 else []
        yield {"pool": at, "excluded": some} if excluded else {"pool": at, "weights": weights}
    elif statement["nodes"]:
        name, nodes = rng.choice(sorted(statement["nodes"].items()))
        sizes = {str(job): rng.randint(1, 2 * nodes["size"]) for job in some}
        weights = [rng.choice((0, 1, 1, 2, 5)) for _ in range(nodes["size"])]
        yield {"gpu_type": name} | ({"excluded": sizes} if excluded else {"node_weights": weights})


def proof_of(instance: Any) -> tuple[Proof | None, Any]:
    """Return the proof of an instance's claim, and the instance under the floors it is about."""
    try:
        solution = apportion.solve(instance, proof=True, time_limit=5.0)
    except apportion.ApportionError:
        return None, instance
    return solution.proof, under_floors(instance, solution.floors)


def main() -> int:
    """Compare in turns over the kinds until there were so many proofs; print counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.agreement", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="how many proofs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this kind (repeatable)")
    parser.add_argument("--one", type=int, help="only the instance of this number")
    given = parser.parse_args()
    tallies = {kind: Tally() for kind in given.kind or KINDS}
    with tempfile.TemporaryDirectory() as folder:
        program = built(Path(folder))
        number = 0 if given.one is None else given.one
        while True:
            for kind, tally in tallies.items():
                drawn(kind, given.seed, number, program, tally)
            number += 1
            if given.one is not None or sum(tally.proofs for tally in tallies.values()) >= given.count:
                break
    print(f"{'kind':28}{'proofs':>8}  " + "  ".join(f"{who:>26}  " for who in WHO) + "   differ")
    for kind, tally in tallies.items():
        print(tally.line(kind))
        print("\n".join(tally.wrong[:20]), end="\n" if tally.wrong else "")
    proofs = sum(tally.proofs for tally in tallies.values())
    wrong = sum(len(tally.wrong) for tally in tallies.values())
    print(f"{proofs} proofs, {wrong} on which checkers differ{'' if program else '; no compiler of C'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

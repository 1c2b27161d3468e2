"""Fuzzing guided by coverage: libFuzzer through atheris, in a process of its own, which it never leaves."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Guided", "become_fuzzer", "guided"]

_LONGEST_S, _MEGABYTES, _LONGEST = 30, 3000, 100_000


@dataclass(frozen=True, slots=True)
class Guided:
    """What a process came to: inputs read, and what it printed where it found something."""

    inputs: int
    found: str | None


def guided(name: str, seconds: float, seed: int, folder: Path) -> Guided:
    """Fuzz one reader in a child process; inputs of interest are kept in the folder, what crashes too."""
    corpus = folder / name
    corpus.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz_readers", "--child", name, str(corpus), str(seed)]
    command += [str(max(1, round(seconds))), str(folder / f"crash-{name}-")]
    ended = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=seconds * 3 + 300, check=False
    )
    told = re.findall(r"stat::number_of_executed_units:\s*(\d+)", ended.stderr)
    executed = told or re.findall(r"^#(\d+)\s", ended.stderr, re.MULTILINE)
    return Guided(
        int(executed[-1]) if executed else 0, None if ended.returncode == 0 else ended.stderr[-3000:]
    )


def become_fuzzer(name: str, corpus: str, seed: str, seconds: str, prefix: str) -> None:
    """Turn this process into the fuzzer of a reader; it ends the process."""
    import atheris

    with atheris.instrument_imports(include=["apportion"]):
        from tests.fuzz_readers.readers import READERS, endured

        reader = READERS[name]
        seeds = reader.seeds()
        for raw in seeds:
            endured(reader, raw)
    for number, raw in enumerate(seeds):
        Path(corpus, f"seed-{number}").write_bytes(raw)
    words = Path(corpus).parent / f"{name}.dict"
    escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in reader.words)
    words.write_text("".join(f'"{word}"\n' for word in escaped))

    def one(raw: bytes) -> None:
        endured(reader, raw)

    options = [f"-max_total_time={seconds}", f"-seed={seed}", f"-timeout={_LONGEST_S}"]
    options += [f"-rss_limit_mb={_MEGABYTES}", f"-max_len={_LONGEST}", f"-artifact_prefix={prefix}"]
    options += ["-print_final_stats=1"] + ([f"-dict={words}"] if reader.words else [])
    atheris.Setup([sys.argv[0], *options, corpus], one)
    atheris.Fuzz()

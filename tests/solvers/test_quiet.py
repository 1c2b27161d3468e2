"""Native output on fd 1 goes to fd 2, and fd 1 comes back whatever happens meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

OVERLAPPING = """
import ctypes, threading, time
from apportion.solvers.general.guard import native_output_to_stderr
libc = ctypes.CDLL(None)
def block(before, during):
    time.sleep(before)
    with native_output_to_stderr():
        libc.puts(b"native")
        time.sleep(during)
threads = [threading.Thread(target=block, args=times) for times in ((0, .2), (.1, .3), (.15, .01))]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("python")
libc.puts(b"native after")
"""

NESTED = """
import os
from apportion.solvers.general.guard import native_output_to_stderr
try:
    with native_output_to_stderr():
        with native_output_to_stderr():
            os.write(1, b"inner\\n")
        os.write(1, b"outer\\n")
        raise RuntimeError
except RuntimeError:
    pass
os.write(1, b"after\\n")
"""

CLOSED = """
import os
from apportion.solvers.general.guard import native_output_to_stderr
os.close({closed})
with native_output_to_stderr():
    try:
        os.write(1, b"native\\n")
    except OSError:
        pass
try:
    os.write(1, b"after\\n")
except OSError:
    pass
"""


def ran(root: Path, script: str) -> subprocess.CompletedProcess[str]:
    path = f"import sys; sys.path.insert(0, {str(root / 'src')!r})\n"
    run = subprocess.run([sys.executable, "-c", path + script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run


def test_overlapping_threads_put_standard_output_back(root: Path) -> None:
    """Each thread used to restore what it had found, so that the last one left fd 1 on standard error."""
    run = ran(root, OVERLAPPING)
    assert sorted(run.stdout.split("\n")) == ["", "native after", "python"]
    assert run.stderr.split() == ["native"] * 3


def test_blocks_nest_and_survive_exceptions(root: Path) -> None:
    run = ran(root, NESTED)
    assert run.stdout == "after\n"
    assert run.stderr == "inner\nouter\n"


def test_closed_standard_error_throws_native_output_away(root: Path) -> None:
    assert ran(root, CLOSED.format(closed=2)).stdout == "after\n"


def test_closed_standard_output_is_left_alone(root: Path) -> None:
    assert ran(root, CLOSED.format(closed=1)).stdout == ""

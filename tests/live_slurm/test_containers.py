"""Pilots in containers of Slurm, by a real OCI runtime: they train, are taken back, and leave nothing."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from paper_repro.malletrain.harvesting import Harvest, numpy_trainer
from paper_repro.malletrain.main_queue_delay import main_job
from paper_repro.malletrain.one_machine import OneMachineSlurm, missing_programs

from tests.live_slurm.test_harvest import assert_nothing_is_left, assert_trained, slowness
from tests.live_slurm.watching import Witness
from tests.patience import slower

ROOT = Path(__file__).resolve().parents[2]
OCI_CONF = """\
RunTimeQuery="runc --root={state} state %n.%u.%j.%s.%t"
RunTimeKill="runc --root={state} kill -a %n.%u.%j.%s.%t"
RunTimeDelete="runc --root={state} delete --force %n.%u.%j.%s.%t"
RunTimeRun="runc --root={state} run %n.%u.%j.%s.%t -b %b"
"""
NOTES_ITS_IMAGE = """
import os, pathlib, runpy, sys
inside = pathlib.Path("/image").exists()
(pathlib.Path(os.environ["SEEN"]) / f"{inside}.{os.environ['APPORTION_RANK']}.{os.getpid()}").touch()
sys.argv = sys.argv[1:]
runpy.run_module("apportion.live.trainers.numpy_mlp", run_name="__main__")
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An OCI bundle: this system and this project, read-only, the shared folder, and a file to know it by."""
    shared = Path(tempfile.gettempdir())
    system = [Path(name) for name in ("/usr", "/bin", "/lib", "/lib64", "/etc") if Path(name).is_dir()]
    python = {Path(name).resolve() for name in (sys.prefix, sys.base_prefix, ROOT, *sys.path)}
    here = [path for path in sorted(python) if path.is_dir() and not path.is_relative_to(shared)]
    read_only = [*system, *(path for path in here if not path.is_relative_to("/usr"))]
    mounts = [(str(path), ["rbind", "ro"]) for path in read_only]
    mounts += [(name, ["rbind", "rw"]) for name in ("/proc", "/dev", str(shared))]
    root = tmp_path / "image" / "rootfs"
    for name, _ in mounts:
        (root / name[1:]).mkdir(parents=True, exist_ok=True)
    (root / "image").touch()
    told = {
        "ociVersion": "1.0.0",
        "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": ["true"], "env": [], "cwd": "/"},
        "root": {"path": "rootfs"},
        "mounts": [
            {"destination": name, "source": name, "type": "none", "options": options}
            for name, options in mounts
        ],
        "linux": {"namespaces": [{"type": "mount"}]},
    }
    (tmp_path / "image" / "config.json").write_text(json.dumps(told))
    return tmp_path / "image"


@pytest.fixture(scope="module")
def containers() -> Iterator[OneMachineSlurm]:
    if missing := missing_programs():
        pytest.skip(f"no Slurm on this machine ({', '.join(missing)} missing): bash .ci/slurm installs it")
    if shutil.which("runc") is None:
        pytest.skip("no runc on this machine: bash .ci/slurm installs it")
    if os.getuid() != 0:
        pytest.skip("only root can make a container of the whole system")
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        beside = {"oci.conf": OCI_CONF.format(state=Path(folder) / "runc")}
        with OneMachineSlurm(Path(folder) / "c", 4, slowness=slower, beside=beside) as started:
            yield started


def slurms_own_delay(slurm: OneMachineSlurm, image: Path, folder: Path) -> float:
    """Return what the main queue waits for three nodes with containers in which nothing but `sleep` runs."""
    (script := folder / "sleep.sh").write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o700)
    held = ["sbatch", "--parsable", "-p", "harvest", f"--container={image}", "--output=/dev/null"]
    for _ in slurm.names:
        slurm.run([*held, str(script)])

    def running() -> bool:
        return len(slurm.run(["squeue", "-h", "-t", "R", "-o", "%i"]).split()) == len(slurm.names)

    slurm.wait_until(running, "every node has a container", 30.0)
    time.sleep(1.0)
    delay = main_job(slurm, 3)
    slurm.reset()
    return delay


@pytest.mark.slow
def test_pilots_in_containers_train_and_are_taken_back(
    containers: OneMachineSlurm, image: Path, tmp_path: Path
) -> None:
    (seen := tmp_path / "seen").mkdir()
    (script := tmp_path / "train.py").write_text(NOTES_ITS_IMAGE)
    command = [sys.executable, str(script), "numpy_mlp", *numpy_trainer()[3:]]
    options = ("--sbatch", f"--container={image}")
    bare = slurms_own_delay(containers, image, tmp_path)
    with Harvest(containers, tmp_path, *options) as harvest, Witness(tmp_path):
        harvest.start()
        slow = slowness(harvest)
        job = harvest.submit(round(15_000 * slow), command, most=4, more=["--env", f"SEEN={seen}"])
        harvest.until(lambda jobs: len(jobs[job]["nodes"]) == 4, "it trains on every node")
        harvest.until(lambda jobs: jobs[job]["samples"] > 1_000, "it trains")
        taken = main_job(containers, 3)
        assert taken < 2.0 * bare + slow, "an agent costs no more than a program that ends at once"
        assert_trained(harvest.until_over()[job])
        harvest.drain()
        assert_nothing_is_left(harvest)
    started = sorted(path.name.split(".")[0] for path in seen.iterdir())
    assert started and set(started) == {"True"}, "every rank ran inside of the image"
    told = f"the main queue waited {taken:.2f} s for three nodes, {bare:.2f} s where `sleep` held them"
    print(f"\n{len(started)} ranks in containers; {told}")

"""Containers: the command line of a pilot in one, and of a trainer that is wrapped by Apptainer."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from apportion.live.channel.messages import STOPPED
from apportion.live.offers import Share
from tests.live.agents import Site
from tests.live.test_slurm_text import answers, calls, fake, made

__all__ = ["fake"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "trainers"
APPTAINER = """#!{python} -SE
import json, os, pathlib, sys
told = sys.argv[1:]
names = sorted(name for name in os.environ if name.startswith(("APPORTION", "CUDA")))
seen = pathlib.Path({here!r}, "apptainer." + os.environ["APPORTION_GENERATION"])
seen.write_text(json.dumps([told, names]))
image = next(index for index, word in enumerate(told) if word.endswith(".sif"))
os.execvp(told[image + 1], told[image + 1 :])
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made_ = Site(tmp_path)
    yield made_
    made_.close()


def test_a_pilot_is_started_in_a_container_of_slurm(fake: Path) -> None:
    answers(fake, "sbatch", "77\n")
    cluster = made(fake, options=("--container=/images/harvest", "--container-id=h"), gres="gpu")
    cluster.take("n3", "0a1b2c3d-5", "s3cret", Share(2, 700))
    (call,) = calls(fake)
    script = call.index(str(fake / "pilot.sh"))
    asked, started = call[:script], call[script + 1 : -1]
    assert asked == [
        *("sbatch", "--parsable", "--partition=harvest", "--nodes=1", "--ntasks=1"),
        *("--gres=gpu:1", "--cpus-per-task=2", "--mem=700M", "--no-requeue", "--nodelist=n3"),
        *("--job-name=apportion-0a1b2c3d-5", "--output=/dev/null", "--chdir=/", "--export=ALL"),
        *("--container=/images/harvest", "--container-id=h"),
    ]
    assert started[:3] == ["/usr/bin/python3", "-m", "apportion.live.agent.agent"], "the image's interpreter"


@pytest.mark.parametrize("gpu", ["", "3"])
def test_a_trainer_in_an_apptainer_image_trains_saves_and_goes_on(site: Site, gpu: str) -> None:
    (programs := site.folder / "bin").mkdir()
    (program := programs / "apptainer").write_text(
        APPTAINER.format(python=sys.executable, here=str(site.folder))
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}"} | (
        {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}
    )
    trainer = [sys.executable, str(EXAMPLES / "minimal.py")]
    command = [str(EXAMPLES / "apptainer.sh"), "/images/my train.sif", *trainer]
    site.start("a-1")
    site.run(["a-1"], command, samples=10**9, environment=environment)
    site.progress(1)
    site.stop(["a-1"])
    [ended] = site.exits(["a-1"])
    assert ended.code == STOPPED, "SIGTERM reached the trainer, which saved, and its exit code came back"
    told, names = json.loads((site.folder / "apptainer.1").read_text())
    binds = ["--bind", str(site.folder / "j1"), "--bind", str(site.folder), "--pwd", str(site.folder)]
    assert told == ["exec", *(["--nv"] if gpu else []), *binds, "/images/my train.sif", *trainer]
    assert {"APPORTION_CHECKPOINT", "APPORTION_REPORT", "APPORTION_RENDEZVOUS"} <= set(names)
    saved = json.loads((site.folder / "j1" / "samples-0000000001.json").read_text())
    site.run(["a-1"], command, generation=2, samples=saved + 1, environment=environment)
    [ended] = site.exits(["a-1"], generation=2)
    assert ended.code == 0
    assert ended.last is not None
    assert ended.last.samples == saved + 1, "it went on from its checkpoint"

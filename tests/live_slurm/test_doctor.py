"""``apportion doctor`` on a real Slurm: all is well, and every damage is found and told."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from paper_repro.malletrain.harvesting import SRC, Harvest
from paper_repro.malletrain.one_machine import OneMachineSlurm


def doctor(slurm: OneMachineSlurm, folder: Path, *options: str, path: str = "") -> tuple[int, dict[str, Any]]:
    program = [sys.executable, "-c", "from apportion.cli.main import main; main()", "doctor"]
    shared = [] if "--shared" in options else ["--shared", str(folder)]
    partition = [] if "--partition" in options else ["--partition", "harvest"]
    environment = {**slurm.environment(), "PYTHONPATH": str(SRC)}
    done = subprocess.run(
        [*program, "--json", "--state", str(folder / "state"), *partition, *shared, *options],
        env={**environment, "PATH": path or environment["PATH"]},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, 1, 5), done.stderr.decode()
    return done.returncode, json.loads(done.stdout)


def wrong(answer: dict[str, Any]) -> dict[str, str]:
    return {
        finding["check"]: f"{finding['told']} -> {finding['advice']}"
        for finding in answer["findings"]
        if finding["verdict"] == "mend"
    }


def test_a_cluster_that_is_well(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    code, answer = doctor(slurm, tmp_path)
    assert (code, answer["well"], wrong(answer)) == (0, True, {})
    asked = {finding["check"] for finding in answer["findings"] if finding["node"] == "n1"}
    assert asked == {"python", "package", "clock", "port", "shared folder"}
    checks = {finding["check"] for finding in answer["findings"]}
    assert checks >= {"commands", "encryption", "address", "partition", "preemption", "priority"}
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_a_running_controller_is_asked_itself(harvest: Harvest, slurm: OneMachineSlurm) -> None:
    harvest.start()
    slurm.wait_until(lambda: bool(harvest.events("began")), "the controller is up", 60.0)
    code, answer = doctor(slurm, harvest.folder)
    assert code == 0, wrong(answer)
    told = {finding["check"]: finding["told"] for finding in answer["findings"]}
    assert told["address"].startswith("a controller listens") and told["port"].endswith("is reached")
    harvest.drain()


def test_every_damage_on_the_nodes_is_found(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    _, none = doctor(slurm, tmp_path, "--python", "/no/such/python")
    assert "no /no/such/python to be run there" in wrong(none)["python"]
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    _, empty = doctor(slurm, tmp_path, "--python", str(bare))
    assert list(wrong(empty)) == ["package"] and "ModuleNotFoundError" in wrong(empty)["package"]
    _, nowhere = doctor(slurm, tmp_path, "--shared", str(tmp_path / "missing"))
    assert "no folder" in wrong(nowhere)["shared folder"]
    _, port = doctor(slurm, tmp_path, "--address", "203.0.113.7")
    assert "cannot listen" in wrong(port)["address"]


def test_clock_python_package_port_and_folder_as_a_node_tells_them(
    slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    """The node's interpreter is wrapped: it lies about the time, its version, links and the folder."""
    lies = {
        "clock": "import time; now = time.time; time.time = lambda: now() - 3600",
        "python": "import sys; sys.version_info = (3, 6, 8)",
        "link": "import os\ndef link(*_): raise OSError(95, 'Operation not supported')\nos.link = link",
        "write": "import os\ndef fsync(*_): raise OSError(30, 'Read-only file system')\nos.fsync = fsync",
        "port": "import socket\ndef refused(*_, **__): raise OSError('refused')\n"
        "socket.create_connection = refused",
        "package": "import apportion.core; apportion.core.__version__ = '0.0.9'",
        "read": "import builtins, io; builtins.open = lambda *_: io.StringIO('of another machine')",
    }
    found = {}
    for name, lie in lies.items():
        wrapper = tmp_path / name
        body = "import sys\nprogram = sys.argv[2]\nsys.argv[1:3] = []\n"
        script = tmp_path / f"{name}.py"
        script.write_text(f"{body}{lie}\nexec(compile(program, 'probe', 'exec'))\n")
        wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
        wrapper.chmod(0o755)
        code, answer = doctor(slurm, tmp_path, "--python", str(wrapper))
        assert code == 1
        found[name] = wrong(answer)
    assert list(found["clock"]) == ["clock"] and "NTP" in found["clock"]["clock"]
    assert list(found["python"]) == ["python"] and "3.6.8" in found["python"]["python"]
    assert "hard links" in found["link"]["shared folder"]
    assert "Read-only" in found["write"]["shared folder"] and "mounted" in found["write"]["shared folder"]
    assert list(found["port"]) == ["port"] and "firewall" in found["port"]["port"]
    assert list(found["package"]) == ["package"] and "same version" in found["package"]["package"]
    assert "another folder" in found["read"]["shared folder"]


def test_a_partition_that_does_not_make_room_is_found(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    _, unknown = doctor(slurm, tmp_path, "--partition", "nothing")
    assert "no partition 'nothing'" in wrong(unknown)["partition"]
    damages = (
        ("PreemptMode=OFF", "PreemptMode=CANCEL", "preemption mode"),
        ("PriorityTier=10", "PriorityTier=1", "priority"),
        ("State=DOWN", "State=UP", "partition state"),
    )
    for damage, cure, check in damages:
        slurm.run(["scontrol", "update", "PartitionName=harvest", damage])
        try:
            _, answer = doctor(slurm, tmp_path, "--nodes", "0")
        finally:
            slurm.run(["scontrol", "update", "PartitionName=harvest", cure])
        assert list(wrong(answer)) == [check], damage


def test_a_busy_cluster_is_not_called_well(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    sleeper = ["sbatch", "-p", "main", "-N", "8", "--chdir=/", "--output=/dev/null", "--wrap", "sleep 300"]
    slurm.run(sleeper)
    slurm.wait_until(lambda: "idle" not in slurm.node_states().values(), "all nodes are busy", 30.0)
    code, answer = doctor(slurm, tmp_path)
    assert code == 5 and not answer["well"] and wrong(answer) == {}


def test_without_slurmctld_openssl_or_commands(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    code, bare = doctor(slurm, tmp_path, path=str(tmp_path))
    assert code == 1 and {"commands", "encryption"} <= wrong(bare).keys()
    slurm.kill("slurmctld")
    code, away = doctor(slurm, tmp_path)
    assert code == 1 and "slurmctld must run" in wrong(away)["slurm"]


def test_a_folder_that_cannot_be_written(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    _, answer = doctor(slurm, tmp_path, "--shared", "/proc", "--nodes", "0")
    assert "not written here" in wrong(answer)["shared folder"]


def test_it_holds_no_node_afterwards(slurm: OneMachineSlurm, tmp_path: Path) -> None:
    doctor(slurm, tmp_path, "--nodes", "2")
    end = time.monotonic() + 30.0
    while slurm.run(["squeue", "-h"]).strip() and time.monotonic() < end:
        time.sleep(0.2)
    assert slurm.run(["squeue", "-h"]).strip() == ""

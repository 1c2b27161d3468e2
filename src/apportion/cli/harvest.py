"""``apportion harvest``: run malleable jobs on the idle nodes of a Slurm cluster."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apportion.cli.output import OutputClosed, check_target, say
from apportion.cluster.policies.names import POLICIES

if TYPE_CHECKING:
    from apportion.live.controller.controller import Controller, Stepped
    from apportion.live.controller.harvest import Settings

__all__ = ["PARTITION", "address_of", "command"]

PARTITION = "harvest"
"""The partition that the page on live clusters sets up."""
_LIVE = [name for name, named in POLICIES.items() if named.live]


@click.command("harvest")
@click.option(
    "--partition", default=PARTITION, show_default=True, help="Slurm's preemptible partition for pilots."
)
@click.option(
    "--state", "folder", metavar="DIR", help="State folder, on a local disk; default: the user's own."
)
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    metavar="HOST[:PORT]",
    help="Where agents report: an address of this machine that the nodes reach, and no other.",
)
@click.option("--policy", type=click.Choice(_LIVE), default="malletrain", show_default=True)
@click.option("--horizon", "horizon_s", type=float, default=120.0, show_default=True, help="T_fwd, seconds.")
@click.option(
    "--interval", "interval_s", type=float, default=2.0, show_default=True, help="Seconds between looks."
)
@click.option(
    "--gres", metavar="NAME[:TYPE]", help="Take GPUs one by one, not whole nodes: the resource, such as gpu."
)
@click.option(
    "--types",
    default="",
    metavar="NAME[=ONE+...],...",
    help="Features of nodes that are types which jobs tell apart; ONE+ANOTHER, also of GPUs, count as one.",
)
@click.option("--max-nodes", type=int, help="Most nodes held at a time; with --gres, most GPUs.")
@click.option("--trainers", type=int, default=10, show_default=True, help="Most jobs at a time.")
@click.option(
    "--grace", "grace_s", type=float, default=30.0, show_default=True, help="Seconds to save a checkpoint."
)
@click.option(
    "--hang",
    "hang_s",
    type=float,
    default=600.0,
    show_default=True,
    help="Seconds without progress; 0: never.",
)
@click.option(
    "--lease",
    "lease_s",
    type=float,
    default=120.0,
    show_default=True,
    help="Seconds that agents left alone go on.",
)
@click.option(
    "--linger",
    "linger_s",
    type=float,
    default=10.0,
    show_default=True,
    help="Seconds that unused nodes are kept.",
)
@click.option(
    "--warm-up", "warm_up_s", type=float, default=5.0, show_default=True, help="Seconds not measured."
)
@click.option(
    "--measure",
    "measure_s",
    type=float,
    default=20.0,
    show_default=True,
    help="Seconds that one rate is measured.",
)
@click.option("--python", default=sys.executable, help="The interpreter on the nodes; default: this one.")
@click.option("--sbatch", "options", multiple=True, metavar="--NAME=VALUE", help="For pilots; repeatable.")
@click.option(
    "--slurm-output", "output", type=click.Choice(["auto", "json", "text"]), default="auto", show_default=True
)
@click.option("--journal-mb", type=click.IntRange(1), default=16, show_default=True, help="MiB of one file.")
@click.option("--journal-files", type=click.IntRange(2), default=8, show_default=True, help="Files kept.")
@click.option(
    "--metrics",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.prom",
    help="For Prometheus: a text file that the node exporter's collector reads.",
)
@click.option("--dry-run", is_flag=True, help="Decide and explain once; take, start and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="JSON Lines even on a terminal.")
def command(dry_run: bool, as_json: bool, **given: Any) -> int:
    """Hold idle nodes by pilot jobs and run the queue on them, until drained; ctrl-C drains.

    A live view on a terminal, JSON Lines otherwise. Exit code 6 if another controller uses the state folder,
    7 where Slurm's commands are missing or Slurm does not answer.
    """
    from apportion.live.controller.harvest import harvest

    if given["metrics"] is not None:
        if find_spec("prometheus_client") is None:
            raise click.UsageError("--metrics needs a package: pip install prometheus-client")
        check_target(str(given["metrics"]))
    settings = _settings(given)
    if dry_run:
        return _rehearsed(settings, as_json)
    if as_json or not sys.stdout.isatty():
        harvest(settings, on_step=_JsonLines())
        return 0
    from apportion.live.controller.monitoring import LiveView

    with LiveView() as view:
        harvest(settings, on_step=view)
    return 0


class _JsonLines:
    """Writes every event, and trouble whenever it changes."""

    def __init__(self) -> None:
        self._trouble: str | None = None

    def __call__(self, controller: Controller, stepped: Stepped) -> None:
        import time

        import msgspec

        events = list(stepped.events)
        if stepped.trouble != self._trouble:
            self._trouble = stepped.trouble
            said = "over" if stepped.trouble is None else stepped.trouble
            events.append({"time_s": round(time.time(), 3), "event": "trouble", "message": said})
        for event in events:
            try:
                say(msgspec.json.encode(event).decode())
            except OutputClosed:
                return  # whoever read the journal is gone: that is no reason to leave the nodes


def _settings(given: dict[str, Any]) -> Settings:
    from apportion.live.controller.core import Limits
    from apportion.live.controller.harvest import Settings
    from apportion.live.record.store import default_folder

    host, port = address_of(given.pop("address"))
    limits = {key: given.pop(key) for key in [*given] if key in Limits.__dataclass_fields__}
    folder = Path(given.pop("folder") or default_folder())
    given["types"] = tuple(filter(None, given.pop("types").split(",")))
    return Settings(folder=folder, host=host, port=port, limits=Limits(**limits), **given)


def address_of(text: str) -> tuple[str, int | None]:
    """Return the host of an option ``HOST[:PORT]``, and the port if there is one."""
    host, colon, port = text.rpartition(":")
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1], None
    if not colon or (":" in host and not host.startswith("[")):
        return text, None
    if not re.fullmatch(r"\d{1,5}", port) or not 1 <= int(port) <= 65535:
        raise click.UsageError(f"--address takes HOST or HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _rehearsed(settings: Settings, as_json: bool) -> int:
    import msgspec

    from apportion.live.controller.harvest import rehearse

    decision = rehearse(settings)
    planned = decision.explain()
    free = [node for node, pilot in zip(decision.nodes, decision.pilots, strict=True) if pilot is None]
    if as_json or not sys.stdout.isatty():
        say(msgspec.json.encode({"event": "dry_run", "idle": free, "jobs": planned}).decode())
        return 0
    say(f"{len(free)} idle nodes; nothing is taken, this only tells what would be done")
    for job in planned:
        nodes = " ".join(map(str, job["nodes"]))  # type: ignore[call-overload]
        say(f"{job['job']}: {job['held']} -> {job['gets']} nodes ({job['why']}) {nodes}".rstrip())
    return 0

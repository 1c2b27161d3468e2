"""``apportion what-if``: the plan before and after a change, who wins and who loses."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable
from typing import Any

import click

from apportion.cli.output import quiet_stdout, say
from apportion.cli.source import BACKEND, Source, json_of, takes_instance

__all__ = ["command"]


@click.command("what-if")
@takes_instance("INSTANCE|-")
@click.option("--add-job", "new_jobs", multiple=True, metavar="FILE", help="A job of that kind as JSON.")
@click.option("--remove-job", "old_jobs", multiple=True, metavar="ID")
@click.option(
    "--remove-node",
    "old_nodes",
    multiple=True,
    metavar="NODE",
    help="An idle node that leaves, or a machine.",
)
@click.option(
    "--capacity",
    "changes",
    multiple=True,
    metavar="POOL=+N",
    help="N units more, or fewer: POOL=-N. Pools are idle_nodes of gap filling, a matching's pools (also "
    "POOL.count, POOL.capacity), the GPU types of freezing and frozen_penalty.",
)
@click.option(
    "--budget", "budgets", multiple=True, metavar="JOB=+S", help="More or less accuracy budget (freezing)."
)
@click.option(
    "--pin", "pins", multiple=True, metavar="JOB=OPTION", help="An option id, a node count, a pool."
)
@click.option(
    "--tenant",
    "tenants",
    multiple=True,
    metavar="TENANT.FIELD=VALUE",
    help="A tenant's weight, priority, CAPACITY.guarantee, CAPACITY.borrowing_limit or "
    "CAPACITY.lending_limit; VALUE may be none for no limit.",
)
@click.option("--add-tenant", "new_tenants", multiple=True, metavar="FILE", help="A tenant as JSON.")
@click.option("--unpin", multiple=True, metavar="JOB", help="Lift the pin of a job.")
@click.option(
    "--delta",
    "deltas",
    multiple=True,
    metavar="JSON",
    help="A message that changes a session, as apportion serve takes it, instead of the options above.",
)
@click.option(
    "--backend",
    type=BACKEND,
    default="auto",
    show_default=True,
    help="For both solves, as in solve-instance.",
)
@click.option(
    "--time-limit", type=float, default=20.0, show_default=True, metavar="S", help="Seconds for both solves."
)
@click.option("--json", "as_json", is_flag=True, help="One object, nothing else.")
def command(
    source: Source,
    new_jobs: tuple[str, ...],
    old_jobs: tuple[str, ...],
    old_nodes: tuple[str, ...],
    changes: tuple[str, ...],
    budgets: tuple[str, ...],
    pins: tuple[str, ...],
    tenants: tuple[str, ...],
    new_tenants: tuple[str, ...],
    unpin: tuple[str, ...],
    deltas: tuple[str, ...],
    backend: str,
    time_limit: float,
    as_json: bool,
) -> int:
    """Solve INSTANCE as it is and changed, and compare the two plans. Every option may stand several times.

    Exit codes: 0 there is a plan after the change, 2 usage, 3 invalid instance or something named does not
    exist, 4 infeasible after the change, 5 no plan within the limit, 7 backend unavailable.
    """
    from apportion.cli.running import Progress
    from apportion.explanation import what_if
    from apportion.solving import registry

    if (source.path == "-" and "-" in new_jobs) or new_jobs.count("-") > 1:
        raise click.UsageError("only one file can be standard input")
    with quiet_stdout():
        instance: Any = source.instance()
    asked = (new_jobs, old_jobs, old_nodes, changes, budgets, pins, unpin, tenants, new_tenants)
    named = any(asked)
    if named and deltas:
        raise click.UsageError("--delta goes without the other changes: say them as messages too")
    if not named and not deltas and not as_json:
        if backend != "auto":
            registry.backend(backend)  # a name that does not exist is said all the same
        say("no change")
        return 0
    with quiet_stdout():
        ids = {job.id for job in instance.jobs}
        added = [_job(instance, file) for file in new_jobs]
        with Progress(not as_json, f"solving before and after, at most {time_limit:g} s"):
            comparison = (
                _by_deltas(instance, deltas, backend, time_limit)
                if deltas
                else what_if(
                    instance,
                    add_jobs=added,
                    remove_jobs=old_jobs,
                    remove_nodes=old_nodes,
                    capacity=_changes(changes),
                    pin=_pins(pins, ids | {job.id for job in added}),
                    unpin=unpin,
                    budget=_budgets(budgets),
                    tenant=_tenants(tenants, instance),
                    add_tenants=[_tenant(file) for file in new_tenants],
                    backend=backend,
                    time_limit=time_limit,
                )
            )
    say(json.dumps(comparison.to_dict(), allow_nan=False) if as_json else str(comparison))
    if comparison.objective_after is not None:
        return 0
    if comparison.termination_after == "infeasible":
        return 4
    return 1 if comparison.termination_after in ("error", "numerical_error") else 5


def _changes(texts: Iterable[str]) -> dict[str, int]:
    total: dict[str, int] = {}
    for pool, amount in map(_change, texts):
        total[pool] = total.get(pool, 0) + amount
    return total


def _budgets(texts: Iterable[str]) -> dict[str, float]:
    total: dict[str, float] = {}
    for text in texts:
        job, equals, amount = text.rpartition("=")
        try:
            delta = float(amount)
        except ValueError:
            delta = math.nan
        if not equals or not job or amount[:1] not in ("+", "-") or not math.isfinite(delta):
            raise click.UsageError(f"--budget takes JOB=+S or JOB=-S, not {text!r}")
        total[job] = total.get(job, 0.0) + delta
    return total


def _tenants(texts: Iterable[str], instance: Any) -> dict[str, dict[str, float | int | None]]:
    listed = getattr(instance, "tenants", ())
    known = [tenant.id for tenant in listed] if isinstance(listed, tuple) else []
    found: dict[str, dict[str, float | int | None]] = {}
    for text in texts:
        where, equals, text = text.rpartition("=")
        name = next((one for one in sorted(known, key=len)[::-1] if where.startswith(f"{one}.")), None)
        if name is None:
            name = where.partition(".")[0]
        try:
            value = None if text == "none" else int(text) if text.lstrip("-").isdecimal() else float(text)
        except ValueError:
            equals = ""
        if not equals or not where[len(name) + 1 :]:
            raise click.UsageError(f"--tenant takes TENANT.FIELD=VALUE, not {text!r}")
        found.setdefault(name, {})[where[len(name) + 1 :]] = value
    return found


def _tenant(path: str) -> Any:
    import msgspec

    from apportion.core.errors import InvalidInstance
    from apportion.instances.tenants.schema import Tenant

    try:
        return msgspec.convert(json_of(path, "tenant"), Tenant)
    except msgspec.ValidationError as error:
        raise InvalidInstance.at("$", f"{path}: {error}") from None


def _pins(texts: Iterable[str], ids: Collection[str]) -> dict[str, str]:
    pinned: dict[str, str] = {}
    for job, option in (_pin(text, ids) for text in texts):
        if pinned.setdefault(job, option) != option:
            raise click.UsageError(f"job {job!r} is pinned to {pinned[job]!r} and to {option!r}")
    return pinned


def _change(text: str) -> tuple[str, int]:
    pool, equals, amount = text.rpartition("=")
    if not equals or not pool or not re.fullmatch(r"[+-]\d{1,19}", amount):
        raise click.UsageError(f"--capacity takes POOL=+N or POOL=-N, not {text!r}")
    return pool, int(amount)


def _pin(text: str, ids: Collection[str]) -> tuple[str, str]:
    """Split ``JOB=OPTION`` behind a job that exists; ids and options may hold ``=`` themselves."""
    cuts = [at for at, char in enumerate(text) if char == "="]
    if not cuts:
        raise click.UsageError(f"--pin takes JOB=OPTION, not {text!r}")
    at = next((at for at in cuts if text[:at] in ids), cuts[0])
    return text[:at], text[at + 1 :]


def _job(instance: Any, path: str) -> Any:
    from apportion.explanation.what_if import job_from

    return job_from(instance, json_of(path, "job"), "-" if path == "-" else path)


def _by_deltas(instance: Any, deltas: Iterable[str], backend: str, time_limit: float) -> Any:
    from apportion.core.errors import InvalidInstance
    from apportion.io.text import parse
    from apportion.service.session import what_if

    messages, problems = parse(f"[{','.join(deltas)}]".encode())
    if problems:
        raise InvalidInstance(problems)
    return what_if(instance, messages, backend=backend, time_limit=time_limit)

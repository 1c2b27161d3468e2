"""Licences in the table of kinds: how they are edited, ordered and spoken of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from apportion.core.errors import InvalidInstance
from apportion.instances.kind import Edits, ProblemType, Wording
from apportion.instances.options import Option, OptionSet
from tests.instances.licences import meaning
from tests.instances.licences.schema import LicenceInstance, LicenceJob

__all__ = ["LICENCES"]


def _in_id_order(instance: LicenceInstance) -> LicenceInstance:
    return replace(instance, jobs=tuple(sorted(instance.jobs, key=lambda job: job.id)))


def _capacities(instance: LicenceInstance) -> dict[str, int]:
    return {"licences": instance.licences}


def _change_capacity(instance: LicenceInstance, _: str, present: int, delta: int) -> LicenceInstance:
    return replace(instance, licences=present + delta)


def _pin(instance: LicenceInstance, choices: Mapping[str, int | str]) -> LicenceInstance:
    wrong = [job for job, wanted in choices.items() if wanted != "run"]
    if wrong:
        raise InvalidInstance.at("$.jobs", f"job {wrong[0]!r} can only be pinned to 'run'")
    return replace(
        instance,
        jobs=tuple(replace(job, held="run") if job.id in choices else job for job in instance.jobs),
    )


def _options(instance: LicenceInstance, job: LicenceJob) -> Iterator[Option]:
    yield Option(str(job.needs), {"licences": job.needs}, job.worth, job.worth)
    if job.held is None:
        yield Option(None, {}, 0.0, 0.0, idle=True)


def _taken(_: LicenceInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    return {job: str(number) for job, number in plan["licensed"].items()}


def _plan(instance: LicenceInstance, taken: Mapping[str, str]) -> dict[str, Any]:
    return {"licensed": {job: int(number) for job, number in taken.items()}}


LICENCES = ProblemType(
    "licences",
    LicenceInstance,
    lambda _: True,
    meaning.check,
    meaning.exact_objective,
    meaning.exact_bound,
    in_id_order=_in_id_order,
    edits=Edits(LicenceJob, _capacities, _change_capacity, _pin, pin_field="held"),
    option_set=OptionSet(_options, _taken, _plan),
    wording=Wording(units={"objective": " points"}, option=lambda name: f"{name} of the licences"),
    schemas="tests.instances.licences",
)

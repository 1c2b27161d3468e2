"""Licences in the table of kinds: how they are edited, ordered and spoken of."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from apportion.core.errors import InvalidInstance
from apportion.instances.kind import Edits, Kind, Wording
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


LICENCES = Kind(
    "licences",
    LicenceInstance,
    lambda _: True,
    meaning.check,
    meaning.exact_objective,
    meaning.exact_bound,
    in_id_order=_in_id_order,
    edits=Edits(LicenceJob, _capacities, _change_capacity, _pin, pin_field="held"),
    wording=Wording(units={"objective": " points"}, option=lambda name: f"{name} of the licences"),
    schemas="tests.instances.licences",
)

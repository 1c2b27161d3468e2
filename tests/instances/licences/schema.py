"""Jobs that each need some of the licences there are."""

from __future__ import annotations

from typing import Literal

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.fields import (
    Amount,
    Count,
    Name,
    check_amount,
    check_count,
    check_distinct,
    check_header,
    make_plain,
    settle_numbers,
)
from apportion.instances.tenants.rules import check_tenants, settle_tenants
from apportion.instances.tenants.schema import Tenanted, TenantedJob

__all__ = ["LicenceInstance", "LicenceJob"]


class LicenceJob(TenantedJob, frozen=True, forbid_unknown_fields=True):
    """A job.

    Attributes
    ----------
    id
        Its name.
    needs
        Licences it needs to run.
    worth
        What running it is worth.
    held
        Whether it must run.
    """

    id: Name
    needs: Count
    worth: Amount
    held: Literal["run"] | None = None


class LicenceInstance(Tenanted, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="licences"):
    """Jobs that share licences.

    Attributes
    ----------
    schema_version
        ``"1"``.
    licences
        How many there are.
    jobs
        The jobs.
    name
        A name for reports.
    """

    schema_version: Literal["1"]
    licences: Count
    jobs: tuple[LicenceJob, ...]
    name: str = ""

    def __post_init__(self) -> None:
        make_plain(self)
        problems: list[Problem] = []
        check_header(self, problems)
        check_count("$.licences", self.licences, problems)
        for index, job in enumerate(self.jobs):
            check_count(f"$.jobs[{index}].needs", job.needs, problems)
            check_amount(f"$.jobs[{index}].worth", job.worth, problems)
        check_distinct("$.jobs", (job.id for job in self.jobs), "job id", problems)
        check_tenants(self, {"licences": self.licences}, problems)
        if problems:
            raise InvalidInstance(problems)
        settle_tenants(self)
        for job in self.jobs:
            settle_numbers(job, ("worth",))

"""Jobs that each need some of the licences there are."""

from __future__ import annotations

from typing import Literal

from apportion.instances.fields import Amount, Count, Name, check_distinct, refuse
from apportion.instances.tenants.rules import check_tenants
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
        refuse(
            self,
            [
                lambda problems: check_distinct("$.jobs", [job.id for job in self.jobs], "job id", problems),
                lambda problems: check_tenants(self, {"licences": self.licences}, problems),
            ],
        )

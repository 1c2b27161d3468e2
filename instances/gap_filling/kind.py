"""Gap filling in the table of kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from apportion.instances.gap_filling import meaning
from apportion.instances.gap_filling.edits import EDITS
from apportion.instances.gap_filling.offering import OFFERING
from apportion.instances.gap_filling.schema import GapFillingInstance, GapFillingJob
from apportion.instances.kind import Kind, Wording

__all__ = ["GAP_FILLING"]


def _in_id_order(instance: GapFillingInstance) -> GapFillingInstance:
    """Sort the jobs; the order of nodes and of current nodes is the site's own, and means something."""
    return replace(instance, jobs=tuple(sorted(instance.jobs, key=lambda job: job.id)))


def _menu(job: GapFillingJob) -> Iterator[dict[str, Any]]:
    points = zip(job.scaling.nodes, job.scaling.rate, strict=True)
    return ({"nodes": nodes, "rate": rate} for nodes, rate in points if nodes)


GAP_FILLING = Kind(
    "gap_filling",
    GapFillingInstance,
    lambda _: True,
    meaning.check,
    meaning.exact_objective,
    meaning.exact_bound,
    in_id_order=_in_id_order,
    edits=EDITS,
    offering=OFFERING,
    menu=_menu,
    menu_field="scaling",
    wording=Wording(units={"objective": " samples"}, counts_nodes=True),
)

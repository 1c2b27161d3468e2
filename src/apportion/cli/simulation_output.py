"""What `apportion simulate` prints and writes: tables, the page, the picture, one JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apportion.simulation.cluster.cluster_page import Simulated
    from apportion.simulation.cluster.fairness_account import FairnessAccount
    from apportion.simulation.cluster.rounds import ClusterRun

__all__ = ["answer", "drawn", "jobs_table", "page", "picture", "shown", "tenants_table"]


def answer(given: dict[str, Any], one: Simulated, unfrozen: Mapping[str, int]) -> dict[str, Any]:
    """Return the object of one policy."""
    import msgspec

    answer: dict[str, Any] = msgspec.to_builtins(one.summary)
    answer |= {"fairness": msgspec.to_builtins(one.fairness)}
    return answer | {"cannot_freeze": unfrozen, "seed": given["seed"], "versions": _versions()}


def jobs_table(done: list[Simulated], names: Sequence[str]) -> bytes:
    """Return one line per policy and job, in the order of the workload; empty where a job never completed."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            "policy",
            "job",
            "submitted_s",
            "completed_s",
            "gpu_hours",
            "hours_with_gpus",
            "frozen_fraction",
            "restarts",
        ]
    )
    for one in done:
        run = one.run
        for job in range(run.submitted_s.size):
            held, ended = float(run.attained_s[job]), float(run.completed_s[job])
            frozen = float(run.frozen_s[job]) / held if held else 0.0
            figures = (float(run.attained_gpu_s[job]) / 3600, held / 3600, frozen)
            writer.writerow(
                [
                    one.summary.policy,
                    names[job],
                    f"{run.submitted_s[job]:.10g}",
                    "" if ended != ended else f"{ended:.10g}",
                    *(f"{figure:.6g}" for figure in figures),
                    max(int(run.restarts[job]) - 1, 0),
                ]
            )
    return text.getvalue().encode()


def page(given: dict[str, Any], done: list[Simulated]) -> bytes:
    """Return the page of all policies."""
    from apportion.simulation.cluster.cluster_page import cluster_page

    cluster = given["machines"] or f"{given['nodes']} nodes of {given['gpus_per_node']} GPUs"
    made = ", ".join(f"{name} {version}" for name, version in _versions().items())
    return cluster_page(done, cluster, f"{made}; seed {given['seed']}").encode()


def drawn(policy: str, account: FairnessAccount, run: ClusterRun) -> str:
    """Return how the cluster was shared over time, as SVG."""
    from apportion.plotting.fairness_svg import FairnessPicture, fairness_svg

    course = account.course()
    picture = FairnessPicture(
        f"How {policy} shared the cluster",
        account.tenants,
        course.end_s,
        course.held,
        course.due,
        course.jain,
        run.completed_s,
        account.ratios(run.submitted_s, run.completed_s),
        account.tenant,
    )
    return fairness_svg(picture)


def picture(file_name: str, one: Simulated) -> bytes:
    """Return the drawing of one policy in the format that the name of its file says."""
    from apportion.plotting import encoded, on_page

    assert one.drawing is not None
    return encoded(on_page(one.drawing, file_name, f"How {one.summary.policy} shared the cluster"), file_name)


def tenants_table(tenants: list[dict[str, Any]]) -> str:
    """Return a line for every tenant below a line of headings."""
    names = [*tenants[0]]
    width = max(len("tenant"), *(len(str(one["tenant"])) for one in tenants))
    rows = ["  ".join([f"{'tenant':{width}}", *names[1:]])]
    for one in tenants:
        cells = [f"{shown(one[name]):>{len(name)}}" for name in names[1:]]
        rows.append("  ".join([f"{one['tenant']:{width}}", *cells]))
    return "\n" + "\n".join(rows)


def shown(value: Any) -> str:
    """Return a figure as people read it."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import version

    versions = {name: version(name) for name in ("apportion", "numpy", "scipy")}
    return {**versions, "python": platform.python_version()}

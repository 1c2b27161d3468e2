"""Small applications and clusters of our own for the tests of the cluster simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from apportion.cluster.estimation.training import Application, StepTimes
from apportion.cluster.estimation.training.freezing_profile import FreezingProfile
from apportion.cluster.policies.rounds.cluster_view import Nodes
from apportion.cluster.simulation.rounds.scenario import Scenario, TrainingJob

LOCAL = (8, 16, 32, 64)


def step_times(speed: float = 1.0, most: int = 16, per_node: int = 4) -> StepTimes:
    """Step times by a law of our own, measured on filled nodes and between them."""
    measured, rows = {}, []
    for gpus in range(1, most + 1):
        full, rest = divmod(gpus, per_node)
        placement = ((rest,) if rest else ()) + (per_node,) * full
        for nodes in range(len(placement), gpus + 1):
            table = []
            for local in LOCAL:
                sync = 0.0 if gpus == 1 else 0.01 * (1 - 1 / gpus) * (1 + 0.5 * nodes)
                table.append((float(local), (0.02 + 0.001 * local) / speed + sync, sync))
            if nodes == len(placement):
                measured[placement] = np.array(table)
            else:
                rows += [(nodes, gpus, *row) for row in table]
    return StepTimes(measured, np.array(rows, dtype=np.float64))


def application(
    name: str = "net", epochs: int = 4, noise: float = 2.0, speeds: Mapping[str, float] | None = None
) -> Application:
    """A network of `epochs` epochs of 500 initial steps each."""
    batches = np.array([32, 64, 128, 256])
    shape = (batches.size, epochs)
    progress = np.arange(epochs + 1) * 500.0
    return Application(
        name=name,
        epochs=epochs,
        batches=batches,
        progress=progress,
        iteration=np.outer(32 / batches, progress[1:]),
        grad_sqr=np.ones(shape),
        grad_var=np.full(shape, noise) * np.linspace(1.0, 4.0, epochs),
        step_times={kind: step_times(speed) for kind, speed in (speeds or {"gpu": 1.0}).items()},
        min_local=LOCAL[0],
        max_local=LOCAL[-1],
    )


def scenario(
    jobs: Sequence[tuple[float, str, int, int]],
    nodes: Nodes,
    profiles: Mapping[str, Application] | None = None,
) -> Scenario:
    """Jobs as (submitted, application, GPUs, batch) on machines."""
    made = [
        TrainingJob(f"job-{index}", submitted, name, gpus, batch)
        for index, (submitted, name, gpus, batch) in enumerate(jobs)
    ]
    return Scenario.of(made, profiles or {"net": application(), "bert": application("bert", 2, 6.0)}, nodes)


def _frozen(*retained: str) -> FreezingProfile:
    """A network two thirds of whose work go backward; on four GPUs a tenth of a step does not shrink."""
    share = np.arange(10) / 10
    return FreezingProfile(
        gpus=np.array([1, 4]),
        relative=np.array([1 - share * 2 / 3, 1 - share * 0.6]),
        deepest=9,
        phases=np.linspace(0.25, 0.75, len(retained)) if len(retained) > 1 else np.array([0.5]),
        retained=np.array([[1.0, *map(float, row.split())] for row in retained]),
    )


FREEZING = {
    "bert": _frozen(".985 .97 .955 .94 .925 .91 .895 .88 .865"),
    "imagenet": _frozen(".93 .93 .89 .83 .73 .65 .60 .51 .32", ".92 .92 .89 .85 .74 .68 .66 .59 .35"),
    "cifar10": _frozen(
        ".84 .76 .69 .61 .53 .42 .33 .32 .29",
        ".87 .81 .76 .68 .62 .49 .36 .34 .27",
        ".99 .96 .90 .80 .67 .49 .38 .35 .34",
    ),
}
"""Profiles of networks that can be frozen; one that is called net is not among them."""

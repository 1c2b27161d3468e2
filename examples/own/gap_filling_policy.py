"""A gap-filling policy of one's own, proportional fairness: ``python examples/own/gap_filling_policy.py``."""

from __future__ import annotations

import numpy as np

import apportion
from apportion.cluster.policies import GapFillingView, Plan
from apportion.cluster.policies.completion import complete


class ProportionalFair:
    """Maximise ``sum_j log(1 + rate_j(n_j) / rate_j(min_j))``: nodes go where they help most in proportion.

    Parameters
    ----------
    stay
        Added to the option a job has now, so that nobody is rescaled for next to nothing.
    """

    def __init__(self, stay: float = 0.05) -> None:
        self.stay = stay

    def __call__(self, view: GapFillingView) -> Plan:
        """Return the fair plan of this instant."""
        held = view.held()
        if not view.num_jobs or not view.nodes.size:
            return Plan(view.holder)
        counts = np.arange(view.rates.shape[1])
        low, high = view.min_nodes[:, None], np.minimum(view.max_nodes, view.nodes.size)[:, None]
        allowed = (counts == 0) | ((counts >= low) & (counts <= high))  # bool [jobs, counts]
        alone = np.take_along_axis(view.rates, low, axis=1)
        worth = np.log1p(view.rates / np.where(alone > 0, alone, 1.0)) + self.stay * (counts == held[:, None])
        job, count = np.nonzero(allowed)
        model = apportion.MultipleChoiceKnapsack.from_arrays(
            values=worth[job, count],
            uses=count,
            offsets=np.concatenate(([0], np.cumsum(allowed.sum(axis=1)))),
            capacities=[view.nodes.size],
        )
        return complete(view, count[apportion.solve(model).require()], held)


def main() -> None:
    """Compare it with FreeTrain and equal shares on two days of 128 generated nodes."""
    from apportion.cluster.policies import EqualShare, FreeTrain, Policy
    from apportion.cluster.simulation import (
        Replay,
        generated_jobs,
        generated_trace,
        node_changes,
        summarise,
        workload,
    )
    from apportion.instances.gap_filling.schema import PUBLISHED_CURVES

    changes = node_changes(generated_trace(seed=5, nodes=128, days=2.0))
    jobs = workload(generated_jobs(seed=5, count=70), PUBLISHED_CURVES, endless=True)
    policies: dict[str, Policy] = {
        "freetrain": FreeTrain(),
        "equal share": EqualShare(),
        "proportional": ProportionalFair(),
    }
    for name, policy in policies.items():
        replay = Replay(changes, jobs, policy, trainers=8)
        replay.run()
        told = summarise(replay, name)
        print(f"{name:14}{told.output:.3e} samples  {told.jobs_done:3} jobs done  {told.rescales:5} rescales")


if __name__ == "__main__":
    main()

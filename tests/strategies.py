"""Every hypothesis strategy of the test suite."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from msgspec import UNSET

from apportion.cluster.policies.rounds.quota_tree import Pair, Quota, QuotaTree, TreeNode
from apportion.instances import (
    FreezingConfiguration,
    FreezingInstance,
    FreezingJob,
    FreezingRow,
    GapFillingInstance,
    GapFillingJob,
    KnapsackJob,
    KnapsackOption,
    MatchingEntry,
    MatchingInstance,
    MatchingJob,
    MatchingMachine,
    MultipleChoiceKnapsackInstance,
    ScalingCurve,
)
from apportion.models import MultipleChoiceKnapsack

VALUES = st.one_of(
    st.integers(-20, 60).map(float),
    st.floats(-1e3, 1e4, allow_nan=False).map(lambda value: round(value, 3)),
)


@st.composite
def knapsacks(
    draw: st.DrawFn,
    max_jobs: int = 5,
    max_options: int = 5,
    max_capacities: int = 3,
    min_capacities: int = 1,
    max_use: int = 12,
) -> MultipleChoiceKnapsack:
    """Small ragged knapsacks: ties, useless options, zero uses, tight and loose capacities, either sense."""
    num_capacities = draw(st.integers(min_capacities, max_capacities))
    sizes = draw(st.lists(st.integers(0, max_options), min_size=0, max_size=max_jobs))
    total = sum(sizes)
    values = draw(st.lists(VALUES, min_size=total, max_size=total))
    uses = draw(
        st.lists(
            st.lists(st.integers(0, max_use), min_size=num_capacities, max_size=num_capacities),
            min_size=total,
            max_size=total,
        )
    )
    return MultipleChoiceKnapsack.from_arrays(
        values=np.array(values, dtype=np.float64),
        uses=np.array(uses, dtype=np.int64).reshape(total, num_capacities),
        offsets=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        capacities=np.array(
            draw(
                st.lists(
                    st.integers(0, max_use * max(1, len(sizes))),
                    min_size=num_capacities,
                    max_size=num_capacities,
                )
            ),
            dtype=np.int64,
        ),
        required=np.array(
            draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes))), dtype=np.bool_
        ),
        sense=draw(st.sampled_from(["maximize", "minimize"])),
    )


@st.composite
def knapsack_instances(draw: st.DrawFn, max_jobs: int = 4) -> MultipleChoiceKnapsackInstance:
    """Small multiple-choice knapsack instances with names, pins and forbidden options."""
    capacities = {f"pool{k}": draw(st.integers(0, 20)) for k in range(draw(st.integers(1, 3)))}
    jobs = []
    for index in range(draw(st.integers(0, max_jobs))):
        options = tuple(
            KnapsackOption(
                id=f"o{i}",
                value=draw(VALUES),
                uses={name: draw(st.integers(0, 9)) for name in capacities if draw(st.booleans())},
            )
            for i in range(draw(st.integers(0, 4)))
        )
        names = [option.id for option in options]
        jobs.append(
            KnapsackJob(
                id=f"j{index}",
                options=options,
                required=draw(st.booleans()) if names else False,
                current=draw(st.none() | st.sampled_from(names)) if names else None,
                pinned=draw(st.none() | st.none() | st.sampled_from(names)) if names else None,
                forbidden=tuple(draw(st.lists(st.sampled_from(names), max_size=1))) if names else (),
            )
        )
    return MultipleChoiceKnapsackInstance(
        schema_version="1",
        sense=draw(st.sampled_from(["maximize", "minimize"])),
        capacities=capacities,
        jobs=tuple(jobs),
        name="drawn",
    )


@st.composite
def curves(draw: st.DrawFn, reach: int) -> ScalingCurve:
    """Throughput curves from 0 nodes to at least `reach`; not always concave, not always rising."""
    inner = draw(st.lists(st.integers(1, reach), max_size=4, unique=True))
    nodes = sorted({0, *inner, reach + draw(st.integers(0, 3))})
    rates = [0.0] + [draw(st.integers(0, 400)) / 4 for _ in nodes[1:]]
    return ScalingCurve(nodes=tuple(nodes), rate=tuple(rates))


@st.composite
def gap_filling_instances(
    draw: st.DrawFn, max_jobs: int = 4, max_nodes: int = 8, pins: bool = False
) -> GapFillingInstance:
    """Small gap-filling instances with nodes held, lost below the minimum, and free."""
    nodes = [f"n{i}" for i in range(draw(st.integers(0, max_nodes)))]
    free = list(draw(st.permutations(nodes)))
    jobs = []
    for index in range(draw(st.integers(0, max_jobs))):
        low = draw(st.integers(1, 3))
        high = draw(st.integers(low, max_nodes + 2))
        held = [free.pop() for _ in range(draw(st.integers(0, min(len(free), high))))]
        extra: dict[str, Any] = {}
        if pins and draw(st.booleans()):
            extra["pinned_count"] = draw(st.sampled_from([0, *range(low, high + 1)]))
        if pins and draw(st.booleans()):
            extra["forbidden_counts"] = tuple(draw(st.lists(st.integers(1, high), max_size=3)))
        if pins and draw(st.integers(0, 3)) == 0:
            extra["allowed_counts"] = tuple(draw(st.lists(st.integers(low, high), min_size=1, max_size=3)))
        jobs.append(
            GapFillingJob(
                id=f"j{index}",
                min_nodes=low,
                max_nodes=high,
                scaling=draw(curves(high)),
                rescale_up_s=float(draw(st.integers(0, 40))),
                rescale_down_s=float(draw(st.integers(0, 40))),
                current_nodes=tuple(held),
                weight=draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
                **extra,
            )
        )
    return GapFillingInstance(
        schema_version="1",
        horizon_s=draw(st.sampled_from([1.0, 10.0, 120.0])),
        nodes=tuple(nodes),
        jobs=tuple(jobs),
        name="drawn",
    )


@st.composite
def matchings(
    draw: st.DrawFn, max_jobs: int = 4, objectives: tuple[str, ...] = ("makespan", "cost", "value")
) -> MatchingInstance:
    """Small matchings with pools, gangs, forbidden pairs, capacities and optional jobs."""
    objective = draw(st.sampled_from(objectives))
    timed = objective == "makespan"
    machines = tuple(
        MatchingMachine(
            id=f"m{i}",
            count=draw(st.integers(1, 3)),
            capacity=None if timed else draw(st.none() | st.integers(0, 6)),
        )
        for i in range(draw(st.integers(1, 3)))
    )
    field = {"makespan": "time_s"}.get(objective, objective)
    amounts = (
        st.integers(0, 12).map(float) if draw(st.booleans()) else st.integers(0, 48).map(lambda n: n / 4)
    )
    jobs = []
    for index in range(draw(st.integers(0, max_jobs))):
        on = {}
        for machine in machines:
            if draw(st.integers(0, 4)):
                gpus = draw(st.integers(1, machine.count)) if timed and draw(st.booleans()) else 1
                extra: dict[str, Any] = {field: draw(amounts)}
                on[machine.id] = MatchingEntry(uses=draw(st.integers(0, 3)), gpus=gpus, **extra)
        jobs.append(MatchingJob(id=f"j{index}", on=on, required=timed or draw(st.booleans())))
    return MatchingInstance(
        schema_version="1", objective=objective, machines=machines, jobs=tuple(jobs), name="drawn"
    )


@st.composite
def freezing_instances(
    draw: st.DrawFn, max_jobs: int = 3, caps: bool = True, powers: tuple[float, ...] = (-2.0, -0.5, 0.5, 1.0)
) -> FreezingInstance:
    """Small layer-freezing rounds: budgets, gates, caps, restarts, nodes, no progress, either sense."""
    gpus = {f"g{i}": draw(st.integers(0, 8)) for i in range(draw(st.integers(1, 2)))}
    jobs = []
    for index in range(draw(st.integers(0, max_jobs))):
        layers = draw(st.integers(1, 8))
        places = draw(
            st.lists(st.tuples(st.sampled_from(sorted(gpus)), st.integers(1, 6)), max_size=2, unique=True)
        )
        menu = []
        for gpu_type, count in places:
            depths = tuple(sorted(draw(st.sets(st.integers(0, layers), max_size=3))))
            penalties = tuple(draw(st.sampled_from([0, 1, 250_000, 10**6])) for _ in depths)
            menu.append(
                FreezingRow(
                    gpu_type=gpu_type,
                    gpus=count,
                    depths=depths,
                    effective_progress=tuple(draw(st.integers(0, 40)) / 4 for _ in depths),
                    penalty_millionths=penalties if draw(st.booleans()) else (),
                )
            )
        current = None
        if draw(st.booleans()):
            gpu_type, count = draw(st.sampled_from(places)) if places else ("g0", 1)
            current = FreezingConfiguration(gpu_type, count, draw(st.integers(0, layers)))
        jobs.append(
            FreezingJob(
                id=f"j{index}",
                layers=layers,
                menu=tuple(menu),
                current=current,
                age_s=float(draw(st.integers(0, 300))),
                restarts=draw(st.integers(0, 3)),
                restart_s=float(draw(st.integers(0, 60))),
                rebuild_s=float(draw(st.integers(0, 70))),
                weight=draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])),
                reference_progress=draw(st.none() | st.sampled_from([0.5, 2.0])),
                budget_frozen_s=draw(st.none() | st.integers(0, 60).map(float)),
                max_depth=draw(st.none() | st.integers(0, layers)),
                required=draw(st.integers(0, 4)) == 0,
            )
        )
    return FreezingInstance(
        schema_version="1",
        gpus=gpus,
        round_s=draw(st.sampled_from([0.7, 60.0])),
        jobs=tuple(jobs),
        power=draw(st.sampled_from(powers)),
        queue_penalty=draw(st.sampled_from([-1.5, 0.0, 1.1])),
        gpus_per_node=dict.fromkeys(gpus, 2) if draw(st.booleans()) else {},
        penalty_cap_millionths=draw(st.none() | st.integers(0, 2 * 10**6)) if caps else None,
        name="drawn",
    )


@st.composite
def freezing_on_nodes(draw: st.DrawFn, max_jobs: int = 5) -> FreezingInstance:
    """Small layer-freezing rounds on nodes of 3 to 5 GPUs and a smaller one, with counts of any size."""
    size = draw(st.integers(3, 5))
    total = draw(st.integers(2, 3 * size))
    count = -(-total // size)
    names = tuple(f"n{i}" for i in range(count)) if draw(st.booleans()) else tuple(map(str, range(count)))
    jobs = []
    for index in range(draw(st.integers(1, max_jobs))):
        counts = draw(st.lists(st.sampled_from([*range(1, size + 1), 2 * size]), max_size=3, unique=True))
        menu = tuple(
            FreezingRow("g", gpus, (0,), (draw(st.integers(1, 12)) * gpus / 4,), ()) for gpus in counts
        )
        current = None
        if counts and draw(st.booleans()):
            gpus = draw(st.sampled_from(counts))
            held = draw(st.permutations(names))[: max(1, gpus // size)]
            current = FreezingConfiguration("g", gpus, 0, tuple(held))
        required = draw(st.integers(0, 5)) == 0
        jobs.append(FreezingJob(f"j{index}", 4, menu, current=current, required=required, age_s=60.0))
    return FreezingInstance(
        schema_version="1",
        gpus={"g": total},
        round_s=60.0,
        jobs=tuple(jobs),
        power=draw(st.sampled_from([-0.5, 1.0])),
        queue_penalty=draw(st.sampled_from([0.0, 1.1])),
        gpus_per_node={"g": size},
        nodes={"g": names} if names[0] == "n0" else UNSET,
    )


@st.composite
def quota_trees(draw: st.DrawFn) -> QuotaTree:
    """Two levels of cohorts below a root, a few queues, one or two pairs, limits here and there."""
    pairs: list[Pair] = [("default", "gpu"), ("spot", "gpu"), ("default", "cpu")]
    amounts = st.integers(0, 12)
    limits = st.none() | st.integers(0, 8)

    def quotas(parent: bool) -> dict[Pair, Quota]:
        chosen = draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
        return {
            pair: Quota(draw(amounts), draw(limits) if parent else None, draw(limits) if parent else None)
            for pair in chosen
        }

    weights = st.sampled_from([0.0, 0.5, 1.0, 2.0])
    nodes = [TreeNode("root", None, False, 1.0, quotas(False))]
    middle = draw(st.integers(0, 2))
    for number in range(middle):
        nodes.append(TreeNode(f"c{number}", "root", False, draw(weights), quotas(True)))
    above = ["root", *(f"c{number}" for number in range(middle))]
    for number in range(draw(st.integers(1, 4))):
        parent = draw(st.sampled_from(above))
        nodes.append(TreeNode(f"q{number}", parent, True, draw(weights), quotas(True)))
    return QuotaTree.of(nodes)

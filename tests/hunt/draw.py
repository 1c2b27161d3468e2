"""Draw a case: kind, instance, path and options, all from one seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from tests.hunt import draw_freezing, draw_gap_filling, draw_knapsack, draw_matching, draw_tenants
from tests.hunt.case import ASSIGNMENT, INSTANCE, MENUS, Case
from tests.hunt.paths import PATHS
from tests.hunt.what_if import drawn_edits

__all__ = ["KINDS", "drawn"]

Draw = Callable[[Random, str | None], dict[str, Any]]
"""Draws an instance; the text says what sort of instance takes the path, see `Path.wants`."""

KINDS: Mapping[str, tuple[str, Draw]] = MappingProxyType(
    {
        "menus": (MENUS, draw_knapsack.arrays),
        "multiple_choice_knapsack": (INSTANCE, draw_knapsack.instance),
        "gap_filling": (INSTANCE, draw_gap_filling.instance),
        "matching": (INSTANCE, draw_matching.instance),
        "assignment": (ASSIGNMENT, draw_matching.arrays),
        "freezing": (INSTANCE, draw_freezing.instance),
        "tenants": (INSTANCE, draw_tenants.instance),
    }
)
"""What is drawn, by kind."""

_GENERAL = ("highs", "cp-sat", "scip", "by-node", "nodes-by-cp-sat", "by-turns")
"""Paths that take much longer than the others, and are taken less often."""
_SAID = ("explained", "what-if")
"""Paths that ask for more than a plan."""


def drawn(seed: str, kinds: list[str], paths: list[str]) -> Case | None:
    """Return the case of a seed, ``None`` where no asked-for path fits the kind drawn."""
    rng = Random(seed)
    kind = rng.choice(kinds)
    subject, draw = KINDS[kind]
    fitting = [name for name in paths if kind in PATHS[name].kinds]
    if not fitting:
        return None
    path = rng.choices(fitting, [0.05 if name in _GENERAL else 1.0 for name in fitting])[0]
    if path in _GENERAL and len(fitting) == 1:
        path = fitting[0]
    wants = PATHS[path].wants
    document = draw(rng, wants)
    if path in _SAID:
        return Case(
            subject, document, path, {"what_if": drawn_edits(rng, document)} if path == "what-if" else {}
        )
    return Case(subject, document, path, _options(rng, path, draw))


def _options(rng: Random, path: str, draw: Draw) -> dict[str, Any]:
    """Return options of the call: mostly none, else a limit, a gap, a lying start, or twice the same."""
    options: dict[str, Any] = {}
    law = rng.random()
    if path in _GENERAL:
        return options
    if law < 0.08:
        options["time_limit"] = rng.choice((0.001, 0.003, 0.01, 0.05))
    elif law < 0.16:
        options["gap"] = rng.choice((1e-12, 1e-9, 1e-6, 1e-4, 0.01, 0.3, 5.0))
    elif law < 0.26:
        options["deterministic"] = True
        options["again"] = True
        options["shuffle"] = rng.randrange(10**6)
    elif law < 0.32:
        options["deterministic"] = True
        options["work_limit"] = rng.choice((1, 10, 100))
        options["again"] = True
    elif law < 0.42:
        options["warm_start"] = _lying(rng, draw)
    return options


def _lying(rng: Random, draw: Draw) -> Any:
    """Return a start that is no plan, a plan of something else, or prices from nowhere."""
    other = draw(rng, None)
    jobs = [job["id"] for job in other["jobs"]] if "jobs" in other else []
    prices = rng.choice((0.0, 1e-30, 1.0, 1e18, -1.0, 1e300))
    names = ("idle_nodes", "c0", "c1", "m0", "m1", "g0", "capacity_0", "capacity_1")
    told = dict.fromkeys(names[: rng.choice((1, 2, 8))], prices)
    plan: Any = rng.choice(
        (
            {"choice": dict.fromkeys(jobs, "o0")},
            {"allocation": {job: ["n0", "n1"] for job in jobs}},
            {"assignment": dict.fromkeys(jobs, "m0")},
            {"configuration": {job: {"gpu_type": "g0", "gpus": 4, "depth": 0} for job in jobs}},
            [rng.randint(-2, 9) for _ in range(rng.randint(0, 8))],
            7,
            {},
        )
    )
    return {"plan": plan, "certificate": {"multipliers": told}} if rng.random() < 0.6 else plan

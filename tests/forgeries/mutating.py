"""Mutators of meaning: of an instance, which makes a neighbour; of a result; and of a proof."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Any

from apportion.core.outcome import relative_gap
from apportion.proofs import Claim, Proof

__all__ = ["OF_INSTANCES", "OF_PROOFS", "OF_RESULTS"]

Told = dict[str, Any]
OfInstance = Callable[[Random, Told], None]
OfResult = Callable[[Random, Told, list[Told]], None]
OfProof = Callable[[Random, Proof, list[Proof]], Proof]


def _counts(told: Told) -> list[tuple[Told, str]]:
    """Return every place of an instance that says how much there is of a capacity."""
    found: list[tuple[Told, str]] = []
    for name in ("capacities", "gpus"):
        if isinstance(told.get(name), dict):
            found += [(told[name], key) for key in told[name]]
    machines = told["machines"] if isinstance(told.get("machines"), list) else []
    found += [(one, "capacity") for one in machines if one.get("capacity") is not None]
    return found


def _capacity(rng: Random, told: Told, by: int) -> None:
    places = _counts(told)
    if places:
        holder, key = rng.choice(places)
        holder[key] = max(0, holder[key] + by)
    elif isinstance(told.get("nodes"), list):
        told["nodes"] = told["nodes"][:-1] if by < 0 else [*told["nodes"], "one-more"]
    elif isinstance(told.get("capacities"), list) and told["capacities"]:
        at = rng.randrange(len(told["capacities"]))
        told["capacities"][at] = max(0, told["capacities"][at] + by)


def exchange_capacities(rng: Random, told: Told) -> None:
    """Exchange two capacities."""
    places = _counts(told)
    if len(places) > 1:
        (one, first), (other, second) = rng.sample(places, 2)
        one[first], other[second] = other[second], one[first]


def drop_branch(rng: Random, told: Told) -> None:
    """Leave out one option of a job, or the job."""
    jobs = told.get("jobs")
    if not jobs:
        return
    job = rng.choice(jobs)
    for name in ("options", "menu"):
        if len(job.get(name, ())) > 1:
            job[name].pop(rng.randrange(len(job[name])))
            return
    if len(job.get("on", ())) > 1:
        del job["on"][rng.choice(sorted(job["on"]))]
    elif len(jobs) > 1:
        jobs.remove(job)


def change_value(rng: Random, told: Told) -> None:
    """Make an option worth, or take, a little more or less."""
    entries = [entry for job in told.get("jobs", []) for entry in _entries(job)]
    if entries:
        entry, name = rng.choice(entries)
        entry[name] *= rng.choice((0.5, 0.999999, 1.000001, 2.0))


def _entries(job: Told) -> list[tuple[Told, str]]:
    some = [*job.get("options", ()), *job.get("on", {}).values()]
    return [(one, name) for one in some for name in ("value", "cost", "time_s") if one.get(name)]


def reorder_jobs(rng: Random, told: Told) -> None:
    """Give the jobs in another order."""
    if isinstance(told.get("jobs"), list):
        rng.shuffle(told["jobs"])


def rename_jobs(rng: Random, told: Told) -> None:
    """Exchange the names of two jobs."""
    if len(told.get("jobs", ())) > 1:
        one, other = rng.sample(told["jobs"], 2)
        one["id"], other["id"] = other["id"], one["id"]


def repeat_job(rng: Random, told: Told) -> None:
    """Submit a job a second time, under another name."""
    if told.get("jobs"):
        job = rng.choice(told["jobs"])
        told["jobs"].append({**copy.deepcopy(job), "id": f"{job['id']}-again"})


def require_less(rng: Random, told: Told) -> None:
    """Let a job be left out, or not any more."""
    if told.get("jobs"):
        job = rng.choice(told["jobs"])
        if "required" in job or "options" in job or "on" in job:
            job["required"] = not job.get("required", True)


def change_quota(rng: Random, told: Told) -> None:
    """Guarantee a tenant less, or another."""
    quotas = [
        (quota, name)
        for tenant in told.get("tenants", ())
        for quota in tenant.get("quotas", {}).values()
        for name in ("guarantee", "borrowing_limit", "lending_limit")
        if quota.get(name)
    ]
    if quotas:
        quota, name = rng.choice(quotas)
        quota[name] = rng.choice((0, quota[name] - 1, quota[name] // 2))


OF_INSTANCES: Mapping[str, OfInstance] = MappingProxyType(
    {
        "tightened": lambda rng, told: _capacity(rng, told, -1),
        "relaxed": lambda rng, told: _capacity(rng, told, 1),
        "relaxed by much": lambda rng, told: _capacity(rng, told, 1000),
        "capacities exchanged": exchange_capacities,
        "branch dropped": drop_branch,
        "value changed": change_value,
        "jobs reordered": reorder_jobs,
        "ids exchanged": rename_jobs,
        "job twice": repeat_job,
        "required or not": require_less,
        "quota changed": change_quota,
    }
)


_TERMINATIONS = (
    *("optimal", "gap_reached", "infeasible", "unbounded", "infeasible_or_unbounded"),
    *("time_limit", "node_limit", "numerical_error", "error"),
)
_EVIDENCE = (None, "by_multipliers", "by_proof", "by_search", "by_solver")
_SOURCES = (None, "multipliers", "solver", "branch_and_bound", "dynamic_programming", "enumeration", "magic")


def termination(rng: Random, told: Told, _: list[Told]) -> None:
    """State another termination, mostly with the word that fits it."""
    told["termination"] = rng.choice(_TERMINATIONS)
    if rng.random() < 0.8:
        planned = "optimal" if told["termination"] == "optimal" else "feasible"
        told["solution"] = "none" if told["plan"] is None else planned


def without_plan(rng: Random, told: Told, _: list[Told]) -> None:
    """Call it infeasible, and take out all that contradicts that."""
    told.update(termination="infeasible", solution="none", objective=None, gap=None, plan=None, check=None)
    if rng.random() < 0.5:
        told["bound"], told["certificate"]["source"] = None, None
    if "floors" in told and rng.random() < 0.5:
        told.update(floors={}, levels=[], fair_bound=None)


def evidence(rng: Random, told: Told, _: list[Told]) -> None:
    """State other evidence."""
    told["evidence"] = rng.choice(_EVIDENCE)


def source(rng: Random, told: Told, _: list[Told]) -> None:
    """Let the bound come from somebody else."""
    told["certificate"]["source"] = rng.choice(_SOURCES)


def bound(rng: Random, told: Told, _: list[Told]) -> None:
    """State another bound, mostly the objective itself or the verified bound."""
    told["bound"] = rng.choice((told["objective"], told["verified_bound"], _moved(rng, told["bound"]), None))


def verified_bound(rng: Random, told: Told, _: list[Told]) -> None:
    """State a tighter or a looser verified bound."""
    told["verified_bound"] = rng.choice(
        (told["objective"], _moved(rng, told["verified_bound"]), told["bound"])
    )
    if rng.random() < 0.5:
        told["bound"], told["certificate"]["source"] = told["verified_bound"], "multipliers"


def multipliers(rng: Random, told: Told, others: list[Told]) -> None:
    """State other multipliers: exchanged, scaled, left out, or those of a neighbour."""
    own = told["certificate"]["multipliers"]
    given = rng.choice([told, *others])["certificate"]["multipliers"]
    if not own or rng.random() < 0.3:
        told["certificate"]["multipliers"] = copy.deepcopy(given)
        return
    names, prices = list(own), list(own.values())
    change = rng.randrange(4)
    if change == 0:
        rng.shuffle(prices)
    elif change == 1:
        prices = [price * rng.choice((0.0, 0.5, 1.0, 2.0, -1.0)) for price in prices]
    elif change == 2:
        names, prices = names[1:], prices[1:]
    else:
        prices[0] = rng.choice((-1.0, float("nan"), 1e308, 5e-324))
    told["certificate"]["multipliers"] = dict(zip(names, prices, strict=True))


def plan_of_neighbour(rng: Random, told: Told, others: list[Told]) -> None:
    """Take the plan of a neighbour, with its objective or the old one."""
    other = rng.choice(others or [told])
    told["plan"], told["check"] = copy.deepcopy(other["plan"]), copy.deepcopy(other["check"])
    if rng.random() < 0.8:
        told["objective"] = other["objective"]
        told["solution"] = other["solution"]


def plan(rng: Random, told: Told, _: list[Told]) -> None:
    """Exchange what two jobs have, or take it from one."""
    for part in (told["plan"] or {}).values():
        if isinstance(part, dict) and len(part) > 1:
            one, other = rng.sample(sorted(part), 2)
            if rng.random() < 0.5:
                part[one], part[other] = part[other], part[one]
            else:
                del part[one]


def ids(rng: Random, told: Told, _: list[Told]) -> None:
    """Rename what the plan, the floors or the levels are about, or say it twice."""
    parts = [part for part in (told["plan"] or {}).values() if isinstance(part, dict) and part]
    parts += [told["floors"]] if told.get("floors") else []
    if told.get("levels") and rng.random() < 0.3:
        one, other = rng.choice(told["levels"]), rng.choice(told["levels"])
        one["name"], other["name"] = other["name"], one["name"]
    elif parts:
        part = rng.choice(parts)
        one, other = rng.choice(sorted(part)), rng.choice(sorted(part))
        change = rng.randrange(3)
        if change == 0:
            part[f"{one}-again"] = copy.deepcopy(part[one])
        elif change == 1:
            part[other] = copy.deepcopy(part[one])
        else:
            part[f"{one} "] = part.pop(one)


def capacities_exchanged(rng: Random, told: Told, _: list[Told]) -> None:
    """Exchange what two capacities are priced at."""
    own = told["certificate"]["multipliers"]
    if own and len(own) > 1:
        one, other = rng.sample(sorted(own), 2)
        own[one], own[other] = own[other], own[one]


def objective(rng: Random, told: Told, _: list[Told]) -> None:
    """State a better objective, in the check as well."""
    told["objective"] = rng.choice((told["bound"], _moved(rng, told["objective"])))
    if isinstance(told["check"], dict):
        told["check"]["objective"] = told["objective"]


def floors(rng: Random, told: Told, others: list[Told]) -> None:
    """State weaker or stronger floors, fewer, or those of a neighbour."""
    own = told.get("floors")
    if not own:
        told.update(floors=rng.choice(({}, {"nobody": 1}, {"t0": 1})), levels=[], fair_bound=None)
        return
    change = rng.randrange(5)
    if change == 0:
        told["floors"] = {name: max(0, share + rng.choice((-1, 0, 1))) for name, share in own.items()}
    elif change == 1:
        told["floors"] = dict.fromkeys(own, 0)
    elif change == 2:
        del own[rng.choice(sorted(own))]
    elif change == 3:
        told["floors"] = copy.deepcopy(rng.choice([told, *others]).get("floors", {}))
    else:
        one, other = rng.choice(sorted(own)), rng.choice(sorted(own))
        own[one], own[other] = own[other], own[one]


def levels(rng: Random, told: Told, others: list[Told]) -> None:
    """State other levels: of a neighbour, one left out or twice, another share, weight or evidence."""
    own = told.get("levels")
    if not own:
        told["levels"] = copy.deepcopy(rng.choice([told, *others]).get("levels") or [])
        return
    change = rng.randrange(4)
    if change == 0:
        own.pop(rng.randrange(len(own)))
    elif change == 1:
        own.append(copy.deepcopy(rng.choice(own)))
    else:
        one = rng.choice(own)
        one[rng.choice(("share", "weight", "bound"))] *= rng.choice((0.5, 0.999, 1.001, 2.0))
        one["evidence"] = rng.choice((None, "by_search"))


def fair_bound(rng: Random, told: Told, _: list[Told]) -> None:
    """State another bound over equally fair plans."""
    told["fair_bound"] = rng.choice((told["objective"], told["bound"], _moved(rng, told["bound"]), None))


def _moved(rng: Random, number: float | None) -> float | None:
    """Return a number a little or much off, an off-by-one among them."""
    if number is None:
        return rng.choice((0.0, 1.0, -1.0))
    found = rng.choice((number - 1.0, number + 1.0, number * (1 + 1e-6), number * (1 - 1e-6), -number, 0.0))
    return found if math.isfinite(found) else 0.0


OF_RESULTS: Mapping[str, OfResult] = MappingProxyType(
    {
        "termination": termination,
        "without plan": without_plan,
        "evidence": evidence,
        "source": source,
        "bound": bound,
        "verified bound": verified_bound,
        "multipliers": multipliers,
        "plan of a neighbour": plan_of_neighbour,
        "plan": plan,
        "ids": ids,
        "capacities exchanged": capacities_exchanged,
        "objective": objective,
        "floors": floors,
        "levels": levels,
        "fair bound": fair_bound,
    }
)


def consistent(told: Told) -> None:
    """Compute the gap anew, as a careful forger would."""
    told["gap"] = None
    if told["objective"] is not None and told["bound"] is not None:
        found = relative_gap(told["objective"], told["bound"])
        told["gap"] = found if math.isfinite(found) else None


def _claim(rng: Random, proof: Proof, others: list[Proof]) -> Proof:
    known = [one.claim.bound for one in (proof, *others) if one.claim.bound is not None]
    if not known or rng.random() < 0.3:
        return replace(proof, claim=Claim("infeasible"))
    return replace(proof, claim=Claim("no_better_plan", _moved(rng, rng.choice(known))))


def _prices(rng: Random, proof: Proof, _: list[Proof]) -> Proof:
    vectors = [list(vector) for vector in proof.prices]
    if not vectors or not vectors[0]:
        return replace(proof, prices=())
    vector = rng.choice(vectors)
    at = rng.randrange(len(vector))
    change = rng.randrange(5)
    if change == 0:
        rng.shuffle(vector)
    elif change == 1:
        vector[at] += rng.choice((-1, 1))
    elif change == 2:
        vector[at] *= rng.choice((0, 2, 3, -1))
    elif change == 3:
        vector[at] = rng.choice((2**63 - 1, 2**64, 2**1023))
    else:
        vectors.remove(vector)
    return replace(proof, prices=tuple(map(tuple, vectors)))


def _rows(rng: Random, proof: Proof, _: list[Proof]) -> Proof:
    vectors = [list(vector) for vector in proof.rows]
    if not vectors or not vectors[0]:
        return proof
    vector = rng.choice(vectors)
    at = rng.randrange(len(vector))
    vector[at] = rng.choice((vector[at] + 1, vector[at] - 1, -vector[at], 0, 2**61, 1 - 2**62))
    return replace(proof, rows=tuple(map(tuple, vectors)))


def _order(rng: Random, proof: Proof, _: list[Proof]) -> Proof:
    order = list(proof.order)
    if order and rng.random() < 0.5:
        order.pop()
    else:
        rng.shuffle(order)
    if order and rng.random() < 0.2:
        order.append(order[0])
    return replace(proof, order=tuple(order))


def _shift(rng: Random, proof: Proof, _: list[Proof]) -> Proof:
    return replace(proof, shift=proof.shift + rng.choice((-40, -2, -1, 1, 2, 40)))


def _cuts(rng: Random, proof: Proof, others: list[Proof]) -> Proof:
    cuts = copy.deepcopy(list(rng.choice([proof, *others]).cuts))
    if cuts and rng.random() < 0.7:
        cut = rng.choice(cuts)
        for name in ("node_weights", "weights"):
            if cut.get(name):
                at = rng.randrange(len(cut[name]))
                cut[name][at] = max(0, cut[name][at] + rng.choice((-1, 1, 5)))
        if isinstance(cut.get("excluded"), list) and len(cut["excluded"]) > 1:
            cut["excluded"].pop()
        if "divisor" in cut:
            cut[rng.choice(("capacity", "divisor"))] += rng.choice((-1, 1))
        if cut.get("thresholds"):
            cut[rng.choice(("capacity", "others"))] += rng.choice((-1, 0, 1))
            cut["thresholds"][rng.choice(sorted(cut["thresholds"]))] += rng.choice((-1, 0, 1))
    return replace(proof, cuts=tuple(cuts))


def _made_up(rng: Random, proof: Proof, others: list[Proof]) -> Proof:
    """Add a cut whose reason does not hold, or hardly."""
    types = [cut["gpu_type"] for one in (proof, *others) for cut in one.cuts if "gpu_type" in cut]
    jobs = rng.sample(range(4), rng.randint(1, 3))
    weights = [rng.choice((0, 1, 1, 2, 5)) for _ in range(rng.randint(1, 4))]
    if types and rng.random() < 0.7:
        sizes = {str(job): rng.randint(1, 8) for job in jobs}
        cut: Told = rng.choice(({"excluded": sizes}, {"node_weights": weights}))
        cut["gpu_type"] = rng.choice(types)
    elif rng.random() < 0.5:
        cut = {"capacity": rng.randrange(3), "divisor": rng.choice((0, 1, 2, 3, 5))}
    elif rng.random() < 0.5:
        sizes = {str(job): rng.randint(0, 5) for job in jobs}
        cut = {"capacity": rng.randrange(3), "thresholds": sizes, "others": rng.randint(0, 8)}
    else:
        cut = rng.choice(({"excluded": jobs}, {"weights": weights}))
        cut["pool"] = rng.randrange(3)
    return replace(proof, cuts=(*proof.cuts, cut))


def _merged(rng: Random, proof: Proof, _: list[Proof]) -> Proof:
    """Make one vector of two, so that what either cuts off alone may pass for cut off."""
    if len(proof.prices) < 2:
        return replace(proof, prices=(*proof.prices, *proof.prices))
    one, other = rng.sample(range(len(proof.prices)), 2)
    both = zip(proof.prices[one], proof.prices[other], strict=False)
    vector = tuple(map(rng.choice((sum, max, min)), both))
    kept = [own for at, own in enumerate(proof.prices) if at not in (one, other)]
    return replace(proof, prices=(*kept, vector))


def _dropped(rng: Random, proof: Proof, _: list[Proof]) -> Proof:
    """Leave out a part: a vector, a row, a cut, the order."""
    name = rng.choice(("prices", "rows", "cuts", "order"))
    part = list(getattr(proof, name))
    if part:
        part.pop(rng.randrange(len(part)))
    changed: Any = {name: tuple(part)}
    return replace(proof, **changed)


def _threshold(rng: Random, proof: Proof, _: list[Proof]) -> Proof:
    """Claim a bound that is off by one unit of worth, or by one step of a double."""
    bound = proof.claim.bound
    if bound is None:
        return replace(proof, claim=Claim("no_better_plan", rng.choice((-1.0, 0.0, 1.0))))
    side = rng.choice((-math.inf, math.inf))
    unit = math.ldexp(1.0, max(-1000, min(1000, -proof.shift)))
    moved = rng.choice((math.nextafter(bound, side), bound + math.copysign(unit, side)))
    return replace(proof, claim=Claim("no_better_plan", moved)) if math.isfinite(moved) else proof


def _apart(rng: Random, proof: Proof, _: list[Proof]) -> Proof:
    return replace(proof, apart=() if proof.apart else (rng.randrange(3),))


def _of_neighbour(rng: Random, proof: Proof, others: list[Proof]) -> Proof:
    return rng.choice([proof, *others])


OF_PROOFS: Mapping[str, OfProof] = MappingProxyType(
    {
        "claim": _claim,
        "prices": _prices,
        "rows": _rows,
        "order": _order,
        "shift": _shift,
        "cuts": _cuts,
        "cut made up": _made_up,
        "vectors merged": _merged,
        "part dropped": _dropped,
        "threshold": _threshold,
        "apart": _apart,
        "of a neighbour": _of_neighbour,
    }
)

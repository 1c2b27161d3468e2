"""Tenants: every choice within all quotas, its shares, its objective; what is due to whom, by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from tests.hunt.tenanted import TENANTED, Choice, Offer, Tenanted, Told

__all__ = ["best", "due_shares", "keeps", "misshared", "offers", "worth"]

_BILLION = 10**9
_CLOSE = Fraction(1, 10**9)
"""Relative difference of objectives that counts as none."""
_ANYWHERE = Tenanted._field_defaults["fits"]


def _kind(told: Told) -> Tenanted:
    return TENANTED[told["kind"]]


def _capacities(told: Told) -> dict[str, int]:
    """Return what there is, and no less than what running jobs keep that may not be stopped."""
    kept: dict[str, int] = {}
    for (_, capacity), use in _kept(told).items():
        kept[capacity] = kept.get(capacity, 0) + use
    room = _kind(told).capacities(told)
    if told["kind"] == "placement":  # nobody keeps what is not there
        return room
    nodes = told.get("gpus_per_node", {})  # what lies there is bounded by them
    return {
        name: amount if name in nodes else max(amount, kept.get(name, 0)) for name, amount in room.items()
    }


def _kept(told: Told) -> dict[tuple[str | None, str], int]:
    """Return what running jobs use that may not be stopped, by tenant and capacity."""
    found: dict[tuple[str | None, str], int] = {}
    for job in told["jobs"]:
        held = [one for one in _kind(told).offers(told, job) if one.current and not one.idle]
        if job.get("preemptible") is False and held:
            for capacity in held[0].uses:
                key = job.get("tenant"), capacity
                found[key] = found.get(key, 0) + min(one.uses.get(capacity, 0) for one in held)
    return found


def _maximize(told: Told) -> bool:
    return _kind(told).maximize(told)


def offers(told: Told, job: Told) -> list[Offer]:
    """Return what a job may get: what it runs with alone, if it may not be stopped or moved."""
    told_of = _kind(told).offers(told, job)
    held = [offer for offer in told_of if offer.current]
    if job.get("preemptible") is False and held:
        return held
    runs = bool(held) or _held_to_nothing(told, job)
    stopped = Fraction(job.get("stop_cost", 0)) * (-1 if _maximize(told) else 1) if runs else Fraction(0)
    return [o._replace(value=o.value + stopped) if o.idle else o for o in told_of]


def _held_to_nothing(told: Told, job: Told) -> bool:
    """Return whether a job that runs now may have nothing alone: it is stopped all the same."""
    if told["kind"] == "placement":
        return told
    if told["kind"] == "freezing":
        return job.get("current") is not None and not job["menu"]
    if told["kind"] == "multiple_choice_knapsack":
        return job.get("current") is not None and all(one["id"] != job["current"] for one in job["options"])
    if told["kind"] != "gap_filling" or job.get("pinned_count") != 0:
        return False
    now = len(job.get("current_nodes", []))
    listed = now in job.get("allowed_counts", [now]) and now not in job.get("forbidden_counts", [])
    return job["min_nodes"] <= now <= job["max_nodes"] and listed


def _children(told: Told) -> dict[str | None, list[Told]]:
    children: dict[str | None, list[Told]] = {}
    for tenant in told.get("tenants", []):
        children.setdefault(tenant.get("parent"), []).append(tenant)
    return children


class _Limits(NamedTuple):
    """What every choice is held to."""

    told: Told
    children: dict[str | None, list[Told]]
    most: dict[str, tuple[int, int]]
    """What there is of a capacity, and what all claims on it may add up to."""
    strict: list[tuple[Told, str]]
    """Tenants and capacities of which those that may not be stopped use what is guaranteed alone."""


def _limits(told: Told) -> _Limits:
    room = _capacities(told)
    strict = [
        (one, capacity)
        for one in told.get("tenants", [])
        for capacity in room
        if one.get("quotas", {}).get(capacity, {}).get("non_preemptible_within_guarantee")
    ]
    most = {capacity: (total, _most(told, capacity, total)) for capacity, total in room.items()}
    return _Limits(told, _children(told), most, strict)


def _within(told: Told, choice: Choice) -> bool:
    """Return whether a choice keeps every capacity and every limit of the tree, wherever it may lie."""
    return _is_within(_limits(told), choice)


def _is_within(limits: _Limits, choice: Choice) -> bool:
    told, children, most, strict = limits
    if not _changes_few(told, told["jobs"], choice):
        return False
    if not all(_within_guarantee(told, one, capacity, choice) for one, capacity in strict):
        return False
    for capacity, (total, claimed) in most.items():
        used: dict[str, int] = {}
        for job, offer in zip(told["jobs"], choice, strict=True):
            tenant = job.get("tenant")
            used[tenant] = used.get(tenant, 0) + offer.uses.get(capacity, 0)
        if sum(used.values()) > total:
            return False
        claims = [_claim(one, capacity, children, used, told)[1] for one in children.get(None, [])]
        if any(claim is None for claim in claims) or sum(claim or 0 for claim in claims) > claimed:
            return False
    return True


def _changes_few(told: Told, jobs: list[Told], choice: Iterable[Offer]) -> bool:
    """Return whether no more of some jobs get other than they have now than may."""
    pairs = zip(jobs, choice, strict=True)
    changed = sum(job.get("current") is not None and not offer.current for job, offer in pairs)
    return changed <= told.get("max_changes", changed)


def _within_guarantee(told: Told, tenant: Told, capacity: str, choice: Choice) -> bool:
    """Return whether jobs of a subtree that are not preemptible keep to what is guaranteed.

    What running ones keep is theirs in any case; others then get none of it.
    """
    below, used, kept = _below(told, tenant["id"]), 0, 0
    for job, offer in zip(told["jobs"], choice, strict=True):
        if job.get("preemptible") is False and job["tenant"] in below:
            used += offer.uses.get(capacity, 0)
            kept += _kept({**told, "jobs": [job]}).get((job["tenant"], capacity), 0)
    return used <= max(_guaranteed(told, tenant)[capacity], kept)


def _with_what_is_kept(told: Told) -> Told:
    room = _capacities(told)
    if told["kind"] == "multiple_choice_knapsack":
        return {**told, "capacities": room}
    if told["kind"] == "freezing":
        cap = {"penalty_cap_millionths": room["frozen_penalty"]} if "frozen_penalty" in room else {}
        return {**told, **cap, "gpus": {name: room[name] for name in told["gpus"]}}
    return told


def _most(told: Told, capacity: str, total: int) -> int:
    """Return what all claims may add up to: what there is, and no less than what kept jobs claim alone."""
    children = _children(told)
    return max(total, sum(_alone_claim(one, capacity, children, told)[1] for one in children.get(None, [])))


def _alone_claim(
    tenant: Told, capacity: str, children: dict[str | None, list[Told]], told: Told
) -> tuple[int, int]:
    """Return what a subtree claims for its kept jobs alone: inside it, and with what it does not lend."""
    quota = tenant.get("quotas", {}).get(capacity, {})
    below = [_alone_claim(child, capacity, children, told) for child in children.get(tenant["id"], [])]
    inside = _kept(told).get((tenant["id"], capacity), 0) + sum(claim for _, claim in below)
    lends = quota.get("lending_limit")
    own = _guaranteed(told, tenant)[capacity]
    return inside, inside if lends is None else max(inside, own - lends)


def _claim(
    tenant: Told, capacity: str, children: dict[str | None, list[Told]], used: Mapping[str, int], told: Told
) -> tuple[int, int | None]:
    """Return what a subtree is guaranteed and what it claims, ``None`` where a limit is broken.

    A limit is never lower than what the subtree claims for its kept jobs alone.
    """
    quota = tenant.get("quotas", {}).get(capacity, {})
    below = [_claim(child, capacity, children, used, told) for child in children.get(tenant["id"], [])]
    guaranteed = max(quota.get("guarantee", 0), sum(amount for amount, _ in below))
    if any(claim is None for _, claim in below):
        return guaranteed, None
    inside = used.get(tenant["id"], 0) + sum(claim or 0 for _, claim in below)
    borrows, lends = quota.get("borrowing_limit"), quota.get("lending_limit")
    if borrows is not None and inside > max(
        guaranteed + borrows, _alone_claim(tenant, capacity, children, told)[0]
    ):
        return guaranteed, None
    return guaranteed, inside if lends is None else max(inside, guaranteed - lends)


def _unit(told: Told) -> int:
    if told.get("fairness", {}).get("share", "dominant_share") != "dominant_share":
        return _BILLION
    unit = math.lcm(*(amount for amount in _capacities(told).values() if amount))
    return unit if unit <= 10**12 else _BILLION


def _share(told: Told, job: Told, offer: Offer) -> int:
    """Return the share of an offer in whole units, rounded down."""
    if told.get("fairness", {}).get("share") == "normalised_throughput":
        best = max((job.get("best_rate", 0.0), *(o.rate for o in offers(told, job))))
        return int(offer.rate / best * _BILLION) if best > 0 else 0
    room = _capacities(told)
    return min(10**12, max((_unit(told) * u // max(1, room[n]) for n, u in offer.uses.items()), default=0))


class _Plan(NamedTuple):
    choice: Choice
    shares: dict[str, int]
    total: Fraction


def _plans(told: Told) -> Iterator[_Plan]:
    shares = {
        (j, k): _share(told, job, offer)
        for j, job in enumerate(told["jobs"])
        for k, offer in enumerate(offers(told, job))
    }
    menus = [list(enumerate(offers(told, job))) for job in told["jobs"]]
    limits = _limits(told)
    for numbered in itertools.product(*menus):
        choice = tuple(offer for _, offer in numbered)
        if _is_within(limits, choice) and _kind(told).fits(told, choice):
            own = {job["id"]: shares[j, numbered[j][0]] for j, job in enumerate(told["jobs"])}
            yield _Plan(choice, own, _kind(told).total(told, choice))


def _prefix(told: Told) -> str:
    """Return what stands before a job's name among those of tenants, none of which begins so."""
    found = "job "
    while any(one["id"].startswith(found) for one in told.get("tenants", [])):
        found = f"job {found}"
    return found


def _below(told: Told, name: str) -> set[str]:
    inside = {name}
    for _ in told["tenants"]:
        inside |= {one["id"] for one in told["tenants"] if one.get("parent") in inside}
    return inside


def _members(told: Told, name: str) -> list[str]:
    """Return the jobs whose shares are one: a tenant's, or the one that is named itself."""
    if name.startswith(_prefix(told)):
        return [name.removeprefix(_prefix(told))]
    inside = _below(told, name)
    return [job["id"] for job in told["jobs"] if job["tenant"] in inside]


def _of(told: Told, plan: _Plan, name: str) -> int:
    return sum(plan.shares[job] for job in _members(told, name))


def keeps(told: Told, choice: Choice) -> bool:
    """Return whether a choice keeps every limit of the tree and the floors that stand in the instance."""
    own = {job["id"]: _share(told, job, offer) for job, offer in zip(told["jobs"], choice, strict=True)}
    plan = _Plan(choice, own, Fraction(0))
    floors = told.get("fairness", {}).get("floors", {})
    return _within(told, choice) and all(_of(told, plan, name) >= due for name, due in floors.items())


def best(told: Told, floors: Mapping[str, int] | None = None) -> tuple[bool, Fraction | None]:
    """Return the sense and the optimum of the plans that keep some shares, as a solution tells them."""
    kept = floors or {}
    totals = [
        plan.total for plan in _plans(told) if all(_of(told, plan, name) >= due for name, due in kept.items())
    ]
    if not totals:
        return _maximize(told), None
    return _maximize(told), max(totals) if _maximize(told) else min(totals)


def _chosen(told: Told, plan: Any) -> Choice | None:
    choice = []
    for job in told["jobs"]:
        name = _kind(told).taken(plan, job)
        found = next((offer for offer in offers(told, job) if offer.name == name), None)
        if found is None:
            return None
        choice.append(found)
    return tuple(choice)


def worth(told: Told, plan: Any) -> Fraction | None:
    """Return what a plan is worth, stopped jobs counted; ``None`` if it breaks a rule or a quota."""
    own = _kind(told).worth(_with_what_is_kept(told), plan)
    if own is None:
        return None
    choice = _chosen(told, plan)
    if choice is None or not _within(told, choice) or not _kind(told).fits(told, choice):
        return None
    return own if told.get("objective") == "makespan" else _kind(told).total(told, choice)


def misshared(told: Told, solution: Any, tolerance: float = 0.0, gap: float = 0.0) -> Iterator[str]:
    """Yield what is wrong with the shares of an optimal solution: guarantees, floors, the sorted levels.

    Of all plans with the greatest sorted levels it must have the best objective, within the gap asked for.
    """
    choice = _chosen(told, solution.plan)
    if choice is None:
        return
    own = {job["id"]: _share(told, job, offer) for job, offer in zip(told["jobs"], choice, strict=True)}
    mine = _Plan(choice, own, Fraction(0))
    for name, floor in (solution.floors or {}).items():
        if _of(told, mine, name) < floor:
            yield f"{name} has {_of(told, mine, name)}, {floor} is due"
    for level in solution.levels:
        if level.evidence is not None and level.bound != level.share:
            yield f"{level} is called proved"
    if any("guarantees cannot be kept" in note or "not proved" in note for note in solution.notes):
        return
    due = due_shares(told)
    for name, share in due.items():
        if _of(told, mine, name) < share:
            yield f"{name} has {_of(told, mine, name)}, alone it would have {share}"
    fairness = told.get("fairness")
    if fairness is None or fairness.get("keep", 1.0) < 1.0 or fairness.get("floors") or not told["jobs"]:
        return
    levels, plans = fairest(told)
    for place, (group, best) in enumerate(zip(_groups(told), levels, strict=True)):
        ours = _vector(told, mine, group)
        if ours != best:
            yield f"group {place} has the levels {ours}, {best} can be had"
            return
    if told.get("objective") != "makespan" and not _hangs_on_nodes(told):
        yield from _outdone(told, solution, [plan.total for plan in plans], tolerance, gap)


def _hangs_on_nodes(told: Told) -> bool:
    """Return whether what options are worth hangs on where their pods lie, or on what is counted there."""
    if told["kind"] != "placement":
        return False
    pods = (one for job in told["jobs"] for option in job["options"] for one in option["pods"])
    return not _maximize(told) or any(one.get("value_at") for one in pods)


def fairest(told: Told) -> tuple[list[list[int]], list[_Plan]]:
    """Return the sorted levels of every group that are due, and all plans that have them."""
    due, levels = due_shares(told), []
    plans = [
        plan for plan in _plans(told) if all(_of(told, plan, name) >= share for name, share in due.items())
    ]
    for group in _groups(told):
        levels.append(max((_vector(told, plan, group) for plan in plans), default=[]))
        plans = [plan for plan in plans if _vector(told, plan, group) == levels[-1]]
    return levels, plans


def _outdone(
    told: Told, solution: Any, equally_fair: Sequence[Fraction], tolerance: float, gap: float
) -> Iterator[str]:
    """Yield what is wrong with the objective, and with its bound, among plans that are equally fair."""
    sign = 1 if _maximize(told) else -1
    best = max(sign * total for total in equally_fair)
    slack = max(Fraction(tolerance), _CLOSE) * abs(best)
    if best - sign * Fraction(solution.objective) > max(slack, Fraction(gap) * abs(best)):
        yield f"an equally fair plan has {float(sign * best)!r}, the solution {solution.objective!r}"
    if solution.fair_bound is None:
        yield "the objective has no bound among equally fair plans"
    elif best - sign * Fraction(solution.fair_bound) > slack:
        yield f"an equally fair plan has {float(sign * best)!r}, its bound is {solution.fair_bound!r}"


def _vector(told: Told, plan: _Plan, group: Mapping[str, Fraction]) -> list[int]:
    """Return the levels of a group under a plan, the least first."""
    heaviest = math.ceil(max(group.values()))
    steps = min(10**6 * heaviest, math.lcm(*(weight.numerator for weight in group.values())))
    return sorted(math.floor(steps * _of(told, plan, name) / weight) for name, weight in group.items())


def _groups(told: Told) -> list[dict[str, Fraction]]:
    """Return who is made equal with whom, with weights; the group that is served first comes first."""
    tenants = {tenant["id"]: tenant for tenant in told["tenants"]}
    weights = {name: Fraction(tenant.get("weight", 1.0)) for name, tenant in tenants.items()}
    fairness, found = told["fairness"], list[dict[str, Fraction]]()
    over, inside = fairness.get("over", "tenants"), fairness.get("inside", "sum")

    def rank(job: Told) -> int:
        own = job.get("priority")
        return _class(told, tenants[job["tenant"]]) if own is None else int(own)

    def by_class(ranks: Mapping[str, tuple[int, Fraction]]) -> None:
        some = {one: pair for one, pair in ranks.items() if pair[1] > 0 and _members(told, one)}
        for first in sorted({place for place, _ in some.values()}, reverse=True):
            found.append({one: weight for one, (place, weight) in some.items() if place == first})

    if over == "jobs":
        by_class({_prefix(told) + job["id"]: (rank(job), weights[job["tenant"]]) for job in told["jobs"]})
        return found
    depths: dict[int, list[str]] = {}
    for name in tenants:
        depths.setdefault(_depth(tenants, name), []).append(name)
    leaves = [name for name in tenants if _is_leaf(told, tenants[name])]
    for names in [depths[depth] for depth in sorted(depths)] if over == "tree" else [leaves]:
        by_class({name: (_class(told, tenants[name]), weights[name]) for name in names})
    if inside == "fair":
        by_class({_prefix(told) + job["id"]: (rank(job), Fraction(1)) for job in told["jobs"]})
    elif inside == "first_come":
        turns = sorted(told["jobs"], key=lambda job: (-rank(job), job.get("submitted_s", 0.0), job["id"]))
        found += [{_prefix(told) + job["id"]: Fraction(1)} for job in turns]
    return found


def _depth(tenants: Mapping[str, Told], name: str) -> int:
    parent = tenants[name].get("parent")
    return 0 if parent is None else 1 + _depth(tenants, parent)


def _class(told: Told, tenant: Told) -> int:
    if tenant.get("priority") is not None:
        return int(tenant["priority"])
    above = next((one for one in told["tenants"] if one["id"] == tenant.get("parent")), None)
    return 0 if above is None else _class(told, above)


def _is_leaf(told: Told, tenant: Told) -> bool:
    return all(one.get("parent") != tenant["id"] for one in told["tenants"])


def due_shares(told: Told) -> dict[str, int]:
    """Return what is due to every tenant with a guarantee: its best share alone on that, children first."""
    by_id = {one["id"]: one for one in told["tenants"]}
    found: dict[str, int] = {}
    for name in sorted(by_id, key=lambda one: -_depth(by_id, one)):
        below = [one["id"] for one in told["tenants"] if one.get("parent") == name]
        own, children = _guaranteed(told, by_id[name]), [_guaranteed(told, by_id[one]) for one in below]
        theirs = {capacity: sum(one[capacity] for one in children) for capacity in own}
        if any(own.values()) and not (below and own == theirs):
            inside = {one: share for one, share in found.items() if one in _below(told, name)}
            share = _alone(told, by_id[name], own, inside)
            if share is None:
                share = _alone(told, by_id[name], own, {})
            if share:
                found[name] = share
    return found


def _guaranteed(told: Told, tenant: Told) -> dict[str, int]:
    """Return what a subtree is guaranteed of every capacity: no less than its children together."""
    children = [one for one in told["tenants"] if one.get("parent") == tenant["id"]]
    theirs = [_guaranteed(told, child) for child in children]
    return {
        capacity: max(
            tenant.get("quotas", {}).get(capacity, {}).get("guarantee", 0),
            sum(one[capacity] for one in theirs),
        )
        for capacity in _capacities(told)
    }


def _alone(told: Told, tenant: Told, own: Mapping[str, int], inside: Mapping[str, int]) -> int | None:
    """Return the best share of a tenant on what it is guaranteed; ``None`` without any choice.

    Its jobs that must run do so. Those below it claim what they use, or what they do not lend.
    """
    members, children = set(_members(told, tenant["id"])), _children(told)
    nothing = Offer(None, {}, Fraction(0), current=False, idle=True)
    room, fits, strict = _capacities(told), _kind(told).fits, _limits(told).strict
    menus = [offers(told, job) if job["id"] in members else [nothing] for job in told["jobs"]]
    shares = [
        [_share(told, job, offer) if job["id"] in members else 0 for offer in menu]
        for job, menu in zip(told["jobs"], menus, strict=True)
    ]

    def claimed(capacity: str, used: Mapping[str, int]) -> int | None:
        below = [_claim(one, capacity, children, used, told) for one in children.get(tenant["id"], [])]
        if any(claim is None for _, claim in below):
            return None
        return used.get(tenant["id"], 0) + sum(claim or 0 for _, claim in below)

    most = None
    for places in itertools.product(*(range(len(menu)) for menu in menus)):
        share = sum(shares[j][k] for j, k in enumerate(places))
        if most is not None and share <= most:
            continue
        choice = tuple(menu[k] for menu, k in zip(menus, places, strict=True))
        used: dict[str, dict[str, int]] = {capacity: {} for capacity in room}
        had = dict.fromkeys(inside, 0)
        for j, (job, offer) in enumerate(zip(told["jobs"], choice, strict=True)):
            for capacity, amount in offer.uses.items():
                if capacity in used:
                    used[capacity][job["tenant"]] = used[capacity].get(job["tenant"], 0) + amount
            for one in had:
                if job["id"] in _members(told, one):
                    had[one] += shares[j][places[j]]
        claims = {capacity: claimed(capacity, used[capacity]) for capacity in room}
        if any(claim is None or claim > own[capacity] for capacity, claim in claims.items()):
            continue
        if not all(_within_guarantee(told, one, capacity, choice) for one, capacity in strict):
            continue
        own_jobs = [(job, one) for job, one in zip(told["jobs"], choice, strict=True) if job["id"] in members]
        if not _changes_few(told, [job for job, _ in own_jobs], [one for _, one in own_jobs]):
            continue
        if all(had[one] >= due for one, due in inside.items()) and fits(told, choice):
            most = share
    return most

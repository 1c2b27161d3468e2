"""What a placement means, read from its JSON once more: every plan of a tiny one, and what each is worth.

A pod is a pair of its job and its name with a number; a plan gives each a node or none. Nothing here is taken
from the package.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

__all__ = ["Round", "best", "broken", "fits", "of_job", "plans", "values"]

Plan = dict[str, Any]


class Round:
    """A tiny instance, whose nodes stand one by one in its JSON."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.told, self.jobs = told, {job["id"]: job for job in told["jobs"]}
        self.nodes = {node["names"]: node for node in told["nodes"]}
        self.branches = [told["levels"][:-1], *told.get("trees", [])]

    def place(self, level: str, node: str) -> str:
        """Return the place of a node, under the names of those above."""
        if all(level not in branch for branch in self.branches):
            return node
        return "/".join(self.nodes[node]["at"][one] for one in self.upwards(level))

    def upwards(self, level: str) -> list[str]:
        """Return a level and those above it in its tree; above the nodes those of the first tree."""
        branch = next((one for one in self.branches if level in one), [*self.branches[0], level])
        return list(branch[: branch.index(level) + 1])

    def places(self, level: str) -> list[str]:
        return list(dict.fromkeys(self.place(level, node) for node in self.nodes))

    def is_at(self, level: str, node: str, name: str) -> bool:
        full = self.place(level, node)
        return full == name or full.endswith("/" + name)

    def groups(self, by: str | None) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, job in self.jobs.items():
            key = "all" if by is None else name if by == "job" else job.get("labels", {}).get(by)
            if key is not None:
                found.setdefault(key, set()).add(name)
        return found

    def now(self, job: str) -> dict[str, dict[str, int]]:
        current = self.jobs[job].get("current")
        return (
            {}
            if current is None
            else {k: {n: c for n, c in on.items() if c} for k, on in current["on"].items()}
        )

    def pods(self, job: str, name: str) -> dict[str, Any] | None:
        known = [p for o in self.jobs[job]["options"] for p in o["pods"] if p.get("name", "pods") == name]
        return known[0] if known else None

    def takes(self, job: str, name: str, resource: str) -> int:
        pods = self.pods(job, name)
        return 0 if pods is None else 1 if resource == "pods" else pods["needs"].get(resource, 0)

    def names(self, text: str) -> set[tuple[str, str]]:
        job, _, name = text.partition("/")
        own = {p.get("name", "pods") for o in self.jobs[job]["options"] for p in o["pods"]}
        return {(job, one) for one in own if name in ("", one)}


def plans(told: Mapping[str, Any]) -> Iterator[Plan]:
    """Yield every plan in which jobs have options and no node too many pods."""
    round_ = Round(told)
    menus = [[*of_job(round_, job)] for job in told["jobs"]]
    for chosen in product(*menus):
        plan = {job["id"]: got for job, got in zip(told["jobs"], chosen, strict=True) if got is not None}
        if fits(round_, plan):
            yield {"placement": plan}


def of_job(round_: Round, job: Mapping[str, Any]) -> Iterator[Plan | None]:
    current = job.get("current")
    fixed = stays(round_, job)
    held = fixed and current is not None
    if not job.get("required") and job.get("pinned") is None and not held:
        yield None
    for option in job["options"]:
        if option["id"] in job.get("forbidden", ()) or job.get("pinned") not in (None, option["id"]):
            continue
        spreads = [[*_spreads(round_, pods)] for pods in option["pods"]]
        for parts in product(*spreads):
            names = [pods.get("name", "pods") for pods in option["pods"]]
            on = {name: part for name, part in zip(names, parts, strict=True) if part}
            level = option.get("required")
            if level and len({round_.place(level, node) for part in parts for node in part}) > 1:
                continue
            got = {"option": option["id"], "on": on}
            if fixed:
                now = round_.now(job["id"])
                if (
                    current is None
                    or current["option"] != option["id"]
                    or on != {k: v for k, v in now.items() if v}
                ):
                    continue
            yield got


def stays(round_: Round, job: Mapping[str, Any]) -> bool:
    """Return whether nothing of a job may change: it must stay, and every node on which it runs admits it."""
    return bool(job.get("fixed")) and not lost(round_, job)


def lost(round_: Round, job: Mapping[str, Any]) -> bool:
    """Return whether a node on which a job runs is not there any more, or is none that its pods may be on."""
    current = job.get("current") or {"option": None, "on": {}}
    pods = {
        one["name"]: one
        for option in job["options"]
        if option["id"] == current["option"]
        for one in option["pods"]
    }
    for name, on in current["on"].items():
        own = pods.get(name)
        for node in (round_.nodes.get(node) for node, count in on.items() if count):
            if node is None or not node.get("ready", True):
                return True
            needs = () if own is None else {name for name, need in own["needs"].items() if need}
            if own is not None and not (_admits(node, own) and node["capacity"].keys() >= needs):
                return True
    return False


def _spreads(round_: Round, pods: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    count = pods.get("count", 1)
    open_ = [name for name, node in round_.nodes.items() if _admits(node, pods)]
    for number in range(pods.get("least", count), count + 1):
        for nodes in combinations_with_replacement(open_, number):
            at = Counter(nodes)
            if pods.get("required") and len({round_.place(pods["required"], n) for n in at}) > 1:
                continue
            if all(_whole(round_, at, level, size) for level, size in pods.get("slices", {}).items()):
                yield dict(at)


def _whole(round_: Round, at: Counter[str], level: str, size: int) -> bool:
    each = Counter(round_.place(level, node) for node in at.elements())
    return not any(number % size for number in each.values())


def _admits(node: Mapping[str, Any], pods: Mapping[str, Any]) -> bool:
    labels = node.get("labels", {})
    wanted = all(labels.get(k) == v for k, v in pods.get("selector", {}).items())
    return (
        node.get("ready", True) and wanted and set(node.get("taints", ())) <= set(pods.get("tolerates", ()))
    )


def fits(round_: Round, plan: Plan) -> bool:
    used: Counter[tuple[str, str]] = Counter()
    for job, got in plan.items():
        for name, on in got["on"].items():
            for node, number in on.items():
                for resource in (*round_.nodes[node]["capacity"], *_needs(round_, job, name), "pods"):
                    used[node, resource] = used.get((node, resource), 0)
                for resource in {*_needs(round_, job, name), "pods"}:
                    used[node, resource] += number * round_.takes(job, name, resource)
    for (node, resource), much in used.items():
        told = round_.nodes[node]
        if resource == "pods" and not any("pods" in one["capacity"] for one in round_.nodes.values()):
            continue
        if much > max(0, told["capacity"].get(resource, 0) - told.get("used", {}).get(resource, 0)):
            return False
    return True


def _needs(round_: Round, job: str, name: str) -> list[str]:
    pods = round_.pods(job, name)
    return [] if pods is None else list(pods["needs"])


class Judged:
    """One plan, counted."""

    def __init__(self, round_: Round, plan: Plan) -> None:
        self.round, self.plan = round_, plan["placement"]
        self.at = {
            (job, name, node): n
            for job, got in self.plan.items()
            for name, on in got["on"].items()
            for node, n in on.items()
        }
        self.before = {
            (job, name, node): n
            for job in round_.jobs
            for name, on in round_.now(job).items()
            for node, n in on.items()
        }

    def inside(self, level: str, place: str, jobs: set[str] | None = None) -> int:
        return sum(
            n
            for (job, _, node), n in self.at.items()
            if self.round.place(level, node) == place and (jobs is None or job in jobs)
        )

    def load(self, level: str, place: str, resource: str, where: Mapping[Any, int]) -> int:
        return sum(
            n * self.round.takes(job, name, resource)
            for (job, name, node), n in where.items()
            if node in self.round.nodes and self.round.place(level, node) == place
        )

    def full(self, level: str, name: str) -> str:
        return next(p for p in self.round.places(level) if p == name or p.endswith("/" + name))

    def moved(self) -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        for (job, name, node), n in self.before.items():
            found[job, name] += max(0, n - self.at.get((job, name, node), 0))
        return found

    def stopped(self) -> set[str]:
        found = set()
        for job in {job for job, _, _ in self.before}:
            got, current = self.plan.get(job), self.round.jobs[job]["current"]
            if got is None:
                found.add(job)
            elif got["option"] == current["option"]:
                for name in current["on"]:
                    ran = sum(n for (j, k, _), n in self.before.items() if (j, k) == (job, name))
                    runs = sum(n for (j, k, _), n in self.at.items() if (j, k) == (job, name))
                    if runs < ran:
                        found.add(job)
        return found


def broken(told: Mapping[str, Any], plan: Plan) -> list[str]:
    """Return the rules of an instance that one of its `plans` breaks."""
    one = Judged(Round(told), plan)
    return [rule["rule"] for rule in told.get("rules", ()) if not _holds(one, rule)]


def _holds(one: Judged, r: Mapping[str, Any]) -> bool:
    """Return whether a plan keeps a rule."""
    kind, round_ = r["rule"], one.round
    level = r.get("level", "")
    groups = round_.groups(r.get("by"))
    places = round_.places(level) if level else []
    if kind == "limit":
        for name, limit in r["limits"].items():
            total = 0
            place = one.full(level, name)
            for pods in {(j, k) for j, k, _ in {**one.at, **one.before}}:
                then, now = (
                    sum(
                        n
                        for (j, k, node), n in where.items()
                        if (j, k) == pods and node in round_.nodes and round_.place(level, node) == place
                    )
                    for where in (one.at, one.before)
                )
                counted = {"after": then, "during": max(then, now), "new": max(0, then - now)}
                total += counted[r.get("when", "after")] * round_.takes(*pods, r["resource"])
            if total > limit:
                return False
        return True
    if kind == "spread":
        return all(
            one.inside(level, p, jobs) <= r.get("of", {}).get(g, r["max"])
            for g, jobs in groups.items()
            for p in places
        )
    if kind == "share":
        for jobs in groups.values():
            size = sum(
                max(sum(p.get("count", 1) for p in o["pods"]) for o in round_.jobs[j]["options"])
                for j in jobs
            )
            if any(one.inside(level, p, jobs) > r["fraction"] * size + 1e-9 for p in places):
                return False
        return True
    if kind == "at_least":
        return all(not 0 < one.inside(level, p, jobs) < r["min"] for jobs in groups.values() for p in places)
    if kind == "together":
        return all(
            sum(one.inside(level, p, jobs) > 0 for p in places)
            <= r.get("of", {}).get(g, r.get("max_places", 1))
            for g, jobs in groups.items()
        )
    if kind == "exclusive":
        return all(
            sum(one.inside(level, p, jobs) > 0 for jobs in groups.values()) <= r.get("max_groups", 1)
            for p in places
        )
    if kind == "apart":
        return not any(
            one.inside(level, one.full(level, a), jobs) and one.inside(level, one.full(level, b), jobs)
            for jobs in groups.values()
            for a, b in r["pairs"]
        )
    if kind in ("avoid", "require"):
        chosen = {pods for text in r["pods"] for pods in round_.names(text)}
        listed = {node for node in round_.nodes for name in r["places"] if round_.is_at(level, node, name)}
        return not any((node in listed) == (kind == "avoid") for j, k, node in one.at if (j, k) in chosen)
    if kind == "drain":
        return not any(node in r["nodes"] for _, _, node in one.at)
    if kind == "closed":
        return _holds(
            one,
            {
                "rule": "limit",
                "level": level,
                "resource": "pods",
                "limits": dict.fromkeys(r["places"], 0),
                "when": "new",
            },
        )
    if kind == "stay":
        chosen = {pods for text in r["pods"] for pods in round_.names(text)}
        kept = ({key: n for key, n in where.items() if key[:2] in chosen} for where in (one.at, one.before))
        return next(kept) == next(kept)
    if kind == "moving":
        return all(
            {n for j, k, n in one.at if (j, k) == pods} == {node}
            for text, node in r["to"].items()
            for pods in round_.names(text)
        )
    if kind == "max_moves":
        return all(
            sum(
                n * round_.takes(*pods, r.get("resource", "pods"))
                for pods, n in one.moved().items()
                if pods[0] in jobs
            )
            <= r.get("of", {}).get(g, r["limit"])
            for g, jobs in groups.items()
        )
    if kind == "max_stops":
        return all(len(one.stopped() & jobs) <= r["limit"] for jobs in groups.values())
    if kind == "spare":
        main, spare = one.full(level, r["main"]), one.full(level, r["spare"])
        return all(
            one.inside(level, main, jobs) + one.inside(level, spare, jobs)
            <= one.inside(level, spare) + r.get("slack", 0)
            for jobs in groups.values()
        )
    if kind == "standby":
        return _survives(one, r)
    if kind == "keep_free":
        free = {
            name: max(0, node["capacity"].get(r["resource"], 0) - node.get("used", {}).get(r["resource"], 0))
            * node.get("ready", True)
            for name, node in round_.nodes.items()
        }
        empty = 0
        for p in places:
            left = sum(much for node, much in free.items() if round_.place(level, node) == p)
            left -= one.load(level, p, r["resource"], one.at)
            if left < r.get("amount", 0):
                return False
            empty += one.inside(level, p) == 0 and left > 0
        return empty >= r.get("places", 0)
    if kind == "least_use":
        listed = [one.full(level, name) for name in r.get("places", ())] or places
        return all(_is_used_enough(one, r, p) for p in listed if one.inside(level, p))
    assert kind == "ratio", kind
    return all(
        one.load(level, p, r["resource"], one.at) <= r["times"] * one.load(level, p, r["other"], one.at)
        for p in places
    )


def _is_used_enough(one: Judged, r: Mapping[str, Any], place: str) -> bool:
    has = used = 0
    for name, node in one.round.nodes.items():
        if node.get("ready", True) and one.round.place(r["level"], name) == place:
            has += (own := node["capacity"].get(r["resource"], 0))
            used += min(own, node.get("used", {}).get(r["resource"], 0))
    return used + one.load(r["level"], place, r["resource"], one.at) >= r["fraction"] * has - 1e-9


def _survives(one: Judged, r: Mapping[str, Any]) -> bool:
    at = {
        text: next((n for j, k, n in one.at if (j, k) in one.round.names(text)), None) for text in r["amount"]
    }
    level = r["level"]
    where = {text: None if node is None else one.round.place(level, node) for text, node in at.items()}
    for lost in one.round.places(level):
        for name, limit in r["limits"].items():
            place = one.full(level, name)
            load = sum(r["amount"][p] for p in r["pairs"] if where[p] == place)
            for p, seconds in r["pairs"].items() if place != lost else ():
                if where[p] == lost:
                    heir = next((s for s in seconds if where[s] != lost), None)
                    if heir is not None and where[heir] == place:
                        load += r["amount"][heir]
            if load > limit:
                return False
    return True


def values(told: Mapping[str, Any], plan: Plan) -> list[Fraction]:
    """Return what a plan has of every goal, in order."""
    one = Judged(Round(told), plan)
    found = []
    for goal in told["goals"]:
        parts = goal if isinstance(goal, list) else [goal]
        found.append(sum((g.get("weight", 1) * _worth(one, g) for g in parts), Fraction(0)))
    return found


def counts(told: Mapping[str, Any], job: Mapping[str, Any], goal: Mapping[str, Any]) -> bool:
    """Return whether a goal counts a job: by its priority, that of its tenant, or of one above."""
    tenants = {one["id"]: one for one in told.get("tenants", ())}
    priority, at = job.get("priority"), job.get("tenant")
    while priority is None and at is not None:
        priority, at = tenants[at].get("priority"), tenants[at].get("parent")
    return bool((priority or 0) >= goal.get("least_priority", -(10**9)))


def _worth(one: Judged, g: Mapping[str, Any]) -> Fraction:
    kind, round_, level = g["goal"], one.round, g.get("level", "")
    places = round_.places(level) if level else []
    groups = round_.groups(g.get("by"))
    if kind == "value":
        total = Fraction(0)
        for job, got in one.plan.items():
            if not counts(round_.told, round_.jobs[job], g):
                continue
            option = next(o for o in round_.jobs[job]["options"] if o["id"] == got["option"])
            total += Fraction(option.get("value", 0))
            for pods in option["pods"]:
                for node, n in got["on"].get(pods.get("name", "pods"), {}).items():
                    total += n * (
                        Fraction(pods.get("value", 0)) + Fraction(pods.get("value_at", {}).get(node, 0))
                    )
        for price, change in (("per_stop", "jobs_stopped"), ("per_move", "pods_moved")):
            total -= Fraction(g.get(price, 0)) * _worth(one, {"goal": change})
        return total
    if kind == "jobs_stopped":
        return Fraction(sum(round_.jobs[job].get("stop_cost", 1) for job in one.stopped()))
    if kind == "pods_stopped":
        ran, runs = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for (job, name, _), n in one.before.items():
            ran[job, name] += n
        for (job, name, _), n in one.at.items():
            runs[job, name] += n
        return Fraction(sum(max(0, n - runs[pods]) for pods, n in ran.items()))
    if kind == "pods_moved":
        return Fraction(
            sum(n * (round_.pods(*pods) or {}).get("move_cost", 1) for pods, n in one.moved().items())
        )
    if kind == "used":
        cost = {one.full(level, name): much for name, much in g.get("cost", {}).items()}
        return Fraction(sum(cost.get(p, 1) for p in places if one.inside(level, p)))
    if kind == "levels_climbed":
        climbed = 0
        for job, got in one.plan.items():
            option = next(o for o in round_.jobs[job]["options"] if o["id"] == got["option"])
            for pods in option["pods"]:
                on = got["on"].get(pods.get("name", "pods"), {})
                if "preferred" in pods:
                    for asked in round_.upwards(pods["preferred"]):
                        climbed += len({round_.place(asked, node) for node in on}) > 1
        return Fraction(climbed)
    if kind == "left":
        at = Counter[str]()
        for (_, _, node), n in one.at.items():
            at[node] += n
        return Fraction(
            sum(at[n] if g.get("count", "pods") == "pods" else at[n] > 0 for n in set(g["nodes"]))
        )
    if kind == "spread_excess":
        return Fraction(
            sum(max(0, one.inside(level, p, jobs) - g["max"]) for jobs in groups.values() for p in places)
        )
    if kind == "together_excess":
        used = [sum(one.inside(level, p, jobs) > 0 for p in places) for jobs in groups.values()]
        return Fraction(sum(max(0, n - g.get("max_places", 1)) for n in used))
    if kind == "stranded":
        lost = 0
        for p in places:
            inside = [n for name, n in round_.nodes.items() if round_.place(level, name) == p]
            empty, left = 10**9, 10**9
            pods = {"pods": 1} if any("pods" in n["capacity"] for n in round_.nodes.values()) else {}
            for r, need in (pods | {r: need for r, need in g["needs"].items() if need}).items():
                free = sum(
                    max(0, n["capacity"].get(r, 0) - n.get("used", {}).get(r, 0))
                    for n in inside
                    if n.get("ready", True)
                )
                empty = min(empty, free // need)
                left = min(left, (free - one.load(level, p, r, one.at)) // need)
            lost += empty - max(0, left)
        return Fraction(lost)
    assert kind == "balance", kind
    sizes = {
        p: sum(
            n["capacity"].get(g["resource"], 0)
            for name, n in round_.nodes.items()
            if round_.place(level, name) == p
        )
        for p in places
    }
    known = [p for p in places if sizes[p]]
    if not known:
        return Fraction(0)
    now = sum(Fraction(one.load(level, p, g["resource"], one.before), sizes[p]) for p in known) / len(known)
    over = [
        math.ceil(
            10**5
            * max(
                Fraction(0),
                Fraction(one.load(level, p, g["resource"], one.at), sizes[p])
                - Fraction(g.get("threshold", 0)) * now,
            )
        )
        for p in known
    ]
    return Fraction(max(over) if g.get("form", "max") == "max" else sum(over))


def best(told: Mapping[str, Any]) -> list[Fraction] | None:
    """Return the best values in strict order of all plans that keep the rules; ``None`` if there is none."""
    much = [not isinstance(goal, list) and goal["goal"] == "value" for goal in told["goals"]]
    found: list[Fraction] | None = None
    for plan in plans(told):
        if broken(told, plan):
            continue
        own = values(told, plan)
        signed = [v if up else -v for v, up in zip(own, much, strict=True)]
        if found is None or signed > [v if up else -v for v, up in zip(found, much, strict=True)]:
            found = own
    return found

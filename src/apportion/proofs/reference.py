"""A checker of proofs that is small enough to be read: a statement in JSON and a proof, to true or false.

``python reference.py STATEMENT.json PROOF`` prints ``true`` (exit code 0), ``false`` (1) or ``incomplete``
(2: a limit came first), and why; ``docs/certificate.md`` says what a proof is. Choices of one option a job
are decided anew, within the bounds of `closed` and `rows_bound` and under cuts that hold. A statement has

* ``format`` ``"apportion-statement"``, ``version`` 1, ``instance``: the digest that a proof must name;
* ``goal``: ``maximize`` or ``minimize`` (a sum of values), ``makespan``, or ``shares``: a makespan where jobs
  share machines by fractions of time;
* ``capacities``: amounts by name; ``pools``: ``name``, ``count`` of machines and ``capacity`` of each, or
  null; ``nodes``: by type of GPU the ``size`` of a node, and ``rooms``, the GPUs of every node;
* ``jobs``: ``name`` and ``options``, of which the job gets one: its ``value`` (a whole number, or a fraction
  as text), ``uses`` by name of a capacity, and maybe ``pool`` (a position), ``time``, ``gang`` (machines held
  at once) and ``use`` of each, or ``gpu_type`` and ``gpus``; maybe ``barred``, pools that it may not have;
* ``prices``: what the prices of a proof stand for, in this order: ``capacities``, ``pools``, ``cuts``;
* ``plan``, maybe: the position of an option a job. Then the proof must also show that it is optimal.
"""

import json
import math
import re
import sys
import zlib
from fractions import Fraction
from itertools import accumulate, combinations, product
from operator import mul
from pathlib import Path
from typing import Any

LARGEST_FILE, MOST_STATES, MOST_CELLS = 1 << 26, 300_000, 2_000_000
NEAR, LEAST = Fraction(1, 10**9), Fraction(1, 1 << 1074)  # relative, and the least double
Menus = list[list[tuple[int, tuple[int, ...]]]]


def need(holds: Any, why: str, error: type[Exception] = ValueError) -> None:
    """Refuse where something does not hold; or stop, where the error is that a limit came first."""
    if not holds:
        raise error(why)


def wholes(numbers: Any, least: int, beyond: int) -> bool:
    """Return whether this is a list of whole numbers within a range."""
    return isinstance(numbers, list) and all(type(n) is int and least <= n < beyond for n in numbers)


def exact(number: Any) -> Fraction:
    """Return a number of a statement."""
    need(type(number) in (int, str), f"{number!r} is no whole number and no fraction")
    return Fraction(number)


def scaled(number: Fraction, shift: int) -> Fraction:
    """Return a number in units of ``2**-shift``; the last whole one below it is its ceiling less 1."""
    return number * Fraction(2) ** shift


def minus(have: Any, take: Any) -> tuple[int, ...]:
    """Return the differences."""
    return tuple(a - b for a, b in zip(have, take, strict=True))


def check(statement: Any, data: bytes) -> tuple[bool | None, str]:
    """Return whether a proof shows its claim about a statement (``None``: a limit came first), and why."""
    try:
        proof = read_proof(data)
        need(statement["format"] == "apportion-statement" and statement["version"] == 1, "no statement")
        need(proof["instance"] == statement["instance"], "the proof is about another instance")
        bound = None if (claim := proof["claim"]["bound"]) is None else Fraction(float(claim))
        why = (by_shares if statement["goal"] == "shares" else by_choices)(statement, proof, bound)
        if statement.get("plan") is None:
            return True, f"{'no plan' if claim is None else f'no plan is better than {claim!r}'}: {why}"
        worth = worth_of_plan(statement)
        need(bound is not None and abs(worth - bound) <= max(NEAR * abs(worth), LEAST), "a worse plan")
        return True, f"the plan is optimal, {float(worth)!r}: {why}"
    except TimeoutError as limit:
        return None, str(limit)
    except Exception as wrong:  # whatever it is: a proof that cannot be read shows nothing
        return False, str(wrong) or "no proof"


def read_proof(data: bytes) -> Any:
    """Return the fields of a proof's file, each as the format allows it."""
    if data[:2] == b"\x1f\x8b":
        unpacking = zlib.decompressobj(wbits=31)
        data = unpacking.decompress(data, LARGEST_FILE)
        need(unpacking.eof and not unpacking.unused_data, "the file is too long or cut off")
    need(len(data) <= LARGEST_FILE, "the file is too long")
    proof = json.loads(data, object_pairs_hook=lambda own: dict(own) if len(dict(own)) == len(own) else {})
    fields = {"format", "version", "instance", "claim", "shift", "prices", "order", "apart", "cuts"}
    need(isinstance(proof, dict) and proof.get("format") == "apportion-proof", "no proof")
    need(wholes([proof.get("version")], 1, 5) and wholes([proof.get("shift")], -1200, 1201), "no version")
    need(set(proof) == fields | ({"rows"} if proof["version"] > 1 else set()), "fields lack or are unknown")
    claim, proof["rows"] = proof["claim"], proof.get("rows", [])
    if claim != {"kind": "infeasible", "bound": None}:
        need(isinstance(claim, dict) and set(claim) == {"kind", "bound"}, "no claim")
        need(claim["kind"] == "no_better_plan", "an unknown claim")
        need(type(claim["bound"]) in (int, float) and math.isfinite(claim["bound"]), "no finite bound")
    for name, least, beyond in (("prices", 0, 1 << 1024), ("rows", 1 - (1 << 62), 1 << 62)):
        need(isinstance(proof[name], list) and len(proof[name]) <= 64, f"no {name}, or too many")
        need(all(wholes(vector, least, beyond) for vector in proof[name]), f"no {name}")
    for one in (proof["order"], proof["apart"]):
        need(wholes(one, 0, 1 << 40) and len(set(one)) == len(one), "no order, or nothing to take apart")
    need(isinstance(proof["cuts"], list) and all(isinstance(cut, dict) for cut in proof["cuts"]), "no cuts")
    need(all(proof["version"] > 2 + ("thresholds" in o) for o in proof["cuts"] if "capacity" in o), "later")
    return proof


def by_choices(statement: Any, proof: Any, bound: Fraction | None) -> str:
    """Show that no choice is better than a bound; say how."""
    goal, shift, pools, apart = statement["goal"], proof["shift"], statement["pools"], proof["apart"]
    need(goal in ("maximize", "minimize", "makespan"), "an unknown goal")
    until, total = (bound, None) if goal == "makespan" else (None, bound)  # all end before, or are worth
    refined = "cuts" in statement["prices"]
    need(all(refined and pools[number]["count"] <= 10_000 for number in apart), "no pool to take apart")
    placed = refined and (until is not None or not pools)
    need(all(placed or ("capacity" in cut and not pools) for cut in proof["cuts"]), "there are no cuts here")
    by: Any = [cut_of_pool if pools else cut_of_nodes, cut_of_pool if pools else cut_of_capacity]
    cuts = [by["capacity" in cut](statement, cut, until, shift) for cut in proof["cuts"]]
    # of every section its first capacity; by pool, of every machine the capacities of use and of time
    rooms, first, machines = list[int](), dict[str, int](), list[list[Any]]()
    for section in [*statement["prices"], *(() if refined else ("cuts",))]:
        first[section] = len(rooms)
        rooms += statement["capacities"].values() if section == "capacities" else ()
        rooms += [room for room, _ in cuts] if section == "cuts" else ()
        for number, pool in enumerate(pools if section == "pools" else ()):
            together = 1 if number in apart else pool["count"]
            limits = [None if pool["capacity"] is None else together * pool["capacity"]]
            # machines that end before T are busy for less than T each, and c of them for less than c T
            limits += [None if until is None else math.ceil(scaled(together * until, shift)) - 1]
            machines.append([[] for _ in range(pool["count"] if number in apart else 1)])
            for places, limit in product(machines[-1], limits):
                places.append(None if limit is None else len(rooms))
                rooms += [] if limit is None else [limit]
    named = {name: first["capacities"] + k for k, name in enumerate(statement["capacities"])}
    menus, sign, cells = Menus(), -1 if goal == "minimize" else 1, 0
    for at, job in enumerate(statement["jobs"]):
        menus.append([])
        for option in job["options"]:
            worth = 0 if total is None else math.ceil(scaled(sign * exact(option["value"]), shift))
            base = {named[name]: use for name, use in option["uses"].items()}
            number, held, times, time = option.get("pool"), list[Any]([()]), 1, 0
            if number is not None:
                use, gang, most = option["use"], option["gang"], pools[number]["capacity"]
                time = 0 if until is None else math.floor(scaled(exact(option["time"]), shift))
                if (until is not None and time >= scaled(until, shift)) or (most is not None and use > most):
                    continue
                times, held = gang, [machines[number]]  # a pool together is held so many times
                if number in apart:
                    need(math.comb(len(machines[number]), gang) <= 1_000, "too many sets", TimeoutError)
                    times, held = 1, [*combinations(machines[number], gang)]
            base |= {first["cuts"] + k: takes(at, option, time) for k, (_, takes) in enumerate(cuts)}
            for some in held:
                own = dict(base)
                for places in some:
                    taken = zip(places, (use * times, time * times), strict=True)
                    own |= {place: amount for place, amount in taken if place is not None}
                need(wholes([*own.values()], 0, 1 << 3000), "a use is no whole number from 0")
                cells += len(rooms)
                need(cells <= MOST_CELLS, "too large a table", TimeoutError)
                menus[-1].append((worth, tuple(own.get(k, 0) for k in range(len(rooms)))))
    need(wholes(rooms, -(1 << 3000), 1 << 3000), "a capacity is no whole number")
    for name, length in (("prices", len(rooms)), ("rows", len(menus))):
        need(all(len(vector) == length for vector in proof[name]), f"a vector of {name} of another length")
    need(all(job < len(menus) for job in proof["order"]), "the order names no job")
    return closed(menus, rooms, -1 if total is None else math.floor(scaled(sign * total, shift)), proof)


def fullest(weights: list[int]) -> list[int]:
    """Return the most weight of what holds up to 0, 1, .. machines together; ``weights[g]`` is that of g."""
    most = [0]
    for room in range(1, len(weights)):
        most.append(max([most[-1], *(weights[g] + most[room - g] for g in range(1, room + 1) if weights[g])]))
    return most


def cut_of_pool(statement: Any, cut: Any, until: Fraction, shift: int) -> tuple[int, Any]:
    """Return a cut of gangs on one pool: its room, and ``takes(job, option, time)`` of it."""
    number = cut.get("pool")
    need(type(number) is int and 0 <= number < len(statement["pools"]) and len(cut) == 2, "a cut of no pool")
    count = statement["pools"][number]["count"]
    if "weights" in cut:  # what runs at once weighs at most W, so times by weights stay below W T
        need(wholes(cut["weights"], 0, 10**6 + 1) and len(cut["weights"]) == count <= 10_000, "no weights")
        most = fullest(weights := [0, *cut["weights"]])[-1]
        room = math.ceil(scaled(most * until, shift)) - 1 if most else 0
        return room, lambda _, o, time: time * weights[o["gang"]] if o.get("pool") == number else 0
    jobs, held = cut["excluded"], []  # these do not all end in time there, so at most all but one run there
    need(wholes(jobs, 0, len(statement["jobs"])) and jobs and len(set(jobs)) == len(jobs), "no jobs excluded")
    for job in jobs:
        given = [*statement["jobs"][job]["options"], *statement["jobs"][job].get("barred", ())]
        own = next((o for o in given if o.get("pool") == number), None)
        need(own, "an excluded job has no option on the pool")
        held.append((math.floor(scaled(exact(own["time"]), shift)), own["gang"]))  # type: ignore[index]

    def steps(state: Any) -> Any:  # a job begins once enough are free, and not before the one ahead of it
        left, free = state
        for job in left:
            time, gang = held[job]
            start = free[gang - 1]
            if start + time < scaled(until, shift):
                busy = sorted((*(max(end, start) for end in free[gang:]), *[start + time] * gang))
                yield left - {job}, tuple(busy)

    count = min(count, sum(gang for _, gang in held))
    need(count * len(held) <= MOST_CELLS // 100, "too many machines for a cut", TimeoutError)
    need(not reached((frozenset(range(len(held))), (0,) * count), steps), "excluded jobs may end in time")
    return len(jobs) - 1, lambda job, o, _: int(o.get("pool") == number and job in jobs)


def cut_of_capacity(statement: Any, cut: Any, *_: Any) -> tuple[int, Any]:
    """Return a cut of one capacity: its room, and ``takes(job, option, time)`` of it."""
    number, rooms, covers = cut["capacity"], [*statement["capacities"].items()], "thresholds" in cut
    size = cut["others" if covers else "divisor"]
    need(wholes([number], 0, len(rooms)) and wholes([size], 1, 1 << 62) and len(cut) == 2 + covers, "no cut")
    (name, room), least = rooms[number], cut.get("thresholds")
    if covers:  # as many jobs use their threshold as the least thresholds have room together
        wanted = [least.get(str(job), size) for job in range(len(statement["jobs"]))]
        need({*least} <= {*map(str, range(len(wanted)))} and wholes(wanted, 1, 1 << 62), "no thresholds")
        most = sum(total <= room for total in accumulate(sorted(wanted)))
        return most, lambda job, o, _: int(o["uses"].get(name, 0) >= wanted[job])
    menus = [{o["uses"].get(name, 0) for o in job["options"]} for job in statement["jobs"]]
    need(room >= 0 and sum(map(len, menus)) * room <= 10 * MOST_CELLS, "too many sums", TimeoutError)
    sums = {0}  # what a choice can reach: the greatest of them is R, and their floors add up to R // l
    for menu in menus:
        sums |= {total + use for total in sums for use in menu if total < total + use <= room}
    return max(sums) // size, lambda _, o, __: o["uses"].get(name, 0) // size


def cut_of_nodes(statement: Any, cut: Any, *_: Any) -> tuple[int, Any]:
    """Return a cut of the nodes of one type of GPU: its room, and ``takes(job, option, time)`` of it."""
    kind = cut.get("gpu_type")
    need(isinstance(kind, str) and kind in statement["nodes"] and len(cut) == 2, "a cut of no nodes")
    size, rooms = statement["nodes"][kind]["size"], statement["nodes"][kind]["rooms"]
    if "node_weights" in cut:  # what lies on a node weighs at most W, and what fills m nodes m W
        need(wholes(cut["node_weights"], 0, 10**9 + 1) and len(cut["node_weights"]) == size, "no weights")
        most = fullest(weights := [0, *cut["node_weights"]])
        weigh = [*weights[:size], most[-1]]  # by the GPUs on a node
        per_node: Any = lambda gpus: weigh[min(gpus, size)] * max(1, gpus // size)  # noqa: E731
        taken: Any = lambda _, o, __: per_node(o["gpus"]) if o.get("gpu_type") == kind else 0  # noqa: E731
        return sum(most[room] for room in rooms), taken
    given = cut["excluded"]  # so many GPUs each do not lie on the nodes, so at most all but one have as many
    known = isinstance(given, dict) and all(re.fullmatch("[0-9]{1,12}", key) for key in given)
    need(known and given and wholes([*given.values()], 1, 10**9 + 1), "no jobs excluded")
    least = {int(key): gpus for key, gpus in given.items()}
    need(max(least) < len(statement["jobs"]), "an excluded job is unknown")
    need(all(gpus <= size or gpus % size == 0 for gpus in least.values()), "a count that lies on no nodes")
    need(sum(least.values()) <= MOST_CELLS // 100 * size, "too many nodes for a cut", TimeoutError)
    pieces = sorted(min(gpus, size) for gpus in least.values() for _ in range(max(1, gpus // size)))

    def packed(state: Any) -> Any:
        many, left = state
        for k, room in enumerate(left):
            if room >= pieces[many - 1]:
                yield many - 1, tuple(sorted((*left[:k], room - pieces[many - 1], *left[k + 1 :])))

    need(not reached((len(pieces), tuple(sorted(rooms))), packed), "the excluded jobs may fit")
    cut_off = [least.get(job, math.inf) for job in range(len(statement["jobs"]))]
    return len(least) - 1, lambda job, o, _: int(o.get("gpu_type") == kind and o["gpus"] >= cut_off[job])


def reached(begin: Any, steps: Any) -> bool:
    """Return whether some way of steps comes to a state that leaves nothing, by trying all of them."""
    seen, stack = {begin}, [begin]
    while stack:
        state = stack.pop()
        if not state[0]:
            return True
        stack += (new := set(steps(state)) - seen)
        seen |= new
        need(len(seen) <= min(MOST_STATES, 10 * MOST_CELLS // (1 + len(state[1]))), "many ways", TimeoutError)
    return False


def closed(menus: Menus, rooms: list[int], threshold: int, proof: Any) -> str:
    """Show that no choice of one option a job that keeps the rooms is worth more than a threshold.

    For prices p >= 0 none is worth more than ``p rooms + sum_j max_i (worth - p uses)``. That less the
    threshold less 1 is the *slack*; what options fall short of the maxima, their *losses*, add up to no more.
    """
    width, vectors = len(rooms), [[0] * len(rooms), *proof["prices"]]
    while True:
        if not all(menus):
            return "a job has no option left"
        for at, menu in enumerate(menus):  # whatever a job gets, it takes its least uses
            least = [min(uses[k] for _, uses in menu) for k in range(width)]
            rooms = [*minus(rooms, least)]
            menus[at] = [(worth, minus(uses, least)) for worth, uses in menu]
        if min(rooms, default=0) < 0:
            return "a capacity is below what jobs need"
        terms = [[[w - sum(map(mul, v, uses)) for v in vectors] for w, uses in menu] for menu in menus]
        best = [[max(column) for column in zip(*rows, strict=True)] for rows in terms]
        tops = [sum(own[k] for own in best) - threshold - 1 for k in range(len(vectors))]
        slack = [sum(map(mul, v, rooms)) + top for v, top in zip(vectors, tops, strict=True)]
        losses = [[minus(top, row) for row in rows] for top, rows in zip(best, terms, strict=True)]
        step = math.gcd(*(row[0] for rows in losses for row in rows)) or 1
        slack = [one - slack[0] % step for one in slack]  # losses of worth add up to a multiple of it
        if min(slack) < 0:
            return "a bound of prices"
        before_this, menus = menus, []
        for menu, rows in zip(before_this, losses, strict=True):
            pairs = zip(menu, rows, strict=True)
            menus.append([o for o, row in pairs if min(minus(slack, row) + minus(rooms, o[1])) >= 0])
        if menus == before_this:
            break
    order = proof["order"] + [job for job in range(len(menus)) if job not in set(proof["order"])]
    relaxed = [rows_bound(menus, rooms, row, order) for row in proof["rows"][:8]]
    reach = [[0] * width]  # what open jobs can use at most
    for job in reversed(order[1:]):
        reach.append([most + max(uses[k] for _, uses in menus[job]) for k, most in enumerate(reach[-1])])
    states, many = {tuple(rooms): (tuple(rooms), tuple(slack))}, 0
    for turn, job in enumerate(order):
        after: dict[tuple[int, ...], tuple[tuple[int, ...], tuple[int, ...]]] = {}
        for left, slacks in states.values():
            for loss, (_, uses) in zip(losses[job], menus[job], strict=True):
                now, rest = minus(left, uses), minus(slacks, loss)
                if min(now + rest) >= 0 and all(bound(turn + 1, now, rest[0]) >= 0 for bound in relaxed):
                    key = tuple(map(min, now, reach[len(order) - 1 - turn]))
                    if key not in after or after[key][1][0] < rest[0]:  # of equal rooms one of the most worth
                        after[key] = (now, rest)
        states, many = after, many + len(after)
        need(many <= min(MOST_STATES, 20 * MOST_CELLS // (1 + width)), "too many states", TimeoutError)
    need(not states, "a choice exceeds the threshold")
    return f"{many} states closed"


def rows_bound(menus: Menus, rooms: list[int], row: list[int], order: list[int]) -> Any:
    """Return ``bound(turn, left, slack of worth)``: below 0 where jobs open from a turn on gain too little.

    For numbers m_j they are worth at most ``sum m_j + sum_k K_k(left_k)``: K_k is the most that options which
    use k first are worth beyond their m_j, at most one a job and none below 0, within the room.
    """
    if sum(rooms) * len(order) > MOST_CELLS:
        return lambda *_: 0  # without a bound the walk takes longer, and shows the same
    tables, beyond = [[[0] * (room + 1) for room in rooms]], [0]
    for job in reversed(order):
        last, more, free = tables[-1], [*tables[-1]], 0
        for worth, uses in menus[job]:
            k, w = next((k for k, use in enumerate(uses) if use), None), worth - row[job]
            if k is None:
                free = max(free, w)
            else:  # what is worth nothing beyond m_j changes no table
                u = uses[k]
                more[k] = [max(n, last[k][r - u] + w) if r >= u else n for r, n in enumerate(more[k])]
        beyond.append(beyond[-1] + row[job] + free - max(worth for worth, _ in menus[job]))
        tables.append(more)

    def bound(turn: int, left: tuple[int, ...], slack: int) -> int:
        own = tables[len(order) - turn]
        return slack + beyond[len(order) - turn] + sum(own[k][room] for k, room in enumerate(left))

    return bound


def by_shares(statement: Any, proof: Any, bound: Fraction | None) -> str:
    """Show by prices w of pools and a of jobs that no shares end before a time T.

    ``T (sum w + sum a) >= sum_j min_i time (a_j + w_i gang / count)``: a part of j's work takes of i's time.
    """
    need(not any(proof[n] for n in ("order", "apart", "cuts", "shift", "rows")), "prices alone prove shares")
    counts = [pool["count"] for pool in statement["pools"]]
    rows = [[(o["pool"], exact(o["time"]), o["gang"]) for o in job["options"]] for job in statement["jobs"]]
    if not all(rows):
        return "a job has no option"
    need(all(len(v) == len(counts) + len(rows) for v in proof["prices"]), "a price vector of another length")
    shown = max((min(time for _, time, _ in row) for row in rows), default=Fraction(0))
    for vector in proof["prices"]:
        jobs = zip(vector[len(counts) :], rows, strict=True)
        work = sum(min(t * (a + vector[i] * Fraction(g, counts[i])) for i, t, g in row) for a, row in jobs)
        shown = max(shown, work / sum(vector) if any(vector) else Fraction(0))
    need(bound is not None and shown >= bound, "no prices show it")
    return "prices of machines and jobs"


def worth_of_plan(statement: Any) -> Fraction:
    """Return what the plan of a statement is worth, once it keeps every capacity."""
    goal, jobs, plan = statement["goal"], statement["jobs"], statement["plan"]
    alone = all(pool["count"] == 1 for pool in statement["pools"])
    need(goal != "shares" and alone and not statement["nodes"], "a plan that lies on several machines")
    need(all(wholes([at], 0, len(job["options"])) for job, at in zip(jobs, plan, strict=True)), "no plan")
    chosen = [job["options"][at] for job, at in zip(jobs, plan, strict=True)]
    for name, room in statement["capacities"].items():
        need(sum(option["uses"].get(name, 0) for option in chosen) <= room, f"the plan exceeds {name}")
    ends = [Fraction(0)]
    for at, pool in enumerate(statement["pools"]):
        own = [option for option in chosen if option.get("pool") == at]
        need(all(option["gang"] == 1 for option in own), "a gang on one machine")
        need(pool["capacity"] is None or sum(o["use"] for o in own) <= pool["capacity"], "a machine is full")
        ends.append(sum((exact(option["time"]) for option in own), Fraction(0)))
    return max(ends) if goal == "makespan" else sum((exact(o["value"]) for o in chosen), Fraction(0))


def main(words: list[str]) -> int:
    """Print the verdict about the two files that are named; return the exit code."""
    data = b"" if Path(words[2]).stat().st_size > LARGEST_FILE else Path(words[2]).read_bytes()
    verdict, message = check(json.loads(Path(words[1]).read_bytes()), data)
    print(f"{'incomplete' if verdict is None else str(verdict).lower()}: {message}")
    return 2 if verdict is None else int(not verdict)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

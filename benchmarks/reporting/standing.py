"""The sections on standing: losses and wins, what failed, means, profiles."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.reporting.blocks import Axis, Chart, Curve, Section, Table
from benchmarks.reporting.duels import SAME_TIME, Reason, Score, scores
from benchmarks.reporting.measures import performance_profile, shifted_geometric_mean
from benchmarks.reporting.records import NOT_RUN, Group
from benchmarks.reporting.wording import gap_text, log_ticks, ratio_text, seconds_text
from benchmarks.suite.solvers import OURS

__all__ = ["common", "drawn", "failures_section", "means_section", "profiles_section", "standing_section"]

_REASONS: tuple[Reason, ...] = ("plan", "quality", "proof", "time")


def standing_section(groups: Sequence[Group], solvers: Sequence[str]) -> Section:
    """Return wins and losses against every other solver, those we lose most to first."""
    made = scores(groups, [name for name in solvers if name != OURS])
    fought = [score for score in made if score.duels]
    lost = sum(score.count("lost") for score in fought)
    total = sum(len(score.duels) for score in fought)
    table = Table(
        "Against each solver, the one we lose most to first",
        (
            "solver",
            "duels",
            "lost",
            "tied",
            "won",
            "time ratio",
            *(f"lost by {reason}" for reason in _REASONS),
        ),
        [_score_row(score) for score in fought],
        "A duel is decided by the first that differs: who has a plan that passed our checker; the better "
        "plan, beyond the gap asked for and at least 1e-6; a proof; less time by more than a factor of "
        f"{SAME_TIME:g}. Time ratio: geometric mean of the other's seconds over ours where both plans are as "
        "good as the best known; above 1 we are faster.",
    )
    losses = Table(
        "Every loss",
        ("instance", "to", "by", "our time", "its time", "ratio", "our gap", "its gap", "our end", "its end"),
        [
            (
                duel.ours.label,
                score.other,
                duel.reason,
                seconds_text(duel.ours.seconds),
                seconds_text(duel.other.seconds),
                ratio_text(duel.ratio),
                gap_text(duel.ours.gap),
                gap_text(duel.other.gap),
                str(duel.ours.row["termination"]),
                str(duel.other.row["termination"]),
            )
            for score in fought
            for duel in score.losses
        ],
        "No duel was lost."
        if not lost
        else "Gap: relative distance to the best value known for the instance.",
        text_columns=frozenset({1, 2, 8, 9}),
    )
    absent = Table(
        "Not run",
        ("solver", "instances", "why"),
        [(score.other, str(score.not_run), score.why_not) for score in made if score.not_run],
        folded=False,
        text_columns=frozenset({2}),
    )
    lead = (
        f"{OURS} is apportion.solve as a user calls it, checking and certifying included. It lost {lost} of "
        f"{total} duels."
    )
    return Section("standing", "Losses and wins", lead, (table, losses, *([absent] if absent.rows else [])))


def _score_row(score: Score) -> tuple[str, ...]:
    return (
        score.other,
        str(len(score.duels)),
        str(score.count("lost")),
        str(score.count("tied")),
        str(score.count("won")),
        ratio_text(score.mean_ratio),
        *(str(score.count("lost", reason)) for reason in _REASONS),
    )


def failures_section(groups: Sequence[Group]) -> Section:
    """Return every cell that crashed, was killed, failed, or whose plan our checker refused."""
    rows = []
    for group in groups:
        for record in group.records.values():
            check = record.row.get("check")
            refused = check is not None and not check["feasible"]
            if check is not None and refused:
                rows.append((record.label, record.solver, "plan refused", "; ".join(check["violations"])))
            elif record.failed:
                words = str(record.row.get("told", ""))
                rows.append((record.label, record.solver, str(record.row["termination"]), words))
    table = Table(
        "",
        ("instance", "solver", "what", "in its own words"),
        rows,
        "" if rows else "No cell failed, and no plan was refused.",
        text_columns=frozenset({1, 2, 3}),
    )
    return Section("failures", "What failed", "", (table,))


def means_section(groups: Sequence[Group], solvers: Sequence[str]) -> Section:
    """Return shifted geometric means of seconds per family, with two shifts."""
    blocks = []
    for shift, said in ((0.01, "10 ms"), (1.0, "1 s")):
        rows = []
        families = list(dict.fromkeys(group.family for group in groups))
        shared_by = {family: common(groups, family) for family in families}
        for solver in solvers:
            cells = [solver]
            for family in families:
                names, shared = shared_by[family]
                if solver not in names or not shared:
                    cells.append("")
                    continue
                costs, missed = [], 0
                for group in shared:
                    record = group.records[solver]
                    good = record.good and record.seconds is not None
                    missed += not good
                    costs.append(
                        min(record.seconds or group.limit_s, group.limit_s) if good else group.limit_s
                    )
                mean = seconds_text(shifted_geometric_mean(costs, shift))
                cells.append(f"{mean} ({missed})" if missed else mean)
            if any(cells[1:]):
                rows.append(tuple(cells))
        counts = [str(len(shared_by[family][1])) for family in families]
        blocks.append(
            Table(
                f"Shift {said}",
                ("solver", *(family.replace("_", " ") for family in families)),
                [("instances", *counts), *rows],
                "In brackets: missed instances, which count at the limit: the plan is not as good as the "
                "best known (beyond the gap asked for, at least 1e-6). Per family over the instances that "
                "every solver of its column ran, chosen so that most solvers and instances stand in it.",
            )
        )
    lead = "Geometric mean of (seconds + shift), less the shift: times far below the shift hardly count."
    return Section("means", "Shifted geometric means", lead, tuple(blocks))


def profiles_section(groups: Sequence[Group], solvers: Sequence[str], styles: dict[str, int]) -> Section:
    """Return performance profiles: over everything, and per family with at least five shared instances."""
    blocks = [chart for chart in [_profile(groups, solvers, styles, "all families")] if chart is not None]
    for family in dict.fromkeys(group.family for group in groups):
        own = [group for group in groups if group.family == family]
        chart = _profile(own, solvers, styles, family)
        if chart is not None and len(own) < len(groups) and len(_shared(own, solvers)[1]) >= 5:
            blocks.append(chart)
    lead = (
        "The share of instances on which a solver needs at most so many times the seconds of the fastest "
        "(Dolan and More, 2002). Only plans as good as the best known count."
    )
    return Section("profiles", "Performance profiles", lead, tuple(blocks))


def _profile(
    groups: Sequence[Group], solvers: Sequence[str], styles: dict[str, int], title: str
) -> Chart | None:
    names, shared = _shared(groups, solvers)
    if len(names) < 2 or not shared:
        return None
    costs = {
        name: [group.records[name].seconds if group.records[name].good else None for group in shared]
        for name in names
    }
    profile = performance_profile(costs)
    right = max((corners[-1][0] for corners in profile.values()), default=1.0)
    high = 10.0
    while high < right:
        high *= 10.0
    within = (1.0, 2.0, 10.0, 100.0)
    figures = Table(
        title,
        ("solver", "fastest", "within 2", "within 10", "within 100", "ever"),
        [
            (name, *(f"{100 * _at(profile[name], factor):.0f} %" for factor in (*within, float("inf"))))
            for name in names
        ],
        f"{len(shared)} instances: "
        + ", ".join(f"{g.set_name}/{g.instance}" for g in shared[:12])
        + (", ..." if len(shared) > 12 else ""),
    )
    leader = max(names, key=lambda name: _at(profile[name], 1.0))
    return Chart(
        title=f"Performance profile, {title.replace('_', ' ')}, {len(shared)} of {len(groups)} instances",
        description=f"Step curves of {len(names)} solvers; {leader} is fastest most often.",
        x=Axis("times the fastest", True, 1.0, high, [(t, text) for t, text in log_ticks(1.0, high)]),
        y=Axis("share of instances", False, 0.0, 1.0, [(k / 4, f"{25 * k} %") for k in range(5)]),
        curves=[Curve(name, profile[name], styles[name], stepped=True) for name in drawn(names)],
        figures=figures,
    )


def drawn(names: Sequence[str]) -> list[str]:
    """Return the solvers that charts draw: ours and the peers; our other backends stand in the tables."""
    return [name for name in names if not name.startswith(f"{OURS}:")]


def _at(corners: Sequence[tuple[float, float]], factor: float) -> float:
    return max((share for ratio, share in corners if ratio <= factor * (1 + 1e-12)), default=0.0)


def _shared(groups: Sequence[Group], solvers: Sequence[str]) -> tuple[list[str], list[Group]]:
    """Return solvers and the instances all of them ran, chosen so that solvers times instances is large.

    Instances that fewer than four solvers ran (fewer than half of those that ran any, if those are few) are
    left out. Solvers join from the one that ran most; one that would shrink the product does not.
    """
    ran = {name: frozenset(k for k, group in enumerate(groups) if _ran(group, name)) for name in solvers}
    counts = [sum(k in of for of in ran.values()) for k in range(len(groups))]
    enough = min(max(counts, default=0) / 2, 4)
    shared = frozenset(k for k, count in enumerate(counts) if count and count >= enough)
    names: list[str] = []
    for name in sorted(solvers, key=lambda name: -len(ran[name] & shared)):
        left = shared & ran[name]
        if left and (not names or len(left) * (len(names) + 1) >= len(shared) * len(names)):
            names, shared = [*names, name], left
    chosen = [name for name in solvers if name in names]
    return chosen, [group for k, group in enumerate(groups) if k in shared] if names else []


def common(groups: Sequence[Group], family: str) -> tuple[list[str], list[Group]]:
    """Return the solvers of a family's column and the instances that all of them ran."""
    own = [group for group in groups if group.family == family]
    return _shared(own, list(dict.fromkeys(name for group in own for name in group.records)))


def _ran(group: Group, solver: str) -> bool:
    record = group.records.get(solver)
    return record is not None and record.row["termination"] not in NOT_RUN

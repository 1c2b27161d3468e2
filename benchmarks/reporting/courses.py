"""The sections on courses: gap over time, primal integrals, growth with size, and every cell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.reporting.blocks import Axis, Chart, Curve, Section, Table
from benchmarks.reporting.measures import Growth, gap_curve, growth, primal_integral
from benchmarks.reporting.records import Group
from benchmarks.reporting.standing import common, drawn
from benchmarks.reporting.wording import gap_text, log_ticks, ratio_text, seconds_text

__all__ = ["cells_section", "gaps_section", "growth_section"]

_PHASES = ("read", "compile", "start", "hand_over", "solve", "decode", "check")

_LEAST_GAP = 1e-6
_GAP_TICKS = ((1.0, "100 %"), (1e-2, "1 %"), (1e-4, "0.01 %"), (1e-6, "0.0001 %"))


def gaps_section(groups: Sequence[Group], solvers: Sequence[str], styles: dict[str, int]) -> Section:
    """Return the primal gap over time and the primal integrals, per family."""
    families = list(dict.fromkeys(group.family for group in groups))
    shared_by = {family: common(groups, family) for family in families}
    integrals = {
        (solver, family): [
            primal_integral(group.records[solver], group)
            for group in shared_by[family][1]
            if solver in shared_by[family][0]
        ]
        for solver in solvers
        for family in families
    }
    rows = [
        (solver, *(_percent(integrals[solver, family]) for family in families))
        for solver in solvers
        if any(integrals[solver, family] for family in families)
    ]
    table = Table(
        "Mean primal integral, per cent of the limit",
        ("solver", *(family.replace("_", " ") for family in families)),
        rows,
        "0: the best known plan from the first moment; 100: no plan until the limit, or none that passed the "
        "check. Per family over the instances that every solver of its column ran.",
    )
    charts = [
        chart for family in families if (chart := _gap_chart(groups, family, solvers, styles)) is not None
    ]
    lead = (
        "Primal gap to the best known value (Berthold, 2013), from 1 before the first plan to 0. The clock "
        "runs from the call, building the model included. linopy, cvxpy, Pyomo, scipy, python-mip and "
        "PyJobShop are called without callbacks: they step down when they end."
    )
    return Section("gaps", "Gap over time", lead, (table, *charts))


def _percent(values: Sequence[float]) -> str:
    return "" if not values else f"{100 * sum(values) / len(values):.3g}"


def _gap_chart(
    groups: Sequence[Group], family: str, solvers: Sequence[str], styles: dict[str, int]
) -> Chart | None:
    ran, own = common(groups, family)
    names = [name for name in solvers if name in ran]
    if len(names) < 2 or not own:
        return None
    limit = max(group.limit_s for group in own)
    low = 1e-4
    times = [low * (limit / low) ** (k / 120) for k in range(121)]
    curves, rows = [], []
    for name in names:
        traces = [gap_curve(group.records[name], group) for group in own]
        mean = [(t, sum(_value(trace, t) for trace in traces) / len(traces)) for t in times]
        if name in drawn(names):
            curves.append(Curve(name, _corners(mean), styles[name], stepped=True))
        shown = (0.001, 0.01, 0.1, 1.0, limit)
        rows.append((name, *(gap_text(sum(_value(tr, t) for tr in traces) / len(traces)) for t in shown)))
    return Chart(
        title=f"Mean primal gap over time, {family.replace('_', ' ')}, {_count(len(own))}",
        description=f"Falling step curves of {len(names)} solvers on a logarithmic clock up to {limit:g} s.",
        x=Axis("seconds since the call", True, low, limit, log_ticks(low, limit, seconds=True)),
        y=Axis("primal gap, at the bottom 1e-6 or less", True, _LEAST_GAP, 1.0, _GAP_TICKS),
        curves=curves,
        figures=Table(
            family, ("solver", "at 1 ms", "at 10 ms", "at 100 ms", "at 1 s", f"at {limit:g} s"), rows
        ),
    )


def _count(instances: int) -> str:
    return f"{instances} instance" + ("" if instances == 1 else "s")


def _value(corners: Sequence[tuple[float, float]], at: float) -> float:
    value = 1.0
    for seconds, gap in corners:
        if seconds > at:
            break
        value = gap
    return value


def _corners(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    kept = [points[0]]
    for at, gap in points[1:]:
        if gap != kept[-1][1]:
            kept.append((at, gap))
    return kept


def growth_section(groups: Sequence[Group], solvers: Sequence[str], styles: dict[str, int]) -> Section:
    """Return seconds by size with fitted exponents, per set with at least three sizes."""
    rows, charts = [], []
    for name in dict.fromkeys(group.set_name for group in groups if group.size is not None):
        own = [group for group in groups if group.set_name == name and group.size is not None]
        fitted: dict[str, Growth] = {}
        for solver in solvers:
            samples: dict[int, list[float]] = {}
            for group in own:
                record = group.records.get(solver)
                if record is not None and record.good and record.seconds is not None and group.size:
                    samples.setdefault(group.size, []).append(record.seconds)
            law = growth(samples)
            if law.exponent is not None:
                fitted[solver] = law
                first, last = law.points[0], law.points[-1]
                rows.append(
                    (
                        name,
                        solver,
                        own[0].size_of,
                        f"{first[0]:,.0f} to {last[0]:,.0f}",
                        f"{law.exponent:.2f} ± {law.error:.2f}",
                        seconds_text(first[1]),
                        seconds_text(last[1]),
                        ratio_text(last[1] / first[1]),
                    )
                )
        if fitted:
            charts.append(_growth_chart(name, own[0].size_of, fitted, styles))
    table = Table(
        "Fitted exponents",
        ("set", "solver", "size", "from ... to", "exponent", "smallest", "largest", "ratio"),
        rows,
        "Least squares of log seconds on log size, ± one standard error, over at least three sizes at which "
        "the plan was as good as the best known. On small sizes fixed costs hide the law.",
        text_columns=frozenset({1}),
    )
    lead = "Seconds of the whole call against size, both logarithmic; the median over seeds."
    return Section("growth", "Growth with size", lead, (table, *charts))


def _growth_chart(name: str, size_of: str, fitted: dict[str, Growth], styles: dict[str, int]) -> Chart:
    points = [point for law in fitted.values() for point in law.points]
    sizes, seconds = [p[0] for p in points], [p[1] for p in points]
    low, high = _decades(min(seconds), max(seconds))
    ticks = [(size, f"{size:,.0f}") for size in sorted(set(sizes))]
    return Chart(
        title=f"{name}: seconds by {size_of}",
        description="; ".join(f"{s}: exponent {law.exponent:.2f}" for s, law in fitted.items()),
        x=Axis(size_of, True, min(sizes) * 0.93, max(sizes) * 1.07, ticks),
        y=Axis("seconds", True, low, high, log_ticks(low, high, seconds=True)),
        curves=[Curve(s, law.points, styles[s], dotted=True) for s, law in fitted.items()],
        figures=Table(
            name,
            ("solver", *(text for _, text in ticks)),
            [
                (s, *(seconds_text(dict(law.points).get(size)) for size, _ in ticks))
                for s, law in fitted.items()
            ],
        ),
    )


def _decades(low: float, high: float) -> tuple[float, float]:
    bottom, top = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return 10.0**bottom, 10.0 ** max(top, bottom + 1)


def cells_section(groups: Sequence[Group]) -> Section:
    """Return every cell with its phases, folded away."""
    rows = [
        (
            record.label,
            record.solver,
            str(record.row["termination"]),
            seconds_text(record.seconds),
            *(seconds_text((record.row.get("phases") or {}).get(phase)) for phase in _PHASES),
            gap_text(record.gap),
            _number(record.row.get("objective")),
            _number(record.row.get("bound")),
            _number(record.row.get("verified_bound")),
            _number(record.row.get("peak_mib")),
        )
        for group in groups
        for record in group.records.values()
    ]
    table = Table(
        "All cells",
        (
            *("instance", "solver", "end", "seconds", *(phase.replace("_", " ") for phase in _PHASES)),
            *("gap", "objective", "bound", "verified bound", "peak MiB"),
        ),
        rows,
        "Seconds: the least of the repeated calls, reading the file not included. Peak MiB: the cell's "
        "process and its children, imports included.",
        folded=True,
    )
    return Section("cells", "Every cell", "", (table,))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.10g}"

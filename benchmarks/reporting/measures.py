"""The measures of benchmarking: shifted geometric mean, performance profile, primal integral, growth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.reporting.records import Group, Record, relative

__all__ = [
    "Growth",
    "gap_curve",
    "growth",
    "performance_profile",
    "primal_integral",
    "shifted_geometric_mean",
]


def shifted_geometric_mean(seconds: Sequence[float], shift: float) -> float:
    """Return ``exp(mean(log(t + shift))) - shift``: times far below the shift hardly count.

    Examples
    --------
    >>> round(shifted_geometric_mean([1.0, 4.0], 0.0), 12)
    2.0
    """
    return math.exp(math.fsum(math.log(t + shift) for t in seconds) / len(seconds)) - shift


def performance_profile(costs: Mapping[str, Sequence[float | None]]) -> dict[str, list[tuple[float, float]]]:
    """Return, per solver, the share of instances it does within a factor of the best (Dolan, More 2002).

    Parameters
    ----------
    costs
        Per solver one cost per instance, in the same order; ``None`` where it failed.

    Returns
    -------
    dict
        Corners (factor, share) of a step function from factor 1; a factor at which it rises stands once.

    Examples
    --------
    >>> performance_profile({"a": [1.0, 4.0], "b": [2.0, None]})
    {'a': [(1.0, 1.0)], 'b': [(1.0, 0.0), (2.0, 0.5)]}
    """
    count = max((len(values) for values in costs.values()), default=0)
    best = [
        min((values[k] for values in costs.values() if values[k] is not None), default=None)  # type: ignore[type-var]
        for k in range(count)
    ]
    profile = {}
    for name, values in costs.items():
        ratios = sorted(
            max(value / least, 1.0) if least else 1.0
            for value, least in zip(values, best, strict=True)
            if value is not None and least is not None
        )
        corners = [(1.0, 0.0)]
        for rank, ratio in enumerate(ratios, start=1):
            if ratio == corners[-1][0]:
                corners.pop()
            corners.append((ratio, rank / count))
        profile[name] = corners
    return profile


def gap_curve(record: Record, group: Group) -> list[tuple[float, float]]:
    """Return the corners (seconds, gap) of the primal gap over time; 1 before the first incumbent.

    The gap is that of Berthold (2013), ``|z - z*| / max(|z|, |z*|)``, clipped to 0..1, against the group's
    reference. A solver that shows no incumbents on the way steps down when it ends.
    """
    corners = [(0.0, 1.0)]
    if group.reference is None or group.maximizes is None:
        return corners
    best = 1.0
    for at, objective, _ in record.row.get("trace") or ():
        if objective is None:
            continue
        gap = _berthold(float(objective), group.reference, group.maximizes)
        if gap < best:
            best = gap
            corners.append((max(float(at), corners[-1][0]), gap))
    return corners


def primal_integral(record: Record, group: Group) -> float:
    """Return the mean primal gap from 0 to the limit: the primal integral divided by the limit.

    A solver without a plan that passed the check has 1, whatever it showed on the way.
    """
    if record.gap is None:
        return 1.0
    corners = gap_curve(record, group)
    area = 0.0
    for (start, gap), (end, _) in zip(corners, [*corners[1:], (group.limit_s, 0.0)], strict=True):
        area += gap * max(min(end, group.limit_s) - min(start, group.limit_s), 0.0)
    return area / group.limit_s


def _berthold(objective: float, reference: float, maximizes: bool) -> float:
    largest = max(abs(objective), abs(reference))
    if largest == 0.0:
        return 0.0
    return min(relative(objective, reference, maximizes) * max(abs(reference), 1e-9) / largest, 1.0)


@dataclass(frozen=True, slots=True)
class Growth:
    """A power law ``seconds = factor * size ** exponent`` fitted by least squares of the logarithms.

    Attributes
    ----------
    points
        (size, seconds): the median of every size.
    factor, exponent
        The fit; ``None`` with fewer than three sizes.
    error
        Standard error of the exponent; ``None`` with fewer than three sizes.
    """

    points: tuple[tuple[float, float], ...]
    factor: float | None
    exponent: float | None
    error: float | None


def growth(samples: Mapping[int, Sequence[float]]) -> Growth:
    """Fit how seconds grow with size.

    Examples
    --------
    >>> fitted = growth({10: [0.1], 100: [1.0], 1000: [10.0]})
    >>> round(fitted.exponent, 6), round(fitted.error, 6)
    (1.0, 0.0)
    """
    points = tuple(
        (float(size), sorted(seconds)[len(seconds) // 2])
        for size, seconds in sorted(samples.items())
        if seconds
    )
    if len(points) < 3:
        return Growth(points, None, None, None)
    x = [math.log(size) for size, _ in points]
    y = [math.log(max(seconds, 1e-9)) for _, seconds in points]
    mean_x, mean_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    spread = math.fsum((a - mean_x) ** 2 for a in x)
    slope = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    left = math.fsum((b - mean_y - slope * (a - mean_x)) ** 2 for a, b in zip(x, y, strict=True))
    error = math.sqrt(left / (len(x) - 2) / spread)
    return Growth(points, math.exp(mean_y - slope * mean_x), slope, error)

"""Heat maps: by how much IceFrog's average completion time is less than Sia's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apportion.draw.svg import FAINT, IDLE, INK, Svg, ink_on
from paper_repro.icefrog.cases import Case
from paper_repro.icefrog.experiments import CAPS, THETAS, TRUTHS, believing
from paper_repro.icefrog.figures import Study
from paper_repro.icefrog.tables import BAND

__all__ = ["heat_chart"]

_CELL, _ROW, _LEFT, _TOP, _GAP = 62.0, 36.0, 88.0, 130.0, 96.0
_LOSS, _NOTHING, _GAIN = (178, 60, 30), (246, 246, 246), (0, 84, 140)


def heat_chart(depths: Study, beliefs: Study) -> str:
    """Return the drawing as SVG: depth caps, then beliefs without and with learning."""
    sia = Case("", "sia", 48)

    def less(study: Study, case: Case) -> float | None:
        return study.shorter(case, sia).value if study.results(case) else None

    panels: list[tuple[str, str, Sequence[float], Sequence[float], Callable[[float, float], Case]]] = [
        (
            "Depth allowed",
            "greatest frozen share",
            THETAS,
            CAPS,
            lambda theta, deepest: Case("", "icefrog", 48, theta=theta, deepest=deepest),
        ),
        ("Belief", "believed theta", TRUTHS, TRUTHS, lambda a, b: believing(a, b, "icefrog")),
        (
            "Belief, corrected online",
            "theta believed at first",
            TRUTHS,
            TRUTHS,
            lambda a, b: believing(a, b, "icefrog-learning"),
        ),
    ]
    svg = Svg(_LEFT + 3 * (4 * _CELL + _GAP) - 30)
    title = "How much less than Sia's the average completion time is, %"
    svg.text(24, 30, title, size=17, bold=True)
    caption = "48 GPUs; framed: the paper's 36-48 %; red: worse"
    svg.text(24, 52, caption, size=12, fill=FAINT)
    bottom = 0.0
    for number, (name, axis, rows, columns, case) in enumerate(panels):
        left = _LEFT + number * (4 * _CELL + _GAP)
        study = beliefs if number else depths
        count = len(study.results(case(rows[-1], columns[-1])))
        svg.text(left, _TOP - 46, name, size=13, bold=True)
        svg.text(left, _TOP - 28, f"{axis}; {count} workloads", size=11, fill=FAINT)
        for at, value in enumerate(columns):
            svg.text(left + (at + 0.5) * _CELL, _TOP - 8, f"{value:g}", size=11, anchor="middle", fill=FAINT)
        known = [row for row in rows if any(less(study, case(row, column)) is not None for column in columns)]
        for down, row in enumerate(known):
            y = _TOP + down * _ROW
            svg.text(left - 8, y + 22, f"{row:g}", size=11, anchor="end", fill=FAINT)
            for at, column in enumerate(columns):
                _cell(svg, left + at * _CELL, y, less(study, case(row, column)))
        svg.text(left - 8, _TOP - 8, "theta", size=11, anchor="end", fill=FAINT)
        bottom = max(bottom, _TOP + len(known) * _ROW)
    return svg.finish(bottom + 20, title, caption)


def _cell(svg: Svg, x: float, y: float, value: float | None) -> None:
    if value is None:
        svg.rect(x, y, _CELL - 3, _ROW - 3, IDLE)
        return
    strength = min(abs(value) / 0.5, 1.0)
    end = _GAIN if value > 0 else _LOSS
    parts = [round(a + (b - a) * strength) for a, b in zip(_NOTHING, end, strict=True)]
    fill = "#" + "".join(f"{part:02x}" for part in parts)
    inside = BAND[0] <= value <= BAND[1]
    svg.rect(x, y, _CELL - 3, _ROW - 3, fill)
    if inside:
        corners = [
            (x + 1, y + 1),
            (x + _CELL - 4, y + 1),
            (x + _CELL - 4, y + _ROW - 4),
            (x + 1, y + _ROW - 4),
        ]
        svg.line([*corners, corners[0]], INK, 2.0, 1.0)
    caption = "< −100" if value < -1.0 else f"{100 * value:.0f}".replace("-", "−")
    svg.text(x + (_CELL - 3) / 2, y + 21, caption, size=13, anchor="middle", fill=ink_on(fill), bold=inside)

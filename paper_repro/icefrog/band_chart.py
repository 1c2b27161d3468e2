"""By how much IceFrog is shorter than every baseline, beside what the paper claims."""

from __future__ import annotations

from msgspec.structs import replace

from apportion.draw.svg import FAINT, IDLE, INK, Svg, color
from paper_repro.icefrog.cases import Case
from paper_repro.icefrog.experiments import BASELINES, FREEZING
from paper_repro.icefrog.figures import Study
from paper_repro.icefrog.tables import BAND

__all__ = ["band_chart"]

_LEFT, _WIDTH, _TOP, _ROW = 150.0, 640.0, 116.0, 50.0


def band_chart(study: Study, gpus: int) -> str:
    """Return the drawing as SVG: a row a baseline, a mark an assumption, lines for 95 % intervals."""
    svg = Svg(_LEFT + _WIDTH + 40)
    title = f"Average completion time on {gpus} GPUs: how much less than each baseline's"
    svg.text(24, 30, title, size=17, bold=True)
    fills = (color(0), color(2), color(4), color(3))
    for number, (name, fill) in enumerate(zip(FREEZING, fills, strict=True)):
        x, y = 24.0 + (number % 2) * 300, 56.0 + 20 * (number // 2)
        svg.rect(x, y - 9, 10, 10, fill)
        svg.text(x + 16, y, name, size=12)
    svg.rect(640, 47, 22, 10, IDLE)
    svg.text(668, 56, "claimed: 36-48 %", size=12)
    named = [name for name in BASELINES if study.results(Case("", name, gpus))]
    bottom = _TOP + _ROW * len(named)

    def at(share: float) -> float:
        return _LEFT + _WIDTH * share

    svg.rect(at(BAND[0]), _TOP, at(BAND[1]) - at(BAND[0]), bottom - _TOP, IDLE)
    for tick in range(0, 101, 20):
        svg.rect(at(tick / 100) - 0.5, _TOP, 1, bottom - _TOP, INK if tick == 0 else IDLE)
        svg.text(at(tick / 100), _TOP - 8, f"{tick} %", size=11, anchor="middle", fill=FAINT)
    for row, name in enumerate(named):
        y = _TOP + row * _ROW
        svg.text(_LEFT - 12, y + _ROW / 2 + 4, name, size=12, anchor="end")
        for number, (case, fill) in enumerate(zip(FREEZING.values(), fills, strict=True)):
            less = study.shorter(replace(case, gpus=gpus), Case("", name, gpus))
            middle, half = y + 10 + 10 * number, less.half or 0.0
            low, high = max(less.value - half, 0.0), min(less.value + half, 1.0)
            svg.rect(at(low), middle - 0.75, at(high) - at(low), 1.5, fill)
            svg.open_group(f"{name}: {less.words(100.0)} %")
            svg.rect(at(max(less.value, 0.0)) - 4, middle - 4, 8, 8, fill)
            svg.close_group()
        svg.rect(24, y + _ROW, _LEFT + _WIDTH - 24, 1, IDLE)
    caption = "means over workloads with 95 % intervals, by what freezing costs"
    return svg.finish(bottom + 20, title, caption)
